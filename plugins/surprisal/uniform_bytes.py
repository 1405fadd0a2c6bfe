"""A model that knows nothing about texts: every byte is equally likely, so a word's surprisal is its length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from figeval.models.model import refuse_model_name

from .requests import WordScores

NATS_PER_BYTE = 8 * math.log(2)


@dataclass(frozen=True, slots=True)
class UniformBytes:
    """A model for which each byte of UTF-8 has the probability 1/256, those of blanks as well."""

    capabilities: ClassVar[tuple[str, ...]] = ("score_words",)
    deterministic_by_name: ClassVar[bool] = True
    model: str = ""

    def __post_init__(self) -> None:
        refuse_model_name("uniform_bytes", self.model)

    def score_words(self, requests: Sequence[WordScores]) -> list[list[float]]:
        """Return −8 log 2 for each byte of a piece."""
        return [
            [-NATS_PER_BYTE * len(piece.encode("utf-8", "surrogatepass")) for piece in request.pieces]
            for request in requests
        ]
