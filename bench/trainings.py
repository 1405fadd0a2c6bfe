"""Studies of macro-F1's bootstrap, means over seeds, and tests of two runs, for `bench/coverage.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from clustered import (
    REPLICATES,
    UNIT,
    Row,
    Sizes,
    accuracies,
    cell,
    effective,
    lognormal,
    measure_coverage,
    real,
    score_interval,
    seeded_generator,
    uneven,
    variance_of,
)
from comparisons import sign_flips, variances
from scipy.special import bdtr, ndtr, ndtri, stdtr, stdtrit

from figeval.metrics.classification import macro_f1
from figeval.metrics.intervals import TAILS, spread_of
from figeval.metrics.paired import paired as paired_runs
from figeval.metrics.seeds import FEWEST_SEEDS, interval_over_seeds


def bootstrapped() -> Iterator[Row]:
    """Yield the coverage of macro-F1's bootstrap, for two balanced labels and mean accuracies of .7 and .9.

    The true macro-F1 is this mean accuracy.
    """
    combine = macro_f1.build(("a", "b")).combine
    designs = {f"{g} × {m}": np.full(g, m) for g, m in ((10, 25), (20, 12), (40, 10), (100, 10))}
    designs |= {name: uneven()[name] for name in ("lognormal 50 (c)", "lognormal 200 (a)", "lognormal 200 (c)")}
    designs |= {f"lognormal 200 (draw {draw})": lognormal(200, draw) for draw in (23, 28, 33)}
    designs |= {
        name: real()[name] for name in ("impli_idioms_silver_lit", "impli_idioms_silver_ent", "epic_retrieval_unseen")
    }
    for name, sizes in designs.items():
        for p in (0.7, 0.9):
            generator = seeded_generator("macro_f1", name, *(() if p == 0.7 else (p,)))
            g, ends = len(sizes), []
            resamples = generator.multinomial(g, np.full(g, 1 / g), size=999).astype(float)
            shares = [*TAILS, *expanded(effective(sizes))]
            for chance in accuracies(generator, g, p, 0.2):
                gold = generator.binomial(sizes, 0.5)
                right_a, right_b = generator.binomial(gold, chance), generator.binomial(sizes - gold, chance)
                difference = right_a + sizes - gold - right_b
                sums = np.column_stack((right_a, right_b, difference, sizes - difference, gold, sizes - gold))
                ends.append(np.quantile(combine(resamples @ sums), shares))
            low, high, wider_low, wider_high = np.array(ends).T
            columns = cell("macro_f1", name, sizes, p=p, correlation=0.2)
            yield {**columns, "rule": "percentile bootstrap", **measure_coverage(low, high, p)}
            yield {**columns, "rule": "expanded percentiles", **measure_coverage(wider_low, wider_high, p)}


def expanded(groups: float) -> tuple[float, float]:
    """Return the percentiles that make up for too narrow ones with few groups (Hesterberg 2015, section 4.4.2)."""
    lower = float(ndtr(-np.sqrt(groups / (groups - 1)) * stdtrit(groups - 1, 0.975)))
    return lower, 1 - lower


# ---- seeds ----------------------------------------------------------------------------------------------------------


def seeds() -> Iterator[Row]:
    """Yield the coverage of means over seeds.

    A training is right on a row if the sum of normal components of its seed, the cluster, the row and noise is below a
    threshold.
    """
    designs = {"20 × 12": np.full(20, 12), "100 × 10": np.full(100, 10)}
    designs |= {"lognormal 50 (c)": uneven()["lognormal 50 (c)"]}
    designs |= {"impli_idioms_silver_lit": real()["impli_idioms_silver_lit"]}
    for name, sizes in designs.items():
        for count in (2, 3, 5):
            for p in (0.05, 0.5, 0.8):
                for case, part in (("little of the seed", 0.002), ("much of the seed", 0.05)):
                    generator = seeded_generator("seeds", name, count, p, case)
                    ends: dict[str, list[tuple[np.ndarray, ...]]] = {"figeval": [], "first edition": []}
                    for _ in range(REPLICATES // 250):
                        values = draw_trainings(generator, sizes, count, part) < ndtri(p)  # (250, count, n)
                        ends["figeval"].append(over_seeds(values, sizes))
                        ends["first edition"].append(first_over_seeds(values, sizes))
                    columns = cell("seeds", name, sizes, f"{count} seeds, {case}", p, 0.2)
                    for rule, rule_ends in ends.items():
                        yield {**columns, "rule": rule, **measure_coverage(*np.concatenate(rule_ends, axis=1), p)}


def draw_trainings(generator: Any, sizes: Sizes, count: int, part: float) -> np.ndarray:
    """Draw standard normal numbers of 250 replicates, shape (250, count, n).

    The variance components are `part` for the seed, .2 for the cluster, .4 for the row, and the rest for noise.
    """
    index = np.repeat(np.arange(len(sizes)), sizes)
    common = np.sqrt(0.2) * generator.standard_normal((250, 1, len(sizes)))[..., index]
    common = common + np.sqrt(0.4) * generator.standard_normal((250, 1, len(index)))
    seed = np.sqrt(part) * generator.standard_normal((250, count, 1))
    return common + seed + np.sqrt(0.4 - part) * generator.standard_normal((250, count, len(index)))


def seed_sums(values: np.ndarray, sizes: Sizes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return cluster sums and within-cluster sums of squares of the means over seeds, and the variance due to seeds."""
    rows = values.mean(axis=1)
    sums = np.add.reduceat(rows, np.cumsum(sizes) - sizes, axis=1)
    within = np.square(rows - np.repeat(sums / sizes, sizes, axis=1)).sum(axis=1)
    return sums, within, values.mean(axis=2).var(axis=1, ddof=1) / values.shape[1]


