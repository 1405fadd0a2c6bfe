"""Comparison of two runs on the same examples: the difference, its interval and a p-value.

All tests are paired: both runs have the same easy and hard examples, so an unpaired test (or a look at whether two
intervals overlap) would discard most of the evidence.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.combination import Clustered, Combination
from figeval.metrics.differences import (
    ALPHA,
    apart_from_zero,
    bounds_of_difference,
    chance_of_no_opposition,
    may_be_missed,
    may_be_skewed,
    mcnemar,
    opposed_skewness,
    refuse_infinite,
    refuse_other_languages,
    score_interval,
    spread_of_differences,
    t_test,
    too_few,
    too_sparse,
)
from figeval.metrics.differences import PairedTest as PairedTest
from figeval.metrics.intervals import (
    FEW_CLUSTERS,
    MIN_FLOAT,
    ROUNDING_ERROR,
    Bounds,
    Spread,
    blocks,
    by_cluster,
    clip,
    interval_by_t,
    t_interval,
    t_quantile,
)
from figeval.metrics.seeds import FEWEST_SEEDS
from figeval.types import Interval

Floats = NDArray[np.float64]
SIGN_FLIPS = 10_000
MAX_ENUMERATED_CLUSTERS = 14  # with at most this many clusters, all 2^G sign patterns are tried
SIGN_FLIP = "sign flip"
SIGN_FLIP_AND_T = "sign flip and t"  # the larger p-value counts
SCORE = "score"  # method of an interval: all differences that the score test does not reject
MIN_EXTREME_DRAWS = 20  # extreme draws after which no more are drawn
MOST_DRAWS = 1_000_000
UNITS = (1, 2, 6, 12, 60)  # 0/1 values, and shares of ties of up to six answers, are multiples of one of 1 / unit
MOST_STEPS = 3e8  # additions of an exact distribution, which take a fraction of a second


def compare_paired(
    values_a: Sequence[float | None],
    values_b: Sequence[float | None],
    clusters: Sequence[str | None] | None = None,
    bounds: Bounds = (0.0, 1.0),
    seed: int = 0,
    draws: int = SIGN_FLIPS,
) -> PairedTest:
    """Compare per-example values of two runs, aligned by example, with None for a missing value.

    The p-value comes from sign flips of the clusters' summed differences. For independent 0/1 rows, this is the exact
    McNemar test, and the interval is Tango's (1998). Others are by t with the standard error of `spread_of_differences`
    and Bell and McCaffrey's (2002) degrees of freedom. If clusters differ in size, p is that of t if it is larger, and
    at least `chance_of_no_opposition` if only one run has 0/1 values.

    Args:
        values_a: values of run A.
        values_b: values of run B, in the same order.
        clusters: cluster of each example, or None if it is independent.
        bounds: bounds of the metric, or None if it has none.
        seed: seed of the sign-flip draws.
        draws: largest number of draws.

    Raises:
        ValueError: the sequences differ in length, or a value is NaN or infinite.
    """
    common = _in_both(values_a, values_b, [None] * len(values_a) if clusters is None else clusters)
    if not common:
        return PairedTest(n=0, clusters=0, note="no example that both runs answered")
    a, b = np.array([row[:2] for row in common], dtype=np.float64).T
    refuse_infinite(a, b)
    sums, sizes, within = by_cluster(a - b, [row[2] for row in common])
    spread = spread_of_differences(sums, sizes, within)
    binary = bool(np.isin((a, b), (0.0, 1.0)).all())
    a_only, b_only, differing = int((a > b).sum()), int((b > a).sum()), int(np.count_nonzero(apart_from_zero(sums)))
    if not (binary and spread.independent):
        interval = _interval(spread, bounds)
        test, p = _test(sums, spread, interval.stderr, seed, draws)
        p = p and max(p, chance_of_no_opposition(a, b, sums))
    else:
        interval, test, p = _score_interval(spread, a_only, b_only), "exact McNemar", mcnemar(a_only, b_only)
    return PairedTest(
        n=spread.n,
        clusters=spread.clusters,
        effective_clusters=spread.effective_clusters,
        value_a=float(a.mean()),
        value_b=float(b.mean()),
        difference=spread.mean,
        interval=interval,
        freedom=interval.stderr and spread.freedom,
        test=test,
        p=p,
        a_only=a_only if binary else None,
        b_only=b_only if binary else None,
        effective_n=_effective_n(spread, a_only + b_only, differing) if binary else None,
        differing=differing,
        note=_note(spread, interval, differing, p, opposed_skewness(sums) if test == SIGN_FLIP else 0.0),
    )


def _test(sums: Floats, spread: Spread, stderr: float | None, seed: int, draws: int) -> tuple[str, float | None]:
    """Return the name and the p-value of the test of a mean difference; none for one cluster.

    If clusters differ in size, skewed differences mislead the sign flip, and the larger p-value of it and t counts.
    """
    if spread.clusters < 2:
        return "", None
    p = sign_flip(sums, seed, draws)
    if not stderr or math.isclose(spread.effective_clusters, spread.clusters):
        return SIGN_FLIP, p
    return SIGN_FLIP_AND_T, max(p, t_test(spread.mean, stderr, spread.freedom))


def paired_over_languages(
    values_a: Mapping[str, Sequence[float | None]],
    values_b: Mapping[str, Sequence[float | None]],
    clusters: Mapping[str, Sequence[str | None]],
    bounds: Bounds = (0.0, 1.0),
    seed: int = 0,
    draws: int = SIGN_FLIPS,
) -> PairedTest:
    """Compare unweighted means of two runs over languages; the arguments are those of `compare_paired`, by language.

    The sums whose signs are flipped are Σ_l D_cl / (L n_l), where D_cl is the sum of a cluster's differences in one of
    the L languages, which has n_l rows. The languages' intervals and standard errors are combined by
    `figeval.metrics.combination`, and the degrees of freedom are Satterthwaite's of independent languages. If a
    language has no common example, there is no comparison.
    """
    refuse_other_languages(values_a=values_a, values_b=values_b, clusters=clusters)
    parts = [compare_paired(values_a[name], values_b[name], clusters[name], bounds, seed) for name in values_a]
    n = sum(part.n for part in parts)
    empty = next((name for name, part in zip(values_a, parts, strict=True) if not part.n), None)
    if empty is not None:
        return PairedTest(n=n, clusters=0, note=f"no example in {empty} that both runs answered")
    means: list[Clustered] = []
    weighted: dict[str, float] = defaultdict(float)
    no_opposition = 1.0
    for index, name in enumerate(values_a):
        rows = [
            (a, b, cluster or f" {index} {row}")  # no cluster's name begins with a blank and such numbers
            for row, (a, b, cluster) in enumerate(zip(values_a[name], values_b[name], clusters[name], strict=True))
            if a is not None and b is not None
        ]
        names = list(dict.fromkeys(cluster for _, _, cluster in rows))
        a, b = np.array([row[:2] for row in rows], dtype=np.float64).T
        sums, sizes, within = by_cluster(a - b, [cluster for _, _, cluster in rows])
        cluster_sums = dict(zip(names, np.column_stack((sums, sizes)), strict=True))
        means.append(Clustered(cluster_sums, spread_of_differences(sums, sizes, within)))
        no_opposition *= chance_of_no_opposition(a, b, sums)
        for cluster, total in zip(names, sums, strict=True):
            weighted[cluster] += total / len(rows) / len(parts)
    sums = np.array(list(weighted.values()))
    mean = _mean_difference(parts, Combination.of(means))
    test, p = (SIGN_FLIP, sign_flip(sums, seed, draws)) if len(sums) > 1 else ("", None)
    if (
        p is not None
        and mean.difference is not None
        and mean.stderr
        and mean.freedom
        and any(part.test == SIGN_FLIP_AND_T for part in parts)
    ):
        test, p = SIGN_FLIP_AND_T, max(p, t_test(mean.difference, mean.stderr, mean.freedom))
    p = p and max(p, no_opposition)
    return replace(
        mean,
        clusters=len(sums),
        differing=int((np.abs(sums) > ROUNDING_ERROR).sum()),
        test=test,
        p=p,
        note="; ".join(f"{name}: {part.note}" for name, part in zip(values_a, parts, strict=True) if part.note),
    )


def _mean_difference(parts: Sequence[PairedTest], together: Combination) -> PairedTest:
    """Return the mean of differences with its interval, standard error and Satterthwaite's degrees of freedom."""
    differences = [part.difference for part in parts if part.difference is not None]
    mean = PairedTest(
        n=sum(part.n for part in parts),
        clusters=0,
        value_a=float(np.mean([part.value_a for part in parts])),
        value_b=float(np.mean([part.value_b for part in parts])),
        difference=float(np.mean(differences)),
    )
    limits = [(part.low, part.high) for part in parts if part.low is not None and part.high is not None]
    if len(limits) < len(parts):
        return mean
    low, high = together.interval(differences, *zip(*limits, strict=True))
    interval = Interval("over languages", low, high)
    estimates = [(part.stderr, part.freedom) for part in parts if part.stderr and part.freedom]
    if len(estimates) < len(parts):
        return replace(mean, interval=interval)
    errors, freedoms = zip(*estimates, strict=True)
    stderr = together.margin(errors)
    weight = math.fsum((error / len(parts)) ** 4 / freedom for error, freedom in zip(errors, freedoms, strict=True))
    # Correlated languages are not more independent than the sum of their clusters.
    freedom = min(stderr**4 / weight, math.fsum(freedoms))
    return replace(mean, interval=replace(interval, stderr=stderr), freedom=freedom)


