"""Studies of one mean for `bench/coverage.py`: 0/1 rows, rows in [0, 1], and rows with one bound or without bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from clustered import (
    CHECKED,
    REPLICATES,
    Row,
    Sizes,
    accuracies,
    cell,
    designs,
    equal,
    figeval,
    first_edition,
    measure_coverage,
    of_sums,
    real,
    seeded_generator,
    small_designs,
    uneven,
)
from scipy.special import ndtr, ndtri, stdtrit
from scipy.stats import beta, poisson

from figeval.metrics.intervals import interval_by_t, interval_of_mean, spread_of

PROPORTIONS = (0.004, 0.05, 0.2, 0.5, 0.8, 0.95)
CORRELATIONS = (0.0, 0.1, 0.3)


def study_proportions(study: str, designs_by_name: dict[str, Sizes]) -> Iterator[Row]:
    for name, sizes in designs_by_name.items():
        for p in PROPORTIONS:
            for correlation in CORRELATIONS:
                generator = seeded_generator(study, name, p, correlation)
                right = generator.binomial(sizes, accuracies(generator, len(sizes), p, correlation)).astype(float)
                columns = cell(study, name, sizes, p=p, correlation=correlation)
                yield from ({**columns, "rule": rule, **metrics} for rule, metrics in of_sums(right, sizes, p))


def grid() -> Iterator[Row]:
    """Yield the cells by which the rule was judged, and those of the first table in the docs (`page`)."""
    yield from study_proportions("grid", designs())
    for g, m in ((10, 25), (20, 12), (40, 10), (100, 10)):
        sizes = np.full(g, m)
        generator = seeded_generator("page", g, m)
        right = generator.binomial(sizes, accuracies(generator, g, 0.7, 0.2)).astype(float)
        columns = cell("page", f"{g} × {m}", sizes, p=0.7, correlation=0.2)
        yield from (
            {**columns, "rule": rule, **metrics}
            for rule, metrics in of_sums(right, sizes, 0.7, with_further_rules=True)
        )


def few() -> Iterator[Row]:
    yield from study_proportions("few", small_designs())


def harder() -> Iterator[Row]:
    harder_designs = {name: sizes for name, sizes in designs().items() if name in HARDER}
    for name, sizes in harder_designs.items():
        g = len(sizes)
        for p in PROPORTIONS:
            generator = seeded_generator("harder", name, p)
            # two kinds of clusters, one without any right row, with correlation .3
            good = 0.3 * (1 - p) + p
            is_good = generator.random((REPLICATES, g)) < p / good
            cases = {
                "two-point clusters": (np.where(is_good, good, 0.0), 0.3),
                "Beta": (accuracies(generator, g, p, 0.5), 0.5),
                "Beta ": (accuracies(generator, g, p, 0.8), 0.8),
            }
            for case, (chances, correlation) in cases.items():
                right = generator.binomial(sizes, chances).astype(float)
                columns = cell("harder", name, sizes, case.strip(), p, correlation)
                yield from ({**columns, "rule": rule, **metrics} for rule, metrics in of_sums(right, sizes, p))
            # accuracies correlate with the sizes (rank correlation about .5); the truth is the mean over these sizes
            cluster_accuracies = accuracies(generator, g, p, 0.2)
            noisy = np.argsort(np.argsort(np.log(sizes) + generator.normal(0, 1.5, (REPLICATES, g))))
            chances = np.take_along_axis(np.sort(cluster_accuracies), noisy, axis=1)
            truth = float((chances @ sizes).mean() / sizes.sum())
            right = generator.binomial(sizes, chances).astype(float)
            columns = cell("harder", name, sizes, "sizes go with accuracies", p, 0.2)
            yield from ({**columns, "rule": rule, **metrics} for rule, metrics in of_sums(right, sizes, truth))


HARDER = ("10 × 25", "20 × 12", "50 × 10", "lognormal 50 (c)", "lognormal 200 (a)", "impli_idioms_silver_lit")


def reciprocal(quantiles: np.ndarray, candidates: int, power: float) -> np.ndarray:
    """Return reciprocal ranks among `candidates`; a power of 1 is chance, a higher power gives better ranks."""
    return 1.0 / np.clip(np.ceil(candidates * quantiles**power), 1, candidates)


def unit() -> Iterator[Row]:
    """Yield cells of rows in [0, 1], drawn by a normal copula with a cluster and a row component."""
    designs_here = {f"{n} rows": np.ones(n, int) for n in (50, 200, 1000)}
    designs_here |= {name: sizes for name, sizes in (equal() | real()).items() if name in UNITS}
    designs_here |= {"lognormal 50 (c)": uneven()["lognormal 50 (c)"]}
    fine = (np.arange(20_000) + 0.5) / 20_000
    cases: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "reciprocal ranks at chance": lambda q: reciprocal(q, 250, 1.0),
        "reciprocal ranks, mean .22": lambda q: reciprocal(q, 250, 3.0),
        "reciprocal ranks, mean .56": lambda q: reciprocal(q, 250, 8.0),
        "token F1, two thirds 0": lambda q: np.clip((q - 2 / 3) * 3, 0, 1),
        "ties of five options": lambda q: np.select([q < 0.6, q < 0.8], [0.0, 0.5], 1.0),
        "skewed: u to the 20th": lambda q: q**20,
        "concentrated: .9 ± .03": lambda q: np.interp(q, fine, beta.ppf(fine, 89.1, 9.9)),
    }
    for name, sizes in designs_here.items():
        index = np.repeat(np.arange(len(sizes)), sizes)
        for case, values in cases.items():
            truth = float(values(fine).mean())
            for correlation in (0.0,) if len(sizes) == sizes.sum() else (0.0, 0.2):
                generator = seeded_generator("unit", name, case, correlation)
                ends: dict[str, list[tuple[np.ndarray, ...]]] = {"figeval": [], "first edition": []}
                for _ in range(REPLICATES // 500):
                    common = generator.standard_normal((500, len(sizes)))[:, index] * np.sqrt(correlation)
                    noise = generator.standard_normal((500, len(index))) * np.sqrt(1 - correlation)
                    rows = values(ndtr(common + noise))
                    sums = np.add.reduceat(rows, np.cumsum(sizes) - sizes, axis=1)
                    within = np.square(rows - (sums / sizes)[:, index]).sum(axis=1)
                    ends["figeval"].append(figeval(sums, sizes, within))
                    ends["first edition"].append(first_edition(sums, sizes))
                columns = cell("unit", name, sizes, case, round(truth, 4), correlation)
                for rule, limits in ends.items():
                    yield {**columns, "rule": rule, **measure_coverage(*np.concatenate(limits, axis=1), truth)}


UNITS = ("10 × 25", "20 × 12", "50 × 10", "250 × 4", "impli_idioms_silver_lit", "epic_retrieval_unseen")


def unbounded() -> Iterator[Row]:
    for name, sizes in (designs() | small_designs()).items():
        for correlation in CORRELATIONS:
            generator = seeded_generator("unbounded", name, correlation)
            common = generator.standard_normal((REPLICATES, len(sizes))) * np.sqrt(correlation)
            noise = generator.standard_normal((REPLICATES, len(sizes))) * np.sqrt((1 - correlation) * sizes)
            sums = common * sizes + noise
            columns = cell("unbounded", name, sizes, "normal", 0, correlation)
            interval = interval_by_t(spread_of(sums[0], sizes))
            low, high = by_cr2(sums, sizes)
            assert np.allclose((interval.low, interval.high), (low[0], high[0]))
            yield {**columns, "rule": "figeval", **measure_coverage(low, high, 0.0)}
            yield {**columns, "rule": "first edition", **measure_coverage(*first_edition(sums, sizes, None), 0.0)}


def by_cr2(sums: np.ndarray, sizes: Sizes) -> tuple[np.ndarray, ...]:
    """Compute `interval_by_t` for all replicates at once; shape (R, G) → (R,)."""
    n = sizes.sum()
    mean = sums.sum(axis=1) / n
    stderr = np.sqrt((np.square(sums - sizes * mean[:, None]) / (1 - sizes / n)).sum(axis=1)) / n
    margin = stdtrit(spread_of(sums[0], sizes).freedom, 0.975) * stderr
    return mean - margin, mean + margin


def counts() -> Iterator[Row]:
    """Yield cells of rows that are not negative, by the score interval and by t cut off at 0."""
    fine = (np.arange(200_000) + 0.5) / 200_000
    cases: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "Poisson, mean 8": lambda q: poisson.ppf(q, 8),
        "words: lognormal, median 20, σ = .5": lambda q: np.round(20 * np.exp(0.5 * ndtri(q))),
        "exponential": lambda q: -np.log1p(-q),
        "four fifths 0, else exponential": lambda q: -np.log1p(-np.clip(5 * q - 4, 0, None)),
    }
    designs_here = {f"{n} rows": np.ones(n, int) for n in (3, 5, 10, 30, 100)}
    designs_here |= {"20 × 12": equal()["20 × 12"], "lognormal 50 (c)": uneven()["lognormal 50 (c)"]}
    for name, sizes in designs_here.items():
        correlation = 0.0 if len(sizes) == sizes.sum() else 0.2
        index = np.repeat(np.arange(len(sizes)), sizes)
        for case, values in cases.items():
            truth = float(values(fine).mean())
            generator = seeded_generator("counts", name, case)
            per_cluster = generator.standard_normal((REPLICATES, len(sizes)))[:, index] * np.sqrt(correlation)
            rest = generator.standard_normal((REPLICATES, len(index))) * np.sqrt(1 - correlation)
            sums = np.add.reduceat(values(ndtr(per_cluster + rest)), np.cumsum(sizes) - sizes, axis=1)
            ends = by_score(sums, sizes)
            columns = cell("counts", name, sizes, case, round(truth, 4), correlation)
            for rule, (low, high) in ends.items():  # there is no interval if all rows are equal
                is_defined = ~np.isnan(low)
                yield {**columns, "rule": rule, **measure_coverage(low[is_defined], high[is_defined], truth)}


def by_score(sums: np.ndarray, sizes: Sizes) -> dict[str, tuple[np.ndarray, ...]]:
    """Compute `interval_by_score` above 0 for all replicates at once, shape (R, G) → (R,), and that by t, cut off at 0.

    The first replicates are compared with figeval's own results.
    """
    mean = sums.sum(axis=1) / sizes.sum()
    low, high = by_cr2(sums, sizes)
    margin = np.where(high - mean > 1e-9, high - mean, np.nan)
    half = margin**2 / (2 * np.where(mean > 0, mean, np.nan))
    farthest = mean + half + np.sqrt(half * (2 * mean + half))
    nearest = mean**2 / farthest
    for row in range(CHECKED):
        interval = interval_of_mean(spread_of(sums[row], sizes), (0.0, np.inf))
        limits = (nearest[row], farthest[row])
        assert np.isnan(limits).all() if interval.low is None else np.allclose((interval.low, interval.high), limits)
    is_defined = np.where(np.isnan(margin), np.nan, 1.0)
    return {"figeval": (nearest, farthest), "t, cut off": (np.maximum(low, 0) * is_defined, high * is_defined)}
