"""The request to models that compare whole texts, such as trained preference models and guesses by place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which of several texts is preferred: a probability for each, in their order, followed by that of a tie.

    `query` is what the texts answer or continue, and empty if they stand alone.
    """

    capability: ClassVar[str] = "compare_texts"
    query: str
    texts: tuple[str, ...]
