"""Studies of areas under the ROC curve and of balanced accuracies for `bench/coverage.py`.

The examples are of two kinds, in clusters of one kind each, in clusters with both kinds, and unclustered; there are
equally many of either kind, or few of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import clustered
import numpy as np
from clustered import (
    CHECKED,
    Row,
    cell,
    effective,
    figeval,
    measure_coverage,
    real,
    score_interval,
    seeded_generator,
    uneven,
)
from scipy.special import ndtri, stdtrit
from scipy.stats import norm, rankdata

from figeval.metrics.discrimination import Judged, auc, balanced_accuracy

AREAS = (0.5, 0.7, 0.9, 0.99)
ACCURACIES = ((0.5, 0.5), (0.9, 0.7), (0.99, 0.5), (0.99, 0.1))
CORRELATION = 0.3
MIN_CLUSTERS = 10
Limits = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class TwoKindDesign:
    """A design: `sizes`, of shape (G, 2), has the number of positive and of negative examples in each cluster."""

    sizes: np.ndarray

    @property
    def rows(self) -> list[np.ndarray]:
        """Cluster of each positive and of each negative example."""
        return [np.repeat(np.arange(len(self.sizes)), counts) for counts in self.sizes.T]

    @property
    def is_unclustered(self) -> bool:
        """True if no example shares a cluster."""
        return bool((self.sizes.sum(axis=1) == 1).all())


def designs() -> dict[str, TwoKindDesign]:
    def separate(positive: list[int], negative: list[int]) -> TwoKindDesign:
        return TwoKindDesign(np.array([*((size, 0) for size in positive), *((0, size) for size in negative)]))

    def mixed(clusters: int, positive: int, negative: int) -> TwoKindDesign:
        """Return a design with the same numbers of positive and negative examples in every cluster."""
        return TwoKindDesign(np.full((clusters, 2), (positive, negative)))

    areas = {
        f"{m} and {n}": separate([1] * m, [1] * n) for m, n in ((10, 1000), (30, 300), (18, 18), (30, 30), (200, 200))
    }
    areas |= {"10 × 3 and 100 × 3": separate([3] * 10, [3] * 100), "30 × 1 and 30 × 10": separate([1] * 30, [10] * 30)}
    for clusters, m, n in ((10, 1, 100), (30, 1, 10), (10, 3, 30), (20, 6, 6), (50, 5, 5), (250, 2, 2)):
        areas[f"{clusters} × ({m} + {n})"] = mixed(clusters, m, n)
    for name, sizes in (uneven() | real()).items():
        if name in ("lognormal 50 (c)", "impli_idioms_gold_ent"):
            areas[f"{name}, mixed"] = TwoKindDesign(np.stack([(sizes + 1) // 2, sizes // 2], axis=1))
    return areas


def areas() -> Iterator[Row]:
    """Yield the coverage of areas under the ROC curve.

    Scores are sums of normal components of the cluster (.3) and the row (.7); those of positive examples are shifted
    upwards. With ties, scores are rounded to whole numbers; with other variance, the standard deviation of positive
    examples is three times as large.
    """
    for name, design in designs().items():
        for case in ("", "ties", "other variance"):
            for area in AREAS:
                generator = seeded_generator("auc", name, case, area)
                noise = normal_rows(generator, design, 0.0 if design.is_unclustered else CORRELATION)
                wider = 3.0 if case == "other variance" else 1.0
                scores = [noise[0] * wider + np.sqrt(1 + wider**2) * ndtri(area), noise[1]]
                if case == "ties":
                    scores = [np.floor(kind_scores) for kind_scores in scores]
                shares = placements(scores)
                value = shares[0].mean(axis=1)
                rules = {"figeval": over_kinds(shares, design, 2.0), "one variance": one_variance(shares, design, 1.0)}
                check(scores, design, rules["figeval"])
                columns = describe_cell("auc", name, design, case, area)
                for rule, limits in rules.items():  # pairs within a cluster have another expected area
                    yield {**columns, "rule": rule, **measure_coverage(*limits, float(value.mean()))}


def accuracies() -> Iterator[Row]:
    """Yield the coverage of balanced accuracies, with right answers drawn by a normal copula.

    A cluster leans towards one of the answers, or is easy for both kinds.
    """
    for name, design in designs().items():
        for case in ("",) if design.is_unclustered else ("leaning", "easy"):
            for pair in ACCURACIES:
                generator = seeded_generator("balanced_acc", name, case, *pair)
                noise = normal_rows(generator, design, 0.0 if design.is_unclustered else CORRELATION)
                if case == "easy":
                    noise[1] = -noise[1]
                right = [(noise[0] < ndtri(pair[0])).astype(float), (-noise[1] < ndtri(pair[1])).astype(float)]
                rules = {"figeval": over_kinds(right, design, 1.0), "one variance": one_variance(right, design, 0.5)}
                check(right, design, rules["figeval"])
                columns = describe_cell("balanced_acc", name, design, case, " ".join(map(str, pair)))
                for rule, limits in rules.items():
                    yield {**columns, "rule": rule, **measure_coverage(*limits, float(np.mean(pair)))}


def describe_cell(study: str, name: str, design: TwoKindDesign, case: str, p: float | str) -> Row:
    """Return the columns that describe a cell; its clusters are those of the kind that has fewer."""
    kinds = [counts[counts > 0] for counts in design.sizes.T]
    columns = cell(study, name, np.concatenate(kinds), case, p, 0.0 if design.is_unclustered else CORRELATION)
    return columns | {"clusters": min(map(len, kinds)), "effective": round(min(map(effective, kinds)), 1)}


def normal_rows(generator: np.random.Generator, design: TwoKindDesign, correlation: float) -> list[np.ndarray]:
    """Draw standard normal numbers for positive and for negative examples, shape (R, n) each."""
    common = np.sqrt(correlation) * generator.standard_normal((clustered.REPLICATES, len(design.sizes)))
    return [
        common[:, rows] + np.sqrt(1 - correlation) * generator.standard_normal((len(common), len(rows)))
        for rows in design.rows
    ]


def placements(scores: list[np.ndarray]) -> list[np.ndarray]:
    """Compute `figeval.metrics.discrimination.placements` by ranks, for all replicates at once."""
    positive, negative = scores
    m, n = positive.shape[1], negative.shape[1]
    ranks = rankdata(np.concatenate(scores, axis=1), axis=1)
    below = (ranks[:, :m] - rankdata(positive, axis=1)) / n
    return [below, 1 - (ranks[:, m:] - rankdata(negative, axis=1)) / m]


# ---- rules ----------------------------------------------------------------------------------------------------------


def over_kinds(shares: list[np.ndarray], design: TwoKindDesign, reach: float) -> Limits:
    """Combine the intervals of both kinds' means as figeval does."""
    sums = [
        sum_by_cluster(kind_shares, rows, len(design.sizes))
        for kind_shares, rows in zip(shares, design.rows, strict=True)
    ]
    means = [kind_shares.mean(axis=1) for kind_shares in shares]
    margins, alike = [], np.zeros(len(means[0]), bool)
    for kind_shares, total, sizes, mean in zip(shares, sums, design.sizes.T, means, strict=True):
        has = sizes > 0
        squares = np.square(total[:, has] / sizes[has]) @ sizes[has]
        within = np.maximum(0.0, np.square(kind_shares).sum(axis=1) - squares)
        if reach == 1 and (sizes <= 1).all():  # independent 0/1 rows
            low, high = score_interval(mean, np.array(float(sizes.sum())), norm.ppf(0.975))
        else:
            low, high = figeval(total[:, has], sizes[has], np.where(within < 1e-9, 0.0, within))
        margins.append((mean - low, high - mean))
        residuals = np.square(total[:, has] - sizes[has] * mean[:, None]).sum(axis=1)
        alike |= residuals < 1e-18 * sizes.sum() ** 2
    rho = correlations(sums, design.sizes.T, means, alike, largest=reach == 1)
    ends = [
        reach * np.sqrt(np.maximum(0.0, positive**2 + negative**2 + 2 * rho * positive * negative)) / 2
        for positive, negative in zip(*margins, strict=True)
    ]
    centre = (means[0] + means[1]) / 2
    return np.maximum(0, centre - ends[0]), np.minimum(1, centre + ends[1])


