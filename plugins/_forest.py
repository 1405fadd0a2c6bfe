"""Texts that begin alike as one tree of tokens, and a plan of how it goes through a model.

A context stands once, whatever number of continuations it has; continuations that begin alike share those tokens,
too; what all contexts share (solved examples, a system prompt) is the trunk of the whole tree. Pure numpy: no model
is needed to see how many tokens a set of requests costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._encode import Scored

Ints: TypeAlias = NDArray[np.int64]
PASS = 48  # about as many tokens take as long as a pass of its own
NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Forest:
    """All that has to be read for a set of requests, each token once, in preorder.

    `tokens`, `depth` (tokens before it in its text) and `end` have one entry per node; the descendants of node i are
    i + 1 … end[i] - 1. `asked` are the different predictions, as (node, next token); those of request r are
    `answers[r]`, indexes into `asked`.
    """

    tokens: Ints
    depth: Ints
    end: Ints
    asked: Ints  # (predictions, 2), in order of nodes
    answers: Sequence[Ints]

    @cached_property
    def _forks(self) -> Ints:
        """The last node of every unbranched stretch."""
        return np.append(np.flatnonzero(self.end[1:] != self.end[:-1]), len(self.end) - 1)

    def stretch(self, node: int) -> int:
        """One behind the last node of the unbranched stretch that begins at a node."""
        return int(self._forks[np.searchsorted(self._forks, node)]) + 1

    @property
    def trunk(self) -> int:
        """With how many tokens all texts begin."""
        return self.stretch(0) if self.end[0] == len(self.end) else 0

    def children(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The subtrees (first node, one behind the last) that begin in a range of siblings and their descendants."""
        while start < end:
            yield start, int(self.end[start])
            start = int(self.end[start])

    def predictions_of(self, nodes: Ints) -> tuple[Ints, Ints]:
        """All that is predicted from these nodes: places in `nodes`, and indexes into `asked`."""
        first = np.searchsorted(self.asked[:, 0], nodes, side="left")
        last = np.searchsorted(self.asked[:, 0], nodes, side="right")
        found = chain.from_iterable(map(range, first, last))
        return np.repeat(np.arange(len(nodes)), last - first), np.fromiter(found, dtype=np.int64)


def grow(requests: Sequence[Scored]) -> Forest:
    """The forest of some requests. Sorted texts share their beginnings with their neighbours."""
    order = sorted(range(len(requests)), key=lambda index: requests[index].ids)
    tokens: list[Ints] = []
    depth: list[Ints] = []
    end = np.zeros(sum(len(request.ids) for request in requests), dtype=np.int64)
    tails: list[Ints] = [NONE] * len(requests)  # the nodes that predict a request's continuation
    before, path, count = NONE, NONE, 0
    for index in order:
        request = requests[index]
        ids = np.array(request.ids[:-1], dtype=np.int64)
        shared = common(before, ids)
        end[path[shared:]] = count
        path = np.concatenate((path[:shared], np.arange(count, count + len(ids) - shared)))
        tokens.append(ids[shared:])
        depth.append(np.arange(shared, len(ids)))
        count += len(ids) - shared
        tails[index] = path[-request.predicted :]
        before = ids
    end[path] = count
    nodes = np.concatenate((NONE, *tails))
    words = [word for request in requests for word in request.ids[-request.predicted :]]
    asked, places = np.unique(np.stack((nodes, np.array(words, dtype=np.int64)), axis=1), axis=0, return_inverse=True)
    cuts = np.cumsum([request.predicted for request in requests])[:-1]
    answers = np.split(places.reshape(-1), cuts)
    return Forest(np.concatenate((NONE, *tokens)), np.concatenate((NONE, *depth)), end[:count], asked, answers)


def common(left: Ints, right: Ints) -> int:
    """How many tokens two texts share at their beginning."""
    most = min(len(left), len(right))
    different = np.flatnonzero(left[:most] != right[:most])
    return int(different[0]) if len(different) else most


# ---- the plan ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Row:
    """Nodes that go through the model side by side, and what each may see of the others.

    Node i of the row is seen by itself and by the nodes i + 1 … end[i] - 1 of the row. `fresh` marks the nodes whose
    predictions are wanted here: a node may stand in several rows.
    """

    nodes: Ints
    end: Ints
    fresh: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(slots=True)
