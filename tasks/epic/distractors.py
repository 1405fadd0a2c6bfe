"""Which proverbs stand beside the right one in a multiple-choice item: arithmetic on scores, no models, no files.

Throughout, scores and probabilities have shape (narratives, proverbs), and `alike` is a symmetric boolean matrix
(proverbs, proverbs) with a true diagonal: which proverbs must not meet in one item.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.errors import ModelError

Scores: TypeAlias = NDArray[np.float64]
Alike: TypeAlias = NDArray[np.bool_]


def alike_matrix(names: Sequence[str], groups: Iterable[Iterable[str]]) -> Alike:
    """The relation that `groups` of names span: a name is like itself and like those it shares a group with."""
    place = {name: index for index, name in enumerate(names)}
    alike = np.eye(len(names), dtype=bool)
    for group in groups:
        members = [place[name] for name in group]
        alike[np.ix_(members, members)] = True
    return alike


def probabilities(scores: Scores) -> Scores:
    """Softmax of the scores standardised within each narrative (to variance 1); NaN stays NaN, the rest sums to 1.

    Standardising makes cosines of 0.3 to 0.5 and of 0 to 0.05 comparable. What it leaves is the shape: the more a
    model singles out a few proverbs, the more it decides. A row without any spread says nothing and becomes uniform.
    """
    known = np.ma.masked_invalid(scores)
    shifted = known - known.max(axis=1, keepdims=True)  # softmax does not mind by how much
    spread = shifted.std(axis=1, keepdims=True)
    weights = np.ma.exp(shifted / (spread + (spread == 0)))
    return np.asarray((weights / weights.sum(axis=1, keepdims=True)).filled(np.nan))


def averaged(per_scorer: Mapping[str, Scores]) -> Scores:
    """The mean of the scorers' probabilities; a scorer that gives NaN for a pair is left out of that pair's mean.

    Raises:
        ModelError: no scorer has anything to say about some narrative and proverb.
    """
    mean = np.ma.masked_invalid([probabilities(scores) for scores in per_scorer.values()]).mean(axis=0)
    silent = np.ma.getmaskarray(mean)
    if silent.any():
        names = ", ".join(per_scorer)
        raise ModelError(f"all scorers ({names}) give NaN for {int(silent.sum())} pairs; add one that does not")
    return np.asarray(mean.filled(np.nan))


def adversarial(probability: Scores, gold: int, alike: Alike) -> list[int]:
    """Two proverbs of the highest probability, then two whose probability is closest to that of the gold one.

    `probability` is one row. The mix follows Ghosh and Srivastava 2022, section 5.1; the numbers are ours. Equal
    values keep the order of the proverbs.
    """
    highest = np.argsort(-probability, kind="stable")
    closest = np.argsort(np.abs(probability - probability[gold]), kind="stable")
    return admissible([highest, highest, closest, closest], gold, alike)


def uniform(generator: random.Random, gold: int, alike: Alike) -> list[int]:
    """Four proverbs drawn uniformly without replacement, under the same exclusions."""
    order = generator.sample(range(len(alike)), len(alike))
    return admissible([order] * 4, gold, alike)


def admissible(orders: Iterable[Sequence[int] | NDArray[np.intp]], gold: int, alike: Alike) -> list[int]:
    """The first proverb of each order that is like neither the gold one nor one taken before.

    Two options that say the same would also give themselves away: at most one answer is right.
    """
    taken = [gold]
    for order in orders:
        taken.append(next(int(index) for index in order if not alike[index, taken].any()))
    return taken[1:]


def gold_picked(scores: Scores, options: Sequence[Sequence[int]], gold: Sequence[int]) -> tuple[float, int]:
    """The share of items whose gold proverb has the best score of the options, and how many items had a NaN.

    Ties count by expectation (1 / number of tied); an item with a NaN counts as not picked.
    """
    total, broken = 0.0, 0
    for row, indexes, right in zip(scores, options, gold, strict=True):
        chosen = row[list(indexes)]
        if np.isnan(chosen).any():
            broken += 1
        elif row[right] == chosen.max():
            total += 1 / int((chosen == chosen.max()).sum())
    return total / len(options), broken
