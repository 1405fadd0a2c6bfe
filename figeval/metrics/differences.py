"""Statistics of differences between two runs: tests of 0/1 values, the spread in clusters, and caveats.

If few clusters have most of the examples and few of all clusters have most of the difference, the large clusters seldom
include any of the latter. They then agree with one another, and a variance that is estimated from the clusters' sums
alone is far too small. The small clusters show what is missing: how much clusters differ. bench/README.md reports
the simulated rates of false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.metrics.intervals import (
    FEW_CLUSTERS,
    LEVEL,
    MIN_FLOAT,
    PRIOR_CORRELATION,
    ROUNDING_ERROR,
    Bounds,
    Floats,
    Spread,
    clip,
    spread_of,
)
from figeval.types import JSON, Interval, IntervalEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest(IntervalEnds):
    """Difference of run A minus run B over the `n` examples that both answered, in `clusters` independent groups.

    `p` is the p-value of `test`, or None if there is nothing to test. `freedom` has the degrees of freedom of `stderr`.
    `effective_clusters` is the number of equally sized groups with the same precision. `a_only` and `b_only` count the
    examples that only one run got right, for 0/1 values, and `effective_n` is the number of independent examples with
    the same precision. `differing` clusters have different sums. `note` is a caveat, e.g. that there is no interval.
    """

    n: int
    clusters: int
    effective_clusters: float | None = None
    value_a: float | None = None
    value_b: float | None = None
    difference: float | None = None
    freedom: float | None = None
    interval: Interval = field(default_factory=Interval)
    test: str = ""
    p: float | None = None
    a_only: int | None = None
    b_only: int | None = None
    effective_n: float | None = None
    differing: int | None = None
    note: str = ""

    def within(self, bounds: Bounds) -> PairedTest:
        """Return the same with only those differences in the interval that values with these bounds can have."""
        if self.low is None or self.high is None:
            return self
        low, high = clip((self.low, self.high), bounds_of_difference(bounds))
        return replace(self, interval=replace(self.interval, low=low, high=high))

    def to_dict(self) -> JSON:
        """Return the fields as values that JSON can represent; of the interval, its ends and the name of its method."""
        names = [field.name for field in fields(self)]
        index = names.index("freedom")
        names[index:index] = ["low", "high", "stderr"]
        words = str(self.interval) if self.low is not None else ""  # `note` says why there is none
        return {name: getattr(self, name) for name in names} | {"interval": words}


ALPHA = 0.05
RARE_SHARE = 0.1  # share of the clusters that may have all of a difference
SKEWED = 1.5  # beyond which a skewness is said; sums of about equal differences have less
MAX_FALSE_ALARMS = 0.12  # simulated for 30 clusters and more of equal size (bench/README.md)
HALVINGS = 50
ZERO_TOLERANCE = 1e-9  # a mean this close to 0 has no sign, because shares of several orders are rounded


def spread_of_differences(sums: ArrayLike, sizes: ArrayLike, within: float) -> Spread:
    """Return the spread of differences with the larger of two variances of their mean.

    The first is the CR2 variance of the clusters' sums. The second assumes that differences have nothing to do with the
    sizes of clusters: the means of clusters, e_c = S_c / n_c, then have the variances σ² + τ² / n_c, and the mean of
    all rows has V = (σ² Σ n_c² + τ² N) / N². τ² is estimated within clusters, and σ² from the weighted sum of squares
    of the e_c, with weights that are best for an intraclass correlation of .2. For clusters of equal size, V is the CR2
    variance.

    Args:
        sums: sums of the clusters' differences, shape (c,).
        sizes: sizes of the clusters, shape (c,).
        within: sum of squares within clusters.
    """
    spread = spread_of(sums, sizes, within)
    if spread.clusters < 2 or spread.independent or spread.alike:
        return spread
    totals, counts = (np.asarray(values, dtype=np.float64) for values in (sums, sizes))
    return replace(spread, corrected=spread.n**2 * float(larger_variance(totals, counts, np.float64(within))))


def larger_variance(sums: Floats, sizes: Floats, within: Floats | np.float64) -> Floats:
    """Return the larger variance of `spread_of_differences` for G ≥ 2 clusters of several rows.

    Args:
        sums: sums of the clusters' differences, shape (..., G).
        sizes: sizes of the clusters, shape (G,).
        within: sums of squares within clusters, shape (...).
    """
    groups, n = len(sizes), float(sizes.sum())
    residuals = sums - sizes * (sums.sum(axis=-1, keepdims=True) / n)
    of_sums = (np.square(residuals) / (1 - sizes / n)).sum(axis=-1) / n**2
    means = sums / sizes
    weights = 1 / (PRIOR_CORRELATION + (1 - PRIOR_CORRELATION) / sizes)
    weights /= weights.sum()
    of_rows = within / (n - groups)
    squares = np.square(means - (means @ weights)[..., None]) @ weights
    shares = weights * (1 - weights)  # E[squares] = Σ w (1 − w) (σ² + τ² / n_c)
    of_clusters = (squares - of_rows * float((shares / sizes).sum())) / float(shares.sum())
    larger: Floats = np.maximum(of_sums, (of_clusters * float(sizes @ sizes) + of_rows * n) / n**2)
    return larger


def bounds_of_difference(bounds: Bounds) -> Bounds:
    """Return the bounds of a difference of two numbers with these bounds."""
    return None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])


def refuse_infinite(*values: Floats) -> None:
    """Raise `ValueError` if a value is NaN or infinite, which a comparison would take for a number."""
    if not all(np.isfinite(array).all() for array in values):
        raise ValueError("a value is NaN or infinite; use None for a missing value")


def refuse_other_languages(**values: Mapping[str, object]) -> None:
    """Raise `ValueError` if mappings by language have different languages."""
    languages = {name: ", ".join(sorted(by_language)) for name, by_language in values.items()}
    if len(set(languages.values())) > 1:
        raise ValueError("; ".join(f"{name} has {listed}" for name, listed in languages.items()))


def opposed_skewness(sums: Floats) -> float:
    """Return the skewness of clusters' sums in the direction opposite to their mean; 0 if they do not contradict it.

    It is large if a few clusters with large differences contradict the others: then a sample happens to have fewer of
    them than most samples of the size. Where one run is better nearly everywhere, sums are skewed by the clusters in
    which neither is. Those contradict nothing, and no cluster differs as much in the opposite direction.
    """
    opposed = -math.copysign(1.0, sums.mean()) * sums
    if opposed.max() < -opposed.min():
        return 0.0
    residuals = opposed - opposed.mean()
    squares = float(np.square(residuals).mean())
    return float((residuals**3).mean()) / squares**1.5 if squares > 0 else 0.0


def apart_from_zero(sums: Floats) -> NDArray[np.bool_]:
    """Return which sums are not 0 but for rounding, as those of fair shares of ties may be; same shape."""
    return np.asarray(np.abs(sums) > ROUNDING_ERROR * np.abs(sums).max(initial=0.0))


def chance_of_no_opposition(a: Floats, b: Floats, sums: Floats) -> float:
    """Return the probability that no cluster contradicts a difference that does not exist; 0 if one does.

    If one run has 0/1 values and the other expected ones, such as 1/30 for a tie of 30 answers, a run that is never
    right is worse in every cluster, and all signs agree. But signs are no evidence there: a right answer is rare, and
    counts 29 times as much. If the mean of differences that are either d or d - 1 is 0, each is d with probability
    1 - d, and so are those of all G clusters with (1 - d)^G. For values other than 0, 1 and 1 / k, it is 0.

    Args:
        a: values of run A, shape (n,).
        b: values of run B, shape (n,).
        sums: sums of the differences in each cluster, shape (G,).
    """
    is_binary = [bool(np.isin(values, (0.0, 1.0)).all()) for values in (a, b)]
    signs = np.sign(sums[apart_from_zero(sums)])
    if is_binary[0] == is_binary[1] or np.unique(signs).size != 1 or not _are_shares_of_ties(np.concatenate((a, b))):
        return 0.0
    return float((1 - abs(np.mean(a - b))) ** len(sums))


def _are_shares_of_ties(values: Floats) -> bool:
    """Return whether all values are 0, or 1 / k for a whole number k, as if k tied answers shared one right one."""
    with np.errstate(over="ignore"):
        sizes = 1 / values[values != 0]
    return bool(np.isfinite(sizes).all() and (sizes >= 1).all() and np.allclose(sizes, np.rint(sizes)))


def t_test(mean: float, stderr: float, freedom: float) -> float:
    """Return the two-sided p-value of a mean that is 0 in truth, by Student's t; it is never 0."""
    from scipy.special import stdtr

    return max(2 * float(stdtr(freedom, -abs(mean) / stderr)), MIN_FLOAT)