class Stem:
    """A stretch of text whose keys and values are kept for all rows and stems that go on from it."""

    nodes: Ints
    fresh: NDArray[np.bool_]
    rows: list[Row] = field(default_factory=list)
    stems: list[Stem] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Tokens that the model reads for this stem and all that hangs on it."""
        return len(self.nodes) + sum(map(len, self.rows)) + sum(stem.read for stem in self.stems)


@dataclass(frozen=True, slots=True)
class Shape:
    """What may stand in a row. `trees`: nodes may branch within a row; else every row is one unbranched text.
    `stems`: what many rows begin with is kept; else every row stands for itself.

    `branches` is how many tokens may hang on a context within one row: more would make each pay attention to all
    the others. `width` is how many tokens small parts are put together to.
    """

    trees: bool = True
    stems: bool = True
    branches: int = 256
    width: int = 192


def plan_of(forest: Forest, shape: Shape, trunk: int = 0) -> Stem:
    """The plan that reads the fewest tokens.

    The first `trunk` tokens, which all texts share, are to be a stem of their own, whether that pays here or not. Else
    it is what all texts begin with if that saves more than a pass costs: all rows can still share batches.
    """
    plain = Planner(forest, shape).plan(trunk if shape.stems else 0)
    if trunk or not (shape.stems and forest.trunk):
        return plain
    kept = Planner(forest, shape).plan(forest.trunk)
    return kept if plain.read - kept.read >= PASS else plain


class Planner:
    """Makes a plan of a forest."""

    def __init__(self, forest: Forest, shape: Shape) -> None:
        self.forest = forest
        self.shape = shape
        self._claimed = np.zeros(len(forest.tokens), dtype=np.bool_)

    def plan(self, trunk: int = 0) -> Stem:
        """The root: an empty stem with all rows and stems. The first `trunk` tokens, which all texts share, are to be
        a stem of their own, whether that pays here or not.
        """
        root = self._stem(NONE)
        lowest = root
        if trunk:
            lowest = self._stem(np.arange(trunk))
            root.stems.append(lowest)
        self._hang(lowest, NONE, len(lowest.nodes), len(self.forest.tokens))
        return root

    def _stem(self, nodes: Ints) -> Stem:
        return Stem(nodes, self._claim(nodes))

    def _claim(self, nodes: Ints) -> NDArray[np.bool_]:
        fresh = ~self._claimed[nodes]
        self._claimed[nodes] = True
        return fresh

    def _hang(self, stem: Stem, path: Ints, start: int, end: int) -> None:
        """Give a stem the subtrees in a range; `path` leads to them from the stem's last node."""
        parts: list[Row] = []
        self._collect(stem, parts, path, start, end)
        stem.rows += gather(parts, self.shape.width) if self.shape.trees else parts

    def _collect(self, stem: Stem, parts: list[Row], path: Ints, start: int, end: int) -> None:
        for first, last in self.forest.children(start, end):
            fork = self.forest.stretch(first)
            here = np.concatenate((path, np.arange(first, fork)))
            if last - fork <= self.shape.branches * self.shape.trees:
                parts.append(self._part(path, first, last))
            elif self.shape.stems and self._worth_keeping(len(here), fork, last):
                kept = self._stem(here)
                stem.stems.append(kept)
                self._hang(kept, NONE, fork, last)
            else:
                self._collect(stem, parts, here, fork, last)

    def _part(self, path: Ints, first: int, last: int) -> Row:
        """A whole subtree and the path that leads to it."""
        nodes = np.concatenate((path, np.arange(first, last)))
        size = len(nodes)
        ends = np.concatenate((np.full(len(path), size), self.forest.end[first:last] - first + len(path)))
        return Row(nodes, ends, self._claim(nodes))

    def _worth_keeping(self, length: int, fork: int, last: int) -> bool:
        """Whether it saves an eighth of the tokens below: rows of different stems cannot share a batch."""
        branches = sum(1 for _ in self.forest.children(fork, last))
        saved = length * (branches - 1)
        return saved * 8 >= saved + length + last - fork


def gather(parts: Sequence[Row], width: int) -> list[Row]:
    """Parts that are no longer than `width` side by side in rows of about that length, all about equally long, so that
    hardly anything is padding: the longest part first, each to the row that is shortest so far.
    """
    small = sorted((part for part in parts if len(part) <= width), key=len, reverse=True)
    rows: list[list[Row]] = [[] for _ in range(-(-sum(map(len, small)) // width))]
    lengths = [(0, index) for index in range(len(rows))]
    for part in small:
        length, index = heappop(lengths)
        rows[index].append(part)
        heappush(lengths, (length + len(part), index))
    return [part for part in parts if len(part) > width] + [side_by_side(row) for row in rows]


def side_by_side(parts: Sequence[Row]) -> Row:
    """One row of several parts that do not see each other."""
    offsets = np.cumsum([0, *map(len, parts)])
    return Row(
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.end + offset for part, offset in zip(parts, offsets, strict=False)]),
        np.concatenate([part.fresh for part in parts]),
    )
