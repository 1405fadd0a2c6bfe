"""Spread of clustered rows and valid 95 % intervals.

Rows that share a cluster (a proverb, an idiom) are not independent, and the coverage of an interval that ignores this
is far too low. The module has three parts, each based on the one before:

* `Spread`, the sums behind the interval of a mean: how far the clusters' sums lie from those that the mean implies, how
  much rows vary within clusters, and how unequal the clusters are;
* `interval_of_mean`, the closed-form interval of a mean: Wilson, Wilson on an effective sample size, a score interval
  above or below one bound, or Student's t;
* `resample` and `interval_of_statistic`, the cluster bootstrap for statistics that are not means.

The choice of intervals rests on the simulated coverage in bench/README.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.types import Interval

Floats: TypeAlias = NDArray[np.float64]
Bounds: TypeAlias = tuple[float, float] | None  # one of the two may be infinite; None if there are none
LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
ROUNDING_ERROR = 1e-12  # smaller variation, relative to the values, is rounding error
# With fewer effective clusters, an interval is marked as unreliable, and no test that keeps its level has power.
FEW_CLUSTERS = 10
MIN_FLOAT = sys.float_info.min  # a p-value that underflows is tiny, not 0
PRIOR_CORRELATION = 0.2  # prior worth one pair of events in a cluster; without it, rare events hide the correlation
RESAMPLES = 10_000
FEWEST_CLUSTERS = 40  # with fewer effective clusters, percentile intervals are too narrow (bench/README.md)
MOST_UNDEFINED = 0.01  # share of resamples in which a skewed statistic may be undefined, and which are then left out
CELLS = 2_000_000  # cells of one block of weights: 16 MB
EXACT_EXPECTATION = "an exact expectation"  # why a score has no interval that other examples would not change


# ---- the spread of rows in clusters ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Moments:
    """Count, sum and squared deviations of rows without a cluster (Welford 1962)."""

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
        """Return Σ (value − centre)²."""
        return self.squares + self.n * (self.mean - centre) ** 2


@dataclass(frozen=True, slots=True)
class Spread:
    """Variation of N rows in G clusters with sizes n_c, sums S_c and residuals u_c = S_c − n_c · mean.

    Attributes:
        mean: mean of all rows.
        n: N.
        clusters: G.
        squared_sizes: Σ n_c².
        squares: Σ u_c².
        corrected: Σ u_c² / (1 − n_c / N), the CR2 correction of Bell and McCaffrey (2002).
        between: Σ u_c² / n_c, the sum of squares between clusters.
        within: sum of squares within clusters.
        freedom: Bell and McCaffrey's degrees of freedom.
        binary: whether all values are 0 or 1.
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
        """True if every cluster has one row only."""
        return self.n == self.clusters

    @property
    def effective_clusters(self) -> float:
        """Number of equally sized clusters with the same precision, N² / Σ n_c² (Kish 1965); G if sizes are equal."""
        return self.n**2 / self.squared_sizes

    @property
    def constant(self) -> bool:
        """True if all rows have the same value."""
        return math.sqrt((self.between + self.within) / self.n) <= ROUNDING_ERROR * max(1.0, abs(self.mean))

    @property
    def alike(self) -> bool:
        """True if no cluster differs from the mean."""
        return self.stderr <= ROUNDING_ERROR * max(1.0, abs(self.mean))

    @property
    def stderr(self) -> float:
        """Clustered standard error with the CR2 correction, √(Σ u_c² / (1 − n_c / N)) / N, for G ≥ 2.

        It is s / √N for independent rows, and √(G / (G − 1) · Σ u_c²) / N for clusters of equal size.
        """
        return math.sqrt(self.corrected) / self.n

    @property
    def correlation(self) -> float:
        """Intraclass correlation by analysis of variance, clipped to [0, 1]; 0 for independent rows. For G ≥ 2."""
        if self.independent:
            return 0.0
        between, within = self.between / (self.clusters - 1), self.within / (self.n - self.clusters)
        size = (self.n - self.squared_sizes / self.n) / (self.clusters - 1)
        total = between + (size - 1) * within
        return min(1.0, max(0.0, (between - within) / total)) if total > 0 else 0.0

    @property
    def pairs(self) -> float:
        """Number of pairs of rows that share a cluster, Σ n_c (n_c − 1) / 2."""
        return (self.squared_sizes - self.n) / 2


