"""Power of comparisons: the smallest detectable difference, equivalence, and plans for an experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from figeval.metrics.paired import ALPHA, TINIEST, PairedTest

POWER = 0.8


def detectable(stderr: float, freedom: float = math.inf, power: float = POWER, level: float = ALPHA) -> float:
    """Return the smallest true difference that a two-sided test would find with this probability.

    It is (t_{1−α/2} + t_{power}) · SE (Bloom 1995), the minimum detectable effect.

    Args:
        stderr: standard error of the difference.
        freedom: degrees of freedom of Student's t.
        power: probability of p < `level` if the difference is as large.
        level: level of the test.
    """
    return (_quantile(1 - level / 2, freedom) + _quantile(power, freedom)) * stderr


def detectable_by(test: PairedTest, level: float = ALPHA) -> float | None:
    """Return the smallest difference that a comparison would find with probability .8; None without standard error."""
    if test.stderr is None or test.freedom is None:
        return None
    return detectable(test.stderr, test.freedom, level=level)


def equivalence(test: PairedTest, margin: float) -> float | None:
    """Return the p-value of two one-sided tests (Schuirmann 1987) of |difference| ≥ margin; None without interval.

    If it is below .05, the 90 % interval of the difference lies within ± margin.
    """
    if test.stderr is None or test.freedom is None or test.difference is None:
        return None
    nearest = (margin - abs(test.difference)) / test.stderr
    return min(1.0, max(_tail(nearest, test.freedom), TINIEST))


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

    The variance of a paired difference δ of 0/1 values is d − δ², where d is the share of examples that only one model
    gets right (Miettinen 1968); the design effect multiplies it.

    Args:
        sizes: number of examples of each cluster.
        disagreement: d.
        correlation: intraclass correlation of the differences ρ; 0 for independent examples.
        power: probability of finding the difference.
        level: level of the two-sided test.
    """
    n, squared = sum(sizes), sum(size**2 for size in sizes)
    effect = 1 + (squared / n - 1) * correlation
    freedom = max(1.0, n**2 / squared - 1)
    # δ² = q² (d − δ²) effect / n, solved for δ
    share: float = (_quantile(1 - level / 2, freedom) + _quantile(power, freedom)) ** 2 * effect / n
    difference = math.sqrt(share * disagreement / (1 + share))
    return ComparisonPlan(
        n=n,
        clusters=len(sizes),
        effective_clusters=n**2 / squared,
        disagreement=disagreement,
        correlation=correlation,
        effect=effect,
        difference=difference if difference < disagreement else None,
        power=power,
    )


def _quantile(share: float, freedom: float) -> float:
    if math.isinf(freedom):
        return NormalDist().inv_cdf(share)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


def _tail(t: float, freedom: float) -> float:
    if math.isinf(freedom):
        return 1 - NormalDist().cdf(t)
    from scipy.special import stdtr

    return float(stdtr(freedom, -t))
