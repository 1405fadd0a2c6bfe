"""Nearest-neighbour metrics: whether the texts nearest to a text are of its category.

The measures are accuracy at 1, reciprocal rank and recall at 3. Ties are scored by expectation, with the closed forms
of `ranking` (docs/statistics.md): accuracy is the share of a text's own category among its tied nearest texts, not the
luck of the first place, which a strict "smaller than" comparison rewards.

A metric is named `<measure>_<distance>`: `acc_cosine`, `mrr_jsd`, `recall@3_l1`, `tied_l2`. A distance is a function
of points, shape (n, d), that returns all distances, shape (n, n), in float64 and with scipy's definitions. A row that
contains NaN is at distance NaN from every other row; equal rows are at distance 0 exactly. `profiles` turns scores into
distributions.

A fast formula is exact only up to its rounding error and cannot distinguish neighbours whose distances differ by less.
If the nearest row is in doubt, the distances in question are therefore computed again, to the last digit, as `cosine`,
`jensenshannon`, `euclidean` and `cityblock` of `scipy.spatial.distance` compute them. Memory is a few matrices of shape
(n, n); the vectors of pairs, shape (d,), are computed in blocks.
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
BLOCK = 192  # rows compared with one row at a time: 0.4 MB with 250 columns, which fits a core's cache
EPSILON = float(np.finfo(np.float64).eps)
NEXT_TO_NOTHING = 1e-300  # adds nothing to a sum, but has a logarithm


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Neighbours of one row: how many tie for the nearest, and the standing of those of its own group."""

    nearest: int
    own_group: Standing


MEASURES: dict[str, Callable[[Neighbours], float]] = {
    "acc": lambda neighbours: top_share(neighbours.own_group),
    "mrr": lambda neighbours: reciprocal_rank(neighbours.own_group),
    "recall@3": lambda neighbours: share_within(neighbours.own_group, 3),
    "tied": lambda neighbours: float(neighbours.nearest > 1),
}


def neighbours(distances: Floats, groups: Sequence[str]) -> list[Neighbours | None]:
    """Return the neighbours of each row; None for a row that is unknown, or whose group has no other known row.

    Args:
        distances: distances of all rows from each other, shape (n, n), symmetric; NaN in the rows and columns of
            unknown rows, which are no row's neighbours. The diagonal is ignored.
        groups: category of each row, length n.

    Raises:
        ValueError: the shapes do not match, or the distance of two known rows is NaN.
    """
    n = len(groups)
    if distances.shape != (n, n):
        raise ValueError(f"distances of shape {distances.shape} for {n} groups")
    off_diagonal = distances.copy()
    np.fill_diagonal(off_diagonal, np.nan)  # no row is its own neighbour
    is_known = ~np.isnan(off_diagonal).all(axis=1)
    if np.count_nonzero(np.isnan(off_diagonal[np.ix_(is_known, is_known)])) > np.count_nonzero(is_known):
        raise ValueError("the distance of two known rows is NaN")
    return list(_row_by_row(off_diagonal, np.asarray(groups, dtype=object)))


def _row_by_row(distances: Floats, groups: NDArray[np.object_]) -> Iterator[Neighbours | None]:
    """Yield the neighbours of each row. NaN compares as false, so unknown rows are neither nearer nor tied."""
    for row, group in zip(distances, groups, strict=True):
        group_distances = row[(groups == group) & ~np.isnan(row), None]  # (r, 1)
        if not len(group_distances):
            yield None
            continue
        standing = Standing(
            (row < group_distances).sum(axis=1), (row == group_distances).sum(axis=1), np.ones(len(group_distances))
        )
        yield Neighbours(int(np.count_nonzero(row == np.fmin.reduce(row))), standing)


