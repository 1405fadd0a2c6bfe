"""Scores over several trainings that differ in their seed only.

Both the seeds and the examples are samples. The spread over seeds alone says nothing about other examples, and the
interval of one training says nothing about other seeds; the intervals here cover both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.metrics.combination import Clustered, Combination, are_reliable, missing
from figeval.metrics.discrimination import Judged
from figeval.metrics.intervals import (
    Bounds,
    Spread,
    by_cluster,
    clip,
    effective_wilson,
    finite,
    interval_of_mean,
    is_reliable,
    score_limits,
    spread_of,
    t_interval,
    variance_of_mean,
)
from figeval.types import Interval, Score

Floats = NDArray[np.float64]
FEWEST_SEEDS = 3  # the variance of two seeds has only one degree of freedom (bench/README.md)


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """Mean and standard deviation (n − 1) of the trainings' scores; the latter is None for a single training."""

    mean: float
    sd: float | None


def over_seeds(scores: Sequence[float]) -> OverSeeds:
    """Return the mean and standard deviation of the scores of S ≥ 1 trainings."""
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
    return OverSeeds(float(np.mean(scores)), spread)


@dataclass(frozen=True, slots=True)
class SeededValues:
    """Values of S trainings on the same n examples.

    Attributes:
        values: value of each training on each example, shape (S, n).
        clusters: cluster of each example, or None if it is independent.
        bounds: bounds of the metric.
    """

    values: Floats
    clusters: Sequence[str | None]
    bounds: Bounds

    @property
    def scores(self) -> Floats:
        """Score of each training, shape (S,)."""
        scores: Floats = self.values.mean(axis=1)
        return scores

    @property
    def cluster_sums(self) -> dict[str, Floats]:
        """Sum and size of each cluster that has a name, for the examples' means over seeds."""
        sums: dict[str, Floats] = {}
        for value, cluster in zip(self.values.mean(axis=0), self.clusters, strict=True):
            if cluster is not None:
                sums.setdefault(cluster, np.zeros(2))
                sums[cluster] += value, 1.0
        return sums

    @property
    def spread(self) -> Spread:
        """Spread of the examples' means over seeds."""
        return spread_of(*by_cluster(self.values.mean(axis=0), self.clusters))

    def variances(self, spread: Spread) -> tuple[float, float]:
        """Return the two parts of the variance of the mean: from examples and from seeds (s² / S)."""
        limits = finite(self.bounds)
        examples = spread.stderr**2 if limits is None or spread.constant else variance_of_mean(spread, limits)
        return examples, float(self.scores.var(ddof=1)) / len(self.values)


def interval_over_seeds(values: ArrayLike, clusters: Sequence[str | None], bounds: Bounds) -> Interval:
    """Return the 95 % interval of a mean over seeds and examples, for at least three seeds.

    The variance is V = SE² + s² / S: the clustered variance of the examples' means over seeds, plus the variance of the
    S trainings' scores. Its degrees of freedom are Satterthwaite's (1946), V² / (SE⁴ / f + (s² / S)² / (S − 1)), where
    f is G_eff − 1 with two bounds and Bell and McCaffrey's otherwise. With two bounds, the interval is Wilson's on the
    effective sample size of V, with one bound the score interval; without bounds, it is mean ± t · √V. The interaction
    of seeds and examples is counted in both parts, so the interval errs on the wide side. If all values are equal, it
    is the interval of a single training.

    Args:
        values: values of every training on the same examples, shape (S, n).
        clusters: cluster of each example, or None if it is independent.
        bounds: bounds of the metric.
    """
    table = SeededValues(np.asarray(values, dtype=np.float64), clusters, bounds)
    seeds_used = len(table.values)
    if seeds_used < FEWEST_SEEDS:
        return Interval(reason="fewer than three seeds")
    if not table.values.size:
        return Interval(reason="no examples")
    spread = table.spread
    if spread.clusters < 2:
        return Interval(reason="one cluster")
    if spread.constant and float(table.scores.var(ddof=1)) == 0:
        single = interval_of_mean(spread, bounds)  # nothing is known about the next cluster or seed
        return Interval(reason="nothing differs") if single.low is None else single
    examples, seeds = table.variances(spread)
    of_examples = spread.freedom if finite(bounds) is None else max(1.0, spread.effective_clusters - 1)
    variance = examples + seeds
    freedom = variance**2 / (examples**2 / of_examples + seeds**2 / (seeds_used - 1))
    method, limits = _limits(spread.mean, variance, freedom, bounds)
    return Interval(f"{method} over seeds and examples", *limits, math.sqrt(variance), reliable=is_reliable(spread))


