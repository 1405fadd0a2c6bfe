"""Choice of the distractors of multiple-choice items: arithmetic on scores, without models or files.

Throughout, scores have shape (narratives, proverbs), and `alike` is a symmetric boolean matrix
(proverbs, proverbs) with a true diagonal that marks proverbs that must not meet in one item. Costs are float64 of the
same shape as scores; the cheaper a proverb, the sooner it becomes a distractor of the narrative.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.errors import DataError

Scores: TypeAlias = NDArray[np.float64]
Alike: TypeAlias = NDArray[np.bool_]
Golds: TypeAlias = NDArray[np.intp]  # right proverb of each narrative
Indices: TypeAlias = NDArray[np.intp]

SLOTS = 4  # distractors of an item


def alike_matrix(names: Sequence[str], groups: Iterable[Iterable[str]]) -> Alike:
    """Return the relation spanned by groups of names: a name is like itself and like those it shares a group with."""
    index_of = {name: index for index, name in enumerate(names)}
    alike = np.eye(len(names), dtype=bool)
    for group in groups:
        members = [index_of[name] for name in group]
        alike[np.ix_(members, members)] = True
    return alike


def uniform(seed: int, names: Sequence[str], proverbs: int) -> list[Scores]:
    """Return random costs of the same shape; each row depends only on the seed and the name of its narrative."""
    slots = []
    for slot in range(SLOTS):
        generators = (random.Random(f"{seed} draw {name} {slot}") for name in names)
        slots.append(np.array([[generator.random() for _ in range(proverbs)] for generator in generators]))
    return slots


def blocks(gold: Golds) -> list[Indices]:
    """Return the narratives as blocks in which every proverb is right exactly once.

    The k-th block has the k-th narrative of every proverb, in the order of the proverbs.

    Raises:
        DataError: the proverbs have different numbers of narratives.
    """
    order = np.argsort(gold, kind="stable")
    counts = np.bincount(gold)
    if counts.min() != counts.max():
        raise DataError(
            f"proverbs have {counts.min()} to {counts.max()} narratives; balanced items need equally many of each"
        )
    return list(order.reshape(len(counts), -1).T)


def assign_distractors(costs: Sequence[Scores], gold: Golds, alike: Alike) -> list[list[int]]:
    """Return the distractors of every narrative, one per matrix of `costs`, at the least total cost.

    In every block and for every matrix, each proverb is a distractor exactly as often as it is right. For one matrix
    and block, this is a one-to-one assignment of the block's narratives to the proverbs (the Hungarian method). No two
    options of an item are alike.

    Raises:
        DataError: no such assignment exists, because too many proverbs are alike.
    """
    from scipy.optimize import linear_sum_assignment

    options = [[int(right)] for right in gold]
    for block in blocks(gold):
        for cost in costs:
            barred = np.array([alike[options[narrative]].any(axis=0) for narrative in block])
            try:
                _, assigned = linear_sum_assignment(np.where(barred, np.inf, cost[block]))
            except ValueError as error:
                raise DataError("too many proverbs are near-duplicates of each other to balance the items") from error
            for narrative, proverb in zip(block, assigned, strict=True):
                options[narrative].append(int(proverb))
    return [distractors for _, *distractors in options]


def strength(scores: Scores, right: Indices, wrong: Indices) -> dict[str, float]:
    """Return the shares of items whose right option scores highest and lowest, and the median ranks of options.

    Ties count by expectation; an item with a NaN counts as neither. Ranks are among all proverbs, from 1. `right` has
    shape (items, 1), `wrong` (items, distractors).
    """
    right_scores, wrong_scores = (np.take_along_axis(scores, options, axis=1) for options in (right, wrong))
    tied = 1 + (wrong_scores == right_scores).sum(axis=1)
    highest, lowest = (wrong_scores <= right_scores).all(axis=1), (wrong_scores >= right_scores).all(axis=1)
    ranks = 1 + (scores[:, None, :] > np.hstack([right_scores, wrong_scores])[:, :, None]).sum(axis=2)
    return {
        "highest": round(float((highest / tied).mean()), 6),
        "lowest": round(float((lowest / tied).mean()), 6),
        "nan": int(np.isnan(np.hstack([right_scores, wrong_scores])).any(axis=1).sum()),
        "median_rank_right": float(np.median(ranks[:, 0])),
        "median_rank_wrong": float(np.median(ranks[:, 1:])),
    }
