"""Intervals against scipy and against the formulas written out row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from figeval.metrics.intervals import Spread, clustered, interval_of_mean, t_interval, wilson

CLUSTERED = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=2, max_size=8)


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


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=40))
def test_t_interval_is_scipys(values: list[float]) -> None:
    mean, stderr = float(np.mean(values)), float(stats.sem(values))
    low, high = t_interval(mean, stderr, len(values) - 1)
    if stderr > 1e-9:
        expected = stats.ttest_1samp(values, 0).confidence_interval()
        assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-9)


@given(CLUSTERED)
def test_clustered_is_the_sandwich_of_a_regression_on_a_constant(rows: list[list[float]]) -> None:
    """As cluster-robust OLS (Liang and Zeger 1986), summed over pairs of rows within a cluster."""
    values = [value for cluster in rows for value in cluster]
    mean = math.fsum(values) / len(values)
    meat = sum((a - mean) * (b - mean) for cluster in rows for a in cluster for b in cluster)
    variance = len(rows) / (len(rows) - 1) * meat / len(values) ** 2
    got_mean, stderr, (low, high) = clustered([sum(cluster) for cluster in rows], [len(cluster) for cluster in rows])
    assert got_mean == pytest.approx(mean, abs=1e-12)
    assert stderr**2 == pytest.approx(variance, abs=1e-12)
    margin = stats.t.ppf(0.975, len(rows) - 1) * stderr
    assert (low, high) == pytest.approx((mean - margin, mean + margin), abs=1e-12)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
def test_one_row_per_cluster_is_the_usual_standard_error(values: list[float]) -> None:
    assert clustered(values, [1] * len(values))[1] == pytest.approx(float(stats.sem(values)), abs=1e-9)


def test_clipping_keeps_to_the_bounds() -> None:
    assert clustered([3, 0], [3, 3], bounds=(0.0, 1.0))[2] == (0.0, 1.0)
    low, high = clustered([3, 0], [3, 3])[2]
    assert low < -5
    assert high > 5


def test_other_bounds_scale_the_fallback() -> None:
    """Four clusters at the top of [-1, 1]: Wilson of 4 of 4 on that scale."""
    interval = interval_of_mean(Spread(1.0, 8, 4, 0.0, False), (-1.0, 1.0))
    assert (interval.low, interval.high) == pytest.approx((2 * wilson(4, 4)[0] - 1, 1.0))
    assert interval.stderr is None


def test_without_bounds_no_variation_means_no_interval() -> None:
    interval = interval_of_mean(Spread(3.0, 8, 4, 0.0, False), None)
    assert (interval.low, interval.method) == (None, "none: no cluster differs")


def test_rounding_is_not_variation() -> None:
    """Three clusters of ten rows of 0.1: sums of 0.1 leave residuals of 1e-16."""
    sums = [sum([0.1] * 10), sum([0.1] * 10), 1.0]
    spread = Spread(0.1, 30, 3, float(np.square(np.array(sums) - 1.0).sum()), False)
    assert spread.squares > 0
    assert interval_of_mean(spread, (0.0, 1.0)).method == "wilson on clusters"
