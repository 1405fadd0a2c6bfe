"""Pearson's r with a confidence interval."""

from __future__ import annotations

from collections.abc import Sequence

MIN_PAIRS = 4  # the interval divides by √(n − 3)


def correlation(left: Sequence[float], right: Sequence[float]) -> tuple[float | None, tuple[float, float] | None]:
    """Return Pearson's r and its 95 % interval by Fisher's z.

    Both are None if r is undefined or has no interval (no variance, fewer than 4 pairs).
    """
    from scipy.stats import pearsonr

    if len(left) < MIN_PAIRS or len(set(left)) < 2 or len(set(right)) < 2:
        return None, None
    test = pearsonr(left, right)
    low, high = test.confidence_interval(0.95)
    return float(test.statistic), (float(low), float(high))
