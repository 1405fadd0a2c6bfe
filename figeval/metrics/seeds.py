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

from figeval.metrics.intervals import (
    Bounds,
    Interval,
    by_cluster,
    clip,
    effective_wilson,
    reliability,
    spread_of,
    t_interval,
    variance_of_mean,
)

FEWEST_SEEDS = 3  # with two seeds their variance has one degree of freedom (docs/statistics.md)


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
    """95 % interval of a mean over other seeds and other examples, from three seeds on.

    V = SE² + s² / S: the clustered variance of the examples' means over seeds, and the variance of the S trainings'
    scores, with Satterthwaite's (1946) degrees of freedom, V² / (SE⁴ / f + (s² / S)² / (S − 1)). f is G_eff − 1 within
    bounds, Bell and McCaffrey's without. Within bounds the interval is Wilson's on the effective sample size of V,
    without bounds mean ± t · √V. What is neither the seed's nor the example's own is counted in both parts, so it errs
    on the wide side.

    Args:
        values: of every training on the same examples, shape (S, n).
        clusters: of the examples, None for one that stands alone.
        bounds: of the metric.
    """
    table = np.asarray(values, dtype=np.float64)
    if len(table) < FEWEST_SEEDS:
        return Interval("none: fewer than three seeds")
    spread = spread_of(*by_cluster(table.mean(axis=0), clusters))
    if spread.clusters < 2:
        return Interval("none: one cluster")
    seeds = float(table.mean(axis=1).var(ddof=1)) / len(table)
    if spread.constant and seeds == 0:
        return Interval("none: nothing differs")
    examples = spread.stderr**2 if bounds is None else variance_of_mean(spread, bounds)
    own = spread.freedom if bounds is None else max(1.0, spread.effective_clusters - 1)
    variance, few = examples + seeds, reliability(spread)
    freedom = variance**2 / (examples**2 / own + seeds**2 / (len(table) - 1))
    if bounds is None:
        limits = t_interval(spread.mean, math.sqrt(variance), freedom)
        return Interval(f"t over seeds and examples{few}", *limits, math.sqrt(variance))
    low, high = bounds
    share = (spread.mean - low) / (high - low)
    scaled = effective_wilson(share, variance / (high - low) ** 2, freedom)
    limits = clip((low + (high - low) * scaled[0], low + (high - low) * scaled[1]), bounds)
    return Interval(f"wilson over seeds and examples{few}", *limits, math.sqrt(variance))
