"""Power of comparisons: the smallest detectable difference, equivalence, and plans for an experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import NormalDist

import numpy as np

from figeval.metrics.caveats import ALPHA
from figeval.metrics.differences import larger_variance
from figeval.metrics.intervals import CELLS, FEW, NOTHING, TINIEST, spread_of
from figeval.metrics.matched import score_statistic, smallest_found
from figeval.metrics.paired_test import PairedTest

POWER = 0.8
SIMULATED = 12  # up to this many clusters, the power of the sign flip is simulated
SIMULATIONS, HALVINGS = 2000, 12
MANY = 10_000  # degrees of freedom of a t distribution that is as good as normal
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
    if freedom > MANY:
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
        factor = _found(test.freedom, test.clusters, POWER, level) if flips else detectable(1.0, test.freedom)
        by_t = factor * test.stderr + (1 / test.n if flips and test.effective_n is not None else 0.0)
    if test.effective_n is None or test.a_only is None or test.b_only is None:
        return by_t
    share = (test.a_only + test.b_only) / test.n
    exact = smallest_found(int(test.effective_n), share, POWER, level, at_least=True)
    if exact is None or test.clusters == test.n:
        return exact
    larger = max(exact, by_t or 0.0)
    return larger if larger <= 1 else None


def reachable(test: PairedTest, level: float = ALPHA) -> float:
    """Return the largest p-value of a comparison that does not exceed the level; 0 if there is none.

    The p-values of sign flips and permutations of G clusters are multiples of 2 / 2^G.
    """
    return _reachable(test.clusters, level) if test.test.startswith(EXCHANGES) else level


def _found(freedom: float, clusters: int, power: float, level: float) -> float:
    """Return the smallest true difference that a sign flip of clusters finds, in standard errors.

    It is that of a t test at the largest p-value that the sign flip has below the level. For up to twelve clusters, the
    sign flip itself has less power and is simulated.
    """
    by_t = detectable(1.0, freedom, power, _reachable(clusters, level))
    groups = max(round(min(freedom, MANY)) + 1, math.ceil(1 - math.log2(level)))
    return by_t if groups > SIMULATED else max(by_t, _by_flips(groups, power, level))


@lru_cache(maxsize=32)
def _found_by_t(sizes: tuple[int, ...], correlation: float, power: float, level: float) -> float:
    """Return the smallest true difference that the t test of `paired` finds, in true standard errors.

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


@lru_cache(maxsize=32)
def _by_flips(groups: int, power: float, level: float) -> float:
    """Return the smallest mean of normal numbers, in standard errors, that all sign patterns of them find."""
    noise = np.random.default_rng(0).normal(size=(SIMULATIONS, groups))
    signs = np.array([(1.0, *rest) for rest in product((-1.0, 1.0), repeat=groups - 1)]).T
    low, high = 0.0, 2 * detectable(1.0, groups - 1.0, power, _reachable(groups, level))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        drawn = noise + middle / math.sqrt(groups)
        seen = np.abs(drawn.sum(axis=1, keepdims=True)) * (1 - NOTHING)
        found = (np.abs(drawn @ signs) >= seen).mean(axis=1) <= level
        low, high = (low, middle) if found.mean() >= power else (middle, high)
    return high


def _reachable(clusters: int, level: float) -> float:
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
        few = test.differing is not None and test.differing < FEW
        return None if few or by_t is None else min(1.0, max(by_t, TINIEST))
    if margin >= 1:
        return TINIEST
    independent = test.clusters == test.n
    freedom = math.inf if independent else max(1.0, (test.effective_clusters or test.clusters) - 1)
    size = test.effective_n / test.n
    counts = test.a_only * size, test.b_only * size, test.effective_n
    nearest = min(score_statistic(*counts, -margin), -score_statistic(*counts, margin))
    by_score = _tail(nearest, freedom)
    return min(1.0, max(by_score, TINIEST if independent else by_t or 0.0, TINIEST))


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


def planned(
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
    difference = smallest_found(int(n / effect), disagreement, power, level)
    if difference is not None and len(sizes) < n:
        reached = _reachable(len(sizes), level)
        # δ² = q² (d − δ²) effect / n, solved for δ
        factor = _found(max(1.0, n**2 / squared - 1), len(sizes), power, level) if reached else 0.0
        if reached and len(set(sizes)) > 1:
            factor = max(factor, _found_by_t(tuple(sizes), correlation, power, level))
        share = factor**2 * effect / n
        difference = max(difference, math.sqrt(share * disagreement / (1 + share)) + 1 / n) if reached else None
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


def _tail(t: float, freedom: float) -> float:
    if math.isinf(freedom):
        return 1 - NormalDist().cdf(t)
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))