def cluster_places(clusters: Sequence[str | None]) -> NDArray[np.int64]:
    """Return the number of each row's cluster, from 0 in order of appearance; a row without one forms its own."""
    numbers: dict[str | int, int] = {}
    indexes = [numbers.setdefault(row if name is None else name, len(numbers)) for row, name in enumerate(clusters)]
    return np.array(indexes, dtype=np.int64)


def by_cluster(values: ArrayLike, clusters: Sequence[str | None]) -> tuple[Floats, Floats, float]:
    """Return the sums and sizes of the clusters of `values`, shape (n,), and the sum of squares within clusters.

    A row whose cluster is None forms its own cluster.
    """
    rows = np.asarray(values, dtype=np.float64)
    index = cluster_places(clusters)
    sizes: Floats = np.bincount(index).astype(np.float64)
    sums: Floats = np.bincount(index, weights=rows).astype(np.float64)
    return sums, sizes, float(np.square(rows - (sums / sizes)[index]).sum())


def spread_of(
    sums: ArrayLike, sizes: ArrayLike, within: float = 0.0, *, alone: Moments | None = None, binary: bool = False
) -> Spread:
    """Return the spread of rows with and without a cluster.

    Args:
        sums: sums of the clusters, shape (c,).
        sizes: sizes of the clusters, shape (c,).
        within: sum of squares within these clusters.
        alone: moments of the rows without a cluster.
        binary: whether all values are 0 or 1.
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
    """Return Satterthwaite's degrees of freedom of the CR2 variance of a mean of uncorrelated rows.

    They are 1 / (Σ w² + (Σ b)² − Σ b²) with w = n_c / N and b = w² / (1 − w) (Bell and McCaffrey 2002), i.e. G − 1 for
    clusters of equal size.
    """
    b, of_single = share**2 / (1 - share), 1 / (n * (n - 1))
    total = float(b.sum()) + singles * of_single
    squares = float(b @ b) + singles * of_single**2
    return 1 / (float(share @ share) + singles / n**2 + total**2 - squares)


# ---- intervals of a mean ---------------------------------------------------------------------------------------------


def wilson(successes: float, n: float, level: float = LEVEL, quantile: float | None = None) -> tuple[float, float]:
    """Return the Wilson (1927) score interval of a proportion.

    Args:
        successes: number of successes, which may be fractional.
        n: sample size, which may be an effective one.
        level: confidence level.
        quantile: quantile to use instead of the normal distribution's.
    """
    z = NormalDist().inv_cdf((1 + level) / 2) if quantile is None else quantile
    p = successes / n
    centre = p + z * z / (2 * n)
    margin = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # p lies inside the interval, but at 0 and 1 rounding could push it out by one unit in the last place.
    return max(0.0, min(p, (centre - margin) / scale)), min(1.0, max(p, (centre + margin) / scale))


def t_quantile(freedom: float) -> float:
    """Return the quantile of Student's t for a two-sided 95 % interval with `freedom` degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def t_interval(mean: float, stderr: float, freedom: float) -> tuple[float, float]:
    """Return mean ± t · SE with the quantile of Student's t."""
    margin = t_quantile(freedom) * stderr
    return mean - margin, mean + margin


def clip(interval: tuple[float, float], bounds: Bounds) -> tuple[float, float]:
    """Return the part of the interval that is within the metric's bounds."""
    if bounds is None:
        return interval
    return max(interval[0], bounds[0]), min(interval[1], bounds[1])


def finite(bounds: Bounds) -> Bounds:
    """Return the bounds if both are finite, else None."""
    return bounds if bounds is not None and all(map(math.isfinite, bounds)) else None


def interval_of_mean(spread: Spread, bounds: Bounds) -> Interval:
    """Return the 95 % interval of a mean.

    It is Wilson's for independent 0/1 rows, Wilson's on an effective sample size for other values within bounds, a
    score interval for values with a single bound, and Student's t for values without bounds.

    With fewer than ten effective clusters, the interval is unreliable.

    If all rows have the same value, nothing is known about the next cluster, and Wilson's interval with n = G is used:
    of all distributions within bounds with that mean, 0/1 values vary most.
    """
    rows = "row" if spread.independent else "cluster"
    if spread.binary and spread.independent:
        stderr = None if spread.clusters == 1 or spread.constant else spread.stderr
        return Interval("wilson", *wilson(spread.mean * spread.n, spread.n), stderr)
    if spread.clusters == 1:
        return Interval(reason=f"one {rows}")
    if bounds is None:
        return interval_by_t(spread)
    low, high = bounds
    if finite(bounds) is None:
        return interval_by_score(spread, bounds)
    share = min(1.0, max(0.0, (spread.mean - low) / (high - low)))
    if spread.constant:
        limits, stderr = wilson(share * spread.clusters, spread.clusters), None
        method = f"wilson on {rows}s"
    else:
        variance = variance_of_mean(spread, bounds)
        limits = effective_wilson(share, variance / (high - low) ** 2, max(1.0, spread.effective_clusters - 1))
        method, stderr = "wilson on effective n", math.sqrt(variance)
    low, high = (low + (high - low) * limit for limit in limits)
    return Interval(method, low, high, stderr, reliable=is_reliable(spread))


