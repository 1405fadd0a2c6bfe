"""Choice of the distractors of multiple-choice items: arithmetic on scores, without models or files.

Throughout, scores and probabilities have shape (narratives, proverbs), and `alike` is a symmetric boolean matrix
(proverbs, proverbs) with a true diagonal that marks proverbs that must not meet in one item. Costs are float64 of the
same shape as scores; the cheaper a proverb, the sooner it becomes a distractor of the narrative.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.errors import DataError, ModelError

Scores: TypeAlias = NDArray[np.float64]
Alike: TypeAlias = NDArray[np.bool_]
Golds: TypeAlias = NDArray[np.intp]  # right proverb of each narrative
Indices: TypeAlias = NDArray[np.intp]

SLOTS = 4  # distractors of an item
TOP_RANKS = 10


def alike_matrix(names: Sequence[str], groups: Iterable[Iterable[str]]) -> Alike:
    """Return the relation spanned by groups of names: a name is like itself and like those it shares a group with."""
    index_of = {name: index for index, name in enumerate(names)}
    alike = np.eye(len(names), dtype=bool)
    for group in groups:
        members = [index_of[name] for name in group]
        alike[np.ix_(members, members)] = True
    return alike


def probabilities(scores: Scores) -> Scores:
    """Return the softmax of the scores, standardised within each narrative (to variance 1).

    NaN stays NaN; the other values of a row sum to 1. Standardising makes cosines of 0.3 to 0.5 and of 0 to 0.05
    comparable but keeps the shape: the more a model singles out a few proverbs, the more weight it has. A row without
    any spread carries no information and becomes uniform.
    """
    valid = np.ma.masked_invalid(scores)
    shifted = valid - valid.max(axis=1, keepdims=True)  # softmax is invariant under shifts
    spread = shifted.std(axis=1, keepdims=True)
    weights = np.ma.exp(shifted / (spread + (spread == 0)))
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)).filled(np.nan))


def average_probabilities(per_scorer: Mapping[str, Scores]) -> Scores:
    """Return the mean of the scorers' probabilities, leaving a scorer out of the mean of a pair that it scores NaN.

    Raises:
        ModelError: all scorers give NaN for some narrative and proverb.
    """
    mean = np.ma.masked_invalid([probabilities(scores) for scores in per_scorer.values()]).mean(axis=0)
    missing = np.ma.getmaskarray(mean)
    if missing.any():
        names = ", ".join(per_scorer)
        raise ModelError(f"all scorers ({names}) give NaN for {int(missing.sum())} pairs; add one that does not")
    return np.asarray(mean.filled(np.nan))


def adversarial(probability: Scores, gold: Golds) -> list[Scores]:
    """Return the costs of the four distractors of an item, as four matrices of shape (narratives, proverbs).

    The first two cost −log p, so that the most probable proverbs are the cheapest; the other two cost
    |log p − log p(gold)|, so that those closest in probability to the right one are. The mix follows Ghosh and
    Srivastava 2022, section 5.1; the numbers are ours.
    """
    surprise = -np.log(probability)
    distance = np.abs(surprise - np.take_along_axis(surprise, gold[:, None], axis=1))
    return [surprise, surprise, distance, distance]


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


def share_picked(scores: Scores, options: Sequence[Sequence[int]], gold: Sequence[int]) -> tuple[float, int]:
    """Return the share of items whose gold proverb scores best among the options, and the number of items with a NaN.

    Ties count by expectation (1 / number of tied); an item with a NaN counts as not picked.
    """
    total, broken = 0.0, 0
    for row, indexes, right in zip(scores, options, gold, strict=True):
        option_scores = row[list(indexes)]
        if np.isnan(option_scores).any():
            broken += 1
        elif row[right] == option_scores.max():
            total += 1 / int((option_scores == option_scores.max()).sum())
    return total / len(options), broken


def strength(probability: Scores, options: Sequence[Sequence[int]], gold: Sequence[int]) -> dict[str, float]:
    """Return how high the distractors rank among all proverbs, where 1 is the most probable.

    `median_rank` is the median over items of the distractors' median rank; `best_two_among_ten` is the share of the two
    best distractors of each item that are among the ten most probable proverbs.
    """
    ranks = np.argsort(np.argsort(-probability, axis=1, kind="stable"), axis=1) + 1
    distractor_ranks = [
        np.sort(row[[option for option in indexes if option != right]])
        for row, indexes, right in zip(ranks, options, gold, strict=True)
    ]
    medians, best = np.median(distractor_ranks, axis=1), np.array(distractor_ranks)[:, :2]
    return {"median_rank": float(np.median(medians)), "best_two_among_ten": round(float((best <= TOP_RANKS).mean()), 6)}
