"""Paired comparisons against scipy and brute force."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from figeval.metrics.differences import chance_of_no_opposition, score_statistic, spread_of_differences
from figeval.metrics.intervals import by_cluster, spread_of
from figeval.metrics.paired import (
    compare_paired,
    draws_for,
    holm,
    mcnemar,
    paired_over_languages,
    paired_over_seeds,
    sign_flip,
)

BITS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=40)
ZIPF = np.maximum(1, np.round(200 / np.arange(1, 51))).astype(int)
CLUSTERED_SIGNS = st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 5)), min_size=2, max_size=40)
NUMBERS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=20)


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_test(a_only: int, b_only: int) -> None:
    expected = stats.binomtest(a_only, a_only + b_only).pvalue if a_only + b_only else 1.0
    assert mcnemar(a_only, b_only) == pytest.approx(expected, rel=1e-9)
    assert 0 < mcnemar(a_only, b_only, mid=True) <= mcnemar(a_only, b_only)


@given(NUMBERS)
def test_independent_numbers_get_scipys_paired_t_interval(rows: list[tuple[float, float]]) -> None:
    a, b = zip(*rows, strict=True)
    result = compare_paired(a, b)
    assume(result.stderr is not None and result.stderr > 1e-6 and result.interval.method == "t")
    limits = np.clip(stats.ttest_rel(a, b).confidence_interval(), -1, 1)
    assert (result.low, result.high) == pytest.approx(tuple(limits), abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=3, max_size=8))
def test_independent_numbers_get_scipys_permutation_test(rows: list[tuple[int, int]]) -> None:
    a, b = (np.array(values) / 8 for values in zip(*rows, strict=True))
    result = compare_paired(a.tolist(), b.tolist())
    assume(result.test == "sign flip" and not chance_of_no_opposition(a, b, a - b))
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    assert result.p == pytest.approx(expected.pvalue)


def test_equal_clusters_get_the_t_interval_of_their_means() -> None:
    generator = np.random.default_rng(2)
    a, b = (generator.random((12, 5)) < 0.6).astype(float), (generator.random((12, 5)) < 0.4).astype(float)
    names = [f"c{i // 5}" for i in range(60)]
    result = compare_paired(a.ravel().tolist(), b.ravel().tolist(), names)
    expected = stats.ttest_1samp((a - b).mean(axis=1), 0)
    assert (result.test, result.clusters, result.freedom) == ("sign flip", 12, pytest.approx(11))
    assert result.p == sign_flip((a - b).sum(axis=1))
    assert (result.low, result.high) == pytest.approx(tuple(expected.confidence_interval()), abs=1e-9)


def test_one_large_cluster_does_not_decide() -> None:
    """Six wins in one cluster of six and none elsewhere are one piece of evidence."""
    a, names = [1.0] * 6 + [0.0] * 20, ["big"] * 6 + [f"c{i}" for i in range(20)]
    result = compare_paired(a, [0.0] * 26, names)
    assert result.p == 1.0


@given(BITS)
def test_swapping_the_runs_mirrors_the_result(rows: list[tuple[int, int]]) -> None:
    a, b = zip(*rows, strict=True)
    forward, other = compare_paired(a, b), compare_paired(b, a)
    assert forward.p == other.p
    assert forward.difference == pytest.approx(-(other.difference or 0.0))
    assert (forward.a_only, forward.b_only) == (other.b_only, other.a_only)
    if forward.low is not None and other.high is not None:
        assert forward.low == pytest.approx(-other.high)


@given(BITS, st.booleans())
def test_p_is_never_0_and_there_is_no_interval_of_width_0(rows: list[tuple[int, int]], cluster: bool) -> None:
    a, b = zip(*rows, strict=True)
    result = compare_paired(a, b, [f"c{i // 2}" for i in range(len(rows))] if cluster else None)
    assert result.p is None or 0 < result.p <= 1
    assert (result.low is None) == (not result.interval.method)
    assert result.stderr is None or result.low is not None
    if result.low is not None and result.high is not None:
        assert result.low < result.high


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_sign_flip_is_exact_for_few_clusters(sums: list[int]) -> None:
    patterns = [
        abs(sum(s * d for s, d in zip(signs, sums, strict=True))) for signs in product((-1, 1), repeat=len(sums))
    ]
    expected = sum(value >= abs(sum(sums)) for value in patterns) / len(patterns)
    assert sign_flip(np.array(sums, dtype=float)) == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 200), st.integers(0, 200), st.sampled_from([1.0, 0.5, 1 / 3, 1 / 12]))
def test_signs_of_equal_sums_give_the_binomial_test(a_only: int, b_only: int, share: float) -> None:
    """With sums of ±1, or of equal shares of ties, the sign flip is McNemar's test, and as exact."""
    assert sign_flip(np.array([share] * a_only + [-share] * b_only)) == pytest.approx(mcnemar(a_only, b_only))


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(-6, 6), min_size=20, max_size=60), st.integers(0, 1000))
def test_drawn_signs_agree_with_the_exact_distribution(sums: list[int], seed: int) -> None:
    """Multiples of an irrational number are on no grid that the exact distribution knows, and are drawn."""
    exact = sign_flip(np.array(sums, dtype=float))
    assert sign_flip(np.array(sums) * np.pi, seed) == pytest.approx(exact, abs=0.02)


