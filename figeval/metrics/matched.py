"""Two runs' 0/1 values on independent examples: McNemar's test and its power, and Tango's score test and interval.

All of it depends on three numbers: the examples, and those that only one of the runs got right. In clusters, the
numbers may be fractional ones of an effective sample.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.intervals import LEVEL, TINIEST

FAR = 9.0  # standard deviations
HALVINGS = 50


def mcnemar(a_only: int, b_only: int, *, mid: bool = False) -> float:
    """Return the two-sided exact McNemar (1947) p from the counts that only one run got right; `mid` for the mid-p."""
    from scipy.special import bdtr

    n, fewer = a_only + b_only, min(a_only, b_only)
    if a_only == b_only:
        return 1.0
    below = float(bdtr(fewer, n, 0.5))
    if mid:
        point = below - (float(bdtr(fewer - 1, n, 0.5)) if fewer else 0.0)
        return max(2 * below - point, TINIEST)
    return max(min(1.0, 2 * below), TINIEST)


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

    reach = FAR * math.sqrt(n * disagreement * (1 - disagreement)) + FAR  # further numbers are too unlikely to count
    first, last = max(0, math.floor(n * disagreement - reach)), min(n, math.ceil(n * disagreement + reach))
    discordant = np.arange(first, last + 1)
    log = gammaln(n + 1) - gammaln(discordant + 1.0) - gammaln(n - discordant + 1.0)
    chance = np.exp(log + xlogy(discordant, disagreement) + xlog1py(n - discordant, -disagreement))
    wins = _largest_wins(1 << last.bit_length(), level)[first : last + 1]
    share = (1 + difference / disagreement) / 2
    tails = sum(bdtr(wins.clip(0), discordant, one) for one in (share, 1 - share))
    return float(chance @ np.where(wins >= 0, tails, 0.0))


@lru_cache(maxsize=16)
def _largest_wins(most: int, level: float) -> NDArray[np.float64]:
    """Return, for 0 to `most` discordant examples, the most that the weaker run wins at p ≤ level; −1 for none."""
    from scipy.special import bdtr, bdtrik

    discordant = np.arange(most + 1)
    wins = np.floor(np.nan_to_num(bdtrik(level / 2, discordant.astype(np.float64), 0.5), nan=-1.0)) + 1
    for _ in range(2):
        wins = np.where((wins >= 0) & (2 * bdtr(wins.clip(0), discordant, 0.5) > level), wins - 1, wins)
    return np.asarray(wins, dtype=np.float64)


def smallest_found(n: int, disagreement: float, power: float, level: float, *, at_least: bool = False) -> float | None:
    """Return the smallest true difference that the exact McNemar test finds with a probability, or None.

    Args:
        n: examples.
        disagreement: share of examples that only one of the runs gets right.
        power: the probability.
        level: level of the two-sided test.
        at_least: whether a larger difference comes with as much more disagreement, instead of being impossible.
    """
    most = 1.0 if at_least else disagreement

    def finds(difference: float) -> bool:
        return mcnemar_power(n, max(disagreement, difference), difference, level) >= power

    if n < 1 or not finds(most):
        return None
    low, high = 0.0, most
    for _ in range(HALVINGS // 2):
        middle = (low + high) / 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high
