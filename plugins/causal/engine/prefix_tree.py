"""Token sequences with common beginnings as one tree.

A context is stored once, whatever the number of its continuations; continuations that begin alike share those tokens as
well; and what all contexts share (solved examples, a system prompt) is the shared prefix of the whole tree. The module
needs only numpy: the tokens that a set of requests costs can be counted without a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """One request in tokens: the last `predicted` of `ids` are the continuation; the very last is never read."""

    ids: tuple[int, ...]
    predicted: int


Ints: TypeAlias = NDArray[np.int64]
NO_TOKENS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class PrefixTree:
    """All tokens to be read for a set of requests, each once, in preorder.

    `tokens`, `depth` (number of tokens before it in its text) and `end` have one entry per node; the descendants of
    node i are i + 1 … end[i] - 1. `predictions` are distinct, as (node, next token); those of request r are
    `answers[r]`, indexes into `predictions`.
    """

    tokens: Ints
    depth: Ints
    end: Ints
    predictions: Ints  # (predictions, 2), sorted by node
    answers: Sequence[Ints]

    @cached_property
    def _forks(self) -> Ints:
        """Last node of every unbranched stretch."""
        return np.append(np.flatnonzero(self.end[1:] != self.end[:-1]), len(self.end) - 1)

    def stretch(self, node: int) -> int:
        """Return the end (exclusive) of the unbranched stretch that begins at a node."""
        return int(self._forks[np.searchsorted(self._forks, node)]) + 1

    @property
    def shared_prefix(self) -> int:
        """Number of tokens with which all texts begin."""
        return self.stretch(0) if self.end[0] == len(self.end) else 0

    def children(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the subtrees of the siblings in a range of nodes, each as (first node, exclusive end)."""
        while start < end:
            yield start, int(self.end[start])
            start = int(self.end[start])

    def predictions_of(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Return everything predicted from these nodes: positions in `nodes`, and indexes into `predictions`."""
        first = np.searchsorted(self.predictions[:, 0], nodes, side="left")
        last = np.searchsorted(self.predictions[:, 0], nodes, side="right")
        indexes = chain.from_iterable(map(range, first, last))
        return np.repeat(np.arange(len(nodes)), last - first), np.fromiter(indexes, dtype=np.int64)


def build_tree(requests: Sequence[TokenRequest]) -> PrefixTree:
    """Build the tree of some requests. In sorted order, texts share their beginnings with their neighbours."""
    order = sorted(range(len(requests)), key=lambda index: requests[index].ids)
    tokens: list[Ints] = []
    depth: list[Ints] = []
    end = np.zeros(sum(len(request.ids) for request in requests), dtype=np.int64)
    tails: list[Ints] = [NO_TOKENS] * len(requests)  # the nodes that predict a request's continuation
    text: tuple[int, ...] = ()
    previous, path, count = NO_TOKENS, NO_TOKENS, 0
    for index in order:
        request = requests[index]
        if request.ids[:-1] != text:  # words that are predicted after the same text add no node
            text = request.ids[:-1]
            ids = np.array(text, dtype=np.int64)
            shared = shared_length(previous, ids)
            end[path[shared:]] = count
            path = np.concatenate((path[:shared], np.arange(count, count + len(ids) - shared)))
            tokens.append(ids[shared:])
            depth.append(np.arange(shared, len(ids)))
            count += len(ids) - shared
            previous = ids
        tails[index] = path[-request.predicted :]
    end[path] = count
    nodes = np.concatenate((NO_TOKENS, *tails))
    words = [word for request in requests for word in request.ids[-request.predicted :]]
    pairs = np.stack((nodes, np.array(words, dtype=np.int64)), axis=1)
    predictions, indexes = np.unique(pairs, axis=0, return_inverse=True)
    cuts = accumulate((request.predicted for request in requests), initial=0)
    answers = [indexes.reshape(-1)[start:stop] for start, stop in pairwise(cuts)]
    return PrefixTree(
        np.concatenate((NO_TOKENS, *tokens)), np.concatenate((NO_TOKENS, *depth)), end[:count], predictions, answers
    )


def shared_length(left: Ints, right: Ints) -> int:
    """Return the number of tokens that two texts share at their beginning."""
    limit = min(len(left), len(right))
    differences = np.flatnonzero(left[:limit] != right[:limit])
    return int(differences[0]) if len(differences) else limit