def test_a_small_p_is_drawn_more_often() -> None:
    """With n draws, p cannot fall below 1 / (n + 1), so a large family of tests needs more of them."""
    irregular = np.sqrt(np.arange(1, 31))
    for draws in (999, 10_000, 40_000, 50_000):
        assert sign_flip(irregular, draws=draws) == 1 / (draws + 1)
    mixed = irregular * np.where(np.arange(30) % 3 == 2, -1, 1)
    assert sign_flip(mixed) == sign_flip(mixed, draws=1_000_000), "20 of 10,000 draws are as extreme"
    assert (draws_for(1), draws_for(500), draws_for(10**6)) == (10_000, 200_000, 1_000_000)


def test_few_clusters_are_said() -> None:
    rows = ([1.0, 1.0, 0.0] * 5, [0.0, 0.0, 1.0, 0.0, 1.0] * 3)
    five = compare_paired(*rows, [f"c{i // 3}" for i in range(15)])
    assert five.note.startswith("too few clusters (5): ")
    assert five.note.endswith("p cannot fall below 0.0625")
    uneven = compare_paired([1.0, 0.0] * 50, [0.0, 0.0] * 50, ["big"] * 89 + [f"c{i}" for i in range(11)])
    assert uneven.note.startswith("too few clusters (1.26 effective): ")
    assert "cannot fall" not in uneven.note
    single_cluster = compare_paired(*rows, ["c"] * 15)
    assert (single_cluster.low, single_cluster.p) == (None, None)
    assert single_cluster.note.startswith("no interval: one cluster; too few clusters (1)")
    assert compare_paired([1.0, 0.0] * 20, [0.0, 0.0] * 20).note == ""


FEW_EXAMPLES = "too few examples (6): the test has little power"


def test_identical_runs() -> None:
    """0/1 values have a score interval, ± z² / (n + z²); nothing is known about other values."""
    result = compare_paired([1, 0, 1, 1, 0, 1], [1, 0, 1, 1, 0, 1])
    assert (result.difference, result.p, result.interval.method, result.note) == (0.0, 1.0, "score", FEW_EXAMPLES)
    assert result.high == -(result.low or 0) == pytest.approx(1.95996**2 / (6 + 1.95996**2), abs=1e-5)
    other = compare_paired([0.5, 0, 1, 1, 0, 1], [0.5, 0, 1, 1, 0, 1])
    assert (other.p, other.low, other.note) == (1.0, None, f"no interval: no row differs; {FEW_EXAMPLES}")