def over_seeds(values: np.ndarray, sizes: Sizes) -> tuple[np.ndarray, ...]:
    """Compute `interval_over_seeds`, also for two seeds, shape (R, S, n) → (R,).

    With enough seeds, the first replicate is compared with figeval's own result.
    """
    sums, within, seed_variance = seed_sums(values, sizes)
    n, examples = sizes.sum(), variance_of(sums, sizes, within)
    mean, variance, count = sums.sum(axis=1) / n, examples + seed_variance, values.shape[1]
    with np.errstate(invalid="ignore"):  # there is no interval if no training is ever right
        freedom = variance**2 / (examples**2 / max(1.0, effective(sizes) - 1) + seed_variance**2 / (count - 1))
        low, high = score_interval(mean, mean * (1 - mean) / variance, stdtrit(freedom, 0.975))
    if count >= FEWEST_SEEDS:
        interval = interval_over_seeds(
            values[0], [str(cluster) for cluster in np.repeat(np.arange(len(sizes)), sizes)], UNIT
        )
        assert np.allclose((interval.low, interval.high), (low[0], high[0]))
    return low, high


def first_over_seeds(values: np.ndarray, sizes: Sizes) -> tuple[np.ndarray, ...]:
    """Return mean ± t · √(SE² + s²/S) with G − 1 degrees of freedom for the examples, shape (R, S, n) → (R,)."""
    sums, _, seed_variance = seed_sums(values, sizes)
    g, n = len(sizes), sizes.sum()
    mean = sums.sum(axis=1) / n
    examples = g / (g - 1) * np.square(sums - sizes * mean[:, None]).sum(axis=1) / n**2
    with np.errstate(invalid="ignore"):
        freedom = (examples + seed_variance) ** 2 / (examples**2 / (g - 1) + seed_variance**2 / (values.shape[1] - 1))
    margin = stdtrit(freedom, 0.975) * np.sqrt(examples + seed_variance)
    return np.maximum(mean - margin, 0), np.minimum(mean + margin, 1)


