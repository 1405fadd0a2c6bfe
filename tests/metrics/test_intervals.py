"""Intervals against scipy, against matrices, and against the formulas written out row by row."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from figeval.metrics.intervals import (
    Moments,
    Spread,
    by_cluster,
    effective_wilson,
    interval_by_t,
    interval_of_mean,
    score_limits,
    spread_of,
    t_interval,
    variance_of_mean,
    wilson,
)

UNIT = (0.0, 1.0)
CLUSTERED = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=2, max_size=8)


def spread(rows: list[list[float]]) -> Spread:
    """The spread of clusters of rows."""
    names = [str(index) for index, cluster in enumerate(rows) for _ in cluster]
    return spread_of(*by_cluster([value for cluster in rows for value in cluster], names))


def varied_rows(rows: list[list[float]]) -> list[float]:
    """All rows, if they vary by more than rounding."""
    values = [value for cluster in rows for value in cluster]
    assume(np.std(values) > 1e-6)
    return values


@given(st.integers(1, 3000), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_scipys(n: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, n))
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert wilson(successes, n, level) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.integers(1, 500), st.floats(0, 1))
def test_wilson_holds_the_share_and_stays_within_0_and_1(n: int, share: float) -> None:
    low, high = wilson(share * n, n)
    assert 0 <= low <= share * n / n <= high <= 1
    assert low < high


@given(st.floats(0.01, 0.99), st.floats(1e-5, 0.02), st.floats(3, 500))
def test_effective_wilson_inverts_the_score_test(share: float, variance: float, freedom: float) -> None:
    """At both ends the distance to the share is t standard errors, the end's own: SE² = x(1 − x) / n."""
    n = share * (1 - share) / variance
    quantile = float(stats.t.ppf(0.975, freedom))
    for end in effective_wilson(share, variance, freedom):
        assert (end - share) ** 2 == pytest.approx(quantile**2 * end * (1 - end) / n, rel=1e-6, abs=1e-12)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_t_interval_is_scipys(values: list[float]) -> None:
    mean, stderr = float(np.mean(values)), float(stats.sem(values))
    low, high = t_interval(mean, stderr, len(values) - 1)
    if stderr > 1e-9:
        expected = stats.ttest_1samp(values, 0).confidence_interval()
        assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-9)


@given(CLUSTERED)
def test_cr2_is_that_of_a_regression_on_a_constant(rows: list[list[float]]) -> None:
    """Bell and McCaffrey (2002) with matrices: residuals of a cluster times (I − H_cc)^(-1/2), and the degrees of
    freedom (tr Ω)² / tr Ω², Ω the covariance of the clusters' terms under independent rows.
    """
    values = np.array(varied_rows(rows))
    n = len(values)
    hat = np.full((n, n), 1 / n)
    ends = np.cumsum([0, *map(len, rows)])
    residuals = values - values.mean()
    weights = np.zeros((len(rows), n))
    for index, (start, end) in enumerate(pairwise(ends)):
        block = np.eye(end - start) - hat[start:end, start:end]
        shares, vectors = np.linalg.eigh(block)
        root = vectors @ np.diag(1 / np.sqrt(shares)) @ vectors.T
        weights[index, start:end] = root.sum(axis=0) / n
    terms = weights @ residuals
    projected = weights @ (np.eye(n) - hat)
    omega = projected @ projected.T
    row_spread = spread(rows)
    assert row_spread.stderr**2 == pytest.approx(float(terms @ terms), rel=1e-9, abs=1e-14)
    assert row_spread.freedom == pytest.approx(np.trace(omega) ** 2 / np.trace(omega @ omega), rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_one_row_per_cluster_is_the_usual_standard_error(values: list[float]) -> None:
    row_spread = spread([[value] for value in values])
    assert row_spread.stderr == pytest.approx(float(stats.sem(values)), abs=1e-9)
    assert row_spread.freedom == pytest.approx(len(values) - 1)
    assert row_spread.effective_clusters == pytest.approx(len(values))


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=2, max_size=8))
def test_equal_clusters_are_one_number_each(rows: list[list[float]]) -> None:
    row_spread = spread(rows)
    assert row_spread.stderr == pytest.approx(float(stats.sem([np.mean(cluster) for cluster in rows])), abs=1e-9)
    assert row_spread.freedom == pytest.approx(len(rows) - 1)


