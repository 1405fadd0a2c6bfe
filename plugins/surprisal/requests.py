"""The request to models that score the words of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class WordScores:
    """A request for the log-probability of each piece of a text.

    `model.score_words(requests)` returns for each request a sequence with log P of each piece in nats, NaN if unknown.
    The pieces together are the text; blanks belong to the piece that they precede, also those between `context`, the
    text before, which is not scored, and the first piece.
    """

    capability: ClassVar[str] = "score_words"
    context: str
    pieces: tuple[str, ...]
