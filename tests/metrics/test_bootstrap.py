"""The cluster bootstrap against complete enumeration and a naive loop."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval.metrics import intervals
from figeval.metrics.intervals import interval_of_statistic, resample
from figeval.metrics.statistic import ratio

SUMS = np.array([[3.0, 4.0], [1.0, 4.0], [4.0, 4.0], [0.0, 2.0]])


def test_distribution_is_that_of_all_resamples() -> None:
    """Four clusters have 4^4 equally likely resamples: compare the whole distribution function."""
    exact = np.sort([float(ratio(SUMS[list(draw)].sum(axis=0))) for draw in product(range(4), repeat=4)])
    values = np.sort(resample(SUMS, ratio, seed=1, resamples=40_000))
    points = np.unique(exact)
    share = np.searchsorted(exact, points + 1e-9) / len(exact)
    got = np.searchsorted(values, points + 1e-9) / len(values)
    assert np.abs(share - got).max() < 1.63 / np.sqrt(len(values))  # Kolmogorov–Smirnov, level .01
    assert set(np.round(values, 9)) == set(np.round(exact, 9))


def test_agrees_with_a_naive_loop() -> None:
    generator = np.random.default_rng(5)
    sums = np.column_stack((generator.integers(0, 11, 60), np.full(60, 10))).astype(float)
    naive = [float(ratio(sums[generator.integers(0, 60, 60)].sum(axis=0))) for _ in range(10_000)]
    values = resample(sums, ratio, seed=6)
    assert np.mean(values) == pytest.approx(np.mean(naive), abs=2e-3)
    assert np.std(values) == pytest.approx(np.std(naive), rel=0.05)
    ours, of_loop = (interval_of_statistic(np.asarray(method), "bootstrap") for method in (values, naive))
    assert (ours.low, ours.high) == pytest.approx((of_loop.low, of_loop.high), abs=5e-3)


def test_repeats_stand_for_repeated_rows() -> None:
    repeated = resample(np.repeat(SUMS, [10, 20, 5, 15], axis=0), ratio, seed=3)
    assert np.array_equal(repeated, resample(SUMS, ratio, seed=3, repeats=[10, 20, 5, 15]))


def test_seed_decides() -> None:
    assert np.array_equal(resample(SUMS, ratio, seed=3), resample(SUMS, ratio, seed=3))
    assert not np.array_equal(resample(SUMS, ratio, seed=3), resample(SUMS, ratio, seed=4))


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(4)))
def test_order_of_clusters_does_not_matter(order: list[int]) -> None:
    assert np.array_equal(resample(SUMS[order], ratio, seed=3), resample(SUMS, ratio, seed=3))


def test_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block of weights is larger than asked for, and together the blocks are all resamples."""
    monkeypatch.setattr(intervals, "CELLS", 1000)
    shapes = []

    def combine(sums: np.ndarray) -> np.ndarray:
        shapes.append(sums.shape)
        return ratio(sums)

    distinct = np.column_stack((np.arange(90.0), np.full(90, 90.0)))
    assert resample(distinct, combine, seed=0, resamples=101).shape == (101,)
    assert max(rows for rows, _ in shapes) * 90 <= 1000
    assert sum(intervals.blocks(101, 10**9)) == 101


def test_no_interval_where_there_is_nothing_to_see() -> None:
    assert interval_of_statistic(np.array([1.0, np.nan, 0.5]), "x").reason == "undefined in 1 of 3 resamples"
    assert interval_of_statistic(np.ones(5), "x").reason == "every resample gives the same value"
