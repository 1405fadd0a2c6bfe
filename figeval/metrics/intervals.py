"""95 % intervals of a mean, and which of them is honest when.

Rows that share a cluster (a proverb, an idiom) are not independent: an interval that takes them so covers far too
seldom. See docs/statistics.md for the simulated coverage that decided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

from figeval.metrics.spread import Spread
from figeval.types import UNRELIABLE

Bounds: TypeAlias = tuple[float, float] | None
LEVEL = 0.95
FEW = 10  # effective clusters below which an interval is called unreliable (docs/statistics.md)
PRIOR_CORRELATION = 0.2  # of one pair of events within a cluster: without it few events hide the correlation


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval and the method it comes from; without one, `method` says why."""

    method: str
    low: float | None = None
    high: float | None = None
    stderr: float | None = None


def wilson(successes: float, n: float, level: float = LEVEL, quantile: float | None = None) -> tuple[float, float]:
    """Wilson (1927) score interval of a proportion.

    Args:
        successes: may be fractional.
        n: sample size, which may be an effective one.
        level: of confidence.
        quantile: to take in place of the normal distribution's.
    """
    z = NormalDist().inv_cdf((1 + level) / 2) if quantile is None else quantile
    p = successes / n
    centre = p + z * z / (2 * n)
    margin = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # p itself lies inside; at 0 and 1 rounding would push it out by one unit in the last place.
    return max(0.0, min(p, (centre - margin) / scale)), min(1.0, max(p, (centre + margin) / scale))


def t_quantile(freedom: float, level: float = LEVEL) -> float:
    """The quantile of Student's t for a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))


def t_interval(mean: float, stderr: float, df: float, level: float = LEVEL) -> tuple[float, float]:
    """Mean ± t · SE with the quantile of Student's t."""
    margin = t_quantile(df, level) * stderr
    return mean - margin, mean + margin


def clip(interval: tuple[float, float], bounds: Bounds) -> tuple[float, float]:
    """The part of the interval that the metric can reach."""
    if bounds is None:
        return interval
    return max(interval[0], bounds[0]), min(interval[1], bounds[1])


def interval_of_mean(spread: Spread, bounds: Bounds) -> Interval:
    """Wilson for independent 0/1 rows, Wilson on an effective sample size for other values within bounds, t without.

    With fewer than ten effective clusters the method says that the interval is unreliable.

    Where all rows have the same value nothing is known of the next cluster: Wilson with n = G then takes its place (of
    all distributions within bounds with that mean, 0/1 values vary most).
    """
    rows = "row" if spread.independent else "cluster"
    if spread.binary and spread.independent:
        stderr = None if spread.clusters == 1 or spread.constant else spread.stderr
        return Interval("wilson", *wilson(spread.mean * spread.n, spread.n), stderr)
    if spread.clusters == 1:
        return Interval(f"none: one {rows}")
    if bounds is None:
        return interval_by_t(spread)
    low, high = bounds
    share = min(1.0, max(0.0, (spread.mean - low) / (high - low)))
    if spread.constant:
        limits, method, stderr = wilson(share * spread.clusters, spread.clusters), f"wilson on {rows}s", None
    else:
        variance = variance_of_mean(spread, bounds)
        limits = effective_wilson(share, variance / (high - low) ** 2, max(1.0, spread.effective_clusters - 1))
        method, stderr = f"wilson on effective n{reliability(spread)}", math.sqrt(variance)
    return Interval(method, low + (high - low) * limits[0], low + (high - low) * limits[1], stderr)


def interval_by_t(spread: Spread, bounds: Bounds = None) -> Interval:
    """Mean ± t · SE with the CR2 standard error and Bell and McCaffrey's (2002) degrees of freedom, for G ≥ 2."""
    rows = "row" if spread.independent else "cluster"
    if spread.alike:
        return Interval(f"none: no {rows} differs")
    limits = clip(t_interval(spread.mean, spread.stderr, spread.freedom), bounds)
    method = "t" if spread.independent else "clustered t"
    return Interval(f"{method}{reliability(spread)}", *limits, spread.stderr)


def reliability(spread: Spread) -> str:
    """`UNRELIABLE` where there are few effective clusters, else nothing. Rows without clusters are trusted."""
    return UNRELIABLE if spread.effective_clusters < FEW and not spread.independent else ""


def variance_of_mean(spread: Spread, bounds: tuple[float, float]) -> float:
    """The larger of the clustered variance and that of a design effect (Kish 1965), for G ≥ 2.

    max{G / (G − 1) · Σ u_c² / N², (s̃² / N)(1 + (K − 1) ρ̃)} with K = Σ n_c² / N. What is rare may not be in the
    sample, so two estimates are drawn towards what would be bad for the precision, by priors that hardly count once
    there are a few events. With values scaled to [0, 1] and m their mean:

    * the intraclass correlation ρ̂ towards .2, by a prior worth one pair of events within a cluster:
      ρ̃ = (Q ρ̂ + .2) / (Q + 1), Q = Σ n_c(n_c − 1)/2 · (m(1 − m))²;
    * the variance of rows s² towards that of 0/1 values, by a prior worth half an event, or less where values scatter
      little beside their distance from the bounds: s̃² = (E s² + h m(1 − m)) / (E + h) with
      E = N m(1 − m) / (1 + (K − 1) ρ̃) and h = min{1, s² / min(m, 1 − m)²} / 2. It hardly changes 0/1 values.
    """
    low, high = bounds
    share, scale = (spread.mean - low) / (high - low), (high - low) ** 2
    most = share * (1 - share)  # the variance of 0/1 values
    events = spread.pairs * most**2
    correlation = (events * spread.correlation + PRIOR_CORRELATION) / (events + 1)
    effect = 1 + (spread.squared_sizes / spread.n - 1) * correlation
    rows = (spread.between + spread.within) / (spread.n - 1) / scale
    prior = min(1.0, rows / min(share, 1 - share) ** 2) / 2
    drawn = (spread.n * most / effect * rows + prior * most) / (spread.n * most / effect + prior)
    clustered = spread.clusters / (spread.clusters - 1) * spread.squares / spread.n**2
    return max(clustered, scale * drawn / spread.n * effect)


def effective_wilson(share: float, variance: float, freedom: float) -> tuple[float, float]:
    """Wilson on the sample size at which independent 0/1 rows would have this variance, with Student's t in place of z
    (Korn and Graubard 1998; Dean and Pagano 2015; Franco et al. 2019).
    """
    n = share * (1 - share) / variance
    return wilson(share * n, n, quantile=t_quantile(freedom))
