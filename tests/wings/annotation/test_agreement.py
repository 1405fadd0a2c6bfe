"""Agreement coefficients against brute force, scikit-learn, SciPy, published examples and simulations.

`python -m tests.wings.annotation.test_agreement 2000` prints the table of coverages in bench/README.md anew.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import bootstrap
from sklearn.metrics import cohen_kappa_score

from figeval import Score
from figeval.wings.annotation.agreement import (
    NO_RATING,
    RESAMPLES,
    Ratings,
    Scale,
    Weights,
    agreement,
    cohen_kappa,
    correlations,
    fleiss_kappa,
    gwet,
    krippendorff_alpha,
    pair_agreement,
)

SCALE = ("1", "2", "3", "4")
Rows = list[list[str | None]]
COMPLETE_RATINGS = st.integers(2, 4).flatmap(
    lambda raters: st.lists(st.lists(st.sampled_from(SCALE), min_size=raters, max_size=raters), min_size=2, max_size=9)
)
GAPS = st.integers(2, 4).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from([*SCALE, None]), min_size=raters, max_size=raters), min_size=2, max_size=9
    )
)


def ratings(rows: Rows, categories: Sequence[str] = SCALE) -> Ratings:
    """Ratings with a row for each item."""
    return Ratings.of(
        {f"i{n}": {f"r{r}": label for r, label in enumerate(row) if label is not None} for n, row in enumerate(rows)},
        categories,
    )


def is_same(coefficient: float | None, expected: float) -> bool:
    """Whether the values are equal; NaN stands for an undefined one."""
    return math.isnan(expected) if coefficient is None else coefficient == pytest.approx(expected, abs=1e-9)


def alpha(rows: Rows, scale: Scale) -> float:
    """Krippendorff's alpha by pairs of values: observed over expected disagreement."""
    units = [[int(label) for label in row if label is not None] for row in rows]
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]

    def delta(a: int, b: int) -> float:
        if scale == "nominal":
            return float(a != b)
        if scale == "interval":
            return float((a - b) ** 2)
        between = sum(min(a, b) <= value <= max(a, b) for value in values)
        return (between - (values.count(a) + values.count(b)) / 2) ** 2 if a != b else 0.0

    expected = sum(delta(a, b) for a, b in permutations(values, 2))
    observed = sum(sum(delta(a, b) for a, b in permutations(unit, 2)) / (len(unit) - 1) for unit in units)
    return 1 - observed * (len(values) - 1) / expected if expected else math.nan


def ac(rows: Rows, weight: np.ndarray) -> float:
    """Gwet's coefficient by pairs of raters, with these weights of agreement."""
    units = [[int(label) - 1 for label in row if label is not None] for row in rows]
    rated_units = [unit for unit in units if len(unit) > 1]
    if not rated_units:
        return math.nan
    observed = np.mean([np.mean([weight[a, b] for a, b in combinations(unit, 2)]) for unit in rated_units])
    share = np.mean([[unit.count(k) / len(unit) for k in range(4)] for unit in units if unit], axis=0)
    chance = weight.sum() / 12 * (share * (1 - share)).sum()
    return float((observed - chance) / (1 - chance))


@settings(deadline=None, max_examples=50)
@given(GAPS, st.sampled_from(["nominal", "ordinal", "interval"]))
def test_alpha_is_the_ratio_of_observed_and_expected_disagreement(rows: Rows, scale: Scale) -> None:
    assert is_same(krippendorff_alpha(ratings(rows), scale).value, alpha(rows, scale))


@settings(deadline=None, max_examples=50)
@given(GAPS, st.sampled_from(["unweighted", "linear", "quadratic"]))
def test_gwet_counts_agreeing_pairs(rows: Rows, weights: Weights) -> None:
    distance = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) / 3
    weight = {"unweighted": np.eye(4), "linear": 1 - distance, "quadratic": 1 - distance**2}[weights]
    raters = {index for row in rows for index, label in enumerate(row) if label is not None}
    assume(len(raters) > 1)
    assert is_same(gwet(ratings(rows), weights).value, ac(rows, weight))


