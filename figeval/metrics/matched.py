"""Two runs' 0/1 values on independent examples: McNemar's test, and Tango's score test and interval.

All of it depends on three numbers: the examples, and those that only one of the runs got right. In clusters, the
numbers may be fractional ones of an effective sample.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from figeval.metrics.intervals import LEVEL, TINIEST

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