def paired_over_seeds(
    values_a: Sequence[Sequence[float]],
    values_b: Sequence[Sequence[float]],
    clusters: Sequence[str | None],
    bounds: Bounds = (0.0, 1.0),
    varies: tuple[bool, bool] = (False, False),
) -> PairedTest:
    """Compare the means of two models over their trainings, which differ in their seed, on the same examples.

    The variance of the difference is V = SE² + s_A² / S_A + s_B² / S_B: the clustered variance of the examples'
    differences of means over seeds, plus the variances of the trainings' scores. p and interval are by t with
    Satterthwaite's (1946) degrees of freedom. These are too many if three trainings are alike by chance, so a test by
    the seeds alone, without SE², must find the difference, too: the larger p-value and the larger margin count. Nor is
    p smaller than 2 / 2^G, the smallest one of a sign flip: the variance of very few clusters may be small by chance.

    A model without seeds, such as TF-IDF, has one row and adds nothing. A single training of a model that would vary
    adds s² of the other side, i.e. both together s² (1 + 1 / S). As for the interval of a mean over seeds, there is no
    test with two seeds.

    Args:
        values_a: values of each training of A on each example, shape (S_A, n).
        values_b: values of each training of B, shape (S_B, n).
        clusters: cluster of each example, or None if it is independent.
        bounds: bounds of the metric, or None if it has none.
        varies: whether another training of A, and of B, would give other values; for sides with one row.

    Raises:
        ValueError: the rows differ in length, or a value is NaN or infinite.
    """
    every = (("values_a", values_a), ("values_b", values_b))
    rows = {f"{name}[{index}]": row for name, values in every for index, row in enumerate(values)}
    _refuse_other_lengths(**rows, clusters=clusters)
    a, b = (np.asarray(values, dtype=np.float64) for values in (values_a, values_b))
    if not a.size or not b.size:
        return PairedTest(n=0, clusters=0, note="no example that all trainings answered")
    refuse_infinite(a, b)
    sums, sizes, within = by_cluster(a.mean(axis=0) - b.mean(axis=0), clusters)
    spread = spread_of_differences(sums, sizes, within)
    differing = int((np.abs(sums) > ROUNDING_ERROR).sum())  # means of equal values may differ in the last digit
    comparison = PairedTest(n=spread.n, clusters=spread.clusters, effective_clusters=spread.effective_clusters)
    comparison = replace(comparison, value_a=float(a.mean()), value_b=float(b.mean()), difference=spread.mean)
    comparison = replace(comparison, differing=differing)
    if spread.clusters == 1:
        return replace(comparison, note="no test and no interval: all examples belong to one cluster")
    if any(1 < len(values) < FEWEST_SEEDS for values in (a, b)):
        return replace(comparison, note="no test and no interval: fewer than three seeds")
    of_seeds, borrowed = _seed_variances((a.mean(axis=1), b.mean(axis=1)), varies)
    tests = [_sum_variances([(spread.stderr**2, spread.freedom), *of_seeds]), _sum_variances(of_seeds)]
    tests = [(stderr, freedom) for stderr, freedom in tests if stderr > ROUNDING_ERROR]
    if not tests:
        none = _interval(spread, bounds)
        return replace(comparison, interval=none, test=SIGN_FLIP, p=sign_flip(sums), note=f"no interval: {none.reason}")
    p = max(2.0 ** (1 - spread.clusters), *(t_test(spread.mean, *test) for test in tests))
    stderr, freedom = max(tests, key=lambda test: test[0] * t_quantile(test[1]))
    low, high = clip(t_interval(spread.mean, stderr, freedom), bounds_of_difference(bounds))
    test = f"t over {len(a)} and {len(b)} seeds"
    size_caveat = too_few(spread.n, spread.clusters, spread.effective_clusters)
    comparison = replace(comparison, interval=Interval("t over seeds and examples", low, high, stderr), freedom=freedom)
    sparse = "" if size_caveat else too_sparse(differing, independent=spread.independent)
    return replace(comparison, test=test, p=p, note="; ".join(filter(None, (borrowed, size_caveat or sparse))))


