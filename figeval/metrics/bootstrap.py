"""The cluster bootstrap as one matrix product: how often each cluster was drawn, times the clusters' sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.metrics.intervals import LEVEL, Interval
from figeval.metrics.spread import NOTHING

Floats = NDArray[np.float64]
RESAMPLES = 10_000
FEWEST = 40  # below this many effective clusters percentile intervals are too narrow (docs/statistics.md)
CELLS = 2_000_000  # of one block of weights: 16 MB


def blocks(resamples: int, width: int) -> Iterator[int]:
    """Numbers of resamples that add up to all of them and keep a (resamples, width) block below `CELLS`."""
    step = max(1, CELLS // max(1, width))
    for start in range(0, resamples, step):
        yield min(step, resamples - start)


def resample(
    sums: ArrayLike,
    combine: Callable[[Floats], Floats],
    seed: int,
    repeats: ArrayLike | None = None,
    resamples: int = RESAMPLES,
) -> Floats:
    """Values of the statistic on `resamples` draws of G clusters with replacement, shape (resamples,).

    Args:
        sums: the clusters' feature sums, shape (c, k).
        combine: the statistic's function of sums, (..., k) → (...).
        seed: of the generator; the same seed gives the same values.
        repeats: how many clusters have each row of `sums`, shape (c,); once each by default.
        resamples: B.
    """
    distinct, index = np.unique(np.asarray(sums, dtype=np.float64), axis=0, return_inverse=True)
    # Clusters with the same sums are interchangeable: draw how many of each kind, not which.
    repeated = np.bincount(index.reshape(-1), weights=repeats if repeats is None else np.asarray(repeats))
    drawn, share = int(repeated.sum()), repeated / repeated.sum()
    generator = np.random.default_rng(seed)
    values = [
        combine(generator.multinomial(drawn, share, size=size) @ distinct) for size in blocks(resamples, len(share))
    ]
    return np.concatenate(values)


def percentiles(values: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The central part of the bootstrap distribution."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def interval_of_statistic(values: Floats, method: str) -> Interval:
    """Percentile interval and standard error (SD of the values, never divided by √B)."""
    if np.isnan(values).any():
        return Interval(f"none: undefined in {int(np.isnan(values).sum())} of {len(values)} resamples")
    if np.ptp(values) <= NOTHING * max(1.0, float(np.abs(values).max())):
        return Interval("none: every resample gives the same value")
    return Interval(method, *percentiles(values), float(np.std(values, ddof=1)))
