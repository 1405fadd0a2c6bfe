"""What a checkpoint says of itself in `figeval.json`: values of options that its other files do not tell.

    {"kind": "encoder", "pooling": "cls", "similarity": "dot", "about": {"trained_on": "…"}}

What --model_args says wins. `kind` is the backend that it was saved for; `about` is for the reader.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

from figeval.errors import ModelError, near

from ._checkpoint import DECLARED, Checkpoint
from ._settings import Settings, one_of

KINDS = ("encoder", "joint", "pairs", "spans", "writer")
WRITING = ("inputs", "separator", "marker", "num_beams", "max_new_tokens")
SPANS = ("text", "question", "max_span", "null_score")
OPTIONS = ("pooling", "similarity", "normalize", "activation", *SPANS, "max_length", *WRITING)
KEYS = ("kind", *OPTIONS, "about")

S = TypeVar("S", bound=Settings)


def with_declared(settings: S, checkpoint: Checkpoint) -> S:
    """The settings, with what the checkpoint declares where nothing else was asked for.

    Raises:
        ModelError: an unknown key, or a value that is not of its kind.
    """
    declared = checkpoint.declared
    own = {field.name for field in fields(settings)} & set(OPTIONS)
    given = {name: declared[name] for name in own & set(declared) if getattr(settings, name) is None}
    try:
        for key in sorted(set(declared) - set(KEYS)):
            raise ModelError(f"unknown key {key!r}{near(key, KEYS)}; it may have {', '.join(KEYS)}")
        if "kind" in declared:
            one_of("kind", declared["kind"], KINDS)
        return replace(settings, **given)
    except ModelError as error:
        raise ModelError(f"{DECLARED} of {checkpoint.model!r}: {error}") from error
