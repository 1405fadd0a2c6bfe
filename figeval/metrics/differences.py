"""Spread of two runs' differences in clusters, and the t test of their mean.

If few clusters have most of the examples and few of all clusters have most of the difference, the large clusters seldom
include any of the latter. They then agree with one another, and a variance that is estimated from the clusters' sums
alone is far too small. The small clusters show what is missing: how much clusters differ. docs/statistics.md reports
the simulated rates of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from figeval.metrics.intervals import PRIOR_CORRELATION, TINIEST, Bounds, Floats, Spread, spread_of


def spread_of_differences(sums: ArrayLike, sizes: ArrayLike, within: float) -> Spread:
    """Return the spread of differences with the larger of two variances of their mean.

    The first is the CR2 variance of the clusters' sums. The second assumes that differences have nothing to do with the
    sizes of clusters: the means of clusters, e_c = S_c / n_c, then have the variances σ² + τ² / n_c, and the mean of
    all rows has V = (σ² Σ n_c² + τ² N) / N². τ² is estimated within clusters, and σ² from the weighted sum of squares
    of the e_c, with weights that are best for an intraclass correlation of .2. For clusters of equal size, V is the CR2
    variance.

    Args:
        sums: sums of the clusters' differences, shape (c,).
        sizes: sizes of the clusters, shape (c,).
        within: sum of squares within clusters.
    """
    spread = spread_of(sums, sizes, within)
    if spread.clusters < 2 or spread.independent or spread.alike:
        return spread
    totals, counts = (np.asarray(values, dtype=np.float64) for values in (sums, sizes))
    return replace(spread, corrected=spread.n**2 * float(larger_variance(totals, counts, np.float64(within))))


def larger_variance(sums: Floats, sizes: Floats, within: Floats | np.float64) -> Floats:
    """Return the larger variance of `spread_of_differences` for G ≥ 2 clusters of several rows.

    Args:
        sums: sums of the clusters' differences, shape (..., G).
        sizes: sizes of the clusters, shape (G,).
        within: sums of squares within clusters, shape (...).
    """
    groups, n = len(sizes), float(sizes.sum())
    residuals = sums - sizes * (sums.sum(axis=-1, keepdims=True) / n)
    of_sums = (np.square(residuals) / (1 - sizes / n)).sum(axis=-1) / n**2
    means = sums / sizes
    weights = 1 / (PRIOR_CORRELATION + (1 - PRIOR_CORRELATION) / sizes)
    weights /= weights.sum()
    of_rows = within / (n - groups)
    squares = np.square(means - (means @ weights)[..., None]) @ weights
    shares = weights * (1 - weights)  # E[squares] = Σ w (1 − w) (σ² + τ² / n_c)
    of_clusters = (squares - of_rows * float((shares / sizes).sum())) / float(shares.sum())
    larger: Floats = np.maximum(of_sums, (of_clusters * float(sizes @ sizes) + of_rows * n) / n**2)
    return larger


def bounds_of_difference(bounds: Bounds) -> Bounds:
    """Return the bounds of a difference of two numbers with these bounds."""
    return None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])


def refuse_infinite(*values: Floats) -> None:
    """Raise `ValueError` if a value is NaN or infinite, which a comparison would take for a number."""
    if not all(np.isfinite(array).all() for array in values):
        raise ValueError("a value is NaN or infinite; use None for a missing value")


def refuse_other_languages(**values: Mapping[str, object]) -> None:
    """Raise `ValueError` if mappings by language have different languages."""
    languages = {name: ", ".join(sorted(by_language)) for name, by_language in values.items()}
    if len(set(languages.values())) > 1:
        raise ValueError("; ".join(f"{name} has {listed}" for name, listed in languages.items()))


def opposed_skewness(sums: Floats) -> float:
    """Return the skewness of clusters' sums in the direction opposite to their mean; 0 if they do not contradict it.

    It is large if a few clusters with large differences contradict the others: then a sample happens to have fewer of
    them than most samples of the size. Where one run is better nearly everywhere, sums are skewed by the clusters in
    which neither is. Those contradict nothing, and no cluster differs as much in the opposite direction.
    """
    opposed = -math.copysign(1.0, sums.mean()) * sums
    if opposed.max() < -opposed.min():
        return 0.0
    residuals = opposed - opposed.mean()
    squares = float(np.square(residuals).mean())
    return float((residuals**3).mean()) / squares**1.5 if squares > 0 else 0.0


def t_test(mean: float, stderr: float, freedom: float) -> float:
    """Return the two-sided p-value of a mean that is 0 in truth, by Student's t; it is never 0."""
    from scipy.special import stdtr

    return max(2 * float(stdtr(freedom, -abs(mean) / stderr)), TINIEST)
