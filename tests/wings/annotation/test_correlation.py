"""Correlations against SciPy, and their bootstrap against resamples that are computed one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from figeval.wings.annotation.agreement import RESAMPLES, correlations

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


def test_what_is_undefined_says_why() -> None:
    assert correlations([1, 2], [1, 2])[0].interval.reason == "fewer than 3 items with both values"
    assert correlations([1, 2, 3], [1, 1, 1])[0].interval.reason == "all judgements are the same"
    assert correlations([], [])[0].value is None
