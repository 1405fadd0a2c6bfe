"""Pearson's r with an interval."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 4  # the interval divides by √(n − 3)


def correlation(left: Sequence[float], right: Sequence[float]) -> tuple[float | None, tuple[float, float] | None]:
    """Pearson's r and its 95 % interval by Fisher's z; None where r is undefined (no variance, fewer than 4 pairs)."""
    from scipy.stats import pearsonr

    if len(left) < FEWEST or len(set(left)) < 2 or len(set(right)) < 2:
        return None, None
    found = pearsonr(left, right)
    low, high = found.confidence_interval(0.95)
    return float(found.statistic), (float(low), float(high))
