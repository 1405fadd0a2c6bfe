"""Unweighted mean of a score over languages, with its 95 % interval.

Every language counts the same, however many rows it has. Languages have separate rows, so their scores are independent
unless they share clusters, as translations of one story do; then they are correlated. docs/statistics.md derives the
interval and reports its simulated coverage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.combination import Clustered, Combination, are_reliable
from figeval.metrics.intervals import interval_of_statistic, resample
from figeval.types import Interval, Score

Floats = NDArray[np.float64]


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
    intervals = {part.language: part.score.interval for part in parts}
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