@settings(deadline=None, max_examples=50)
@given(COMPLETE_RATINGS, st.sampled_from(["unweighted", "linear", "quadratic"]))
def test_cohens_kappa_is_that_of_scikit_learn_averaged_over_pairs(rows: Rows, weights: Weights) -> None:
    columns = list(zip(*rows, strict=True))
    pairs = list(combinations(columns, 2))
    assume(all(len({*a, *b}) > 1 for a, b in pairs))
    kind = None if weights == "unweighted" else weights
    expected = np.mean([cohen_kappa_score(a, b, labels=list(SCALE), weights=kind) for a, b in pairs])
    assert cohen_kappa(ratings(rows), weights).value == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(GAPS)
def test_cohens_kappa_compares_what_both_raters_rated(rows: Rows) -> None:
    rated = ratings(rows)
    assume(len(rated.raters) > 1)
    expected = []
    for rater, other in combinations(range(len(rated.raters)), 2):
        both = rated.codes[(rated.codes[:, [rater, other]] >= 0).all(axis=1)][:, [rater, other]]
        assume(len(np.unique(both)) > 1)
        expected.append(cohen_kappa_score(both[:, 0], both[:, 1], labels=range(len(SCALE))))
    assert cohen_kappa(rated).value == pytest.approx(np.mean(expected), abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(COMPLETE_RATINGS)
def test_fleiss_kappa_is_that_of_the_paper(rows: Rows) -> None:
    n, labels = len(rows[0]), [label for row in rows for label in row]
    agreeing = np.mean([sum(a == b for a, b in permutations(row, 2)) / (n * (n - 1)) for row in rows])
    chance = sum((labels.count(name) / len(labels)) ** 2 for name in SCALE)
    expected = (agreeing - chance) / (1 - chance) if len(set(labels)) > 1 else math.nan
    assert is_same(fleiss_kappa(ratings(rows)).value, float(expected))


@settings(deadline=None, max_examples=50)
@given(GAPS, st.randoms(use_true_random=False), st.permutations(SCALE))
def test_nominal_agreement_does_not_depend_on_names_and_orders(rows: Rows, random: object, names: list[str]) -> None:
    renamed = dict(zip(SCALE, names, strict=True))
    other = [[None if label is None else renamed[label] for label in reversed(row)] for row in rows]
    random.shuffle(other)  # type: ignore[attr-defined]
    before, after = agreement(ratings(rows)), agreement(ratings(other))
    for score, two in zip(before, after, strict=True):
        assert (score.metric, score.n) == (two.metric, two.n)
        assert is_same(two.value, math.nan if score.value is None else score.value)


@settings(deadline=None, max_examples=50)
@given(GAPS)
def test_turning_an_ordinal_scale_round_changes_nothing(rows: Rows) -> None:
    turned = [[None if label is None else str(5 - int(label)) for label in row] for row in rows]
    for score, two in zip(agreement(ratings(rows), "ordinal"), agreement(ratings(turned), "ordinal"), strict=True):
        assert is_same(two.value, math.nan if score.value is None else score.value)


def test_intervals_are_those_of_items_and_wider_for_clusters() -> None:
    generator = np.random.default_rng(0)
    cases = [str(generator.integers(1, 5)) for _ in range(60)]
    rows: Rows = [[label, label if n % 3 else "1"] for n, label in enumerate(cases)]
    copied = {f"{n}.{copy}": dict(zip("ab", row, strict=True)) for n, row in enumerate(rows) for copy in range(4)}
    clustered = Ratings.of(copied, SCALE, {name: name.split(".")[0] for name in copied})
    for alone, together in zip(agreement(Ratings.of(copied, SCALE)), agreement(clustered), strict=True):
        assert alone.low is not None
        assert alone.high is not None
        assert together.low is not None
        assert together.high is not None
        assert alone.low < (alone.value or 0) < alone.high
        assert together.high - together.low > 1.5 * (alone.high - alone.low)
        assert together.clusters == 60


def test_the_correction_of_percentiles_is_that_of_scipy() -> None:
    generator = np.random.default_rng(5)
    truth = generator.choice(2, size=80, p=(0.15, 0.85))
    codes = np.where(generator.random((80, 3)) < 0.7, truth[:, None], generator.choice(2, size=(80, 3), p=(0.15, 0.85)))
    fleiss = fleiss_kappa(Ratings(tuple("abc"), ("1", "2"), codes, (None,) * 80))
    ratings_of_one = codes.sum(axis=1)

    def kappa(drawn: np.ndarray, axis: int) -> np.ndarray:
        share = drawn.mean(axis=axis) / 3
        disagreeing = (drawn * (3 - drawn)).mean(axis=axis) / 3
        return np.asarray(1 - disagreeing / (2 * share * (1 - share)))

    limits = bootstrap((ratings_of_one,), kappa, method="BCa", rng=generator).confidence_interval
    assert fleiss.interval.method == "bootstrap (BCa)"
    assert (fleiss.low, fleiss.high) == (pytest.approx(limits.low, abs=0.02), pytest.approx(limits.high, abs=0.02))
    plain = bootstrap((ratings_of_one,), kappa, method="percentile", rng=generator).confidence_interval
    assert plain.low < (fleiss.low or 0) - 0.02


def test_what_is_undefined_says_why() -> None:
    reasons = {score.metric: score.interval.reason for score in agreement(ratings([["1", "1"], ["1", "1"]], ["1"]))}
    assert reasons["cohen_kappa"] == "all ratings of r0 and r1 are the same"
    assert reasons["krippendorff_alpha"] == reasons["fleiss_kappa"] == "all ratings are the same"
    assert reasons["gwet_ac1"] == "only one category is known; name the whole scale"
    disjoint = agreement(ratings([["1", None], [None, "2"]]))
    assert disjoint[1].interval.reason == "r0 and r1 rated no item in common"
    uneven = ratings([["1", "2", None], ["1", "2", "2"]])
    assert "different numbers of ratings" in fleiss_kappa(uneven).interval.reason
    alone = fleiss_kappa(ratings([["1", None], ["1", "2"], ["2", "2"]]))  # a single rating agrees with nothing
    both = fleiss_kappa(ratings([["1", "2"], ["2", "2"]]))
    assert (alone.value, alone.n) == (both.value, both.n) == (pytest.approx(-1 / 3), 2)
    assert {score.interval.reason for score in agreement(ratings([["1"], ["2"]]))} == {"only one rater"}
    many = cohen_kappa(ratings([["1"] * 6 + ["2"] * 6]))
    assert many.value is None
    assert "more than 10 raters" in many.interval.reason


@pytest.mark.parametrize(("rare", "has_interval"), [(5, True), (3, False)])
def test_few_resamples_with_one_label_only_are_left_out(rare: int, has_interval: bool) -> None:
    """Of 60 items, `rare` ones have the rare label, which (1 - rare / 60) ** 60 of the resamples lack: .5 or 4.6 %."""
    first = ["2"] * rare + ["1"] * (60 - rare)
    alpha = krippendorff_alpha(ratings([[label, "1" if index == 0 else label] for index, label in enumerate(first)]))
    assert alpha.value is not None
    assert (alpha.low is not None) is has_interval
    pattern = (
        r"bootstrap \(BCa\), without [3-8]\d undefined resamples" if has_interval else r"none: undefined in \d+ of .*"
    )
    assert re.fullmatch(pattern, str(alpha.interval))


def test_pairs_of_raters() -> None:
    pairs = pair_agreement(ratings([["1", "1", "2"], ["2", "2", "1"], ["1", "1", None]]), "ordinal")
    assert [pair.raters for pair in pairs] == [("r0", "r1"), ("r0", "r2"), ("r1", "r2")]
    assert [(pair.percent.value, pair.kappa.value, pair.percent.n) for pair in pairs] == [
        (1.0, 1.0, 3),
        (0.0, -1.0, 2),
        (0.0, -1.0, 2),
    ]
    assert pairs[0].kappa_quadratic is not None


def test_a_rating_beyond_the_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="'6' is none of the categories: 1, 2"):
        Ratings.of({"i": {"r": "6"}}, ("1", "2"))
    assert Ratings.of({"i": {"a": "10", "b": "9", "c": "x"}}).categories == ("9", "10", "x")


