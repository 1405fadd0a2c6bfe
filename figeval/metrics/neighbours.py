"""Is the nearest other text of the same category? Accuracy at 1, reciprocal rank and recall at 3, text by text.

Ties are scored by expectation, with the closed forms of `ranking` (docs/statistics.md): the share of a text's own
category among its tied nearest, not the luck of the first place, which a strict "smaller than" comparison rewards.

A metric is called `<measure>_<distance>`: `acc_cosine`, `mrr_jsd`, `recall@3_l1`, `tied_l2`. A distance is a function
of points, shape (n, d), that returns all distances, shape (n, n), in float64 and with scipy's definitions. A row that
holds NaN is at distance NaN from every other row; equal rows are at distance 0 exactly. Distributions come from
`profiles`.

A fast formula is right up to its rounding error, and two neighbours nearer to each other than that would be told apart
by nothing. So wherever the nearest is in doubt, the distances in question are computed again as `cosine`,
`jensenshannon`, `euclidean` and `cityblock` of `scipy.spatial.distance` compute them, to the last digit. Memory is that
of a few matrices (n, n); what is made for each pair, (d,), is made in blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.errors import UnknownName
from figeval.metrics.ranking import Standing, reciprocal_rank, share_within, top_share
from figeval.metrics.statistic import Features, collective

Floats: TypeAlias = NDArray[np.float64]
Formula: TypeAlias = Callable[[Floats, Floats], Floats]  # (d,) and (m, d) → (m,)
BLOCK = 192  # rows compared with one row at a time: with 250 columns 0.4 MB, which stays in a core's cache
EPSILON = float(np.finfo(np.float64).eps)
NEXT_TO_NOTHING = 1e-300  # adds nothing to a sum, but has a logarithm


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The neighbours of one row, nearest first: how many share the first place, and where those of its group stand."""

    nearest: int
    own: Standing


MEASURES: dict[str, Callable[[Neighbours], float]] = {
    "acc": lambda found: top_share(found.own),
    "mrr": lambda found: reciprocal_rank(found.own),
    "recall@3": lambda found: share_within(found.own, 3),
    "tied": lambda found: float(found.nearest > 1),
}


def neighbours(distances: Floats, groups: Sequence[str]) -> list[Neighbours | None]:
    """The neighbours of each row; None for a row that is unknown, or whose group has no other known row.

    Args:
        distances: of all rows from all, shape (n, n), symmetric; NaN in the rows and columns of unknown rows, which
            are nobody's neighbours. The diagonal does not matter.
        groups: the category of each row, n of them.

    Raises:
        ValueError: the shapes do not fit, or two known rows have no distance.
    """
    n = len(groups)
    if distances.shape != (n, n):
        raise ValueError(f"distances of shape {distances.shape} for {n} groups")
    apart = distances.copy()
    np.fill_diagonal(apart, np.nan)  # no row is its own neighbour
    known = ~np.isnan(apart).all(axis=1)
    if np.count_nonzero(np.isnan(apart[np.ix_(known, known)])) > np.count_nonzero(known):
        raise ValueError("the distance of two known rows is NaN")
    return list(_row_by_row(apart, np.asarray(groups, dtype=object)))


def _row_by_row(apart: Floats, groups: NDArray[np.object_]) -> Iterator[Neighbours | None]:
    """NaN compares as false, so what is unknown is neither nearer nor tied."""
    for row, group in zip(apart, groups, strict=True):
        own = row[(groups == group) & ~np.isnan(row), None]  # (r, 1)
        if not len(own):
            yield None
            continue
        standing = Standing((row < own).sum(axis=1), (row == own).sum(axis=1), np.ones(len(own)))
        yield Neighbours(int(np.count_nonzero(row == np.fmin.reduce(row))), standing)


