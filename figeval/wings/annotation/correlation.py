"""Correlation of two numbers per item, e.g. of an automatic metric with the mean judgement of people.

Kendall's tau-b, Spearman's rho and Pearson's r, with ties as SciPy treats them. Intervals come from a bootstrap of
items, or of clusters of items: with w_i copies of item i, all three are functions of quadratic forms in w, so a
resample needs no sorting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from figeval.metrics.aggregation import Floats
from figeval.metrics.intervals import FEWEST_CLUSTERS, NOTHING, cluster_places, interval_of_statistic
from figeval.types import Interval, Score

RESAMPLES = 2000
MIN_ITEMS = 3


def correlations(
    x: Sequence[float], y: Sequence[float], clusters: Sequence[str | None] | None = None, seed: int = 0
) -> tuple[Score, ...]:
    """Return `kendall`, `spearman` and `pearson` of values that belong together, with 95 % intervals.

    Args:
        x: values.
        y: values of the same items.
        clusters: cluster of each item, None if it is independent of the others.
        seed: random seed of the bootstrap.
    """
    a, b = (np.asarray(values, dtype=np.float64) for values in (x, y))
    index = cluster_places(clusters if clusters is not None else [None] * len(a))
    names, n, groups = ("kendall", "spearman", "pearson"), len(a), len(set(index.tolist()))
    reason = ""
    if n < MIN_ITEMS:
        reason = f"fewer than {MIN_ITEMS} items with both values"
    elif min(np.ptp(a), np.ptp(b)) <= NOTHING:
        reason = "all values of the metric are the same" if np.ptp(a) <= NOTHING else "all judgements are the same"
    if reason:
        absent = Interval(reason=reason)
        return tuple(Score(metric=name, value=None, interval=absent, n=n, clusters=groups) for name in names)
    values = _correlations(a, b, np.ones((1, n)))[:, 0]
    sizes = np.bincount(index)
    effective = n**2 / float(sizes @ sizes)
    unit = "rows" if groups == n else "clusters"
    intervals = [Interval(reason=f"fewer than {FEWEST_CLUSTERS} {unit}")] * 3
    if effective >= FEWEST_CLUSTERS:
        generator = np.random.default_rng(seed)
        drawn = generator.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES)
        method = "bootstrap" if groups == n else "cluster bootstrap"
        intervals = [interval_of_statistic(row, method) for row in _correlations(a, b, drawn[:, index].astype(float))]
    return tuple(
        Score(
            metric=name,
            value=float(value),
            interval=interval,
            n=n,
            clusters=groups,
        )
        for name, value, interval in zip(names, values, intervals, strict=True)
    )


def _correlations(x: Floats, y: Floats, copies: Floats) -> Floats:
    """Return the three correlations for each row of numbers of copies, shape (B, n); the result is (3, B)."""
    signs_x, signs_y = (np.sign(np.subtract.outer(values, values)) for values in (x, y))
    kendall = [((copies @ (p * q)) * copies).sum(axis=1) for p, q in _products(signs_x, signs_y)]
    ranks_x, ranks_y = copies @ signs_x, copies @ signs_y  # twice the centred ranks, negative
    spearman = [(p * q * copies).sum(axis=1) for p, q in _products(ranks_x, ranks_y)]
    total = copies.sum(axis=1, keepdims=True)
    centred = [values - (copies @ values)[:, None] / total for values in (x - x.mean(), y - y.mean())]
    pearson = [(p * q * copies).sum(axis=1) for p, q in _products(*centred)]
    coefficients = []
    for xy, xx, yy in (kendall, spearman, pearson):
        square = np.where((xx > 0) & (yy > 0), xx * yy, np.nan)
        coefficients.append(np.clip(xy / np.sqrt(square), -1.0, 1.0))
    return np.stack(coefficients)


def _products(x: Floats, y: Floats) -> tuple[tuple[Floats, Floats], ...]:
    return (x, y), (x, x), (y, y)