def _sum_variances(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the root of a sum of variances, and Satterthwaite's (1946) degrees of freedom of it from those of each."""
    variance = math.fsum(part for part, _ in parts)
    weight = math.fsum(part**2 / freedom for part, freedom in parts)
    return math.sqrt(variance), variance**2 / weight if weight else 0.0


def _seed_variances(scores: tuple[Floats, Floats], varies: tuple[bool, bool]) -> tuple[list[tuple[float, float]], str]:
    """Return the parts of the variance of a difference that are due to seeds, and a note about a side that has none.

    A part is a variance and its degrees of freedom.
    """
    parts, note = [], ""
    for side, seed_scores in enumerate(scores):
        if len(seed_scores) > 1:
            new = len(scores[1 - side]) == 1 and varies[1 - side]
            parts.append((float(seed_scores.var(ddof=1)) * (1 / len(seed_scores) + new), len(seed_scores) - 1.0))
            if new:
                single, other = "BA"[side], "AB"[side]
                note = f"{single} is a single training, and its variance over seeds is taken to be that of {other}"
    return parts, note


def _interval(spread: Spread, bounds: Bounds) -> Interval:
    """Return the t interval of the difference; none if it is the same in all clusters (two runs that always agree)."""
    unit = "row" if spread.independent else "cluster"
    if spread.clusters == 1:
        return Interval(reason="one cluster" if spread.n > 1 else "one row")
    if spread.alike:
        differs = abs(spread.mean) > ROUNDING_ERROR
        return Interval(reason=f"every {unit} differs by the same amount" if differs else f"no {unit} differs")
    return interval_by_t(spread, bounds_of_difference(bounds))


def _score_interval(spread: Spread, a_only: int, b_only: int) -> Interval:
    """Return Tango's interval of 0/1 values of independent examples, which exists even if no example differs."""
    if spread.clusters == 1:
        return Interval(reason="one row")
    return Interval(SCORE, *score_interval(a_only, b_only, spread.n), None if spread.alike else spread.stderr)


def _effective_n(spread: Spread, discordant: int, differing: int) -> float:
    """Return the number of independent pairs of 0/1 values with the same precision.

    It is N over the design effect of the differences. If fewer than ten clusters differ, it cannot be estimated, and
    examples of a cluster are taken to agree completely.
    """
    if spread.independent:
        return float(spread.n)
    alone = discordant / spread.n - spread.mean**2
    if differing < FEW_CLUSTERS or alone <= 0:
        return spread.effective_clusters
    if spread.alike:
        return float(spread.n)
    return min(float(spread.n), max(spread.effective_clusters, alone / spread.stderr**2))


def _in_both(
    values_a: Sequence[float | None], values_b: Sequence[float | None], clusters: Sequence[str | None]
) -> list[tuple[float, float, str | None]]:
    """Return the values and the cluster of each example that has both. Raises `ValueError` if lengths differ."""
    _refuse_other_lengths(values_a=values_a, values_b=values_b, clusters=clusters)
    rows = zip(values_a, values_b, clusters, strict=True)
    return [(a, b, cluster) for a, b, cluster in rows if a is not None and b is not None]


def _refuse_other_lengths(**values: Sequence[object]) -> None:
    lengths = {name: len(sequence) for name, sequence in values.items()}
    if len(set(lengths.values())) > 1:
        description = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"{description} values; give one for each example, in the same order, and None for a missing one"
        )