@given(CLUSTERED)
def test_the_variance_by_the_steps_of_the_page(rows: list[list[float]]) -> None:
    """docs/appendix/statistics.md, written out row by row."""
    values = varied_rows(rows)
    n, g, m = len(values), len(rows), float(np.mean(values))
    k = sum(len(cluster) ** 2 for cluster in rows) / n
    u = [math.fsum(value - m for value in cluster) for cluster in rows]
    correlation = 0.0
    if n > g:
        msb = sum(len(cluster) * (np.mean(cluster) - m) ** 2 for cluster in rows) / (g - 1)
        msw = sum((value - np.mean(cluster)) ** 2 for cluster in rows for value in cluster) / (n - g)
        size = (n - k) / (g - 1)
        total = msb + (size - 1) * msw
        correlation = float(np.clip((msb - msw) / total, 0, 1)) if total > 0 else 0.0
    q = sum(len(cluster) * (len(cluster) - 1) / 2 for cluster in rows) * (m * (1 - m)) ** 2
    drawn = (q * correlation + 0.2) / (q + 1)
    effect = 1 + (k - 1) * drawn
    events, square = n * m * (1 - m) / effect, float(np.var(values, ddof=1))
    half = 0.5 * min(1, square / min(m, 1 - m) ** 2)
    square = (events * square + half * m * (1 - m)) / (events + half)
    expected = max(g / (g - 1) * sum(deviation**2 for deviation in u) / n**2, square / n * effect)
    row_spread = spread(rows)
    assert row_spread.effective_clusters == pytest.approx(n / k)
    assert variance_of_mean(row_spread, UNIT) == pytest.approx(expected, rel=1e-6, abs=1e-14)
    interval = interval_of_mean(row_spread, UNIT)
    limits = effective_wilson(m, expected, max(1, n / k - 1))
    assert (interval.low, interval.high) == pytest.approx(limits, abs=1e-7)
    assert interval.stderr == pytest.approx(math.sqrt(expected), rel=1e-6)


@given(CLUSTERED)
def test_other_bounds_are_the_same_on_another_scale(rows: list[list[float]]) -> None:
    varied_rows(rows)
    on_unit_scale = interval_of_mean(spread(rows), UNIT)
    other = interval_of_mean(spread([[10 * value - 4 for value in cluster] for cluster in rows]), (-4.0, 6.0))
    assert on_unit_scale.low is not None and on_unit_scale.high is not None and on_unit_scale.stderr is not None
    assert (other.low, other.high) == pytest.approx((10 * on_unit_scale.low - 4, 10 * on_unit_scale.high - 4), abs=1e-6)
    assert other.stderr == pytest.approx(10 * on_unit_scale.stderr, rel=1e-6)


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.floats(-5, 5)), min_size=1, max_size=25))
def test_rows_without_a_cluster_are_clusters_of_one(rows: list[tuple[str | None, float]]) -> None:
    """Kept as moments or as clusters: the same spread."""
    alone, with_names = Moments(), [(name, value) for name, value in rows if name is not None]
    for name, value in rows:
        if name is None:
            alone.add(value)
    all_at_once = spread_of(*by_cluster([value for _, value in rows], [name for name, _ in rows]))
    parts = spread_of(*by_cluster([value for _, value in with_names], [name for name, _ in with_names]), alone=alone)
    for field in ("mean", "n", "clusters", "squared_sizes", "squares", "corrected", "between", "within", "freedom"):
        assert getattr(parts, field) == pytest.approx(getattr(all_at_once, field), rel=1e-9, abs=1e-9), field


def test_few_events_do_not_hide_the_correlation() -> None:
    """Two successes of 1000, in two of ten clusters: no cluster shows that its rows are alike, but they may be."""
    rows = [[1.0, *[0.0] * 99]] * 2 + [[0.0] * 100] * 8
    interval = interval_of_mean(spread(rows), UNIT)
    assert interval.high is not None
    assert interval.high > 3 * wilson(2, 1000)[1]


def test_a_rare_high_value_may_not_be_in_the_sample() -> None:
    """Fifty reciprocal ranks near .01 say little of a first place; fifty values near .5 leave no such doubt."""
    generator = np.random.default_rng(5)
    low, middle = generator.uniform(0.004, 0.03, size=(50, 1)), generator.uniform(0.45, 0.55, size=(50, 1))
    skewed, even = interval_of_mean(spread(low.tolist()), UNIT), interval_of_mean(spread(middle.tolist()), UNIT)
    assert skewed.high is not None and even.high is not None and even.low is not None
    assert skewed.high - low.mean() > 3 * stats.t.ppf(0.975, 49) * stats.sem(low.ravel())
    assert even.high - even.low < 1.1 * 2 * stats.t.ppf(0.975, 49) * stats.sem(middle.ravel())


