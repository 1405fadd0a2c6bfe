"""Limits of comparisons and of plans: the smallest detectable difference, power of McNemar's test, and equivalence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.differences import ALPHA, PairedTest, larger_variance, score_statistic
from figeval.metrics.intervals import CELLS, FEW_CLUSTERS, MIN_FLOAT, ROUNDING_ERROR, spread_of

POWER = 0.8
MAX_SIMULATED = 12  # clusters; up to this many, the power of the sign flip is simulated
SIMULATIONS, HALVINGS = 2000, 12
HALVINGS_OF_MCNEMAR = 25
NORMAL_FREEDOM = 10_000  # degrees of freedom of a t distribution that is as good as normal
MAX_DEVIATIONS = 9.0  # standard deviations; further numbers are too unlikely to count
EXCHANGES = ("sign flip", "permutation")  # the tests' names begin with these


def detectable(stderr: float, freedom: float = math.inf, power: float = POWER, level: float = ALPHA) -> float:
    """Return the smallest true difference that a two-sided t test would find with this probability.

    It is that of the noncentral t distribution; for many degrees of freedom, (z_{1−α/2} + z_{power}) · SE (Bloom 1995).

    Args:
        stderr: standard error of the difference.
        freedom: degrees of freedom of Student's t.
        power: probability of p < `level` if the difference is as large.
        level: level of the test.
    """
    if freedom > NORMAL_FREEDOM:
        return (NormalDist().inv_cdf(1 - level / 2) + NormalDist().inv_cdf(power)) * stderr
    from scipy.special import nctdtrinc, stdtrit

    return float(nctdtrinc(freedom, 1 - power, stdtrit(freedom, 1 - level / 2))) * stderr


def detectable_by(test: PairedTest, level: float = ALPHA) -> float | None:
    """Return the smallest difference that a comparison would find with probability .8, or None if there is none.

    For 0/1 values, it is that of the exact McNemar test on as many independent examples as have the same precision,
    with as much disagreement as was observed, or as the difference needs. For clusters, that of a sign flip with the
    observed standard error is computed, too, and the larger one counts; for other values, there is only the latter.
    Sums of 0/1 values are whole numbers, which costs the sign flip half a step more.
    """
    if test.p is None or reachable(test, level) == 0:
        return None
    flips = test.test.startswith(EXCHANGES)
    by_t = None
    if test.stderr and test.freedom:
        if flips:
            factor = flip_factor(test.freedom, test.clusters, POWER, level)
        else:
            factor = detectable(1.0, test.freedom, POWER, level)
        by_t = factor * test.stderr + (1 / test.n if flips and test.effective_n is not None else 0.0)
    if test.effective_n is None or test.a_only is None or test.b_only is None:
        return by_t
    share = (test.a_only + test.b_only) / test.n
    exact = smallest_difference(int(test.effective_n), share, POWER, level, at_least=True)
    if exact is None or test.clusters == test.n:
        return exact
    larger = max(exact, by_t or 0.0)
    return larger if larger <= 1 else None


def reachable(test: PairedTest, level: float = ALPHA) -> float:
    """Return the largest p-value of a comparison that does not exceed the level; 0 if there is none.

    The p-values of sign flips and permutations of G clusters are multiples of 2 / 2^G.
    """
    return reachable_level(test.clusters, level) if test.test.startswith(EXCHANGES) else level


def flip_factor(freedom: float, clusters: int, power: float, level: float) -> float:
    """Return the smallest true difference that a sign flip of clusters finds, in standard errors.

    It is that of a t test at the largest p-value that the sign flip has below the level. For up to twelve clusters, the
    sign flip itself has less power and is simulated.
    """
    by_t = detectable(1.0, freedom, power, reachable_level(clusters, level))
    groups = max(round(min(freedom, NORMAL_FREEDOM)) + 1, math.ceil(1 - math.log2(level)))
    return by_t if groups > MAX_SIMULATED else max(by_t, _by_flips(groups, power, level))


@lru_cache(maxsize=32)
def _by_flips(groups: int, power: float, level: float) -> float:
    """Return the smallest mean of normal numbers, in standard errors, that all sign patterns of them find."""
    noise = np.random.default_rng(0).normal(size=(SIMULATIONS, groups))
    signs = np.array([(1.0, *rest) for rest in product((-1.0, 1.0), repeat=groups - 1)]).T
    low, high = 0.0, 2 * detectable(1.0, groups - 1.0, power, reachable_level(groups, level))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        samples = noise + middle / math.sqrt(groups)
        observed = np.abs(samples.sum(axis=1, keepdims=True)) * (1 - ROUNDING_ERROR)
        is_found = (np.abs(samples @ signs) >= observed).mean(axis=1) <= level
        low, high = (low, middle) if is_found.mean() >= power else (middle, high)
    return high


def reachable_level(clusters: int, level: float) -> float:
    """Return the largest p-value of a sign flip of clusters that does not exceed the level; 0 if there is none."""
    patterns = 2.0 ** min(clusters - 1, 50)
    return math.floor(level * patterns) / patterns


def equivalence(test: PairedTest, margin: float) -> float | None:
    """Return the p-value of two one-sided tests (Schuirmann 1987) of |difference| ≥ margin; None if there is no test.

    For 0/1 values, these are Tango's (1998) score tests, whose variance is not too small if hardly any example differs.
    For clusters, they have the effective number of examples and Student's t, and if the t tests with the clustered
    standard error have a larger p-value, that counts. For other values, means over seeds and scores that are no means,
    there are only the latter, and no test if fewer than ten clusters differ.
    """
    if test.difference is None or test.clusters < 2:
        return None
    by_t = None
    if test.stderr and test.freedom:
        by_t = _tail((margin - abs(test.difference)) / test.stderr, test.freedom)
    if test.effective_n is None or test.a_only is None or test.b_only is None:
        is_sparse = test.differing is not None and test.differing < FEW_CLUSTERS
        return None if is_sparse or by_t is None else min(1.0, max(by_t, MIN_FLOAT))
    if margin >= 1:
        return MIN_FLOAT
    independent = test.clusters == test.n
    freedom = math.inf if independent else max(1.0, (test.effective_clusters or test.clusters) - 1)
    size = test.effective_n / test.n
    counts = test.a_only * size, test.b_only * size, test.effective_n
    nearest = min(score_statistic(*counts, -margin), -score_statistic(*counts, margin))
    by_score = _tail(nearest, freedom)
    return min(1.0, max(by_score, MIN_FLOAT if independent else by_t or 0.0, MIN_FLOAT))


def _tail(t: float, freedom: float) -> float:
    if math.isinf(freedom):
        return 1 - NormalDist().cdf(t)
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))


# ---- the exact McNemar test ------------------------------------------------------------------------------------------


def mcnemar_power(n: int, disagreement: float, difference: float, level: float) -> float:
    """Return the probability that the exact McNemar test finds a true difference (Connor 1987, without approximation).

    The number of discordant examples is binomial with the share `disagreement`, and so is, among them, the number that
    only A gets right, with the share (1 + difference / disagreement) / 2.

    Args:
        n: examples.
        disagreement: share of examples that only one of the runs gets right.
        difference: true difference of the accuracies, at most as large as `disagreement`.
        level: level of the two-sided test.
    """
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    reach = MAX_DEVIATIONS * math.sqrt(n * disagreement * (1 - disagreement)) + MAX_DEVIATIONS
    first, last = max(0, math.floor(n * disagreement - reach)), min(n, math.ceil(n * disagreement + reach))
    discordant = np.arange(first, last + 1)
    log = gammaln(n + 1) - gammaln(discordant + 1.0) - gammaln(n - discordant + 1.0)
    chance = np.exp(log + xlogy(discordant, disagreement) + xlog1py(n - discordant, -disagreement))
    wins = _largest_wins(1 << last.bit_length(), level)[first : last + 1]
    share = (1 + difference / disagreement) / 2
    tails = sum(bdtr(wins.clip(0), discordant, p) for p in (share, 1 - share))
    return float(chance @ np.where(wins >= 0, tails, 0.0))


@lru_cache(maxsize=16)
def _largest_wins(max_discordant: int, level: float) -> NDArray[np.float64]:
    """Return the most that the weaker run wins at p ≤ level, for 0 to `max_discordant` examples; −1 for none."""
    from scipy.special import bdtr, bdtrik

    discordant = np.arange(max_discordant + 1)
    wins = np.floor(np.nan_to_num(bdtrik(level / 2, discordant.astype(np.float64), 0.5), nan=-1.0)) + 1
    for _ in range(2):
        wins = np.where((wins >= 0) & (2 * bdtr(wins.clip(0), discordant, 0.5) > level), wins - 1, wins)
    return np.asarray(wins, dtype=np.float64)


@lru_cache(maxsize=4096)
def smallest_difference(
    n: int, disagreement: float, power: float, level: float, *, at_least: bool = False
) -> float | None:
    """Return the smallest true difference that the exact McNemar test finds with a probability, or None.

    Args:
        n: examples.
        disagreement: share of examples that only one of the runs gets right.
        power: the probability.
        level: level of the two-sided test.
        at_least: whether a larger difference comes with as much more disagreement, instead of being impossible.
    """
    largest = 1.0 if at_least else disagreement

    def finds(difference: float) -> bool:
        return mcnemar_power(n, max(disagreement, difference), difference, level) >= power

    if n < 1 or not finds(largest):
        return None
    low, high = 0.0, largest
    for _ in range(HALVINGS_OF_MCNEMAR):
        middle = (low + high) / 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


# ---- plans -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """Precision of a comparison of two models on a data set that has not been run yet.

    Attributes:
        n: number of examples.
        clusters: number of clusters.
        effective_clusters: N² / Σ n_c².
        disagreement: assumed share of examples that only one of the models gets right.
        correlation: assumed intraclass correlation of the differences.
        effect: design effect (Kish 1965), 1 + (Σ n_c² / N − 1) ρ.
        difference: smallest difference in accuracy that is found with probability `power`; None if not even one as
            large as the disagreement is found.
        power: that probability.
    """

    n: int
    clusters: int
    effective_clusters: float
    disagreement: float
    correlation: float
    effect: float
    difference: float | None
    power: float = POWER


def plan_comparison(
    sizes: list[int], disagreement: float, correlation: float, power: float = POWER, level: float = ALPHA
) -> ComparisonPlan:
    """Return the smallest difference in accuracy that a paired comparison on these clusters would find.

    It is that of the exact McNemar test on N / effect examples, where effect is the design effect, with d the share of
    examples that only one model gets right (Connor 1987, without approximation). In clusters, this approximates the
    sign flip; that of a sign flip of the clusters' sums with the variance d − δ² of a paired difference δ (Miettinen
    1968), times effect / N, is computed, too, and for clusters of unequal size that of the t test, which must find the
    difference as well. The larger one counts.

    Args:
        sizes: number of examples of each cluster.
        disagreement: d.
        correlation: intraclass correlation of the differences ρ; 0 for independent examples.
        power: probability of finding the difference.
        level: level of the two-sided test.
    """
    n, squared = sum(sizes), sum(size**2 for size in sizes)
    effect = 1 + (squared / n - 1) * correlation
    difference = smallest_difference(int(n / effect), disagreement, power, level)
    if difference is not None and len(sizes) < n:
        is_reachable = reachable_level(len(sizes), level) > 0
        # δ² = q² (d − δ²) effect / n, solved for δ
        factor = flip_factor(max(1.0, n**2 / squared - 1), len(sizes), power, level) if is_reachable else 0.0
        if is_reachable and len(set(sizes)) > 1:
            factor = max(factor, _t_factor(tuple(sizes), correlation, power, level))
        share = factor**2 * effect / n
        difference = max(difference, math.sqrt(share * disagreement / (1 + share)) + 1 / n) if is_reachable else None
    return ComparisonPlan(
        n=n,
        clusters=len(sizes),
        effective_clusters=n**2 / squared,
        disagreement=disagreement,
        correlation=correlation,
        effect=effect,
        difference=difference if difference is not None and difference < disagreement else None,
        power=power,
    )


@lru_cache(maxsize=32)
def _t_factor(sizes: tuple[int, ...], correlation: float, power: float, level: float) -> float:
    """Return the smallest true difference that the t test of `compare_paired` finds, in true standard errors.

    Normal differences with this intraclass correlation are drawn for clusters of these sizes. A difference is found in
    those draws in which it is larger than the margin of their interval minus their mean.
    """
    from scipy.special import stdtrit

    counts, generator = np.array(sizes, dtype=np.float64), np.random.default_rng(0)
    n, groups = counts.sum(), len(sizes)
    draws = max(200, min(SIMULATIONS, CELLS // groups))
    means = math.sqrt(correlation) * generator.normal(size=(draws, groups))
    means += np.sqrt((1 - correlation) / counts) * generator.normal(size=(draws, groups))
    within = (1 - correlation) * generator.chisquare(max(1.0, n - groups), size=draws)
    sums = means * counts
    margins = stdtrit(spread_of(sums[0], counts).freedom, 1 - level / 2) * np.sqrt(
        larger_variance(sums, counts, within)
    )
    stderr = math.sqrt(correlation * float(counts @ counts) + (1 - correlation) * n) / n
    return float(np.quantile(margins - sums.sum(axis=1) / n, power) / stderr)
