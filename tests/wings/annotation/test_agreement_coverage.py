"""How often intervals of agreement hold the true value: simulated, and compared with the table in docs/annotation.md.

`python -m tests.wings.annotation.test_agreement_coverage 2000` prints the table anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from figeval import Score
from figeval.wings.annotation.agreement import NO_RATING, Ratings, fleiss_kappa, gwet, krippendorff_alpha

PAGE = Path(__file__).parents[3] / "docs" / "annotation.md"
TABLE_REPLICATES, TEST_REPLICATES = (
    2000,
    {2: 200, 5: 60},
)  # replicates of the table, and of the test by the number of categories
ITEMS, RATERS = 60, 3
SCALES = {  # shares of the categories, and how often a rater reports the true one for sure
    "two labels, 50 : 50": ((0.5, 0.5), 0.7),
    "two labels, 85 : 15": ((0.85, 0.15), 0.7),
    "five points": ((0.1, 0.2, 0.3, 0.25, 0.15), 0.6),
    "five points, high": ((0.02, 0.03, 0.1, 0.35, 0.5), 0.7),
}
COEFFICIENTS: dict[str, Callable[[Ratings], Score]] = {
    "Krippendorff's alpha": partial(krippendorff_alpha),
    "Fleiss' kappa": partial(fleiss_kappa),
    "Gwet's AC1": partial(gwet),
}
# A seventh of the ratings is missing for alpha and Gwet's coefficient, which allow that.
GAPS = {"Fleiss' kappa": 0.0}


def simulate_ratings(scale: str, gaps: float, items: int, seed: int) -> Ratings:
    """Raters report the true category, or guess according to the shares of the categories."""
    shares, certain = SCALES[scale]
    generator = np.random.default_rng(seed)
    truth = generator.choice(len(shares), size=items, p=shares)
    guessed = generator.choice(len(shares), size=(items, RATERS), p=shares)
    codes = np.where(generator.random((items, RATERS)) < certain, truth[:, None], guessed)
    codes[generator.random((items, RATERS)) < gaps] = NO_RATING
    names = tuple(map(str, range(1, len(shares) + 1)))
    return Ratings(tuple("abc"), names, codes, (None,) * items)


def true_value(scale: str, coefficient: str) -> float:
    """The value for infinitely many items, from the probabilities of pairs."""
    shares, certain = np.array(SCALES[scale][0]), SCALES[scale][1]
    agreeing = certain**2 + (1 - certain**2) * float(shares @ shares)
    by_guess = (1 - float(shares @ shares)) / (len(shares) - 1) if "AC1" in coefficient else float(shares @ shares)
    return (agreeing - by_guess) / (1 - by_guess)


def coverage(scale: str, coefficient: str, replicates: int) -> tuple[float, float]:
    """Share of the intervals that hold the true value, and share of the replicates that have an interval."""
    truth = true_value(scale, coefficient)
    scores = [
        COEFFICIENTS[coefficient](simulate_ratings(scale, GAPS.get(coefficient, 1 / 7), ITEMS, 1000 + seed))
        for seed in range(replicates)
    ]
    hits = [score.low <= truth <= score.high for score in scores if score.low is not None and score.high is not None]
    return float(np.mean(hits)), len(hits) / replicates


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_intervals_hold_the_truth_as_often_as_documented(scale: str, coefficient: str) -> None:
    (row,) = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| {scale} |")]
    documented = dict(zip(COEFFICIENTS, map(float, re.findall(r"(?<=\| )\.\d+", row)), strict=True))[coefficient]
    assert documented >= 0.93
    replicates = TEST_REPLICATES[len(SCALES[scale][0])]
    held, share_given = coverage(scale, coefficient, replicates)
    assert held == pytest.approx(documented, abs=3 * np.sqrt(0.95 * 0.05 * (1 / replicates + 1 / TABLE_REPLICATES)))
    assert share_given > 0.85


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_the_true_values_are_those_of_many_items(scale: str, coefficient: str) -> None:
    many = COEFFICIENTS[coefficient](simulate_ratings(scale, GAPS.get(coefficient, 1 / 7), 4000, 0))
    assert many.value == pytest.approx(true_value(scale, coefficient), abs=0.05)


if __name__ == "__main__":
    for name in SCALES:
        cells = [coverage(name, coefficient, int(sys.argv[1])) for coefficient in COEFFICIENTS]
        print(
            f"| {name} |", " | ".join(f"{held:.3f} ({share_given:.3f})" for held, share_given in cells), "|", flush=True
        )