def test_without_bounds_it_is_t_with_fewer_degrees_of_freedom() -> None:
    """One cluster of ninety and ten of one are not eleven clusters."""
    generator = np.random.default_rng(3)
    rows = [generator.normal(size=90).tolist(), *generator.normal(size=(10, 1)).tolist()]
    row_spread = spread(rows)
    assert row_spread.effective_clusters == pytest.approx(100**2 / (90**2 + 10))
    assert row_spread.freedom < 1.5
    assert interval_of_mean(row_spread, None) == interval_by_t(row_spread)
    interval = interval_by_t(row_spread)
    assert (interval.method, interval.reliable) == ("clustered t", False)


COUNTS = st.lists(st.lists(st.integers(0, 500), min_size=1, max_size=5), min_size=2, max_size=8)


@given(COUNTS, st.sampled_from([(0.0, math.inf), (-3.0, math.inf), (-math.inf, 0.0)]))
def test_with_one_bound_no_interval_extends_beyond_it(rows: list[list[int]], bounds: tuple[float, float]) -> None:
    """A mean number of words is never negative, however few and however different the texts are."""
    sign = -1.0 if bounds[1] == 0 else 1.0
    values = spread([[sign * value for value in cluster] for cluster in rows])
    assume(not values.alike)
    interval = interval_of_mean(values, bounds)
    assert interval.low is not None and interval.high is not None
    assert bounds[0] <= interval.low < values.mean < interval.high <= bounds[1]
    bound = bounds[1] if sign < 0 else bounds[0]
    assert (interval.low - bound) * (interval.high - bound) == pytest.approx((values.mean - bound) ** 2)
    assert interval.stderr == interval_by_t(values).stderr


def test_one_bound_is_the_limit_of_two() -> None:
    """Wilson's interval on the effective sample size comes to it as the upper bound moves away."""
    mean, stderr, freedom, far = 8.0, 2.0, 6.0, 1e6
    low, high = effective_wilson(mean / far, (stderr / far) ** 2, freedom)
    assert score_limits(mean, stderr, freedom, (0.0, math.inf)) == pytest.approx((far * low, far * high), rel=1e-4)
    below = score_limits(-mean, stderr, freedom, (-math.inf, 0.0))
    assert below == pytest.approx((-far * high, -far * low), rel=1e-4)


def test_with_one_bound_many_rows_have_the_interval_by_t() -> None:
    rows = spread([[value] for value in np.random.default_rng(0).poisson(8, 4000).astype(float)])
    interval, by_t = interval_of_mean(rows, (0.0, math.inf)), interval_by_t(rows)
    assert (interval.low, interval.high) == pytest.approx((by_t.low, by_t.high), rel=1e-3)
    assert interval.method == "score above 0"


def test_clipping_keeps_to_the_bounds() -> None:
    uneven = spread([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    interval, free = interval_by_t(uneven, UNIT), interval_by_t(uneven)
    assert (interval.low, interval.high) == UNIT
    assert free.low is not None and free.high is not None
    assert free.low < -5
    assert free.high > 5


def test_constant_values_get_wilson_on_the_clusters() -> None:
    """Four clusters at the top of [-1, 1]: Wilson of 4 of 4 on that scale."""
    interval = interval_of_mean(spread([[1.0, 1.0]] * 4), (-1.0, 1.0))
    assert (interval.low, interval.high) == pytest.approx((2 * wilson(4, 4)[0] - 1, 1.0))
    assert (interval.method, interval.stderr, interval.reliable) == ("wilson on clusters", None, False)


def test_without_bounds_no_variation_means_no_interval() -> None:
    interval = interval_of_mean(spread([[3.0, 3.0]] * 4), None)
    assert (interval.low, interval.reason) == (None, "no cluster differs")


def test_rounding_is_not_variation() -> None:
    """Three clusters of ten rows of 0.1: sums of 0.1 leave residuals of 1e-16."""
    row_spread = spread([[0.1] * 10] * 3)
    assert interval_of_mean(row_spread, UNIT).method.startswith("wilson on clusters")