# ---- tests that papers report ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SignTest:
    """Numbers of clusters with a positive, no and a negative mean, and the two-sided p (None if none has a sign)."""

    wins: int
    ties: int
    losses: int
    p: float | None


def sign_test(values: Iterable[tuple[float, str | None]], no_preference: float = 0.0) -> SignTest:
    """Test values with their clusters against the value without a preference; a cluster of None is a separate one.

    Clusters without a sign are left out and counted. Without a preference, the others would be equally often positive
    and negative (an exact two-sided binomial test; Dixon and Mood 1946).
    """
    clusters: dict[str | int, list[float]] = {}
    for index, (value, cluster) in enumerate(values):
        clusters.setdefault(index if cluster is None else cluster, []).append(value - no_preference)
    means = [math.fsum(differences) / len(differences) for differences in clusters.values()]
    wins, losses = sum(mean > ZERO_TOLERANCE for mean in means), sum(mean < -ZERO_TOLERANCE for mean in means)
    p = mcnemar(wins, losses) if wins or losses else None
    return SignTest(wins, len(means) - wins - losses, losses, p)


def unpaired_t_test(values_a: Sequence[float], values_b: Sequence[float]) -> tuple[float | None, Interval]:
    """Return the two-sided p of independent samples by Welch's (1947) t-test, and the interval of the difference.

    There is neither for samples of fewer than two values, and no p if no value differs from another of its sample.
    """
    if min(len(values_a), len(values_b)) < 2:
        return None, Interval(reason="fewer than two independent values in a sample")
    if not (np.ptp(values_a) or np.ptp(values_b)):
        return None, Interval(reason="all values of each sample are the same")
    from scipy.stats import ttest_ind

    result = ttest_ind(values_a, values_b, equal_var=False)
    low, high = result.confidence_interval(LEVEL)
    return max(float(result.pvalue), MIN_FLOAT), Interval("Welch's t", float(low), float(high))


