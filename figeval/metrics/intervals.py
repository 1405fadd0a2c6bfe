"""Spread of clustered rows, and the 95 % interval that is valid for it.

Rows that share a cluster (a proverb, an idiom) are not independent: an interval that takes them so covers far too
seldom. Three things stand here, each resting on the one before:

* `Spread`, the sums that the interval of a mean rests on: how far the clusters' sums lie from what the mean would have
  them be, how much rows vary within clusters, and how unequal the clusters are;
* `interval_of_mean`, the closed-form interval of a mean: Wilson, Wilson on an effective sample size, or Student's t;
* `resample` and `interval_of_statistic`, the cluster bootstrap for statistics that are no mean.

docs/statistics.md has the simulated coverage that decided which interval is used when.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.types import UNRELIABLE

Floats: TypeAlias = NDArray[np.float64]
Bounds: TypeAlias = tuple[float, float] | None
LEVEL = 0.95
NOTHING = 1e-12  # variation below this, relative to the values, is rounding
# Effective clusters below which an interval is called unreliable, and no test that keeps its level has power.
FEW = 10
PRIOR_CORRELATION = 0.2  # of one pair of events within a cluster: without it few events hide the correlation
RESAMPLES = 10_000
FEWEST_CLUSTERS = 40  # below this many effective clusters percentile intervals are too narrow (docs/statistics.md)
CELLS = 2_000_000  # of one block of weights: 16 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval and the method it comes from; without one, `method` says why."""

    method: str
    low: float | None = None
    high: float | None = None
    stderr: float | None = None


# ---- the spread of rows in clusters ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Moments:
    """Count, sum and squared deviations of rows that stand alone (Welford 1962)."""

    n: int = 0
    total: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        """Add one row."""
        self.n += 1
        self.total += value
        step = value - self.mean
        self.mean += step / self.n
        self.squares += step * (value - self.mean)

    def squares_about(self, centre: float) -> float:
        """Σ (value − centre)²."""
        return self.squares + self.n * (self.mean - centre) ** 2


@dataclass(frozen=True, slots=True)
class Spread:
    """Variation of N rows in G clusters with sizes n_c, sums S_c and residuals u_c = S_c − n_c · mean.

    Attributes:
        mean: the mean of all rows.
        n: N.
        clusters: G.
        squared_sizes: Σ n_c².
        squares: Σ u_c².
        corrected: Σ u_c² / (1 − n_c / N), the CR2 correction of Bell and McCaffrey (2002).
        between: Σ u_c² / n_c, the sum of squares between clusters.
        within: the sum of squares within clusters.
        freedom: Bell and McCaffrey's degrees of freedom.
        binary: all values are 0 or 1.
    """

    mean: float
    n: int
    clusters: int
    squared_sizes: float
    squares: float
    corrected: float
    between: float
    within: float
    freedom: float
    binary: bool

    @property
    def independent(self) -> bool:
        """Every cluster has one row."""
        return self.n == self.clusters

    @property
    def effective_clusters(self) -> float:
        """N² / Σ n_c² (Kish 1965): as many clusters of equal size would be as good. It is G where sizes are equal."""
        return self.n**2 / self.squared_sizes

    @property
    def constant(self) -> bool:
        """All rows have the same value."""
        return math.sqrt((self.between + self.within) / self.n) <= NOTHING * max(1.0, abs(self.mean))

    @property
    def alike(self) -> bool:
        """No cluster differs from the mean."""
        return self.stderr <= NOTHING * max(1.0, abs(self.mean))

    @property
    def stderr(self) -> float:
        """√(Σ u_c² / (1 − n_c / N)) / N, for G ≥ 2: the clustered standard error with the CR2 correction. It is
        s / √N for independent rows, and √(G / (G − 1) · Σ u_c²) / N for clusters of equal size.
        """
        return math.sqrt(self.corrected) / self.n

    @property
    def correlation(self) -> float:
        """The intraclass correlation by analysis of variance, clipped to [0, 1]; 0 for independent rows, G ≥ 2."""
        if self.independent:
            return 0.0
        between, within = self.between / (self.clusters - 1), self.within / (self.n - self.clusters)
        size = (self.n - self.squared_sizes / self.n) / (self.clusters - 1)
        total = between + (size - 1) * within
        return min(1.0, max(0.0, (between - within) / total)) if total > 0 else 0.0

    @property
    def pairs(self) -> float:
        """Σ n_c (n_c − 1) / 2, the pairs of rows that share a cluster."""
        return (self.squared_sizes - self.n) / 2