@given(BITS)
def test_independent_0_1_values_have_the_interval_of_the_score_test(rows: list[tuple[int, int]]) -> None:
    """Its limits are the differences that Tango's score statistic puts 1.96 standard errors away."""
    a, b = zip(*rows, strict=True)
    result = compare_paired(a, b)
    assert (result.interval.method, result.test) == ("score", "exact McNemar")
    for limit, side in ((result.low, 1), (result.high, -1)):
        if limit is not None and abs(limit) < 1 - 1e-6:
            statistic = score_statistic(result.a_only or 0, result.b_only or 0, len(rows), limit)
            assert statistic == pytest.approx(side * 1.959964, abs=1e-4)


def test_runs_that_always_differ_are_not_called_alike() -> None:
    comparison = compare_paired([1.0] * 8, [0.0] * 8, ["a", "a", "b", "b", "c", "c", "d", "d"])
    assert comparison.note.startswith("no interval: every cluster differs by the same amount")
    assert comparison.p == 2 / 2**4


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="a value is NaN or infinite; use None"):
        compare_paired([value, 1.0], [0.0, 1.0])


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="values_a has 2, values_b has 1, clusters has 2 values; give one for each"):
        compare_paired([1, 0], [1])
    with pytest.raises(ValueError, match=r"values_a\[0\] has 2, values_a\[1\] has 1, values_b\[0\] has 2, clusters"):
        paired_over_seeds([[1, 0], [1]], [[1, 0]], [None] * 2)
    with pytest.raises(ValueError, match="values_a has de, en; values_b has de; clusters has de, en"):
        paired_over_languages({"de": [1], "en": [0]}, {"de": [1]}, {"de": [None], "en": [None]})


@given(st.lists(st.floats(1e-9, 1), min_size=1, max_size=8))
def test_holm_steps_down(pvalues: list[float]) -> None:
    """Rejects at every level what the step-down procedure rejects."""
    adjusted = holm(pvalues)
    for level in (0.001, 0.01, 0.05, 0.2):
        order = sorted(range(len(pvalues)), key=pvalues.__getitem__)
        rejected = set()
        for step, index in enumerate(order):
            if (len(order) - step) * pvalues[index] > level:
                break
            rejected.add(index)
        assert rejected == {index for index, p in enumerate(adjusted) if p <= level}


# ---- skewed differences in clusters of unequal size, where the sign flip alone raises false alarms -------------------


def draw_skewed(
    generator: Any, sizes: Any, effect: float, shift: float = 0.0
) -> tuple[list[float], list[float], list[str]]:
    """The whole difference, 9 times the effect, is in a random tenth of the clusters; the mean is the shift."""
    rare = generator.random(len(sizes)) < 0.1
    difference = np.repeat(np.where(rare, 9 * effect, -effect) + shift, sizes)
    share, decided = np.maximum(0.1, np.abs(difference)), generator.random(sizes.sum())
    a, b = decided < (share + difference) / 2, (decided >= (share + difference) / 2) & (decided < share)
    names = [f"c{cluster}" for cluster in np.repeat(np.arange(len(sizes)), sizes)]
    return a.astype(float).tolist(), b.astype(float).tolist(), names


@given(CLUSTERED_SIGNS)
def test_the_variance_is_never_smaller_than_cr2(rows: list[tuple[int, int]]) -> None:
    sums, sizes, within = by_cluster([value for value, _ in rows], [f"c{name}" for _, name in rows])
    assert spread_of_differences(sums, sizes, within).stderr >= spread_of(sums, sizes, within).stderr * (1 - 1e-9)