# ---- published examples ---------------------------------------------------------------------------------------------

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


# ---- correlations ---------------------------------------------------------------------------------------------------

VALUES = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), min_size=3, max_size=15)


def scipys(x: np.ndarray, y: np.ndarray) -> list[float]:
    return [function(x, y).statistic for function in (stats.kendalltau, stats.spearmanr, stats.pearsonr)]


@settings(deadline=None, max_examples=60)
@given(VALUES)
def test_values_are_those_of_scipy(rows: list[tuple[int, int]]) -> None:
    x, y = (np.array(values, dtype=float) for values in zip(*rows, strict=True))
    assume(np.ptp(x) > 0 and np.ptp(y) > 0)
    assert [score.value for score in correlations(x, y)] == pytest.approx(scipys(x, y), abs=1e-9)


@pytest.mark.slow
def test_intervals_are_those_of_drawn_clusters() -> None:
    generator = np.random.default_rng(1)
    x = generator.integers(0, 6, 90).astype(float)
    y = x + generator.integers(0, 6, 90)
    names = [f"c{n // 2}" for n in range(90)]
    by_metric = correlations(x, y, names)
    draws = np.random.default_rng(0).multinomial(45, np.full(45, 1 / 45), size=RESAMPLES)[:300]
    indices_of_draws = [np.repeat(np.arange(90), np.repeat(counts, 2)) for counts in draws]
    expected = np.quantile([scipys(x[rows], y[rows]) for rows in indices_of_draws], [0.025, 0.975], axis=0)
    for score, low, high in zip(by_metric, *expected, strict=True):
        assert (score.n, score.clusters, score.interval.method) == (90, 45, "cluster bootstrap")
        assert (score.low, score.high) == pytest.approx((low, high), abs=0.02)


