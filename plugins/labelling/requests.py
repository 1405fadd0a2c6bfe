"""The request to models that label words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class LabelWords:
    """A request for the probability of each label for each word.

    `model.label_words(requests)` returns for each request a list with a mapping of labels to probabilities per word.
    Labels missing from a mapping have probability 0.
    """

    capability: ClassVar[str] = "label_words"
    words: tuple[str, ...]
    labels: tuple[str, ...]
