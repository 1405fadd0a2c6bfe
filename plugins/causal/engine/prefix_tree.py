"""Token sequences that begin alike as one tree.

A context stands once, whatever number of continuations it has; continuations that begin alike share those tokens,
too; what all contexts share (solved examples, a system prompt) is the shared prefix of the whole tree. Pure numpy: no
model is needed to see how many tokens a set of requests costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """One request in tokens: the last `predicted` of `ids` are the continuation; the last of all is never read."""

    ids: tuple[int, ...]
    predicted: int


Ints: TypeAlias = NDArray[np.int64]
NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class PrefixTree:
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
    def shared_prefix(self) -> int:
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


def build(requests: Sequence[TokenRequest]) -> PrefixTree:
    """The tree of some requests. Sorted texts share their beginnings with their neighbours."""
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
    return PrefixTree(np.concatenate((NONE, *tokens)), np.concatenate((NONE, *depth)), end[:count], asked, answers)


def common(left: Ints, right: Ints) -> int:
    """How many tokens two texts share at their beginning."""
    most = min(len(left), len(right))
    different = np.flatnonzero(left[:most] != right[:most])
    return int(different[0]) if len(different) else most
