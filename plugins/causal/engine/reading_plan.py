"""The plan by which a prefix tree goes through a model: prefixes whose keys and values are kept, and rows after them.

Like the tree, it needs only numpy. A plan is chosen by the number of tokens that the model reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from .prefix_tree import NO_TOKENS, Ints, PrefixTree

# ---- the plan ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PackedRow:
    """Nodes that go through the model side by side, and their attention to each other.

    Node i of the row is attended to by itself and by the nodes i + 1 … end[i] - 1 of the row. `fresh` marks the nodes
    whose predictions are taken from this row, since a node may be in several rows.
    """

    nodes: Ints
    end: Ints
    fresh: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(slots=True)
class Prefix:
    """A stretch of text whose keys and values are kept for all rows and prefixes that continue it."""

    nodes: Ints
    fresh: NDArray[np.bool_]
    rows: list[PackedRow] = field(default_factory=list)
    prefixes: list[Prefix] = field(default_factory=list)

    @property
    def read(self) -> int:
        """Number of tokens that the model reads for this prefix and everything below it."""
        return len(self.nodes) + sum(map(len, self.rows)) + sum(prefix.read for prefix in self.prefixes)


@dataclass(frozen=True, slots=True)
class RowShape:
    """The shape of rows.

    Attributes:
        trees: whether nodes may branch within a row; otherwise every row is one unbranched text.
        prefixes: whether common beginnings of rows are kept; otherwise every row is complete.
        branches: most tokens below a context within one row, because each pays attention to all of them.
        width: length in tokens up to which small parts are joined.
        pass_tokens: number of tokens that take as long as a separate pass.
    """

    trees: bool = True
    prefixes: bool = True
    branches: int = 256
    width: int = 192
    pass_tokens: int = 48

    @classmethod
    def on(cls, device: str) -> RowShape:
        """Return the fastest shape on a kind of device.

        On an accelerator, a pass of few tokens takes as long as one of thousands, and attention is cheap.
        """
        return cls() if device == "cpu" else cls(branches=4_096, width=768, pass_tokens=2_048)


def plan_of(tree: PrefixTree, shape: RowShape, shared_prefix: int = 0) -> Prefix:
    """Return the plan that reads the fewest tokens.

    The first `shared_prefix` tokens, which all texts share, become a prefix of their own, whether that pays off here or
    not. If there are none, the common beginning of all texts becomes one if it saves more than a pass costs, because
    all rows can then still share batches.
    """
    plain = TreePlanner(tree, shape).plan(shared_prefix if shape.prefixes else 0)
    if shared_prefix or not (shape.prefixes and tree.shared_prefix):
        return plain
    with_prefix = TreePlanner(tree, shape).plan(tree.shared_prefix)
    return with_prefix if plain.read - with_prefix.read >= shape.pass_tokens else plain


class TreePlanner:
    """A planner of one tree."""

    def __init__(self, tree: PrefixTree, shape: RowShape) -> None:
        self.tree = tree
        self.shape = shape
        self._claimed = np.zeros(len(tree.tokens), dtype=np.bool_)

    def plan(self, shared_prefix: int = 0) -> Prefix:
        """Return the root: an empty prefix with all rows and prefixes.

        The first `shared_prefix` tokens, which all texts share, become a prefix of their own, whether that pays off
        here or not.
        """
        root = self._prefix(NO_TOKENS)
        lowest = root
        if shared_prefix:
            lowest = self._prefix(np.arange(shared_prefix))
            root.prefixes.append(lowest)
        self._hang(lowest, NO_TOKENS, len(lowest.nodes), len(self.tree.tokens))
        return root

    def _prefix(self, nodes: Ints) -> Prefix:
        return Prefix(nodes, self._claim(nodes))

    def _claim(self, nodes: Ints) -> NDArray[np.bool_]:
        fresh = ~self._claimed[nodes]
        self._claimed[nodes] = True
        return fresh

    def _hang(self, prefix: Prefix, path: Ints, start: int, end: int) -> None:
        """Add the subtrees in a range to a prefix; `path` leads to them from the prefix's last node."""
        parts: list[PackedRow] = []
        self._collect(prefix, parts, path, start, end)
        prefix.rows += gather(parts, self.shape.width) if self.shape.trees else parts

    def _collect(self, prefix: Prefix, parts: list[PackedRow], path: Ints, start: int, end: int) -> None:
        waiting = [(path, self.tree.children(start, end))]  # a stack, since thousands of texts may continue one another
        while waiting:
            path, children = waiting[-1]
            child = next(children, None)
            if child is None:
                waiting.pop()
                continue
            first, last = child
            fork = self.tree.stretch(first)
            full_path = np.concatenate((path, np.arange(first, fork)))
            if last - fork <= self.shape.branches * self.shape.trees:
                parts.append(self._part(path, first, last))
            elif self.shape.prefixes and self._worth_keeping(len(full_path), fork, last):
                child_prefix = self._prefix(full_path)
                prefix.prefixes.append(child_prefix)
                self._hang(child_prefix, NO_TOKENS, fork, last)
            else:
                waiting.append((full_path, self.tree.children(fork, last)))

    def _part(self, path: Ints, first: int, last: int) -> PackedRow:
        """Return a whole subtree with the path that leads to it."""
        nodes = np.concatenate((path, np.arange(first, last)))
        size = len(nodes)
        ends = np.concatenate((np.full(len(path), size), self.tree.end[first:last] - first + len(path)))
        return PackedRow(nodes, ends, self._claim(nodes))

    def _worth_keeping(self, length: int, fork: int, last: int) -> bool:
        """Return whether a prefix saves an eighth of the tokens below it, since its rows need batches of their own."""
        branches = sum(1 for _ in self.tree.children(fork, last))
        savings = length * (branches - 1)
        return savings * 8 >= savings + length + last - fork


def gather(parts: Sequence[PackedRow], width: int) -> list[PackedRow]:
    """Join parts no longer than `width` into rows of about that length.

    The rows are of similar length, so that there is hardly any padding: the longest part comes first, and each goes to
    the row that is shortest so far.
    """
    small = sorted((part for part in parts if len(part) <= width), key=len, reverse=True)
    rows: list[list[PackedRow]] = [[] for _ in range(-(-sum(map(len, small)) // width))]
    lengths = [(0, index) for index in range(len(rows))]
    for part in small:
        length, index = heappop(lengths)
        rows[index].append(part)
        heappush(lengths, (length + len(part), index))
    return [part for part in parts if len(part) > width] + [side_by_side(row) for row in rows]


def side_by_side(parts: Sequence[PackedRow]) -> PackedRow:
    """Return one row of several parts that do not attend to each other."""
    offsets = np.cumsum([0, *map(len, parts)])
    return PackedRow(
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.end + offset for part, offset in zip(parts, offsets, strict=False)]),
        np.concatenate([part.fresh for part in parts]),
    )
