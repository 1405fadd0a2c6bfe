"""Is the nearest other text of the same motif? Accuracy at 1, reciprocal rank and recall at 3, text by text.

Ties are scored by expectation, with the closed forms of `ranking` (docs/statistics.md): the share of a text's own motif
among its tied nearest, not the luck of the first place, which a strict "smaller than" comparison rewards.

A metric is called `<measure>_<distance>`: `acc_cosine`, `mrr_jsd`, `recall@3_l1`, `tied_l2`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.distances import distance_named, profiles
from figeval.metrics.ranking import Standing, reciprocal_rank, share_within, top_share
from figeval.metrics.statistic import Features, collective
from figeval.types import JSON

Floats = NDArray[np.float64]


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
        groups: the group (motif) of each row, n of them.

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
        standing = Standing((row < own).sum(axis=1), (row == own).sum(axis=1))
        yield Neighbours(int(np.count_nonzero(row == np.fmin.reduce(row))), standing)


def measured(rows: Sequence[JSON], names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, list[Features]]:
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
    motifs = [row["gold"] for row in rows]
    wanted: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in names:
        measure, _, distance = name.rpartition("_")
        wanted[distance].append((name, measure))
    values: dict[str, list[Features]] = {}
    for distance, pairs in wanted.items():
        found = neighbours(distance_named(distance)(points), motifs)
        for name, measure in pairs:
            values[name] = [None if each is None else (MEASURES[measure](each), 1.0) for each in found]
    return values


def _points(rows: Sequence[JSON]) -> Floats:
    """The scores of all rows, shape (n, k), NaN throughout for a row without an answer or with a score that is NaN."""
    width = max(len(row["scores"]) for row in rows) or 1
    points = np.full((len(rows), width), np.nan)
    for place, row in enumerate(rows):
        if row["status"] == "ok" and None not in row["scores"]:
            points[place] = [float(score) for score in row["scores"]]  # "-inf" is text in a row
    return points


nearest_neighbour = collective(measured)
