"""95 % intervals of a mean, and which of them is honest when.

Rows that share a cluster (a proverb, an idiom) are not independent: an interval that takes them so covers far too
seldom. See docs/statistics.md for the simulated coverage that decided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

Bounds: TypeAlias = tuple[float, float] | None
LEVEL = 0.95
NOTHING = 1e-12  # a standard error below this, relative to the values, is rounding


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval and the method it comes from; without one, `method` says why."""

    method: str
    low: float | None = None
    high: float | None = None
    stderr: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """What the interval of a mean rests on.

    `squares` = Σ_c (S_c − n_c · mean)² over clusters c with sum S_c and size n_c; `binary`: all values are 0 or 1.
    """

    mean: float
    n: int
    clusters: int
    squares: float
    binary: bool

    @property
    def independent(self) -> bool:
        """Every cluster has one row."""
        return self.n == self.clusters

    @property
    def stderr(self) -> float:
        """SE² = G/(G−1) · Σ_c (S_c − n_c · mean)² / N², for G ≥ 2 (Miller 2024, section 2.2, with the correction for
        few clusters); for independent rows this is the usual s²/n.
        """
        return math.sqrt(self.clusters / (self.clusters - 1) * self.squares) / self.n


def wilson(successes: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson (1927) score interval of a proportion; `successes` may be fractional."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    p = successes / n
    centre = p + z * z / (2 * n)
    margin = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # p itself lies inside; at 0 and 1 rounding would push it out by one unit in the last place.
    return max(0.0, min(p, (centre - margin) / scale)), min(1.0, max(p, (centre + margin) / scale))


def t_interval(mean: float, stderr: float, df: float, level: float = LEVEL) -> tuple[float, float]:
    """Mean ± t · SE with the quantile of Student's t."""
    from scipy.special import stdtrit

    margin = float(stdtrit(df, (1 + level) / 2)) * stderr
    return mean - margin, mean + margin


def clip(interval: tuple[float, float], bounds: Bounds) -> tuple[float, float]:
    """The part of the interval that the metric can reach."""
    if bounds is None:
        return interval
    return max(interval[0], bounds[0]), min(interval[1], bounds[1])


def clustered(
    sums: ArrayLike, counts: ArrayLike, bounds: Bounds = None, level: float = LEVEL
) -> tuple[float, float, tuple[float, float]]:
    """Mean, clustered standard error and t(G − 1) interval from the sums and sizes of G ≥ 2 clusters, shape (G,)."""
    spread = spread_of(sums, counts)
    interval = t_interval(spread.mean, spread.stderr, spread.clusters - 1, level)
    return spread.mean, spread.stderr, clip(interval, bounds)


def spread_of(sums: ArrayLike, counts: ArrayLike, *, binary: bool = False) -> Spread:
    """The spread of G clusters with these sums and sizes, shape (G,)."""
    totals, sizes = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    n = float(sizes.sum())
    mean = float(totals.sum()) / n
    return Spread(mean, int(n), len(sizes), float(np.square(totals - sizes * mean).sum()), binary)


def interval_of_mean(spread: Spread, bounds: Bounds) -> Interval:
    """Wilson for independent 0/1 rows, t(G − 1) on the clustered standard error otherwise.

    Where no cluster differs from the mean the standard error is 0, which says nothing about the next cluster: Wilson
    with n = G then takes its place (for values within bounds no distribution with that mean varies more than 0/1).
    """
    rows = "row" if spread.independent else "cluster"
    binary = spread.binary and spread.independent
    if spread.clusters == 1:
        return _wilson(spread, (0.0, 1.0), None, "wilson") if binary else Interval(f"none: one {rows}")
    constant = spread.stderr <= NOTHING * max(1.0, abs(spread.mean))
    stderr = None if constant else spread.stderr
    if binary:
        return _wilson(spread, (0.0, 1.0), stderr, "wilson")
    if constant:
        return _wilson(spread, bounds, None, f"wilson on {rows}s") if bounds else Interval(f"none: no {rows} differs")
    interval = clip(t_interval(spread.mean, spread.stderr, spread.clusters - 1), bounds)
    return Interval("t" if spread.independent else "clustered t", *interval, stderr)


def _wilson(spread: Spread, bounds: tuple[float, float], stderr: float | None, method: str) -> Interval:
    """Wilson on the clusters, on the scale of the metric's bounds."""
    lowest, highest = bounds
    width = highest - lowest
    share = min(1.0, max(0.0, (spread.mean - lowest) / width))
    low, high = wilson(share * spread.clusters, spread.clusters)
    return Interval(method, lowest + width * low, lowest + width * high, stderr)
