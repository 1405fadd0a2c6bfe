"""Studies of comparisons with skewed differences, and with unequal numbers of seeds, for `bench/coverage.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from clustered import REPLICATES, Row, Sizes, cell, real, seeded_generator, uneven
from scipy.special import stdtr

from figeval.metrics.differences import ALPHA, SKEWED, larger_variance, opposed_skewness
from figeval.metrics.intervals import spread_of
from figeval.metrics.paired import paired_over_seeds

SIGN_FLIPS = 1999
MIN_DIFFERENT_SHARE = 0.1  # of examples that differ by chance
RARE_SHARE = 0.1  # of clusters with the effect


def variances(sums: np.ndarray, sizes: Sizes, within: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the CR2 variance and the larger one of `spread_of_differences`; shapes (R, G) and (R,) → (R,), (R,)."""
    n = sizes.sum()
    means = sums.sum(axis=1) / n
    clustered = (np.square(sums - sizes * means[:, None]) / (1 - sizes / n)).sum(axis=1) / n**2
    return clustered, np.maximum(clustered, larger_variance(sums, sizes.astype(float), within))


def sign_flips(sums: np.ndarray) -> np.ndarray:
    """Return p-values of sign flips with the same signs for all replicates; shape (R, G) → (R,)."""
    signs = np.random.default_rng(1).choice((-1.0, 1.0), size=(SIGN_FLIPS, sums.shape[1]))
    extreme = (np.abs(sums @ signs.T) >= np.abs(sums.sum(axis=1))[:, None] - 1e-9).sum(axis=1)
    return (extreme + 1) / (SIGN_FLIPS + 1)


def hall(sums: np.ndarray, sizes: Sizes, variance: np.ndarray) -> np.ndarray:
    """Return t after Hall's (1992) transformation for skewness; shapes (R, G) and (R,) → (R,)."""
    n = sizes.sum()
    mean, stderr = sums.sum(axis=1) / n, np.sqrt(variance)
    a = ((sums - sizes * mean[:, None]) ** 3).sum(axis=1) / n**3 / stderr**3
    t = mean / stderr
    return np.asarray(t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6)


def designs() -> dict[str, Sizes]:
    designs = {f"{g} × {m}": np.full(g, m) for g, m in ((20, 12), (30, 12), (30, 25), (50, 10), (50, 25), (200, 5))}
    designs["geometric 50"] = np.maximum(1, np.round(100 * 0.9 ** np.arange(50))).astype(int)
    designs["Zipf 50"] = np.maximum(1, np.round(200 / np.arange(1, 51))).astype(int)
    designs |= {name: sizes for name, sizes in uneven().items() if len(sizes) >= 50}
    return designs | {name: real()[name] for name in ("impli_idioms_silver_lit", "impli_idioms_silver_adv")}


def skewed() -> Iterator[Row]:
    """Yield tests of two models whose difference is 9 d in a tenth of the clusters and −d in the others, plus p.

    If p is 0, every difference found is a false alarm.
    """
    for name, sizes in designs().items():
        for effect in (0.04, 0.05, 0.1):
            for shift in (0.0, 0.05, -0.05):
                generator = seeded_generator("skewed", name, effect, shift)
                rare = generator.random((REPLICATES, len(sizes))) < RARE_SHARE
                difference = np.where(rare, (1 / RARE_SHARE - 1) * effect, -effect) + shift
                sums, within = draw_differences(generator, sizes, difference)
                columns = cell("skewed", name, sizes, f"a tenth of the clusters, {effect}", shift)
                for rule, p in tests_of(sums, sizes, within):
                    yield {**columns, "rule": rule, "share": float((p <= 0.05).mean())}