def measured(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, list[Features]]:
    """The family of all these metrics; each distance is computed once.

    With a `temperature` among the settings scores become distributions, without one they are compared as vectors.

    Raises:
        UnknownName: no such distance.
    """
    if not rows:
        return {name: [] for name in names}
    points = _points(rows)
    if "temperature" in settings:
        points = np.exp(profiles(points, settings["temperature"]))
    categories = [row["gold"] for row in rows]
    wanted: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in names:
        measure, _, distance = name.rpartition("_")
        wanted[distance].append((name, measure))
    values: dict[str, list[Features]] = {}
    for distance, pairs in wanted.items():
        found = neighbours(distance_named(distance)(points), categories)
        for name, measure in pairs:
            values[name] = [None if each is None else (MEASURES[measure](each), 1.0) for each in found]
    return values


def _points(rows: Sequence[Mapping[str, Any]]) -> Floats:
    """The scores of all rows, shape (n, k), NaN throughout for a row without an answer or with a score that is NaN."""
    width = max(len(row["scores"]) for row in rows) or 1
    points = np.full((len(rows), width), np.nan)
    for place, row in enumerate(rows):
        if row["status"] == "ok" and None not in row["scores"]:
            points[place] = [float(score) for score in row["scores"]]  # "-inf" is text in a row
    return points


nearest_neighbour = collective(measured)


# ---- distances -------------------------------------------------------------------------------------------------------


def profiles(scores: ArrayLike, temperature: float = 1.0) -> Floats:
    """Log-probabilities of the candidates: log-softmax of scores / temperature, shape (n, k) → (n, k).

    In float64 and never by way of probabilities: a float32 softmax of sharp scores is mostly zeros, and rows then tie
    that differ. A candidate of score -inf has probability 0; a row with NaN, with +inf or with -inf only becomes NaN.

    Raises:
        ValueError: the temperature is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature {temperature} is not positive")
    scaled = np.asarray(scores, dtype=np.float64) / temperature
    with np.errstate(invalid="ignore"):  # inf - inf
        shifted = scaled - scaled.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def cosine(points: ArrayLike) -> Floats:
    """1 - cos, between 0 and 2; NaN for a row of zeros, whose angle is unknown."""
    rows = np.asarray(points, dtype=np.float64)
    products = rows @ rows.T
    lengths = np.sqrt(products.diagonal())
    with np.errstate(invalid="ignore"):  # 0 / 0
        distances = np.clip(1.0 - products / (lengths[:, None] * lengths), 0.0, 2.0)
    return _settled(distances, rows, _angular, lambda nearest: nearest + 2 * _rounding(rows))


def jensen_shannon(points: ArrayLike) -> Floats:
    """Square root of the Jensen-Shannon divergence of distributions, natural logarithm, between 0 and √ln 2.

    With M(p, q) = Σ (p + q) ln (p + q) the divergence is (M(p, p) + M(q, q) - 2 M(p, q)) / 4 (the difference of
    entropies of Lin 1991, section 4): one logarithm for each candidate of a pair, and equal rows cancel exactly.

    Raises:
        ValueError: a row is no distribution: negative, or its sum is not 1.
    """
    rows = np.asarray(points, dtype=np.float64)
    if (rows < 0).any() or (np.abs(rows.sum(axis=1) - 1.0) > 1e-9).any():
        raise ValueError("Jensen-Shannon distances are between distributions; some row is negative or does not add up")
    positive = np.maximum(rows, NEXT_TO_NOTHING)  # 0 ln 0 = 0, without a case of its own
    own = _mixed(positive, positive)
    quarters = own / 4
    divergences = quarters[:, None] + quarters - _square(positive, _mixed, own) / 2
    distances = np.sqrt(np.maximum(divergences, 0.0))
    error = _rounding(rows) * np.fmax.reduce(np.abs(own) + 3, initial=0.0)  # Σ |s ln s| is at most |Σ s ln s| + 4 ln 2
    return _settled(distances, positive, _entropic, lambda nearest: np.sqrt(nearest**2 + error))


def euclidean(points: ArrayLike) -> Floats:
    """L2, by way of |p - q|² = |p|² + |q|² - 2 pq."""
    from scipy.spatial.distance import euclidean

    rows = np.asarray(points, dtype=np.float64)
    products = rows @ rows.T
    squares = products.diagonal()
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0.0))
    error = 4 * _rounding(rows) * np.fmax.reduce(squares, initial=0.0)
    return _settled(distances, rows, _pairwise(euclidean), lambda nearest: np.sqrt(nearest**2 + error))


def city_block(points: ArrayLike) -> Floats:
    """L1, the sum of absolute differences."""
    from scipy.spatial.distance import cityblock, pdist, squareform

    rows = np.asarray(points, dtype=np.float64)
    distances = squareform(pdist(rows, "cityblock"))
    return _settled(distances, rows, _pairwise(cityblock), lambda nearest: nearest * (1 + _rounding(rows)))


DISTANCES: dict[str, Callable[[ArrayLike], Floats]] = {
    "cosine": cosine,
    "jsd": jensen_shannon,
    "l2": euclidean,
    "l1": city_block,
}


def distance_named(name: str) -> Callable[[ArrayLike], Floats]:
    """The distance of this name. Raises `UnknownName` with near names."""
    if name not in DISTANCES:
        raise UnknownName("distance", name, DISTANCES, see="figeval ls metrics")
    return DISTANCES[name]


def _mixed(one: Floats, others: Floats) -> Floats:
    """Σ (p + q) ln (p + q), shapes (d,) or (m, d) and (m, d) → (m,)."""
    both = others + one
    return np.asarray(np.vecdot(both, np.log(both)))


def _square(rows: Floats, between: Formula, own: Floats) -> Floats:
    """The symmetric matrix of `between(row, others)`, each pair computed once and in blocks; `own` on the diagonal."""
    n = len(rows)
    square = np.empty((n, n))
    for i in range(n):
        square[i, i] = own[i]
        for start in range(i + 1, n, BLOCK):
            stop = min(n, start + BLOCK)
            square[i, start:stop] = square[start:stop, i] = between(rows[i], rows[start:stop])
    return square


def _rounding(rows: Floats) -> float:
    """How far rounding can move two sums over the columns against each other, relative to the sum of absolute terms.

    Twice γ of Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1, with a little to spare.
    """
    return float((rows.shape[1] + 8) * EPSILON)


def _pairwise(formula: Callable[[Floats, Floats], float]) -> Formula:
    """A function of two rows as one of a row and several others."""
    return lambda one, others: np.array([formula(one, other) for other in others])


def _angular(one: Floats, others: Floats) -> Floats:
    """As scipy's `cosine`, to the last digit: `vecdot` sums as `dot` does."""
    lengths = np.sqrt(np.vecdot(one, one) * np.vecdot(others, others))
    return np.asarray(np.clip(1.0 - np.vecdot(others, one) / lengths, 0.0, 2.0))