def measure_neighbours(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, list[Features]]:
    """Return the values of these metrics, computing each distance once.

    With a `temperature` among the settings, scores become distributions; without one, they are compared as vectors.

    Raises:
        UnknownName: there is no such distance.
    """
    if not rows:
        return {name: [] for name in names}
    points = _points(rows)
    if "temperature" in settings:
        points = np.exp(profiles(points, settings["temperature"]))
    categories = [row["gold"] for row in rows]
    measures: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in names:
        measure, _, distance = name.rpartition("_")
        measures[distance].append((name, measure))
    values: dict[str, list[Features]] = {}
    for distance, pairs in measures.items():
        row_neighbours = neighbours(distance_named(distance)(points), categories)
        for name, measure in pairs:
            values[name] = [None if each is None else (MEASURES[measure](each), 1.0) for each in row_neighbours]
    return values


def _points(rows: Sequence[Mapping[str, Any]]) -> Floats:
    """Return the scores of all rows, shape (n, k), all NaN for a row without an answer or with a NaN score."""
    width = max(len(row["scores"]) for row in rows) or 1
    points = np.full((len(rows), width), np.nan)
    for index, row in enumerate(rows):
        if row["status"] == "ok" and None not in row["scores"]:
            points[index] = [float(score) for score in row["scores"]]  # "-inf" is text in a row
    return points


nearest_neighbour = collective(measure_neighbours)


# ---- distances -------------------------------------------------------------------------------------------------------


def profiles(scores: ArrayLike, temperature: float = 1.0) -> Floats:
    """Return the candidates' log-probabilities: log-softmax of scores / temperature, shape (n, k) → (n, k).

    They are computed in float64 and not via probabilities: a float32 softmax of sharp scores is mostly zeros, so rows
    that differ would tie. A score of -inf means probability 0; a row with NaN, with +inf or with -inf only becomes NaN.

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
    """Return 1 - cos, between 0 and 2; NaN for a row of zeros, whose angle is undefined."""
    rows = np.asarray(points, dtype=np.float64)
    products = rows @ rows.T
    lengths = np.sqrt(products.diagonal())
    with np.errstate(invalid="ignore"):  # 0 / 0
        distances = np.clip(1.0 - products / (lengths[:, None] * lengths), 0.0, 2.0)
    return _settle_distances(distances, rows, _angular, lambda nearest: nearest + 2 * _rounding(rows))


def jensen_shannon(points: ArrayLike) -> Floats:
    """Return the square root of the Jensen-Shannon divergence, natural logarithm, between 0 and √ln 2.

    With M(p, q) = Σ (p + q) ln (p + q), the divergence is (M(p, p) + M(q, q) - 2 M(p, q)) / 4 (the difference of
    entropies of Lin 1991, section 4). This takes one logarithm per candidate and pair, and equal rows cancel exactly.

    Raises:
        ValueError: a row is not a distribution: it has a negative number, or its sum is not 1.
    """
    rows = np.asarray(points, dtype=np.float64)
    if (rows < 0).any() or (np.abs(rows.sum(axis=1) - 1.0) > 1e-9).any():
        raise ValueError("Jensen-Shannon distances are between distributions; some row is negative or does not add up")
    positive = np.maximum(rows, NEXT_TO_NOTHING)  # 0 ln 0 = 0, without a special case
    diagonal = _sum_of_mixtures(positive, positive)
    quarters = diagonal / 4
    divergences = quarters[:, None] + quarters - _square(positive, _sum_of_mixtures, diagonal) / 2
    distances = np.sqrt(np.maximum(divergences, 0.0))
    # Σ |s ln s| is at most |Σ s ln s| + 4 ln 2
    error = _rounding(rows) * np.fmax.reduce(np.abs(diagonal) + 3, initial=0.0)
    return _settle_distances(distances, positive, _entropic, lambda nearest: np.sqrt(nearest**2 + error))


def euclidean(points: ArrayLike) -> Floats:
    """Return L2 distances, computed via |p - q|² = |p|² + |q|² - 2 pq."""
    from scipy.spatial.distance import euclidean

    rows = np.asarray(points, dtype=np.float64)
    products = rows @ rows.T
    squares = products.diagonal()
    distances = np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0.0))
    error = 4 * _rounding(rows) * np.fmax.reduce(squares, initial=0.0)
    return _settle_distances(distances, rows, _pairwise(euclidean), lambda nearest: np.sqrt(nearest**2 + error))


def city_block(points: ArrayLike) -> Floats:
    """Return L1 distances, the sums of absolute differences."""
    from scipy.spatial.distance import cityblock, pdist, squareform

    rows = np.asarray(points, dtype=np.float64)
    distances = squareform(pdist(rows, "cityblock"))
    return _settle_distances(distances, rows, _pairwise(cityblock), lambda nearest: nearest * (1 + _rounding(rows)))


DISTANCES: dict[str, Callable[[ArrayLike], Floats]] = {
    "cosine": cosine,
    "jsd": jensen_shannon,
    "l2": euclidean,
    "l1": city_block,
}


def distance_named(name: str) -> Callable[[ArrayLike], Floats]:
    """Return the distance of this name. Raises `UnknownName` with similar names."""
    if name not in DISTANCES:
        raise UnknownName("distance", name, DISTANCES, see="figeval ls metrics")
    return DISTANCES[name]


def _sum_of_mixtures(row: Floats, rows: Floats) -> Floats:
    """Return Σ (p + q) ln (p + q), shapes (d,) or (m, d) and (m, d) → (m,)."""
    both = rows + row
    return np.asarray(np.vecdot(both, np.log(both)))


def _square(rows: Floats, between: Formula, diagonal: Floats) -> Floats:
    """Return the symmetric matrix of `between(row, rows)`, computed once per pair, with a given `diagonal`."""
    n = len(rows)
    square = np.empty((n, n))
    for i in range(n):
        square[i, i] = diagonal[i]
        for start in range(i + 1, n, BLOCK):
            stop = min(n, start + BLOCK)
            square[i, start:stop] = square[start:stop, i] = between(rows[i], rows[start:stop])
    return square


def _rounding(rows: Floats) -> float:
    """Return the rounding error of two sums over the columns, relative to the sum of absolute terms.

    It is twice the γ of Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1, with a small margin.
    """
    return float((rows.shape[1] + 8) * EPSILON)


def _pairwise(formula: Callable[[Floats, Floats], float]) -> Formula:
    """Return a function of a row and several others, given a function of two rows."""
    return lambda row, rows: np.array([formula(row, other) for other in rows])


def _angular(row: Floats, rows: Floats) -> Floats:
    """Return the same as scipy's `cosine`, to the last digit: `vecdot` sums as `dot` does."""
    lengths = np.sqrt(np.vecdot(row, row) * np.vecdot(rows, rows))
    return np.asarray(np.clip(1.0 - np.vecdot(rows, row) / lengths, 0.0, 2.0))


