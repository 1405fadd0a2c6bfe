"""A human ceiling: five people's votes on each test text of A and C (Abu Farha et al. 2022, EMNLP Findings).

The votes are published with the data. A text is looked up by its letters, since the two files differ in blanks. A text
without votes has no answer; this is counted and not taken for "not sarcastic".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from figeval.errors import CapabilityError
from figeval.language.words import letters
from figeval.models.model import refuse_model_name
from figeval.types import JSON

from .isarcasm_rows import LANGUAGES, SARCASTIC, votes

COLUMNS = {"a": ("text",), "c": ("text_0", "text_1")}  # subtask → the texts of a question


class ThirdParty:
    """Backend that gives the shares of votes as probabilities."""

    capabilities = ("label_texts", "score_options")
    deterministic_by_name = True  # the files are pinned by their digests

    def __init__(self, model: str = "") -> None:
        refuse_model_name("isarcasm_third_party", model)

    def label_texts(self, requests: Sequence[Any]) -> list[dict[str, float]]:
        """Return the share of the votes for each label of A.

        Raises:
            CapabilityError: the labels are others, e.g. those of B, on which nobody voted.
        """
        sarcastic, earnest = SARCASTIC["1"], SARCASTIC["0"]
        if unsuitable := next((request for request in requests if set(request.labels) != {sarcastic, earnest}), None):
            labels = ", ".join(unsuitable.labels)
            raise CapabilityError(f"the votes are for {sarcastic} and {earnest} only, not for {labels}")
        shares = [self._votes["a"].get((letters(request.text),), (math.nan,)) for request in requests]
        return [{sarcastic: share, earnest: 1 - share} for (share,) in shares]

    def score_options(self, requests: Sequence[Any]) -> list[tuple[float, ...]]:
        """Return the shares of the votes for the two texts of C."""
        nobody = (math.nan, math.nan)
        return [self._votes["c"].get(tuple(map(letters, request.options)), nobody) for request in requests]

    def describe(self) -> JSON:
        """Return the number of different questions with votes, by subtask."""
        return {"questions": {subtask: len(shares) for subtask, shares in self._votes.items()}}

    @cached_property
    def _votes(self) -> Mapping[str, Mapping[tuple[str, ...], tuple[float, ...]]]:
        """Shares by subtask and by the letters of a question's texts; their means if a question occurs twice."""
        from figeval.data.cache import fetch

        return {subtask: _shares(subtask, columns, fetch) for subtask, columns in COLUMNS.items()}


def _shares(
    subtask: str, columns: Sequence[str], fetch: Callable[[str, str], Path]
) -> dict[tuple[str, ...], tuple[float, ...]]:
    shares_by_texts: dict[tuple[str, ...], list[tuple[float, ...]]] = defaultdict(list)
    for language in LANGUAGES:
        for row, shares in votes(subtask, language, fetch):
            shares_by_texts[tuple(letters(row[column]) for column in columns)].append(shares)
    return {texts: tuple(map(fmean, zip(*shares, strict=True))) for texts, shares in shares_by_texts.items()}
