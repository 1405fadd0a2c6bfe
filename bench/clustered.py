"""Cluster sizes, rows within clusters, and the interval rules to be measured, for `bench/coverage.py`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from scipy.special import stdtrit
from scipy.stats import norm

from figeval.metrics.intervals import interval_of_mean, spread_of, wilson

SIZES = Path(__file__).resolve().parent / "cluster_sizes.json"
REPLICATES = 4000
CHECKED = 20  # replicates that are compared with figeval's own results
UNIT = (0.0, 1.0)

Row: TypeAlias = dict[str, Any]
Sizes: TypeAlias = np.ndarray


# ---- sizes ----------------------------------------------------------------------------------------------------------


def lognormal(g: int, draw: int = 0) -> Sizes:
    """Draw cluster sizes from a lognormal distribution with σ = 1.2 and median 7."""
    generator = np.random.default_rng((g, draw))
    return np.maximum(1, np.round(generator.lognormal(np.log(7), 1.2, g))).astype(int)


def real() -> dict[str, Sizes]:
    """Return the sizes of the benchmarks' clusters, as last read with `--sizes`."""
    stored = json.loads(SIZES.read_text(encoding="utf-8"))
    return {name: np.repeat([int(size) for size in counts], list(counts.values())) for name, counts in stored.items()}


def equal() -> dict[str, Sizes]:
    return {f"{g} × {m}": np.full(g, m) for g, m in ((10, 25), (20, 12), (50, 10), (250, 4), (250, 10))}


def uneven() -> dict[str, Sizes]:
    """Return three draws each of 10, 50 and 200 clusters, whose effective numbers differ a lot."""
    return {f"lognormal {g} ({'abc'[draw]})": lognormal(g, draw) for g in (10, 50, 200) for draw in range(3)}


def effective(sizes: Sizes) -> float:
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def designs() -> dict[str, Sizes]:
    """Return equal, lognormal and real sizes with at least ten effective clusters."""
    all_sizes = equal() | uneven() | real()
    return {name: sizes for name, sizes in all_sizes.items() if effective(sizes) >= 10}


def small_designs() -> dict[str, Sizes]:
    """Return sizes with fewer than ten effective clusters."""
    few_clusters = {f"{g} × {m}": np.full(g, m) for g, m in ((2, 50), (3, 50), (5, 50), (7, 30))}
    dominated = {"200 and 40 × 1": np.array([200, *[1] * 40]), "100 and 20 × 10": np.array([100, *[10] * 20])}
    all_sizes = few_clusters | uneven() | dominated
    return {name: sizes for name, sizes in all_sizes.items() if effective(sizes) < 10}


# ---- rows -----------------------------------------------------------------------------------------------------------


def accuracies(generator: Any, g: int, p: float, correlation: float) -> np.ndarray:
    """Draw accuracies of clusters from a Beta distribution with mean p, shape (REPLICATES, g)."""
    if correlation == 0:
        return np.full((REPLICATES, g), p)
    total = 1 / correlation - 1
    return generator.beta(p * total, (1 - p) * total, size=(REPLICATES, g))


def seeded_generator(*parts: Any) -> Any:
    """Return a separate generator for every cell, so that a study run alone gives the same numbers."""
    return np.random.default_rng([crc32(str(part).encode()) for part in parts])


# ---- rules ----------------------------------------------------------------------------------------------------------


