"""Streaming sums of a metric and the score made from them; memory grows with the clusters, not with the rows.

    statistic = mean_of(choice_accuracy)
    aggregator = MetricAggregator("acc", statistic)
    for example, prediction in answers:
        features = statistic.features(example, prediction)
        if features is not None:
            aggregator.add(example.cluster, features)
    score = aggregator.score(seed=0)

`GroupAggregator` does the same for minimal pairs, whose members must all be right.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from figeval.errors import DataError
from figeval.metrics.intervals import (
    FEWEST_CLUSTERS,
    MOST_UNDEFINED,
    Moments,
    Spread,
    corrected_tails,
    interval_of_mean,
    interval_of_statistic,
    resample,
    spread_of,
)
from figeval.metrics.statistic import Statistic
from figeval.types import Interval, Score

Floats = NDArray[np.float64]
ROUNDING = 1e-9  # a value this far beyond its bounds still counts as within them


@dataclass(slots=True)
class ClusterSums:
    """Number of rows and sum of their features for each cluster, in two flat arrays.

    `within` is the sum of squares of the first feature about the cluster means (Welford 1962).
    """

    within: float = 0.0
    indexes: dict[str, int] = field(default_factory=dict)
    rows: array[int] = field(default_factory=lambda: array("q"))
    sums: array[float] = field(default_factory=lambda: array("d"))

    def add(self, cluster: str, features: Sequence[float]) -> None:
        """Add one row."""
        index = self.indexes.setdefault(cluster, len(self.indexes))
        if index == len(self.rows):
            self.rows.append(0)
            self.sums.extend(0.0 for _ in features)
        else:
            step = features[0] - self.sums[index * len(features)] / self.rows[index]
            self.within += step * step * self.rows[index] / (self.rows[index] + 1)
        self.rows[index] += 1
        for offset, value in enumerate(features, index * len(features)):
            self.sums[offset] += value

    def matrix(self, k: int) -> Floats:
        """Return the sums, shape (G, k)."""
        return np.array(self.sums, dtype=np.float64).reshape(-1, k)


class MetricAggregator:
    """Sums of one metric, by cluster for rows that have one.

    A row without a cluster is independent of all others. For a mean, only the moments of such rows are kept; for other
    statistics, each distinct vector of features is kept once with its count (a confusion has few). The interval of a
    mean stays within 0 and 1, unless a row's value lies outside by more than rounding error.

    Args:
        name: name of the metric, for its score and for messages.
        statistic: statistic whose features are added.
        higher_is_better: whether a higher score is better, as the score records.
    """

    def __init__(self, name: str, statistic: Statistic, higher_is_better: bool = True) -> None:
        self.name = name
        self.statistic = statistic
        self.higher_is_better = higher_is_better
        self._bounds = statistic.bounds
        self.n = 0
        self._k = 0
        self._binary = statistic.bounds == (0.0, 1.0)
        self._clusters = ClusterSums()
        self._moments = Moments()
        self._vectors: Counter[tuple[float, ...]] = Counter()

    def add(self, cluster: str | None, features: Sequence[float]) -> None:
        """Add the features of one row, shape (k,).

        Raises:
            ValueError: a feature is NaN or infinite (a metric that does not apply returns None), or k changes.
        """
        values = tuple(map(float, features))
        if not all(map(math.isfinite, values)):
            raise ValueError(f"metric {self.name!r} gave {values}; return None where it does not apply")
        if self.n and len(values) != self._k:
            raise ValueError(f"metric {self.name!r} gave {len(values)} features after {self._k}")
        self.n += 1
        self._k = len(values)
        if self.statistic.is_mean and self._bounds:
            within = min(max(values[0], self._bounds[0]), self._bounds[1])
            if abs(values[0] - within) > ROUNDING:
                self._bounds = None  # a metric that leaves its supposed bounds has none
            else:
                values = (within, *values[1:])
        self._binary = self._binary and values[0] in (0.0, 1.0)
        if cluster is not None:
            self._clusters.add(cluster, values)
        elif self.statistic.is_mean:
            self._moments.add(values[0])
        else:
            self._vectors[values] += 1

    @property
    def clusters(self) -> int:
        """Number of independent groups that the rows form."""
        return len(self._clusters.rows) + self._moments.n + self._vectors.total()

    @property
    def effective_clusters(self) -> float:
        """Number of equally sized groups with the same precision, n² / Σ n_c² (Kish 1965), for n ≥ 1."""
        sizes = np.array(self._clusters.rows, dtype=np.float64)
        alone = self._moments.n + self._vectors.total()
        return self.n**2 / (float(sizes @ sizes) + alone)

    @property
    def width(self) -> int:
        """Number of features of a row."""
        return self._k

    def clusters_by_name(self) -> dict[str, Floats]:
        """Return the feature sums of the clusters that have a name, each of shape (k,)."""
        return dict(zip(self._clusters.indexes, self._clusters.matrix(self._k or 1), strict=True))

    def rows_alone(self) -> tuple[Floats, Floats]:
        """Return the distinct features of rows without a cluster, shape (v, k), and their counts; not for means."""
        vectors = np.array(list(self._vectors), dtype=np.float64).reshape(-1, self._k)
        return vectors, np.array(list(self._vectors.values()), dtype=np.float64)

    def spread(self) -> Spread:
        """Return the spread of the rows; only for a mean."""
        clusters = self._clusters.matrix(self._k)
        sums, sizes = clusters[:, 0], clusters[:, 1]
        return spread_of(sums, sizes, self._clusters.within, alone=self._moments, binary=self._binary)

    def score(self, seed: int = 0) -> Score:
        """Return the value and its 95 % interval; `seed` affects bootstrapped statistics only."""
        value, interval = self._scored(seed)
        return Score(
            metric=self.name,
            value=None if math.isnan(value) else value,
            interval=interval,
            n=self.n,
            clusters=self.clusters,
            effective_clusters=self._unequal(),
            higher_is_better=self.higher_is_better,
        )

    def _unequal(self) -> float | None:
        """Return the number of effective clusters, or None if it equals the number of clusters."""
        effective = self.effective_clusters if self.n else 0.0
        return None if math.isclose(effective, self.clusters) else effective

    def _scored(self, seed: int) -> tuple[float, Interval]:
        if not self.n:
            return math.nan, Interval(reason=self.statistic.absent)
        if self.statistic.is_mean:
            spread = self.spread()
            return spread.mean, interval_of_mean(spread, self._bounds)
        return self._bootstrapped(seed)

    def _bootstrapped(self, seed: int) -> tuple[float, Interval]:
        clusters, (vectors, counts) = self._clusters.matrix(self._k), self.rows_alone()
        sums = np.concatenate((clusters, vectors))
        repeats = np.concatenate((np.ones(len(clusters)), counts))
        value = float(self.statistic.combine(repeats @ sums))
        method, unit = ("bootstrap", "rows") if self.n == self.clusters else ("cluster bootstrap", "clusters")
        if math.isnan(value):
            return value, Interval(reason="undefined")
        if self.statistic.no_interval:
            return value, Interval(reason=self.statistic.no_interval)
        if self.effective_clusters < FEWEST_CLUSTERS:
            effective = "" if math.isclose(self.effective_clusters, self.clusters) else "effective "
            return value, Interval(reason=f"fewer than {FEWEST_CLUSTERS} {effective}{unit}")
        values = resample(sums, self.statistic.combine, seed, repeats)
        undefined = np.isnan(values)
        if not self.statistic.is_skewed or undefined.mean() > MOST_UNDEFINED:
            return value, interval_of_statistic(values, method)
        left_out = self.statistic.combine(repeats @ sums - sums)
        is_defined = ~np.isnan(left_out)
        defined = values[~undefined]
        shares = corrected_tails(defined, value, left_out[is_defined], repeats[is_defined])
        without = f", without {undefined.sum()} undefined resamples" if undefined.any() else ""
        return value, interval_of_statistic(defined, f"{method} (BCa){without}", shares)


class GroupAggregator:
    """Share of groups (e.g. minimal pairs) whose members are all right, named `<metric>_strict`.

    A member that is right with probability 1/t (a tie) counts with that probability, so the value of a group is the
    product over its members. A group with an unanswered member is left out: it is not known to be right or wrong.
    """

    def __init__(self, name: str, statistic: Statistic) -> None:
        self.name = f"{name}_strict"
        self.statistic = statistic
        self._groups: dict[str, tuple[str | None, float | None]] = {}

    def add(self, group: str, cluster: str | None, features: Sequence[float] | None) -> None:
        """Add one member of a group; its features are None if it has no answer.

        Raises:
            DataError: the group's members belong to several clusters.
        """
        value = None if features is None else float(features[0])
        group_cluster, product = self._groups.get(group, (cluster, 1.0))
        if group_cluster != cluster:
            raise DataError(
                f"group {group!r} has members in clusters {group_cluster!r} and {cluster!r}; "
                "give all members of a group the same `cluster`"
            )
        self._groups[group] = (cluster, None if value is None or product is None else value * product)

    def score(self, seed: int = 0) -> Score:
        """Return the share of complete groups that are right, with the interval of a mean over groups."""
        return self.groups().score(seed)

    def groups(self) -> MetricAggregator:
        """Return an aggregator of the complete groups, with one row for each."""
        aggregator = MetricAggregator(self.name, self.statistic)
        for cluster, product in self._groups.values():
            if product is not None:
                aggregator.add(cluster, (product, 1.0))
        return aggregator
