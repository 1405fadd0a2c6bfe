"""Caveats of comparisons: whether there are enough clusters, and enough that differ, for evidence."""

from __future__ import annotations

import math

from figeval.metrics.intervals import FEW

ALPHA = 0.05
RARE = 0.1  # share of the clusters that may have all of a difference
SKEWED = 1.5  # beyond which a skewness is said; sums of about equal differences have less
MAX_FALSE_ALARMS = 0.12  # simulated for 30 clusters and more of equal size (docs/statistics.md)


def too_few(n: int, clusters: int, effective: float) -> str:
    """Return a caveat if there are fewer than ten effective clusters, else an empty text."""
    if effective >= FEW:
        return ""
    unit = "examples" if clusters == n else "clusters"
    unequal = "" if math.isclose(effective, clusters) else " effective"
    return f"too few {unit} ({effective:.3g}{unequal}): the test has little power"


def may_be_missed(n: int, clusters: int, p: float | None) -> str:
    """Return a caveat if a difference was found in so few clusters that a tenth of all may well be missing from them.

    Without them, the runs may differ alike in all clusters, and no test can know better.
    """
    if p is None or p > ALPHA or (share := (1 - RARE) ** clusters) <= ALPHA:
        return ""
    unit = "examples" if clusters == n else "clusters"
    return f"{share:.0%} of samples of {clusters} {unit} include none of a given tenth, which p cannot allow for"


def may_be_skewed(skewness: float, p: float | None, *, independent: bool) -> str:
    """Return a caveat if a difference was found against a few clusters with large differences in the other direction.

    A sample may happen to have too few of those. docs/statistics.md has the simulated rates, of which this is the
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
    if differing >= FEW:
        return ""
    unit = "example" if independent else "cluster"
    differ = f"{unit} differs" if differing == 1 else f"{unit}s differ"
    return f"only {differing} {differ}: the interval may be too narrow"