def figeval(sums: np.ndarray, sizes: Sizes, within: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute `interval_of_mean` for rows in [0, 1], for all replicates at once; shapes (R, G) and (R,) → (R,).

    The first replicates are compared with figeval's own results.
    """
    g, n = len(sizes), sizes.sum()
    mean, k = sums.sum(axis=1) / n, (sizes**2).sum() / n
    variance = variance_of(sums, sizes, within)
    constant = variance < 1e-20  # rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(constant, g, mean * (1 - mean) / variance)
    quantile = np.where(constant, norm.ppf(0.975), stdtrit(max(1.0, n / k - 1), 0.975))
    low, high = score_interval(mean, size, quantile)
    for replicate in range(CHECKED):
        interval = interval_of_mean(spread_of(sums[replicate], sizes, float(within[replicate])), UNIT)
        limits = low[replicate], high[replicate]
        assert np.allclose((interval.low, interval.high), limits, atol=1e-7), (interval, limits)
    return low, high


def variance_of(sums: np.ndarray, sizes: Sizes, within: np.ndarray) -> np.ndarray:
    """Compute `variance_of_mean` for rows in [0, 1]; shapes (R, G) and (R,) → (R,)."""
    g, n = len(sizes), sizes.sum()
    mean, k = sums.sum(axis=1) / n, (sizes**2).sum() / n
    squares = np.square(sums - sizes * mean[:, None])
    between = (squares / sizes).sum(axis=1)
    correlation = np.zeros(len(sums))
    if n > g:
        across, inside, size = between / (g - 1), within / (n - g), (n - k) / (g - 1)
        total = across + (size - 1) * inside
        correlation = np.clip((across - inside) / np.where(total > 0, total, 1.0), 0, 1)
    max_variance = mean * (1 - mean)
    events = (sizes * (sizes - 1)).sum() / 2 * max_variance**2
    shrunk_correlation = (events * correlation + 0.2) / (events + 1)
    effect = 1 + (k - 1) * shrunk_correlation
    rows = (between + within) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = np.minimum(1.0, rows / np.minimum(mean, 1 - mean) ** 2) / 2
        rows = np.where(
            rows > 0,
            (n * max_variance / effect * rows + prior * max_variance) / (n * max_variance / effect + prior),
            rows,
        )
    return np.maximum(g / (g - 1) * squares.sum(axis=1) / n**2, rows / n * effect)


def score_interval(mean: np.ndarray, n: np.ndarray, quantile: np.ndarray | float) -> tuple[np.ndarray, ...]:
    """Return the interval of Wilson (1927), elementwise."""
    square = np.square(quantile)
    margin = quantile * np.sqrt(mean * (1 - mean) / n + square / (4 * n * n))
    low, high = ((mean + square / (2 * n) + sign * margin) / (1 + square / n) for sign in (-1, 1))
    return np.clip(low, 0, mean), np.clip(high, mean, 1)


def first_edition(sums: np.ndarray, sizes: Sizes, bounds: tuple[float, float] | None = UNIT) -> tuple[np.ndarray, ...]:
    """Return the interval of t(G − 1) and the clustered standard error, clipped to the bounds; shape (R, G) → (R,).

    If no cluster differs from the mean, it is Wilson's interval with the clusters as sample.
    """
    g, n = len(sizes), sizes.sum()
    mean = sums.sum(axis=1) / n
    stderr = np.sqrt(g / (g - 1) * np.square(sums - sizes * mean[:, None]).sum(axis=1)) / n
    margin = stdtrit(g - 1, 0.975) * stderr
    low, high = mean - margin, mean + margin
    if bounds is not None:
        low, high = np.maximum(low, bounds[0]), np.minimum(high, bounds[1])
        for replicate in np.flatnonzero(stderr < 1e-12):
            low[replicate], high[replicate] = wilson(mean[replicate] * g, g)
    return low, high


def ignoring_clusters(sums: np.ndarray, sizes: Sizes) -> tuple[np.ndarray, ...]:
    """Return Wilson's interval as if all rows were independent."""
    n = sizes.sum()
    return score_interval(sums.sum(axis=1) / n, np.array(n), norm.ppf(0.975))


def percentile_bootstrap(sums: np.ndarray, sizes: Sizes, resamples: int = 999) -> tuple[np.ndarray, ...]:
    """Return percentiles of the means of resampled clusters, with the same resamples for all replicates."""
    generator = np.random.default_rng(0)
    weights = generator.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=resamples).astype(float)
    means = (sums @ weights.T) / (weights @ sizes)
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    return low, high


def measure_coverage(low: np.ndarray, high: np.ndarray, truth: float) -> Row:
    """Return the coverage and the mean width."""
    holds = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
    return {"share": float(holds.mean()), "width": float((high - low).mean())}


def of_sums(right: np.ndarray, sizes: Sizes, p: float, with_further_rules: bool = False) -> Iterator[tuple[str, Row]]:
    """Yield the results of the rules for 0/1 rows; `right` has the number of ones per cluster, shape (R, G)."""
    yield "figeval", measure_coverage(*figeval(right, sizes, (right - right**2 / sizes).sum(axis=1)), p)
    yield "first edition", measure_coverage(*first_edition(right, sizes), p)
    if with_further_rules:
        yield "clusters ignored", measure_coverage(*ignoring_clusters(right, sizes), p)
        yield "percentile bootstrap", measure_coverage(*percentile_bootstrap(right, sizes), p)


def cell(
    study: str, name: str, sizes: Sizes, case: str = "", p: float | str = "", correlation: float | str = ""
) -> Row:
    columns = {"study": study, "sizes": name, "clusters": len(sizes), "effective": round(effective(sizes), 1)}
    return {**columns, "rows": int(sizes.sum()), "case": case, "p": p, "correlation": correlation}