def draw_differences(generator: Any, sizes: Sizes, difference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw 0/1 values of two runs; return sums of differences by cluster and the sum of squares within clusters."""
    share = np.clip(np.maximum(MIN_DIFFERENT_SHARE, np.abs(difference)), 0, 1)
    better = np.clip((share + difference) / 2, 0, 1)
    worse = np.clip(share - better, 0, 1)
    only_a = generator.binomial(sizes, better)
    only_b = generator.binomial(sizes - only_a, worse / np.maximum(1 - better, 1e-12))
    sums = (only_a - only_b).astype(float)
    return sums, (only_a + only_b - sums**2 / sizes).sum(axis=1)


def tests_of(sums: np.ndarray, sizes: Sizes, within: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the p-values of each test."""
    mean, freedom = sums.sum(axis=1) / sizes.sum(), spread_of(sums[0], sizes).freedom
    clustered, larger = (np.maximum(variance, 1e-300) for variance in variances(sums, sizes, within))
    flips = sign_flips(sums)
    by_t = 2 * stdtr(freedom, -np.abs(mean) / np.sqrt(larger))
    is_equal = len(set(sizes.tolist())) == 1
    larger_p = flips if is_equal else np.maximum(flips, by_t)
    yield "t, CR2", 2 * stdtr(freedom, -np.abs(mean) / np.sqrt(clustered))
    yield "sign flip", flips
    yield "figeval", larger_p
    if is_equal:
        skewness = np.array([opposed_skewness(row) for row in sums])
        has_note = (skewness > SKEWED) | ((1 - RARE_SHARE) ** len(sizes) > ALPHA)
        yield "figeval without a note", np.where(has_note, 1.0, larger_p)
    yield "corrected for skewness", np.maximum(larger_p, 2 * stdtr(freedom, -np.abs(hall(sums, sizes, larger))))


def unequal_seeds() -> Iterator[Row]:
    """Yield false alarms of S trainings against one, or S, of an equally good procedure, for 50 × 4 examples."""
    sizes = np.full(50, 4)
    for of_a, of_b in ((3, 1), (3, 3), (5, 1), (10, 1)):
        for spread in (0.1, 0.2, 0.3, 0.5):
            generator = seeded_generator("unequal_seeds", of_a, of_b, spread)
            alarms: dict[str, list[np.ndarray]] = {}
            for _ in range(REPLICATES // 250):
                hard = 0.8 * generator.standard_normal((250, 1, 200)) + hold_out_clusters(generator, 0.5)
                a, b = (trainings(generator, hard, count, spread) for count in (of_a, of_b))
                for rule, p in over_seeds(a, b):
                    alarms.setdefault(rule, []).append(p <= 0.05)
            columns = cell("unequal_seeds", "50 × 4", sizes, f"{of_a} against {of_b}, s = {spread}", 0.0)
            yield from (
                {**columns, "rule": rule, "share": float(np.mean(rejected))} for rule, rejected in alarms.items()
            )


def hold_out_clusters(generator: Any, scale: float) -> np.ndarray:
    return np.repeat(scale * generator.standard_normal((250, 1, 50)), 4, axis=2)


def trainings(generator: Any, hard: np.ndarray, count: int, spread: float) -> np.ndarray:
    skill = hard + hold_out_clusters(generator, 0.3) + 0.5 * generator.standard_normal(hard.shape)
    seed = spread * generator.standard_normal((250, count, 1))
    return (skill + seed + 0.5 * generator.standard_normal((250, count, 200)) > 0).astype(float)


def over_seeds(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield p-values of `paired_over_seeds`, and without its test by the seeds alone; shape (R, S, n) → (R,)."""
    sums = (a.mean(axis=1) - b.mean(axis=1)).reshape(250, 50, 4).sum(axis=2)
    examples = sums.var(axis=1, ddof=1) * 50 / 200**2
    parts = [(examples, 49)]
    for first, other in ((a, b), (b, a)):
        if first.shape[1] > 1:
            borrowed = other.shape[1] == 1
            variance = first.mean(axis=2).var(axis=1, ddof=1)
            parts.append((variance * (1 / first.shape[1] + borrowed), first.shape[1] - 1))
    mean = np.abs(sums.sum(axis=1) / 200)
    combined, seeds_only = (t_of(mean, subset) for subset in (parts, parts[1:]))
    result = paired_over_seeds(a[0].tolist(), b[0].tolist(), [str(row // 4) for row in range(200)], varies=(True, True))
    assert np.isclose(result.p, max(combined[0], seeds_only[0]))
    yield "one t test", combined
    yield "figeval", np.maximum(combined, seeds_only)
    with np.errstate(divide="ignore"):
        yield "single training ignored", 2 * stdtr(49, -mean / np.sqrt(examples))


def t_of(mean: np.ndarray, parts: list[tuple[np.ndarray, int]]) -> np.ndarray:
    """Return p-values by t with Satterthwaite's degrees of freedom."""
    variance = sum(part for part, _ in parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = variance**2 / sum(part**2 / part_freedom for part, part_freedom in parts)
        p = 2 * stdtr(freedom, -mean / np.sqrt(variance))
    return np.where(variance > 0, p, 0.0)