def interval_by_t(spread: Spread, bounds: Bounds = None) -> Interval:
    """Return mean ± t · SE with the CR2 standard error and Bell and McCaffrey's (2002) degrees of freedom; G ≥ 2."""
    rows = "row" if spread.independent else "cluster"
    if spread.alike:
        return Interval(reason=f"no {rows} differs")
    limits = clip(t_interval(spread.mean, spread.stderr, spread.freedom), bounds)
    method = "t" if spread.independent else "clustered t"
    return Interval(method, *limits, spread.stderr, reliable=is_reliable(spread))


def interval_by_score(spread: Spread, bounds: tuple[float, float]) -> Interval:
    """Return the 95 % interval of a mean with one bound, e.g. of counts or of distances, which are never negative.

    See `score_limits`; standard error and degrees of freedom are those of `interval_by_t`. G ≥ 2.
    """
    by_t = interval_by_t(spread)
    if by_t.stderr is None:
        return by_t
    low, high = bounds
    limits = score_limits(spread.mean, by_t.stderr, spread.freedom, bounds)
    method = f"score below {high:g}" if math.isinf(low) else f"score above {low:g}"
    clustered = "" if spread.independent else "clustered "
    return Interval(f"{clustered}{method}", *limits, by_t.stderr, reliable=by_t.reliable)