def _note(spread: Spread, interval: Interval, differing: int, p: float | None, skewness: float) -> str:
    """Return a caveat for the reader: there is no interval, or too few clusters, or those that differ, for evidence.

    `skewness` is that of the clusters' sums against their mean if p rests on their signs.
    """
    reason = f"no interval: {interval.reason}" if interval.reason else ""
    least = f", and p cannot fall below {floor:.3g}" if (floor := 2.0 ** (1 - spread.clusters)) > ALPHA else ""
    size_caveat = too_few(spread.n, spread.clusters, spread.effective_clusters)
    alone = not reason and not size_caveat and interval.method != SCORE
    sparse = too_sparse(differing, independent=spread.independent) if alone else ""
    missed = may_be_missed(spread.n, spread.clusters, p) if interval.method != SCORE else ""
    skewed = may_be_skewed(skewness, p, independent=spread.independent)
    return "; ".join(filter(None, (reason, sparse, size_caveat and size_caveat + least, missed, skewed)))


def sign_flip(sums: Floats, seed: int = 0, draws: int = SIGN_FLIPS) -> float:
    """Return the two-sided p of Σ D_c under random signs of the clusters' sums D_c, shape (G,).

    It is exact for few clusters, and for sums of 0/1 values or of fair shares of ties, whose distribution is a
    convolution of two-point distributions. Otherwise it is drawn, see `drawn_p`.

    Args:
        sums: sums of the clusters.
        seed: seed of the draws.
        draws: largest number of draws.
    """
    magnitudes = np.abs(sums[apart_from_zero(sums)])
    # rounding must not hide an equal pattern
    seen = abs(float(sums.sum())) - ROUNDING_ERROR * float(np.abs(sums).sum())
    if len(magnitudes) <= MAX_ENUMERATED_CLUSTERS:
        return float(np.mean(np.abs((2 * all_coins(len(magnitudes)) - 1) @ magnitudes) >= seen))
    for unit in UNITS:
        steps = np.rint(magnitudes * unit)
        if np.abs(steps - magnitudes * unit).max() <= ROUNDING_ERROR * unit and len(steps) * steps.sum() <= MOST_STEPS:
            return max(_convolve_signs(steps.astype(np.int64), round(abs(float(sums.sum())) * unit)), MIN_FLOAT)
    sizes, repeats = np.unique(magnitudes, return_counts=True)
    single = len(sizes) == len(magnitudes)
    generator = np.random.default_rng(seed)

    def extreme(size: int) -> int:
        positive = (
            coins(generator, size, len(sizes)) if single else generator.binomial(repeats, 0.5, (size, len(sizes)))
        )
        return int(np.sum(np.abs((2 * positive - repeats) @ sizes) >= seen))

    return drawn_p(extreme, len(sizes), draws)