def test_why_a_correlation_is_undefined() -> None:
    assert correlations([1, 2], [1, 2])[0].interval.reason == "fewer than 3 items with both values"
    assert correlations([1, 2, 3], [1, 1, 1])[0].interval.reason == "all judgements are the same"
    assert correlations([], [])[0].value is None


# ---- coverage -------------------------------------------------------------------------------------------------------

REPLICATES = {2: 200, 5: 60}  # by the number of categories
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
MISSING_SHARES = {"Fleiss' kappa": 0.0}


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
        COEFFICIENTS[coefficient](simulate_ratings(scale, MISSING_SHARES.get(coefficient, 1 / 7), ITEMS, 1000 + seed))
        for seed in range(replicates)
    ]
    hits = [score.low <= truth <= score.high for score in scores if score.low is not None and score.high is not None]
    return float(np.mean(hits)), len(hits) / replicates


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_intervals_hold_the_truth_in_95_percent(scale: str, coefficient: str) -> None:
    replicates = REPLICATES[len(SCALES[scale][0])]
    held, share_given = coverage(scale, coefficient, replicates)
    assert held == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / replicates))
    assert share_given > 0.85


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_the_true_values_are_those_of_many_items(scale: str, coefficient: str) -> None:
    many = COEFFICIENTS[coefficient](simulate_ratings(scale, MISSING_SHARES.get(coefficient, 1 / 7), 4000, 0))
    assert many.value == pytest.approx(true_value(scale, coefficient), abs=0.05)


if __name__ == "__main__":
    for name in SCALES:
        cells = [coverage(name, coefficient, int(sys.argv[1])) for coefficient in COEFFICIENTS]
        print(
            f"| {name} |", " | ".join(f"{held:.3f} ({share_given:.3f})" for held, share_given in cells), "|", flush=True
        )