def _limits(mean: float, variance: float, freedom: float, bounds: Bounds) -> tuple[str, tuple[float, float]]:
    """Return the name of the method, and the limits of a mean with this variance."""
    if bounds is None:
        return "t", t_interval(mean, math.sqrt(variance), freedom)
    if finite(bounds) is None:
        return "score", score_limits(mean, math.sqrt(variance), freedom, bounds)
    low, high = bounds
    scaled = effective_wilson((mean - low) / (high - low), variance / (high - low) ** 2, freedom)
    return "wilson", clip((low + (high - low) * scaled[0], low + (high - low) * scaled[1]), bounds)


def discrimination_over_seeds(
    number: Callable[..., Score], seeds: Sequence[Sequence[Judged]], *, within: bool = False
) -> Interval:
    """Return the 95 % interval of a mean area or balanced accuracy over seeds and examples, for at least three seeds.

    Neither number is a mean over examples. The interval over examples treats each seed as a fold (`Judged.fold`), and
    all folds share their clusters; the interval over seeds is Student's. Their margins are combined as the root of the
    sum of squares (MOVER: Zou and Donner 2008). The interaction of seeds and examples is counted in both parts, so the
    interval errs on the wide side.

    Args:
        number: `auc` or `balanced_accuracy`.
        seeds: judgements of each training on the same examples, in the same order.
        within: argument `within` of `number`.
    """
    count = len(seeds)
    if count < FEWEST_SEEDS:
        return Interval(reason="fewer than three seeds")
    folds = [
        replace(
            judgement,
            fold=f"{seed} {judgement.fold}",
            cluster=f" {index}" if judgement.cluster is None else judgement.cluster,
        )
        for seed, judged in enumerate(seeds)
        for index, judgement in enumerate(judged)
    ]
    examples = number(folds, within=within)
    scores = [number(judged, within=within).value for judged in seeds]
    if examples.low is None or examples.high is None or examples.value is None:
        return examples.interval
    error = float(np.std(np.array(scores, dtype=np.float64), ddof=1)) / math.sqrt(count)
    margin = t_interval(0.0, error, count - 1)[1]
    low = examples.value - math.hypot(examples.value - examples.low, margin)
    high = examples.value + math.hypot(examples.high - examples.value, margin)
    stderr = None if examples.stderr is None else math.hypot(examples.stderr, error)
    limits = clip((low, high), (0.0, 1.0))
    return Interval("over seeds and examples", *limits, stderr, reliable=examples.interval.reliable)


def interval_over_languages(languages: Mapping[str, SeededValues]) -> Interval:
    """Return the 95 % interval of the unweighted mean over languages of means over seeds.

    The margins of the languages' own intervals over seeds and examples are combined by
    `figeval.metrics.combination.Combination`. The covariance of two languages has two parts, as their variances have:
    examples covary in clusters that the languages share, and scores covary because each training answers in all
    languages. Negative estimates of either part are taken as 0.
    """
    intervals = {
        name: interval_over_seeds(table.values, table.clusters, table.bounds) for name, table in languages.items()
    }
    if (absent := missing(intervals)) is not None:
        return absent
    tables = list(languages.values())
    spreads, cluster_sums = [table.spread for table in tables], [table.cluster_sums for table in tables]
    of_examples = Combination.of(list(map(Clustered, cluster_sums, spreads))).rho
    examples, seeds = np.array([table.variances(spread) for table, spread in zip(tables, spreads, strict=True)]).T
    of_seeds = np.atleast_2d(np.cov([table.scores for table in tables])) / len(tables[0].values)
    total = examples + seeds
    covariance = of_examples * np.sqrt(np.outer(examples, examples)) + of_seeds.clip(min=0)
    scale = np.sqrt(np.outer(total, total))
    together = Combination(np.divide(covariance, scale, out=np.eye(len(total)), where=scale > 0))
    lows, highs, errors = (
        [number for number in numbers if number is not None]
        for numbers in zip(
            *((interval.low, interval.high, interval.stderr) for interval in intervals.values()), strict=True
        )
    )
    low, high = together.interval([spread.mean for spread in spreads], lows, highs)
    stderr = together.margin(errors) if len(errors) == len(intervals) else None
    reliable = are_reliable(cluster_sums, intervals.values())
    return Interval("over languages, seeds and examples", low, high, stderr, reliable=reliable)