def by_cluster(values: ArrayLike, clusters: Sequence[str | None]) -> tuple[Floats, Floats, float]:
    """Sums and sizes of the clusters of values, shape (n,), and the sum of squares within; None is a cluster of its
    own.
    """
    rows = np.asarray(values, dtype=np.float64)
    places: dict[str | int, int] = {}
    index = [places.setdefault(i if name is None else name, len(places)) for i, name in enumerate(clusters)]
    sizes: Floats = np.bincount(index).astype(np.float64)
    sums: Floats = np.bincount(index, weights=rows).astype(np.float64)
    return sums, sizes, float(np.square(rows - (sums / sizes)[index]).sum())


def spread_of(
    sums: ArrayLike, sizes: ArrayLike, within: float = 0.0, *, alone: Moments | None = None, binary: bool = False
) -> Spread:
    """The spread of rows in clusters, and of rows without one.

    Args:
        sums: of the clusters, shape (c,).
        sizes: of the clusters, shape (c,).
        within: the sum of squares within these clusters.
        alone: rows that are a cluster each.
        binary: all values are 0 or 1.
    """
    totals, counts = np.asarray(sums, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    single = alone or Moments()
    n = int(counts.sum()) + single.n
    mean = math.fsum((*totals, single.total)) / n
    squares, share = np.square(totals - counts * mean), counts / n
    deviations = single.squares_about(mean)
    clusters = len(totals) + single.n
    return Spread(
        mean=mean,
        n=n,
        clusters=clusters,
        squared_sizes=float(counts @ counts) + single.n,
        squares=float(squares.sum()) + deviations,
        corrected=float((squares / (1 - share)).sum()) + deviations * n / (n - 1) if clusters > 1 else 0.0,
        between=float((squares / counts).sum()) + deviations,
        within=within,
        freedom=_freedom(share, n, single.n) if clusters > 1 else 0.0,
        binary=binary,
    )


def _freedom(share: Floats, n: int, singles: int) -> float:
    """1 / (Σ w² + (Σ b)² − Σ b²) with w = n_c / N and b = w² / (1 − w): Satterthwaite's degrees of freedom of the CR2
    variance of a mean of uncorrelated rows (Bell and McCaffrey 2002). G − 1 for clusters of equal size.
    """
    b, of_single = share**2 / (1 - share), 1 / (n * (n - 1))
    total = float(b.sum()) + singles * of_single
    own = float(b @ b) + singles * of_single**2
    return 1 / (float(share @ share) + singles / n**2 + total**2 - own)


# ---- intervals of a mean ---------------------------------------------------------------------------------------------


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


def t_quantile(freedom: float) -> float:
    """The quantile of Student's t for a two-sided 95 % interval with `freedom` degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def t_interval(mean: float, stderr: float, freedom: float) -> tuple[float, float]:
    """Mean ± t · SE with the quantile of Student's t."""
    margin = t_quantile(freedom) * stderr
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


# ---- the cluster bootstrap: how often each cluster was drawn, times the clusters' sums -------------------------------


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


def interval_of_statistic(values: Floats, method: str) -> Interval:
    """Percentile interval and standard error (SD of the values, never divided by √B)."""
    if np.isnan(values).any():
        return Interval(f"none: undefined in {int(np.isnan(values).sum())} of {len(values)} resamples")
    if np.ptp(values) <= NOTHING * max(1.0, float(np.abs(values).max())):
        return Interval("none: every resample gives the same value")
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(method, float(low), float(high), float(np.std(values, ddof=1)))
