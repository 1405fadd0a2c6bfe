"""Sums that the interval of a mean rests on, computed from the sums and sizes of clusters of rows.

Rows that share a cluster (a proverb, an idiom) are not independent. All that an interval needs to know of them is how
far the clusters' sums lie from what the mean would have them be, how much rows vary within clusters, and how unequal
the clusters are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
NOTHING = 1e-12  # variation below this, relative to the values, is rounding


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