# ---- 0/1 values of independent examples ------------------------------------------------------------------------------


# All of it depends on three numbers: the examples, and those that only one of the runs got right. In clusters, the
# numbers may be fractional ones of an effective sample.


def mcnemar(a_only: int, b_only: int, *, mid: bool = False) -> float:
    """Return the two-sided exact McNemar (1947) p from the counts that only one run got right; `mid` for the mid-p."""
    from scipy.special import bdtr

    n, fewer = a_only + b_only, min(a_only, b_only)
    if a_only == b_only:
        return 1.0
    below = float(bdtr(fewer, n, 0.5))
    if mid:
        point = below - (float(bdtr(fewer - 1, n, 0.5)) if fewer else 0.0)
        return max(2 * below - point, MIN_FLOAT)
    return max(min(1.0, 2 * below), MIN_FLOAT)


def score_statistic(a_only: float, b_only: float, n: float, difference: float) -> float:
    """Return Tango's (1998, equation 8) score statistic of a true difference, which is about standard normal.

    The variance is that of the most likely share of examples that only B gets right if the difference is true, so it
    is not 0 if no example differs, or if all differ in one direction.
    """
    b = (2 * n - a_only + b_only) * difference - a_only - b_only
    share = (math.sqrt(max(0.0, b * b + 8 * n * b_only * difference * (1 - difference))) - b) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    gap = a_only - b_only - n * difference
    if variance <= 0:
        return math.copysign(math.inf, gap) if gap else 0.0
    return gap / math.sqrt(variance)


def score_interval(a_only: float, b_only: float, n: float, quantile: float | None = None) -> tuple[float, float]:
    """Return Tango's (1998) score interval of the difference: all values that the score test does not reject.

    Args:
        a_only: examples that only A got right.
        b_only: examples that only B got right.
        n: all examples.
        quantile: quantile to use instead of the normal distribution's.
    """
    z = NormalDist().inv_cdf((1 + LEVEL) / 2) if quantile is None else quantile
    estimate = (a_only - b_only) / n

    def limit(end: float) -> float:
        inside, outside = estimate, end
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            if abs(score_statistic(a_only, b_only, n, middle)) <= z:
                inside = middle
            else:
                outside = middle
        return inside

    return limit(-1.0), limit(1.0)


# ---- caveats ---------------------------------------------------------------------------------------------------------


def too_few(n: int, clusters: int, effective: float) -> str:
    """Return a caveat if there are fewer than ten effective clusters, else an empty text."""
    if effective >= FEW_CLUSTERS:
        return ""
    unit = "examples" if clusters == n else "clusters"
    unequal = "" if math.isclose(effective, clusters) else " effective"
    return f"too few {unit} ({effective:.3g}{unequal}): the test has little power"


def may_be_missed(n: int, clusters: int, p: float | None) -> str:
    """Return a caveat if a difference was found in so few clusters that a tenth of all may well be missing from them.

    Without them, the runs may differ alike in all clusters, and no test can know better.
    """
    if p is None or p > ALPHA or (share := (1 - RARE_SHARE) ** clusters) <= ALPHA:
        return ""
    unit = "examples" if clusters == n else "clusters"
    return f"{share:.0%} of samples of {clusters} {unit} include none of a given tenth, which p cannot allow for"


def may_be_skewed(skewness: float, p: float | None, *, independent: bool) -> str:
    """Return a caveat if a difference was found against a few clusters with large differences in the other direction.

    A sample may happen to have too few of those. bench/README.md has the simulated rates, of which this is the
    highest for 30 clusters and more; below, `may_be_missed` says more.

    Args:
        skewness: skewness of the clusters' sums in the direction opposite to their mean.
        p: p-value of the difference.
        independent: whether every example is a cluster of its own.
    """
    if p is None or p > ALPHA or skewness <= SKEWED:
        return ""
    unit = "example" if independent else "cluster"
    return (
        f"a few {unit}s differ much, and the other way: in simulations of such runs, up to {MAX_FALSE_ALARMS:.0%} of "
        "comparisons found a difference where there was none"
    )


def too_sparse(differing: int, *, independent: bool) -> str:
    """Return a caveat if fewer than ten clusters differ, else an empty text."""
    if differing >= FEW_CLUSTERS:
        return ""
    unit = "example" if independent else "cluster"
    differ = f"{unit} differs" if differing == 1 else f"{unit}s differ"
    return f"only {differing} {differ}: the interval may be too narrow"