def _entropic(row: Floats, rows: Floats) -> Floats:
    """Return the same as scipy's `jensenshannon`, but 0 if rounding makes a sum of relative entropies negative."""
    from scipy.special import rel_entr

    p, q = row / row.sum(), rows / rows.sum(axis=1, keepdims=True)
    middle = (p + q) / 2.0
    both = rel_entr(p, middle).sum(axis=1) + rel_entr(q, middle).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(both, 0.0) / 2.0))


def _settle_distances(distances: Floats, rows: Floats, formula: Formula, reach: Callable[[Floats], Floats]) -> Floats:
    """Return the distances after computing again those that may be the smallest of a row.

    Args:
        distances: shape (n, n), changed in place.
        rows: points, shape (n, d).
        formula: scipy's distances of one row from others.
        reach: maps the computed smallest distances, shape (n,), to the largest computed distances whose true value may
            be the smallest of the row.
    """
    off_diagonal = distances.copy()
    np.fill_diagonal(off_diagonal, np.inf)
    np.fill_diagonal(distances, 0.0)
    near = off_diagonal <= reach(np.fmin.reduce(off_diagonal, axis=1))[:, None]
    for i in np.flatnonzero(np.count_nonzero(near, axis=1) > 1):  # one alone is the nearest, whatever its last digits
        indexes = np.flatnonzero(near[i])
        equal = (rows[indexes] == rows[i]).all(axis=1)
        distances[i, indexes[equal]] = 0.0
        indexes = indexes[~equal]
        distances[i, indexes] = distances[indexes, i] = formula(rows[i], rows[indexes])
    return distances