def _convolve_signs(steps: NDArray[np.int64], seen: int) -> float:
    """Return the probability that positive integers with random signs have a sum of at least ±`seen`."""
    total = int(steps.sum())
    share, reached = np.zeros(total + 1), 0  # probability of each sum of the integers that have a plus
    share[0] = 1.0
    for step in sorted(steps.tolist()):
        reached += step
        part = share[: reached + 1]
        part[step:] += part[:-step].copy()
        part *= 0.5
    return float(share[np.abs(2 * np.arange(total + 1) - total) >= seen].sum())


def all_coins(count: int) -> Floats:
    """Return all patterns of this many zeros and ones, shape (2^count, count)."""
    return ((np.arange(2**count)[:, None] >> np.arange(count)) & 1).astype(np.float64)


def coins(generator: np.random.Generator, size: int, width: int) -> Floats:
    """Return fair 0/1 draws, shape (size, width)."""
    drawn = generator.integers(0, 256, size=(size, -(-width // 8)), dtype=np.uint8)
    return np.unpackbits(drawn, axis=1, count=width).astype(np.float64)


def drawn_p(extreme: Callable[[int], int], width: int, max_draws: int) -> float:
    """Return the p-value of a Monte Carlo test, (r + 1) / (B + 1) (Phipson and Smyth 2010), which is never 0.

    There are 10,000 draws B, and four times as many again and again while fewer than 20 of them are extreme. This is
    valid: for the first number of draws with 21 / (B + 1) ≤ α, p ≤ α implies that it is at most α after B draws, too,
    since tests that stopped before have a larger one, and tests that go on have fewer than 20 extreme draws.

    Args:
        extreme: draws this many times and returns how often the result was at least as extreme as the observed one.
        width: numbers of one draw, which bound the size of a block.
        max_draws: largest number of draws.
    """
    done = hits = 0
    stage = min(SIGN_FLIPS, max_draws)
    while True:
        hits += sum(extreme(size) for size in blocks(stage - done, width))
        done = stage
        if hits >= MIN_EXTREME_DRAWS or done == max_draws:
            return (hits + 1) / (done + 1)
        stage = min(4 * stage, max_draws)


def draws_for(tests: int) -> int:
    """Return the largest number of draws for each of several tests: 20 for each possible p-value of α / tests."""
    return min(MOST_DRAWS, max(SIGN_FLIPS, math.ceil(20 * tests / ALPHA)))


def holm(pvalues: Sequence[float]) -> list[float]:
    """Return Holm's (1979) adjusted p-values, in the given order; valid for any dependence between the tests."""
    adjusted = [1.0] * len(pvalues)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(pvalues)), key=pvalues.__getitem__)):
        largest = max(largest, min(1.0, (len(pvalues) - rank) * pvalues[index]))
        adjusted[index] = largest
    return adjusted


def benjamini_hochberg(pvalues: Sequence[float]) -> list[float]:
    """Return Benjamini and Hochberg's (1995) adjusted p-values, in the given order.

    They control the expected share of false findings, for tests that are independent or positively dependent.
    """
    from scipy.stats import false_discovery_control

    return [float(p) for p in false_discovery_control(pvalues)] if pvalues else []
