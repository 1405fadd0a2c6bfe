"""Study of means over languages for `bench/coverage.py`.

The languages differ in size and accuracy; each cluster has rows in one language or in all languages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import clustered
import numpy as np
from clustered import (
    CHECKED,
    Row,
    Sizes,
    cell,
    effective,
    equal,
    figeval,
    lognormal,
    measure_coverage,
    seeded_generator,
)
from scipy.stats import beta, binom, norm

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.combination import LanguageScore, mean_over_languages
from figeval.metrics.statistic import mean_of

PAIRS = ((0.5, 0.5), (0.8, 0.3), (0.95, 0.05), (0.98, 0.7))
CORRELATIONS = (0.0, 0.1, 0.3)
SHARED = {"no cluster shared": None, "shared, half alike": 0.5, "shared, alike": 1.0}


def designs() -> dict[str, list[Sizes]]:
    """Return designs: the cluster sizes of each language."""
    same = {
        f"{name}, twice": [sizes, sizes] for name, sizes in equal().items() if name in ("10 × 25", "20 × 12", "50 × 10")
    }
    return {
        **same,
        "20 × 12, four times": [equal()["20 × 12"]] * 4,
        "50 × 10 and 12 × 10": [equal()["50 × 10"], np.full(12, 10)],
        "lognormal 50 (c), twice": [lognormal(50, 2)] * 2,
    }


def languages() -> Iterator[Row]:
    """Yield the coverage of the mean over languages; if clusters are shared, also as if they were not."""
    for name, sizes in designs().items():
        for case, alike in SHARED.items():
            if alike is not None and len({len(language_sizes) for language_sizes in sizes}) > 1:
                continue
            for pair in PAIRS:
                for correlation in CORRELATIONS:
                    if alike is None or correlation:
                        yield from one_cell(name, sizes, case, alike, pair, correlation)


def one_cell(
    name: str, sizes: list[Sizes], case: str, alike: float | None, pair: Sequence[float], correlation: float
) -> Iterator[Row]:
    """Yield the results of each rule for one cell."""
    truths = [pair[index % 2] for index in range(len(sizes))]
    generator = seeded_generator("languages", name, case, *pair, correlation)
    right = draw_counts(generator, sizes, truths, correlation, alike)
    limits = [
        figeval(counts, language_sizes, (counts - counts**2 / language_sizes).sum(axis=1))
        for counts, language_sizes in zip(right, sizes, strict=True)
    ]
    means = np.array(
        [counts.sum(axis=1) / language_sizes.sum() for counts, language_sizes in zip(right, sizes, strict=True)]
    )
    rho = correlations(right, sizes, means) if alike is not None else np.tile(np.eye(len(sizes)), (len(means[0]), 1, 1))
    rules = {"figeval": rho}
    if alike is not None:
        rules["independent languages"] = np.tile(np.eye(len(sizes)), (len(means[0]), 1, 1))
    columns = cell("languages", name, np.concatenate(sizes), case, " ".join(map(str, pair)), correlation)
    columns |= {"clusters": min(map(len, sizes)), "effective": round(min(map(effective, sizes)), 1)}
    for rule, rule_rho in rules.items():
        low, high = combine_limits(means, limits, rule_rho)
        if rule == "figeval":
            check(right, sizes, alike is not None, low, high)
        yield {**columns, "rule": rule, **measure_coverage(low, high, float(np.mean(truths)))}


def draw_counts(
    generator: np.random.Generator,
    sizes: list[Sizes],
    truths: Sequence[float],
    correlation: float,
    alike: float | None,
) -> list[np.ndarray]:
    """Draw the number of right rows per cluster for each language, shape (R, G).

    The accuracies of shared clusters are drawn by a normal copula.
    """
    counts_by_language = []
    common = generator.standard_normal((clustered.REPLICATES, len(sizes[0])))
    for language_sizes, p in zip(sizes, truths, strict=True):
        if alike is None or correlation == 0:
            chances = clustered.accuracies(generator, len(language_sizes), p, correlation)
        else:
            noise = generator.standard_normal(common.shape)
            total = 1 / correlation - 1
            quantiles = norm.cdf(np.sqrt(alike) * common + np.sqrt(1 - alike) * noise)
            chances = beta.ppf(np.clip(quantiles, 1e-12, 1 - 1e-12), p * total, (1 - p) * total)
        counts_by_language.append(binom.rvs(language_sizes, chances, random_state=generator).astype(float))
    return counts_by_language


def correlations(right: list[np.ndarray], sizes: list[Sizes], means: np.ndarray) -> np.ndarray:
    """Compute `figeval.metrics.combination.correlation` for all replicates at once; shape (R, L, L)."""
    residuals = [
        counts - language_sizes * mean[:, None]
        for counts, language_sizes, mean in zip(right, sizes, means, strict=True)
    ]
    rho = np.tile(np.eye(len(sizes)), (len(means[0]), 1, 1))
    for i, first in enumerate(residuals):
        for j, second in enumerate(residuals[:i]):
            product = np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
            largest = (sizes[i] * sizes[j]).sum() / np.sqrt((sizes[i] ** 2).sum() * (sizes[j] ** 2).sum())
            with np.errstate(divide="ignore", invalid="ignore"):
                estimate = np.where(product > 1e-12, (first * second).sum(axis=1) / product, largest)
            rho[:, i, j] = rho[:, j, i] = np.clip(estimate, 0, 1)
    return rho


def combine_limits(
    means: np.ndarray, limits: Sequence[tuple[np.ndarray, ...]], rho: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the limits of the mean, shape (R,)."""
    below = np.array([mean - low for mean, (low, _) in zip(means, limits, strict=True)])
    above = np.array([high - mean for mean, (_, high) in zip(means, limits, strict=True)])
    margins = [np.sqrt(np.einsum("kr,rkl,lr->r", side, rho, side)) / len(means) for side in (below, above)]
    centre = means.mean(axis=0)
    return centre - margins[0], centre + margins[1]


def check(right: list[np.ndarray], sizes: list[Sizes], shared: bool, low: np.ndarray, high: np.ndarray) -> None:
    """Compare the first replicates with figeval's own results."""
    for replicate in range(min(CHECKED, 3)):
        parts = []
        for language, (counts, language_sizes) in enumerate(zip(right, sizes, strict=True)):
            sums = MetricAggregator("acc", mean_of(lambda _example, _prediction: None))
            for cluster, (right_rows, size) in enumerate(zip(counts[replicate], language_sizes, strict=True)):
                name = f"{cluster}" if shared else f"{language} {cluster}"
                for row in range(size):
                    sums.add(name, (float(row < right_rows), 1.0))
            parts.append(LanguageScore(str(language), sums.score(), sums))
        interval = mean_over_languages(parts)
        limits = low[replicate], high[replicate]
        assert np.allclose((interval.low, interval.high), limits, atol=1e-7), (interval, limits)
