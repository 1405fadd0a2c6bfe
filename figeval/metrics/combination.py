"""Interval of a mean of several means, e.g. over languages or over two kinds of examples.

In a mean over languages, every language counts the same, however many rows it has. Means of different rows are
independent unless the rows share clusters, as translations of one story do; then they are correlated.
docs/appendix/statistics.md has the formulas, bench/README.md the simulated coverage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.intervals import FEW_CLUSTERS, Spread, interval_of_statistic, resample
from figeval.types import Interval, Score

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Clustered:
    """Rows behind one mean: (sum, size) of each cluster that has a name, and the spread of all rows."""

    cluster_sums: Mapping[str, Floats]
    spread: Spread


def correlation(first: Clustered, second: Clustered, *, negative: bool = False) -> float:
    """Return the estimated correlation of two means; 0 if they share no cluster.

    It is Σ u_c v_c / √(Σ u_c² Σ v_c²), where u_c = S_c − n_c m is the residual of a cluster in the first mean and v_c
    in the second. If all clusters of a mean are alike, the correlation cannot be estimated, and the largest possible
    one is used: Σ n_c k_c / √(Σ n_c² Σ k_c²) with the clusters' sizes n_c and k_c.

    Args:
        first: rows behind the first mean.
        second: rows behind the second mean.
        negative: accept a negative estimate, which makes intervals shorter, if it rests on K ≥ 10 effective clusters,
            and shrink it towards 0 by 1 / K. Otherwise it is taken as 0: few clusters produce it by chance.
    """
    shared = [name for name in first.cluster_sums if name in second.cluster_sums]
    if not shared:
        return 0.0
    left, right = (np.array([rows.cluster_sums[name] for name in shared]) for rows in (first, second))
    spreads = first.spread, second.spread
    if any(spread.alike for spread in spreads):
        largest = math.sqrt(spreads[0].squared_sizes * spreads[1].squared_sizes)
        return min(1.0, float(left[:, 1] @ right[:, 1]) / largest)
    u, v = (sums[:, 0] - sums[:, 1] * spread.mean for sums, spread in zip((left, right), spreads, strict=True))
    estimate = float(u @ v) / math.sqrt(spreads[0].squares * spreads[1].squares)
    if estimate >= 0:
        return min(1.0, estimate)
    sizes = left[:, 1] + right[:, 1]
    effective = float(sizes.sum() ** 2 / (sizes @ sizes))
    return max(-1.0, estimate) * (1 - 1 / effective) if negative and effective >= FEW_CLUSTERS else 0.0


@dataclass(frozen=True, slots=True)
class Combination:
    """Combination of the uncertainties of L means in their mean; `rho` has their correlations, shape (L, L)."""

    rho: Floats

    @classmethod
    def of(cls, means: Sequence[Clustered]) -> Combination:
        """Return the combination of the means of these rows; negative correlations are taken as 0."""
        rho = np.eye(len(means))
        for i, mean in enumerate(means):
            for j, other in enumerate(means[:i]):
                rho[i, j] = rho[j, i] = correlation(mean, other)
        return cls(rho)

    def margin(self, margins: Sequence[float]) -> float:
        """Return √(Σ ρ_kl d_k d_l) / L, the margin of a mean of numbers with the margins d_l."""
        d = np.array(margins)
        return math.sqrt(max(0.0, float(d @ self.rho @ d))) / len(d)

    def interval(self, values: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> tuple[float, float]:
        """Return the interval of the mean of scores m_l with the intervals from a_l to b_l.

        It goes from m − √(Σ ρ_kl (m_k − a_k)(m_l − a_l)) / L to m + √(Σ ρ_kl (b_k − m_k)(b_l − m_l)) / L, by the method
        of variance estimates recovery (Zou and Donner 2008; Zou 2007 for ρ ≠ 0).
        """
        mean = math.fsum(values) / len(values)
        below = self.margin([value - low for value, low in zip(values, lows, strict=True)])
        above = self.margin([high - value for value, high in zip(values, highs, strict=True)])
        return mean - below, mean + above


def are_reliable(cluster_sums: Sequence[Mapping[str, Floats]], intervals: Iterable[Interval]) -> bool:
    """Return whether the interval of a mean of means is reliable.

    It is not if that of one of the means is not, or if their correlation is estimated from few clusters.

    Args:
        cluster_sums: (sum, size) of the clusters that have a name, for each mean.
        intervals: the means' intervals.
    """
    sizes: Counter[str] = Counter()
    for clusters in cluster_sums:
        sizes.update({name: int(sums[1]) for name, sums in clusters.items()})
    shared = sum(map(len, cluster_sums)) > len(sizes)
    is_sparse = shared and sizes.total() ** 2 < FEW_CLUSTERS * sum(size**2 for size in sizes.values())
    return not is_sparse and all(interval.reliable for interval in intervals)


@dataclass(frozen=True, slots=True)
class LanguageScore:
    """Score of one language, with the sums behind it."""

    language: str
    score: Score
    sums: MetricAggregator


def mean_over_languages(parts: Sequence[LanguageScore], seed: int = 0) -> Score:
    """Return the unweighted mean of one metric over languages.

    There is a value only if every language has one, and an interval only if every language has one.

    Args:
        parts: scores of the languages, at least one.
        seed: seed of the bootstrap, for a metric that is not a mean.
    """
    scores = [part.score for part in parts]
    values = [score.value for score in scores if score.value is not None]
    is_complete = len(values) == len(scores)
    # A language without a value comes first: it explains why the mean has none.
    by_value = sorted(parts, key=lambda part: part.score.value is not None)
    intervals = {part.language: part.score.interval for part in by_value}
    interval = missing(intervals) or (spread(parts) if parts[0].sums.statistic.is_mean else bootstrap(parts, seed))
    cluster_names = [set(part.sums.clusters_by_name()) for part in parts]
    return Score(
        metric=scores[0].metric,
        value=math.fsum(values) / len(values) if is_complete else None,
        interval=interval,
        n=sum(score.n for score in scores),
        clusters=sum(score.clusters for score in scores)
        - sum(map(len, cluster_names))
        + len(set().union(*cluster_names)),
        higher_is_better=scores[0].higher_is_better,
    )


def missing(intervals: Mapping[str, Interval]) -> Interval | None:
    """Return an interval that says why the mean has none, or None if all languages have intervals."""
    reasons = {language: interval.reason for language, interval in intervals.items() if interval.low is None}
    if not reasons:
        return None
    language, reason = next(iter(reasons.items()))
    alike = len(reasons) == len(intervals) and len(set(reasons.values())) == 1
    return Interval(reason=reason if alike else f"in {language}, {reason}")


def spread(parts: Sequence[LanguageScore]) -> Interval:
    """Return the interval of a mean of means."""
    together = Combination.of([Clustered(part.sums.clusters_by_name(), part.sums.spread()) for part in parts])
    scores = [part.score for part in parts]
    values, lows, highs, errors = (
        [number for number in numbers if number is not None]
        for numbers in zip(*((score.value, score.low, score.high, score.stderr) for score in scores), strict=True)
    )
    low, high = together.interval(values, lows, highs)
    stderr = together.margin(errors) if len(errors) == len(parts) else None
    cluster_sums = [part.sums.clusters_by_name() for part in parts]
    reliable = are_reliable(cluster_sums, [score.interval for score in scores])
    return Interval("over languages", low, high, stderr, reliable=reliable)


def bootstrap(parts: Sequence[LanguageScore], seed: int) -> Interval:
    """Return the percentile interval of a mean of statistics that are not means.

    A cluster is drawn with all of its rows, in all languages.
    """
    combine = parts[0].sums.statistic.combine
    k = parts[0].sums.width
    cluster_sums: dict[str, Floats] = {}
    alone: list[tuple[Floats, Floats]] = []
    for index, part in enumerate(parts):
        for name, sums in part.sums.clusters_by_name().items():
            cluster_sums.setdefault(name, np.zeros((len(parts), k)))[index] = sums
        vectors, repeats = part.sums.rows_alone()
        block = np.zeros((len(vectors), len(parts), k))
        block[:, index] = vectors
        alone.append((block, repeats))
    sums = np.concatenate(
        [np.array(list(cluster_sums.values())).reshape(-1, len(parts), k), *(block for block, _ in alone)]
    )
    repeats = np.concatenate([np.ones(len(cluster_sums)), *(repeats for _, repeats in alone)])

    def mean(flat: Floats) -> Floats:
        values: Floats = np.mean(combine(flat.reshape(*flat.shape[:-1], len(parts), k)), axis=-1)
        return values

    values = resample(sums.reshape(len(sums), -1), mean, seed, repeats)
    return interval_of_statistic(values, f"{'cluster ' if cluster_sums else ''}bootstrap over languages")