def _entropic(one: Floats, others: Floats) -> Floats:
    """As scipy's `jensenshannon`, but 0 where rounding makes its sum of relative entropies negative (scipy: NaN)."""
    from scipy.special import rel_entr

    p, q = one / one.sum(), others / others.sum(axis=1, keepdims=True)
    middle = (p + q) / 2.0
    both = rel_entr(p, middle).sum(axis=1) + rel_entr(q, middle).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(both, 0.0) / 2.0))


def _settled(distances: Floats, rows: Floats, formula: Formula, reach: Callable[[Floats], Floats]) -> Floats:
    """The distances, after those that may be a row's smallest have been computed again.

    Args:
        distances: shape (n, n), changed in place.
        rows: the points, shape (n, d).
        formula: scipy's distances of one row from others.
        reach: how large a computed distance may be whose true value is the smallest of its row, given the computed
            smallest ones, shape (n,).
    """
    apart = distances.copy()
    np.fill_diagonal(apart, np.inf)
    np.fill_diagonal(distances, 0.0)
    near = apart <= reach(np.fmin.reduce(apart, axis=1))[:, None]
    for i in np.flatnonzero(np.count_nonzero(near, axis=1) > 1):  # one alone is the nearest, whatever its last digits
        others = np.flatnonzero(near[i])
        equal = (rows[others] == rows[i]).all(axis=1)
        distances[i, others[equal]] = 0.0
        others = others[~equal]
        distances[i, others] = distances[others, i] = formula(rows[i], rows[others])
    return distances
