"""Coefficients of agreement as published examples have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from figeval.wings.annotation.agreement import Ratings, Scale, agreement, krippendorff_alpha

CASES = json.loads((Path(__file__).parents[2] / "golden" / "agreement.json").read_text("utf-8"))


def ratings_of(
    ratings: list[list[int | None]] | None = None,
    table: list[list[int]] | None = None,
    counts: list[list[int]] | None = None,
    categories: list[str] | None = None,
) -> Ratings:
    """Ratings by rater, or as the cross table of two raters, or as the number of raters per item and category."""
    if table is not None:
        items = [pair for pair, n in np.ndenumerate(np.array(table)) for _ in range(n)]
    elif counts is not None:
        items = [tuple(np.repeat(np.arange(len(row)), row).tolist()) for row in counts]
    else:
        items = list(zip(*(ratings or []), strict=True))
    return Ratings.of(
        {str(n): {f"r{r}": str(x) for r, x in enumerate(item) if x is not None} for n, item in enumerate(items)},
        categories,
    )


def agree(scale: Scale = "nominal", **arguments: Any) -> dict[str, Any]:
    return {score.metric: score.value for score in agreement(ratings_of(**arguments), scale)}


def alphas(**arguments: Any) -> dict[str, Any]:
    scales: tuple[Scale, ...] = ("nominal", "ordinal", "interval")
    return {scale: krippendorff_alpha(ratings_of(**arguments), scale).value for scale in scales}


CALLS = {"agreement": agree, "counted": agree, "alphas": alphas}


@pytest.mark.parametrize("case", CASES)
def test_golden(case: dict[str, Any]) -> None:
    result = CALLS[case["call"]](**case["input"])
    for key, value in case["expected"].items():
        assert result[key] == (value if value is None else pytest.approx(value, abs=case.get("tolerance", 0.0), rel=0))