def score_limits(mean: float, stderr: float, freedom: float, bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the score interval of a mean with one bound, which is what Wilson's becomes as its other bound moves away.

    It consists of the means μ with |m − μ| ≤ t · SE · √(μ / m), measured from the bound: as for counts, the variance is
    proportional to the mean. The product of its limits is m², so it never reaches the bound, and it extends further
    away from the bound than towards it, where means of skewed values are missed by Student's t.
    """
    low, high = bounds
    margin = t_quantile(freedom) * stderr
    if math.isinf(low):
        nearest, farthest = _around(high - mean, margin)
        return high - farthest, high - nearest
    nearest, farthest = _around(mean - low, margin)
    return low + nearest, low + farthest


def _around(mean: float, margin: float) -> tuple[float, float]:
    """Return the solutions of |m − μ| = d · √(μ / m) for m > 0."""
    half = margin**2 / (2 * mean)
    farthest = mean + half + math.sqrt(half * (2 * mean + half))
    return mean**2 / farthest, farthest


def is_reliable(spread: Spread) -> bool:
    """Return whether there are enough effective clusters. Independent rows are always trusted."""
    return spread.independent or spread.effective_clusters >= FEW_CLUSTERS


def variance_of_mean(spread: Spread, bounds: tuple[float, float]) -> float:
    """Return the larger of the clustered variance and that of a design effect (Kish 1965), for G ≥ 2.

    It is max{G / (G − 1) · Σ u_c² / N², (s̃² / N)(1 + (K − 1) ρ̃)} with K = Σ n_c² / N. Rare events may be missing from
    the sample, so two estimates are shrunk towards values of low precision, by priors that hardly count once there are
    a few events. With values scaled to [0, 1] and their mean m:

    * the intraclass correlation ρ̂ towards .2, by a prior worth one pair of events within a cluster:
      ρ̃ = (Q ρ̂ + .2) / (Q + 1), Q = Σ n_c(n_c − 1)/2 · (m(1 − m))²;
    * the variance of rows s² towards that of 0/1 values, by a prior worth half an event, or less if values scatter
      little relative to their distance from the bounds: s̃² = (E s² + h m(1 − m)) / (E + h) with
      E = N m(1 − m) / (1 + (K − 1) ρ̃) and h = min{1, s² / min(m, 1 − m)²} / 2. It hardly changes 0/1 values.
    """
    low, high = bounds
    share, scale = (spread.mean - low) / (high - low), (high - low) ** 2
    binary_variance = share * (1 - share)  # the variance of 0/1 values
    events = spread.pairs * binary_variance**2
    correlation = (events * spread.correlation + PRIOR_CORRELATION) / (events + 1)
    effect = 1 + (spread.squared_sizes / spread.n - 1) * correlation
    rows = (spread.between + spread.within) / (spread.n - 1) / scale
    prior = min(1.0, rows / min(share, 1 - share) ** 2) / 2
    drawn = (spread.n * binary_variance / effect * rows + prior * binary_variance) / (
        spread.n * binary_variance / effect + prior
    )
    clustered = spread.clusters / (spread.clusters - 1) * spread.squares / spread.n**2
    return max(clustered, scale * drawn / spread.n * effect)


def effective_wilson(share: float, variance: float, freedom: float) -> tuple[float, float]:
    """Return Wilson's interval on an effective sample size, with Student's t in place of z.

    The sample size is that at which independent 0/1 rows would have this variance (Korn and Graubard 1998; Dean and
    Pagano 2015; Franco et al. 2019).
    """
    n = share * (1 - share) / variance
    return wilson(share * n, n, quantile=t_quantile(freedom))


# ---- the cluster bootstrap: counts of the drawn clusters times the clusters' sums ------------------------------------


def blocks(resamples: int, width: int) -> Iterator[int]:
    """Yield numbers of resamples that add up to `resamples`, each with a (number, width) block of at most `CELLS`."""
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
    """Return the values of a statistic on `resamples` draws of G clusters with replacement, shape (resamples,).

    Args:
        sums: feature sums of the clusters, shape (c, k).
        combine: the statistic's function of sums, (..., k) → (...).
        seed: seed of the generator; the same seed gives the same values.
        repeats: number of clusters with each row of `sums`, shape (c,); 1 by default.
        resamples: number of resamples B.
    """
    distinct, index = np.unique(np.asarray(sums, dtype=np.float64), axis=0, return_inverse=True)
    # Clusters with the same sums are interchangeable, so only their numbers are drawn.
    repeated = np.bincount(index.reshape(-1), weights=repeats if repeats is None else np.asarray(repeats))
    drawn, share = int(repeated.sum()), repeated / repeated.sum()
    generator = np.random.default_rng(seed)
    values = [
        combine(generator.multinomial(drawn, share, size=size) @ distinct) for size in blocks(resamples, len(share))
    ]
    return np.concatenate(values)


def interval_of_statistic(values: Floats, method: str, shares: tuple[float, float] = TAILS) -> Interval:
    """Return the interval between two percentiles, and the standard error (SD of the values, not divided by √B).

    Args:
        values: values of the statistic on the resamples.
        method: name of the method.
        shares: the percentiles, by default those that leave out 2.5 % on each side.
    """
    if np.isnan(values).any():
        return Interval(reason=f"undefined in {int(np.isnan(values).sum())} of {len(values)} resamples")
    if np.ptp(values) <= ROUNDING_ERROR * max(1.0, float(np.abs(values).max())):
        return Interval(reason="every resample gives the same value")
    low, high = np.quantile(values, shares)
    return Interval(method, float(low), float(high), float(np.std(values, ddof=1)))


def corrected_tails(values: Floats, value: float, left_out: Floats, repeats: Floats) -> tuple[float, float]:
    """Return the percentiles of the bias-corrected and accelerated interval, BCa (Efron 1987, sections 2 to 4).

    Args:
        values: values of the statistic on the resamples, none of them NaN.
        value: value of the statistic on the data.
        left_out: its values without one of the clusters, shape (c,).
        repeats: number of clusters that each of them stands for, shape (c,).
    """
    normal = NormalDist()
    below = float(np.mean(values < value) + np.mean(values == value) / 2)
    bias = normal.inv_cdf(min(max(below, 1 / len(values)), 1 - 1 / len(values)))
    influence = float(repeats @ left_out / repeats.sum()) - left_out
    spread = float(repeats @ influence**2)
    acceleration = float(repeats @ influence**3) / (6 * spread**1.5) if spread > 0 else 0.0
    low, high = (
        normal.cdf(bias + moved / (1 - acceleration * moved))
        for moved in (bias + normal.inv_cdf(tail) for tail in TAILS)
    )
    return low, high
