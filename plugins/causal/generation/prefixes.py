"""Which prompts begin alike: the tree of beginnings that are read once for all prompts that continue them.

Like the packed engine's tree and plan, on which it is built, this needs only numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..engine.prefix_tree import PrefixTree, TokenRequest, build_tree
from ..engine.reading_plan import Prefix, RowShape, plan_of

UNREAD = 0  # the last token of a request, which no plan reads


@dataclass(frozen=True, slots=True, eq=False)
class Beginning:
    """A beginning that several prompts share.

    Attributes:
        ids: its tokens, from the first one of the prompts on.
        parent: the shorter beginning that it continues, or None.
    """

    ids: tuple[int, ...]
    parent: Beginning | None = None

    def leads_to(self, other: Beginning) -> bool:
        """Return whether another beginning continues this one."""
        parent = other.parent
        while parent is not None and parent is not self:
            parent = parent.parent
        return parent is self


def by_beginning(prompts: Sequence[Sequence[int]]) -> list[tuple[int, Beginning | None]]:
    """Return the index of each prompt with the longest shared beginning that is worth keeping, or None.

    Prompts with the same beginning are neighbours, the longest first. A beginning never ends after the last token but
    one of a prompt, because the last token has to be read with each.
    """
    # A token of its own at the end makes every prompt a leaf of the tree, even if others are equal or continue it.
    leaves = [TokenRequest((*ids, -1 - index, UNREAD), 1) for index, ids in enumerate(prompts)]
    tree = build_tree(leaves)
    return list(_below(plan_of(tree, RowShape(trees=False)), tree, prompts, None))


def _below(
    prefix: Prefix, tree: PrefixTree, prompts: Sequence[Sequence[int]], parent: Beginning | None
) -> Iterator[tuple[int, Beginning | None]]:
    beginning = parent
    if len(prefix.nodes):
        parent_ids = () if parent is None else parent.ids
        beginning = Beginning((*parent_ids, *tree.tokens[prefix.nodes].tolist()), parent)
    indexes = [-1 - int(tree.tokens[row.nodes[-1]]) for row in prefix.rows]
    for index in sorted(indexes, key=lambda index: len(prompts[index]), reverse=True):
        yield index, beginning
    for child in prefix.prefixes:
        yield from _below(child, tree, prompts, beginning)


def shared_prompt_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the number of tokens with which both begin."""
    from ..engine.prefix_tree import shared_length

    return shared_length(np.array(left, dtype=np.int64), np.array(right, dtype=np.int64))
