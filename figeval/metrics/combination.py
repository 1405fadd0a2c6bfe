"""Interval of a mean of several means, e.g. over languages or over two kinds of examples.

Means of different rows are independent unless the rows share clusters, as translations of one story do; then they are
correlated. docs/statistics.md derives the interval and reports its simulated coverage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.intervals import FEW, Spread
from figeval.types import Interval

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
    return max(-1.0, estimate) * (1 - 1 / effective) if negative and effective >= FEW else 0.0


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
    is_sparse = shared and sizes.total() ** 2 < FEW * sum(size**2 for size in sizes.values())
    return not is_sparse and all(interval.reliable for interval in intervals)
