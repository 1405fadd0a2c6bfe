"""Paired comparison of scores that are no means over examples: exchange of the two runs' answers (Noreen 1989)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.differences import may_be_missed, spread_of_differences, t_test, too_few, too_sparse
from figeval.metrics.intervals import (
    FEWEST_CLUSTERS,
    RESAMPLES,
    ROUNDING_ERROR,
    Spread,
    blocks,
    by_cluster,
    cluster_places,
    interval_of_statistic,
)
from figeval.metrics.paired import MAX_ENUMERATED_CLUSTERS, SIGN_FLIPS, PairedTest, all_coins, coins, drawn_p

PERMUTATION_AND_T = "permutation and t"  # the larger p-value counts
Floats = NDArray[np.float64]
Features = Sequence[float]  # numbers of an example whose sums give a score, see `figeval.metrics.statistic`
Combine = Callable[[Floats], Floats]


def statistic_over_languages(  # noqa: PLR0913 - two runs, and a score with its parts
    features_a: Mapping[str, Sequence[Features | None]],
    features_b: Mapping[str, Sequence[Features | None]],
    clusters: Mapping[str, Sequence[str | None]],
    combine: Combine,
    seed: int = 0,
    draws: int = SIGN_FLIPS,
    *,
    kinds: Mapping[str, int] = MappingProxyType({}),
) -> PairedTest:
    """Compare the unweighted means over languages of a score that is no mean over examples, e.g. macro-F1.

    The p-value comes from permutations: in each, the two runs' answers to a cluster are exchanged with probability 1/2,
    and the difference of the scores is computed anew from the exchanged sums (Noreen 1989; Yeh 2000). All 2^G patterns
    are tried for few clusters. A permutation whose score is undefined counts as extreme. If clusters differ in size, a
    t test must find the difference, too, and the larger p-value counts: that of a mean (`figeval.metrics.paired`), on
    what each example contributes to the difference. The interval is that of a cluster bootstrap that draws the same
    clusters for both runs, for at least 40 effective clusters.

    The sums of each language are kept apart, and a score is the mean of the languages' scores. A cluster is exchanged,
    and drawn, in all its languages at once. If a language has no common example, there is no comparison; if one has
    fewer than 40 effective clusters, also of one of the `kinds`, there is no interval.

    Args:
        features_a: for each language, numbers of run A for each example, shape (k,), or None if the metric does not
            apply. Examples in one language have the key "".
        features_b: numbers of run B, in the same order.
        clusters: cluster of each example, or None if it is independent.
        combine: the score as a function of sums, (..., k) → (...).
        seed: seed of the permutations and of the bootstrap.
        draws: largest number of permutations.
        kinds: kinds of examples, which are counted by the numbers at these places (`Statistic.kinds`).
    """
    rows = {
        language: [(a, b, cluster) for a, b, cluster in aligned if a is not None and b is not None]
        for language in features_a
        for aligned in [zip(features_a[language], features_b[language], clusters[language], strict=True)]
    }
    n = sum(map(len, rows.values()))
    if (empty := next((language for language, examples in rows.items() if not examples), None)) is not None:
        return PairedTest(n=n, clusters=0, note=f"no example{_in(empty)} that both runs answered")
    index = cluster_places([cluster for examples in rows.values() for *_, cluster in examples])
    groups, width = int(index.max()) + 1, len(next(iter(rows.values()))[0][0])
    sums, done, features = np.zeros((groups, 2, len(rows), width)), 0, []
    scarce = ""
    for number, (language, examples) in enumerate(rows.items()):
        groups_of_rows = index[done : done + len(examples)]
        features.append(np.array([row[:2] for row in examples], dtype=np.float64))
        np.add.at(sums[:, :, number], groups_of_rows, features[-1])
        done += len(examples)
        scarce = scarce or _find_scarcity(language, np.bincount(groups_of_rows), sums[:, 0, number], kinds)

    def mean(flat: Floats) -> Floats:
        scores = combine(flat.reshape(*flat.shape[:-1], len(rows), width))
        return np.asarray(scores.mean(axis=-1), dtype=np.float64)

    return _Exchange(sums.reshape(groups, 2, -1), index, features, mean, seed, draws).test(scarce)


def _in(language: str) -> str:
    return f" in {language}" if language else ""


def _find_scarcity(language: str, sizes: NDArray[np.int64], sums: Floats, kinds: Mapping[str, int]) -> str:
    """Return of what, or where, a language has too few effective clusters for an interval; empty if it has enough."""
    if language and _effective(sizes) < FEWEST_CLUSTERS:
        return _in(language)
    scarce = (kind for kind, column in kinds.items() if _effective(sums[:, column]) < FEWEST_CLUSTERS)
    kind = next(scarce, "")
    return f" of the {kind} kind{_in(language)}" if kind else ""


def _effective(sizes: NDArray[Any]) -> float:
    """Return N² / Σ n_c² of clusters of these sizes; 0 if all are empty."""
    return float(sizes.sum()) ** 2 / float(sizes @ sizes) if sizes.any() else 0.0


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Two runs' numbers, and the score of their sums.

    Attributes:
        sums: sums of the L languages by cluster, shape (G, 2, L · k).
        index: number of each row's cluster, shape (n,).
        features: numbers of the rows of each language, shape (n_l, 2, k).
    """

    sums: Floats
    index: NDArray[np.int64]
    features: Sequence[Floats]
    combine: Combine
    seed: int
    draws: int

    def test(self, scarce: str) -> PairedTest:
        """Return the comparison; `scarce` says of what, or where, there are too few clusters for an interval."""
        groups, effective = len(self.sums), _effective(np.bincount(self.index))
        value_a, value_b = (float(self.combine(run)) for run in self.sums.sum(axis=0))
        result = PairedTest(n=len(self.index), clusters=groups, effective_clusters=effective)
        if np.isnan((value_a, value_b)).any():
            return replace(result, note="the score of one of the runs is undefined")
        differing = int(self.differs.sum())
        result = replace(result, value_a=value_a, value_b=value_b, difference=value_a - value_b, differing=differing)
        if groups == 1:
            return replace(result, note="no test and no interval: all examples belong to one cluster")
        test, p = "permutation", self.p(abs(value_a - value_b))
        if not math.isclose(effective, groups) and (spread := self.spread()) is not None:
            test, p = PERMUTATION_AND_T, max(p, t_test(value_a - value_b, spread.stderr, spread.freedom))
        result = replace(result, test=test, p=p)
        if scarce or effective < FEWEST_CLUSTERS:
            unit = "examples" if groups == len(self.index) else "clusters"
            reason = f"no interval: fewer than {FEWEST_CLUSTERS} effective {unit}{scarce}"
            notes = reason, too_few(len(self.index), groups, effective), may_be_missed(len(self.index), groups, p)
            return replace(result, note="; ".join(filter(None, notes)))
        independent = groups == len(self.index)
        interval = interval_of_statistic(self.resample(), "bootstrap" if independent else "cluster bootstrap")
        return replace(
            result,
            interval=interval,
            freedom=None if interval.reason else math.inf,
            note=f"no interval: {interval.reason}"
            if interval.reason
            else too_sparse(differing, independent=independent),
        )

    @property
    def differs(self) -> NDArray[np.bool_]:
        """True for each cluster in which the sums of the runs differ, shape (G,)."""
        return np.asarray((self.sums[:, 0] != self.sums[:, 1]).any(axis=1))

    def p(self, observed: float) -> float:
        """Return the p-value of a difference between the scores."""
        total = self.sums.sum(axis=(0, 1))
        differing = self.sums[self.differs]
        if not len(differing):
            return 1.0
        fixed = self.sums.sum(axis=0) - differing.sum(axis=0)  # of clusters in which an exchange changes nothing
        least = observed - ROUNDING_ERROR * max(1.0, observed)

        def extreme(exchanged: Floats) -> NDArray[np.bool_]:
            sums_a = fixed[0] + differing[:, 0].sum(axis=0) + exchanged @ (differing[:, 1] - differing[:, 0])
            return ~(np.abs(self.combine(sums_a) - self.combine(total - sums_a)) < least)

        if len(differing) <= MAX_ENUMERATED_CLUSTERS:
            return float(extreme(all_coins(len(differing))).mean())
        generator = np.random.default_rng(self.seed)
        width = max(len(differing), differing.shape[-1])
        return drawn_p(lambda size: int(extreme(coins(generator, size, len(differing))).sum()), width, self.draws)

    def spread(self) -> Spread | None:
        """Return the spread of the rows' contributions to the difference; None if it is undefined, or if all are alike.

        The contribution is n times the change of the difference when the row is left out: x − y, less the mean of
        these, for a difference of means.
        """
        total = self.sums.sum(axis=0)
        scores = self.combine(total)
        parts = []
        for index, rows in enumerate(self.features):
            width = rows.shape[-1]
            columns = slice(index * width, (index + 1) * width)
            start = 0
            for size in blocks(len(rows), total.size):
                remaining = np.repeat(total[None], size, axis=0)
                remaining[..., columns] -= rows[start : start + size]
                parts.append(scores - self.combine(remaining))
                start += size
        changes = np.concatenate(parts) * len(self.index)
        if not np.isfinite(changes).all():
            return None
        spread = spread_of_differences(*by_cluster(changes[:, 0] - changes[:, 1], self.index.astype(str).tolist()))
        return None if spread.alike else spread

    def resample(self) -> Floats:
        """Return differences of the scores for draws of the clusters with replacement, shape (RESAMPLES,)."""
        generator, clusters = np.random.default_rng(self.seed), len(self.sums)
        differences = []
        for size in blocks(RESAMPLES, clusters):
            counts = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=size)
            differences.append(self.combine(counts @ self.sums[:, 0]) - self.combine(counts @ self.sums[:, 1]))
        return np.concatenate(differences)
