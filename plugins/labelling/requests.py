"""What models that label words are asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class LabelWords:
    """How probable each of the labels is for each of the words.

    `model.label_words(requests)` returns for each request a list with a mapping of labels to probabilities per word.
    Labels that a mapping leaves out have the probability 0.
    """

    capability: ClassVar[str] = "label_words"
    words: tuple[str, ...]
    labels: tuple[str, ...]
