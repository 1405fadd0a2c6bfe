"""A score over several trainings that differ in nothing but their seed.

Two things would come out otherwise another time: the seeds and the examples. The spread over seeds alone says nothing
of other examples, the interval of one training nothing of other seeds; both are in the interval here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from figeval.metrics.intervals import Bounds, Interval, clip, spread_of, t_interval


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """The mean of the trainings' scores and their standard deviation (n − 1), None of a single one."""

    mean: float
    sd: float | None


def over_seeds(scores: Sequence[float]) -> OverSeeds:
    """Mean and standard deviation of the scores of S ≥ 1 trainings."""
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
    return OverSeeds(float(np.mean(scores)), spread)


def interval_over_seeds(values: ArrayLike, clusters: Sequence[str | None], bounds: Bounds) -> Interval:
    """95 % interval of a mean over other seeds and other examples.

    V = SE² + s² / S: the clustered standard error of the examples' means over seeds, and the variance of the S
    trainings' scores. t with Satterthwaite's (1946) degrees of freedom, V² / (SE⁴ / (G − 1) + (s² / S)² / (S − 1)).
    What is neither the seed's nor the example's own is counted in both parts, so it errs on the wide side.

    Args:
        values: of every training on the same examples, shape (S, n).
        clusters: of the examples, None for one that stands alone.
        bounds: of the metric.
    """
    table = np.asarray(values, dtype=np.float64)
    sums, counts = clustered_sums(table.mean(axis=0), clusters)
    if len(table) < 2:
        return Interval("none: one seed")
    if len(counts) < 2:
        return Interval("none: one cluster")
    spread = spread_of(sums, counts)
    examples, seeds = spread.stderr**2, float(table.mean(axis=1).var(ddof=1)) / len(table)
    variance = examples + seeds
    if variance == 0:
        return Interval("none: nothing differs")
    freedom = variance**2 / (examples**2 / (spread.clusters - 1) + seeds**2 / (len(table) - 1))
    low, high = clip(t_interval(spread.mean, math.sqrt(variance), freedom), bounds)
    return Interval("t over seeds and examples", low, high, math.sqrt(variance))


def clustered_sums(values: ArrayLike, clusters: Sequence[str | None]) -> tuple[list[float], list[int]]:
    """Sums and sizes of the clusters of values, shape (n,)."""
    sums: dict[str | int, float] = {}
    counts: dict[str | int, int] = {}
    for place, (value, cluster) in enumerate(zip(np.asarray(values), clusters, strict=True)):
        key = place if cluster is None else cluster
        sums[key] = sums.get(key, 0.0) + float(value)
        counts[key] = counts.get(key, 0) + 1
    return list(sums.values()), list(counts.values())
