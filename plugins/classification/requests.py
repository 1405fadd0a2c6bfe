"""The request to models that were trained to classify texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class TextLabels:
    """A text, and the labels among which a model decides.

    `model.label_texts(requests)` returns `{label: probability}` for each request, with all of its `labels`. The
    probabilities sum to 1, unless `several` labels may hold: then each is the probability of that label alone.
    """

    capability: ClassVar[str] = "label_texts"
    text: str
    labels: tuple[str, ...]
    several: bool = False