def correlations(
    sums: list[np.ndarray], sizes: np.ndarray, means: list[np.ndarray], alike: np.ndarray, *, largest: bool
) -> np.ndarray:
    """Compute `figeval.metrics.combination.correlation` of the two kinds for all replicates at once; shape (R,)."""
    shared = (sizes > 0).all(axis=0)
    if not shared.any():
        return np.zeros(len(alike))
    u, v = (kind_sums - size * mean[:, None] for kind_sums, size, mean in zip(sums, sizes, means, strict=True))
    product = np.sqrt(np.square(u).sum(axis=1) * np.square(v).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = np.clip(np.where(alike, 0, (u * v)[:, shared].sum(axis=1) / product), -1, 1)
    both = sizes[:, shared].sum(axis=0)
    clusters = both.sum() ** 2 / (both**2).sum()
    rho = np.where(rho < 0, rho * (1 - 1 / clusters) if clusters >= MIN_CLUSTERS else 0.0, rho)
    max_rho = (sizes[0] * sizes[1]).sum() / np.sqrt((sizes[0] ** 2).sum() * (sizes[1] ** 2).sum()) if largest else 0.0
    return np.where(alike, max_rho, rho)


def one_variance(shares: list[np.ndarray], design: TwoKindDesign, part: float) -> Limits:
    """Return Wilson's interval with one variance for both kinds, as in an earlier version of figeval.

    The sample size is that implied by the CR2 variance of the clusters' influences; the degrees of freedom are at most
    those of the kind with fewer clusters.
    """
    value = (shares[0].mean(axis=1) + shares[1].mean(axis=1)) / 2
    influence = np.zeros((len(value), len(design.sizes)))
    for kind_shares, rows in zip(shares, design.rows, strict=True):
        influence += (
            part * sum_by_cluster(kind_shares - kind_shares.mean(axis=1)[:, None], rows, len(design.sizes)) / len(rows)
        )
    share = design.sizes.sum(axis=1) / design.sizes.sum()
    variance = (np.square(influence) / (1 - share)).sum(axis=1)
    b = share**2 / (1 - share)
    freedom = 1 / ((share**2).sum() + b.sum() ** 2 - (b**2).sum())
    kinds = [counts[counts > 0] for counts in design.sizes.T]
    quantile = stdtrit(max(1.0, min(freedom, min(map(effective, kinds)) - 1)), 0.975)
    is_constant = variance < 1e-18
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(is_constant, min(map(len, kinds)), value * (1 - value) / variance)
    low, high = score_interval(value, size, np.where(is_constant, norm.ppf(0.975), quantile))
    has_no_interval = is_constant & (value > 0) & (value < 1)  # that rule gave no interval here, which does not cover
    return np.where(has_no_interval, np.nan, low), np.where(has_no_interval, np.nan, high)


def sum_by_cluster(values: np.ndarray, rows: np.ndarray, clusters: int) -> np.ndarray:
    """Sum rows, which are in the order of their clusters, by cluster; shape (R, n) → (R, G)."""
    sums = np.zeros((len(values), clusters))
    present, starts = np.unique(rows, return_index=True)
    sums[:, present] = np.add.reduceat(values, starts, axis=1)
    return sums


def check(values: list[np.ndarray], design: TwoKindDesign, limits: Limits) -> None:
    """Compare the first replicates with figeval's own results."""
    metric, key = (balanced_accuracy, "right") if set(np.unique(values[0][:CHECKED])) <= {0.0, 1.0} else (auc, "score")
    for replicate in range(min(CHECKED, 3)):
        examples = [
            Judged(positive=kind == 0, cluster=None if design.is_unclustered else str(cluster), **{key: float(value)})
            for kind, (kind_values, rows) in enumerate(zip(values, design.rows, strict=True))
            for value, cluster in zip(kind_values[replicate], rows, strict=True)
        ]
        score = metric(examples)
        bounds = (limits[0][replicate], limits[1][replicate])
        assert np.allclose((score.low, score.high), bounds, atol=1e-7), (score, bounds)
