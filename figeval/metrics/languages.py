"""The unweighted mean of a score over languages, and its 95 % interval.

Every language counts the same, however many rows it has. Languages have rows of their own, so their scores are
independent unless they share clusters, as the translations of one story do; then they are correlated.
docs/statistics.md derives the interval and has its simulated coverage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.intervals import FEW, Interval, Spread, interval_of_statistic, resample
from figeval.types import UNRELIABLE, Score

Floats = NDArray[np.float64]
NONE = "none: "  # begins the reason why there is no interval


@dataclass(frozen=True, slots=True)
class LanguageScore:
    """One language: its score, and the sums behind it."""

    language: str
    score: Score
    sums: MetricAggregator


def mean_over_languages(parts: Sequence[LanguageScore], seed: int = 0) -> Score:
    """Return the unweighted mean of one metric over languages.

    There is no value unless every language has one, and no interval unless every language has one.

    Args:
        parts: the languages, at least one.
        seed: of the bootstrap, for a metric that is no mean.
    """
    scores = [part.score for part in parts]
    values = [score.value for score in scores if score.value is not None]
    whole = len(values) == len(scores)
    own = {part.language: Interval(part.score.interval, part.score.low) for part in parts}
    interval = missing(own) or (spread(parts) if parts[0].sums.statistic.is_mean else bootstrap(parts, seed))
    named = [set(part.sums.clusters_by_name()) for part in parts]
    return Score(
        metric=scores[0].metric,
        value=math.fsum(values) / len(values) if whole else None,
        low=interval.low,
        high=interval.high,
        stderr=interval.stderr,
        n=sum(score.n for score in scores),
        clusters=sum(score.clusters for score in scores) - sum(map(len, named)) + len(set().union(*named)),
        interval=interval.method,
        higher_is_better=scores[0].higher_is_better,
    )


def missing(intervals: Mapping[str, Interval]) -> Interval | None:
    """Return why the mean has no interval, given those of the languages; None if all have one."""
    reasons = {language: interval.method for language, interval in intervals.items() if interval.low is None}
    if not reasons:
        return None
    language, reason = next(iter(reasons.items()))
    alike = len(reasons) == len(intervals) and len(set(reasons.values())) == 1
    return Interval(reason if alike else f"{NONE}in {language}, {reason.removeprefix(NONE)}")


@dataclass(frozen=True, slots=True)
class Clustered:
    """The rows of one language: (sum, size) of the clusters that have a name, and the spread of all."""

    named: Mapping[str, Floats]
    spread: Spread


def correlation(one: Clustered, other: Clustered) -> float:
    """Return the estimated correlation of two languages' means, between 0 and 1.

    Σ u_c v_c / √(Σ u_c² Σ v_c²), where u_c = S_c − n_c m is the residual of a cluster in the one language and v_c in
    the other; 0 if they share no cluster. If all clusters of a language are alike, nothing is known of the
    correlation, and the largest possible one takes its place: Σ n_c k_c / √(Σ n_c² Σ k_c²) with the clusters' sizes
    n_c and k_c.
    """
    shared = [name for name in one.named if name in other.named]
    if not shared:
        return 0.0
    left, right = (np.array([found.named[name] for name in shared]) for found in (one, other))
    spreads = one.spread, other.spread
    if any(spread.alike for spread in spreads):
        largest = math.sqrt(spreads[0].squared_sizes * spreads[1].squared_sizes)
        return min(1.0, float(left[:, 1] @ right[:, 1]) / largest)
    u, v = (found[:, 0] - found[:, 1] * spread.mean for found, spread in zip((left, right), spreads, strict=True))
    return min(1.0, max(0.0, float(u @ v) / math.sqrt(spreads[0].squares * spreads[1].squares)))


@dataclass(frozen=True, slots=True)
class Combination:
    """How the uncertainties of L languages add up in their mean; `rho` has the correlations, shape (L, L)."""

    rho: Floats

    @classmethod
    def of(cls, languages: Sequence[Clustered]) -> Combination:
        """Return that of these languages."""
        rho = np.eye(len(languages))
        for i, one in enumerate(languages):
            for j, other in enumerate(languages[:i]):
                rho[i, j] = rho[j, i] = correlation(one, other)
        return cls(rho)

    def margin(self, margins: Sequence[float]) -> float:
        """Return √(Σ ρ_kl d_k d_l) / L, the margin of the mean of numbers with the margins d_l."""
        own = np.array(margins)
        return math.sqrt(max(0.0, float(own @ self.rho @ own))) / len(own)

    def interval(self, values: Sequence[float], lows: Sequence[float], highs: Sequence[float]) -> tuple[float, float]:
        """Return the interval of the mean of scores m_l whose intervals go from a_l to b_l.

        From m − √(Σ ρ_kl (m_k − a_k)(m_l − a_l)) / L to m + √(Σ ρ_kl (b_k − m_k)(b_l − m_l)) / L, the method of
        variance estimates recovery (Zou and Donner 2008; Zou 2007 for ρ ≠ 0).
        """
        mean = math.fsum(values) / len(values)
        below = self.margin([value - low for value, low in zip(values, lows, strict=True)])
        above = self.margin([high - value for value, high in zip(values, highs, strict=True)])
        return mean - below, mean + above


def spread(parts: Sequence[LanguageScore]) -> Interval:
    """Return the interval of a mean of means."""
    together = Combination.of([Clustered(part.sums.clusters_by_name(), part.sums.spread()) for part in parts])
    scores = [part.score for part in parts]
    values, lows, highs, errors = (
        [number for number in found if number is not None]
        for found in zip(*((score.value, score.low, score.high, score.stderr) for score in scores), strict=True)
    )
    low, high = together.interval(values, lows, highs)
    stderr = together.margin(errors) if len(errors) == len(parts) else None
    named = [part.sums.clusters_by_name() for part in parts]
    return Interval(f"over languages{unreliable(named, [score.interval for score in scores])}", low, high, stderr)


def bootstrap(parts: Sequence[LanguageScore], seed: int) -> Interval:
    """Return the percentiles of a mean of statistics that are no means: clusters are drawn with all of their rows, in
    whatever languages these are.
    """
    combine = parts[0].sums.statistic.combine
    k = parts[0].sums.width
    named: dict[str, Floats] = {}
    alone: list[tuple[Floats, Floats]] = []
    for place, part in enumerate(parts):
        for name, sums in part.sums.clusters_by_name().items():
            named.setdefault(name, np.zeros((len(parts), k)))[place] = sums
        vectors, repeats = part.sums.rows_alone()
        block = np.zeros((len(vectors), len(parts), k))
        block[:, place] = vectors
        alone.append((block, repeats))
    sums = np.concatenate([np.array(list(named.values())).reshape(-1, len(parts), k), *(block for block, _ in alone)])
    repeats = np.concatenate([np.ones(len(named)), *(repeats for _, repeats in alone)])

    def mean(flat: Floats) -> Floats:
        values: Floats = np.mean(combine(flat.reshape(*flat.shape[:-1], len(parts), k)), axis=-1)
        return values

    values = resample(sums.reshape(len(sums), -1), mean, seed, repeats)
    return interval_of_statistic(values, f"{'cluster ' if named else ''}bootstrap over languages")


def unreliable(named: Sequence[Mapping[str, Floats]], methods: Sequence[str]) -> str:
    """Return the mark of an unreliable interval where a language's own is unreliable, or where their correlation is
    estimated from few clusters.

    Args:
        named: (sum, size) of the clusters that have a name, by language.
        methods: behind the languages' own intervals.
    """
    sizes: Counter[str] = Counter()
    for clusters in named:
        sizes.update({name: int(sums[1]) for name, sums in clusters.items()})
    shared = sum(map(len, named)) > len(sizes)
    few = shared and sizes.total() ** 2 < FEW * sum(size**2 for size in sizes.values())
    return UNRELIABLE if few or any(method.endswith(UNRELIABLE) for method in methods) else ""