# ---- two runs -------------------------------------------------------------------------------------------------------


def paired() -> Iterator[Row]:
    """Yield tests of two models with accuracies .6 ± d / 2 and a lean that varies by cluster.

    If d is 0, every difference found is a false alarm.
    """
    designs = {f"{g} × {m}": np.full(g, m) for g, m in ((250, 10), (20, 20), (10, 25), (8, 40))}
    designs |= uneven()
    designs |= {name: real()[name] for name in ("impli_idioms_silver_lit", "impli_idioms_silver_adv")}
    for name, sizes in designs.items():
        for lean in (0.0, 0.35):
            for shift in (0.0, 0.05):
                yield from _paired(name, sizes, lean, shift)


def _paired(name: str, sizes: Sizes, lean: float, shift: float) -> Iterator[Row]:
    g, n = len(sizes), sizes.sum()
    generator = seeded_generator("paired", name, lean, shift)
    tilt = generator.uniform(-lean, lean, size=(REPLICATES, g)) / 2
    a, b = 0.6 + shift / 2 + tilt, 0.6 - shift / 2 - tilt
    only_a = generator.binomial(sizes, a * (1 - b))  # among the rest: right in b alone
    only_b = generator.binomial(sizes - only_a, b * (1 - a) / (1 - a * (1 - b)))
    sums = (only_a - only_b).astype(float)
    mean = sums.sum(axis=1) / n
    residuals = np.square(sums - sizes * mean[:, None])
    old = np.sqrt(g / (g - 1) * residuals.sum(axis=1)) / n
    within = (only_a + only_b - sums**2 / sizes).sum(axis=1)
    cr2, new = (np.sqrt(variance) for variance in variances(sums, sizes, within))
    freedom = spread_of(sums[0], sizes).freedom
    first = paired_runs(*rows_of(only_a[0], only_b[0], sizes))
    assert first.stderr is not None and np.isclose(first.stderr, new[0]) and np.isclose(first.freedom, freedom)
    with np.errstate(invalid="ignore", divide="ignore"):
        tests = {
            "McNemar, clusters ignored": mcnemars(only_a.sum(axis=1), only_b.sum(axis=1)),
            "t(G − 1)": 2 * stdtr(g - 1, -np.abs(mean) / old),
            "t, CR2": 2 * stdtr(freedom, -np.abs(mean) / cr2),
            "sign flip": sign_flips(sums),
        }
    tests["figeval"] = tests["sign flip"]
    if len(set(sizes.tolist())) > 1:
        tests["figeval"] = np.maximum(tests["sign flip"], 2 * stdtr(freedom, -np.abs(mean) / new))
    is_covered = np.abs(mean - shift) <= stdtrit(freedom, 0.975) * new
    columns = cell("paired", name, sizes, "lean of clusters" if lean else "no lean", shift, "")
    for test, p in tests.items():
        yield {**columns, "rule": test, "share": float((np.nan_to_num(p, nan=1.0) <= 0.05).mean())}
    width = float((2 * stdtrit(freedom, 0.975) * new).mean())
    yield {**columns, "rule": "interval", "share": float(is_covered.mean()), "width": width}


def mcnemars(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return McNemar's exact p-values."""
    return np.where(a == b, 1.0, np.minimum(1.0, 2 * bdtr(np.minimum(a, b), a + b, 0.5)))


def rows_of(only_a: np.ndarray, only_b: np.ndarray, sizes: Sizes) -> tuple[list[float], list[float], list[str]]:
    """Return the values of both runs and the clusters, row by row."""
    a, b, names = [], [], []
    for cluster, (ours, theirs, size) in enumerate(zip(only_a, only_b, sizes, strict=True)):
        a += [1.0] * ours + [0.0] * (size - ours)
        b += [0.0] * ours + [1.0] * theirs + [0.0] * (size - ours - theirs)
        names += [str(cluster)] * size
    return a, b, names
