"""Two runs on the same examples: the difference, its interval, and how surprising it is.

Only paired tests: the two runs meet the same easy and hard examples, so an unpaired test (or a look at whether two
intervals overlap) throws most of the evidence away.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.bootstrap import blocks
from figeval.metrics.intervals import NOTHING, Bounds, Interval, Spread, clip, interval_of_mean, spread_of

Floats = NDArray[np.float64]
DRAWS = 10_000
EXACT = 14  # up to this many clusters all 2^G sign patterns are tried
ALPHA = 0.05
TINIEST = sys.float_info.min  # a p-value that underflows is tiny, not 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Run A minus run B over the `n` examples that both answered, in `clusters` independent groups.

    `p` is that of `test`, `p_sign_flip` the check beside it; None where there is nothing to test. `a_only` and
    `b_only` count the examples that one run alone got right, for 0/1 values. `note` says what to beware of.
    """

    n: int
    clusters: int
    value_a: float | None = None
    value_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    test: str = ""
    p: float | None = None
    p_sign_flip: float | None = None
    a_only: int | None = None
    b_only: int | None = None
    note: str = ""


def paired(
    values_a: Sequence[float | None],
    values_b: Sequence[float | None],
    clusters: Sequence[str | None] | None = None,
    bounds: Bounds = (0.0, 1.0),
    seed: int = 0,
) -> Comparison:
    """Compare per-example values of two runs, aligned by example; None where a run has no value.

    Independent 0/1 rows: exact McNemar test. Everything else: paired t test on the clustered standard error of the
    differences, with a sign-flip test of the clusters' sums beside it. The interval is always that of the t test.

    Args:
        values_a: of run A.
        values_b: of run B, same order and length.
        clusters: of the examples, None for one of its own.
        bounds: of the metric, None where it has none.
        seed: of the sign-flip draws.

    Raises:
        ValueError: the sequences differ in length.
    """
    rows = zip(values_a, values_b, clusters or [None] * len(values_a), strict=True)
    common = [(a, b, cluster) for a, b, cluster in rows if a is not None and b is not None]
    if not common:
        return Comparison(n=0, clusters=0, note="no example that both runs answered")
    a, b = np.array([row[:2] for row in common], dtype=np.float64).T
    spread, sums = _by_cluster(a - b, [row[2] for row in common])
    interval = _interval(spread, bounds)
    binary = bool(np.isin((a, b), (0.0, 1.0)).all())
    a_only, b_only = int((a > b).sum()), int((b > a).sum())
    flip = sign_flip(sums, seed) if spread.clusters > 1 else None
    exact = binary and spread.independent
    test, p = ("exact McNemar", mcnemar(a_only, b_only)) if exact else _t_test(spread, interval, flip)
    return Comparison(
        n=spread.n,
        clusters=spread.clusters,
        value_a=float(a.mean()),
        value_b=float(b.mean()),
        difference=spread.mean,
        low=interval.low,
        high=interval.high,
        stderr=interval.stderr,
        test=test,
        p=p,
        p_sign_flip=flip,
        a_only=a_only if binary else None,
        b_only=b_only if binary else None,
        note=_note(spread, interval),
    )


def _by_cluster(differences: Floats, clusters: Sequence[str | None]) -> tuple[Spread, Floats]:
    """The spread of the differences over clusters, and the clusters' sums, shape (G,)."""
    places: dict[str | int, int] = {}
    index = [places.setdefault(i if name is None else name, len(places)) for i, name in enumerate(clusters)]
    sums = np.bincount(index, weights=differences).astype(np.float64)
    return spread_of(sums, np.bincount(index)), sums


def _interval(spread: Spread, bounds: Bounds) -> Interval:
    """The t interval of the difference; none where all clusters differ alike (two runs that never disagree)."""
    interval = interval_of_mean(spread, None)
    if interval.low is None or interval.high is None or bounds is None:
        return interval
    reach = bounds[1] - bounds[0]
    low, high = clip((interval.low, interval.high), (-reach, reach))
    return replace(interval, low=low, high=high)


def _t_test(spread: Spread, interval: Interval, flip: float | None) -> tuple[str, float | None]:
    """Paired t with G − 1 degrees of freedom; sign flip where the standard error is 0."""
    from scipy.special import stdtr

    if interval.stderr is None:
        return ("sign flip", flip) if flip is not None else ("", None)
    p = 2 * float(stdtr(spread.clusters - 1, -abs(spread.mean) / interval.stderr))
    return f"paired {interval.method}", max(p, TINIEST)


def _note(spread: Spread, interval: Interval) -> str:
    """What the reader should beware of: no interval, or too few clusters for any evidence."""
    notes = [] if interval.low is not None else [f"no interval: {interval.method.removeprefix('none: ')}"]
    floor = 2.0 ** (1 - spread.clusters)
    if ALPHA < floor < 1:
        notes.append(f"with {spread.clusters} clusters a sign-flip p cannot fall below {floor:.3g}")
    return "; ".join(notes)


def mcnemar(a_only: int, b_only: int, *, mid: bool = False) -> float:
    """Two-sided exact McNemar (1947) p from the examples that one run alone got right; `mid` for the mid-p."""
    from scipy.special import bdtr

    n, fewer = a_only + b_only, min(a_only, b_only)
    if a_only == b_only:
        return 1.0
    below = float(bdtr(fewer, n, 0.5))
    if mid:
        point = below - (float(bdtr(fewer - 1, n, 0.5)) if fewer else 0.0)
        return max(2 * below - point, TINIEST)
    return max(min(1.0, 2 * below), TINIEST)


def sign_flip(sums: Floats, seed: int = 0, draws: int = DRAWS) -> float:
    """Two-sided p of Σ D_c under random signs of the clusters' sums D_c, shape (G,): exact for few clusters.

    Otherwise (r + 1) / (draws + 1), r the draws at least as extreme (Phipson and Smyth 2010): never 0.
    """
    sizes, repeats = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    seen = abs(float(sums.sum())) - NOTHING * float(np.abs(sums).sum())  # rounding must not hide an equal pattern
    count = int(repeats.sum())
    if count <= EXACT:
        signs = np.array(list(product((-1.0, 1.0), repeat=count))).reshape(2**count, count)
        return float(np.mean(np.abs(signs @ np.repeat(sizes, repeats)) >= seen))
    generator = np.random.default_rng(seed)
    extreme = 0
    for size in blocks(draws, len(sizes)):
        positive = generator.binomial(repeats, 0.5, size=(size, len(sizes)))
        extreme += int(np.sum(np.abs((2 * positive - repeats) @ sizes) >= seen))
    return (extreme + 1) / (draws + 1)


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p-values, in the order given: valid for any dependence between the tests."""
    adjusted = [1.0] * len(pvalues)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(pvalues)), key=pvalues.__getitem__)):
        largest = max(largest, min(1.0, (len(pvalues) - place) * pvalues[index]))
        adjusted[index] = largest
    return adjusted
