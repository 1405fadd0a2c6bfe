"""Options of language models that decide how texts are read to be scored, and in which way they are written."""

from __future__ import annotations

from ..torch_models.settings import one_of

SCORING = ("auto", "packed", "rows")  # see `engine.self_test`
OTHER_WAYS = ("generate", "continuous", "static")  # than own decoding, in the order in which they are tried
WRITING = ("auto", "own", *OTHER_WAYS)  # see `generation.ways`


def check_strategies(scoring: str, writing: str) -> None:
    """Raise `ModelError` for a value that there is not."""
    one_of("scoring", scoring, SCORING)
    one_of("writing", writing, WRITING)