def test_expected_answers_against_none_that_is_right() -> None:
    """Chance is 1/30 for each of 60 questions: it has none right with probability (29/30)^60, and that is no worse."""
    expected, none = [1 / 30] * 60, [0.0] * 60
    assert compare_paired(expected, none).p == pytest.approx((29 / 30) ** 60)
    assert compare_paired(none, expected).p == pytest.approx((29 / 30) ** 60)
    names = [f"c{row // 2}" for row in range(60)]
    assert compare_paired(expected, none, names).p == pytest.approx((29 / 30) ** 30)
    by_language = ({"de": values, "fi": values} for values in (expected, none))
    assert paired_over_languages(*by_language, {"de": names, "fi": names}).p == pytest.approx((29 / 30) ** 60)
    contradicted = compare_paired(expected, [1.0, *none[1:]])
    assert contradicted.p == sign_flip(np.array([1 / 30 - 1, *expected[1:]])), "one that is right contradicts"
    assert compare_paired([0.5] * 60, [1.0] * 60).p == pytest.approx(2**-59), "chance is half, and all are right"
    shares = np.linspace(0.05, 0.15, 20).tolist()
    assert compare_paired(shares, [0.0] * 20).p == sign_flip(np.array(shares)), "shares of words are no ties"


@pytest.mark.slow
@pytest.mark.parametrize(("chance", "n", "size"), [(1 / 30, 60, 1), (1 / 30, 60, 2), (1 / 250, 500, 5), (0.2, 60, 2)])
def test_chance_is_seldom_better_than_itself(chance: float, n: int, size: int) -> None:
    generator = np.random.default_rng(0)
    names = [f"c{row // size}" for row in range(n)]
    draws = (generator.random((1000, n)) < chance).astype(float)
    p_values = [compare_paired([chance] * n, right.tolist(), names).p for right in draws]
    assert np.mean(np.array(p_values) <= 0.05) < 0.06


def test_the_same_difference_in_every_cluster() -> None:
    comparison = compare_paired([0.0] * 60, [1.0, 0.0] * 30, [f"c{row // 2}" for row in range(60)])
    assert (comparison.effective_n, comparison.interval.low) == (60, None)
    assert comparison.p == 2.0**-29


@given(st.lists(st.tuples(*[st.integers(-1, 1)] * 4), min_size=2, max_size=20))
def test_clusters_of_equal_size_keep_the_sign_flip_and_cr2(clusters: list[tuple[int, ...]]) -> None:
    values = np.array(clusters, dtype=float)
    names = [f"c{row}" for row in range(len(clusters)) for _ in range(4)]
    sums, sizes, within = by_cluster(values.ravel(), names)
    spread = spread_of_differences(sums, sizes, within)
    assert spread.stderr == pytest.approx(spread_of(sums, sizes, within).stderr)
    comparison = compare_paired(values.ravel().tolist(), [0.0] * values.size, names, bounds=None)
    assert (comparison.test, comparison.p) == ("sign flip", sign_flip(sums))


def test_interval_and_p_agree_in_clusters_of_unequal_size() -> None:
    generator, both = np.random.default_rng(3), 0
    for shift in np.linspace(-0.2, 0.2, 40):
        a, b, names = draw_skewed(generator, ZIPF, 0.02, shift)
        comparison = compare_paired(a, b, names)
        assert comparison.p is not None and comparison.low is not None and comparison.high is not None
        excluded = not comparison.low <= 0 <= comparison.high
        assert comparison.test == "sign flip and t" and (excluded or comparison.p > 0.05)
        both += excluded
    assert both > 5


def test_one_language_is_the_comparison_of_its_rows() -> None:
    a, b, names = draw_skewed(np.random.default_rng(0), ZIPF, 0.05, 0.1)
    alone, over_languages = compare_paired(a, b, names), paired_over_languages({"de": a}, {"de": b}, {"de": names})
    assert (over_languages.test, over_languages.p) == (alone.test, pytest.approx(alone.p))


def test_what_a_few_clusters_can_miss_is_said() -> None:
    comparison = compare_paired([1.0] * 40, [0.0, 0.0, 0.0, 1.0] * 10, [f"c{row // 2}" for row in range(40)])
    assert comparison.p is not None and comparison.p < 0.05
    assert "12% of samples of 20 clusters include none" in comparison.note
    larger = compare_paired([1.0] * 80, [0.0, 0.0, 0.0, 1.0] * 20, [f"c{row // 2}" for row in range(80)])
    assert larger.note == ""
