"""Choice of the wrong morals of moCpt: from other topics of the same split, with every moral wrong equally often.

Four times, the pairs of a block are assigned to each other one to one at random costs (the Hungarian method), and each
pair gets the moral of its assigned pair. A moral that is right k times in a split is thus wrong 4k times, and the
frequency of an option gives nothing away. No two options of an item share a topic unless a topic is too large: if the
right option alone had a topic of its own, that would give it away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.errors import DataError

NEGATIVES = 4
OPTIONS = NEGATIVES + 1
MAX_BLOCK_PAIRS = 400
MIN_EQUAL_RATIO = 85  # rapidfuzz's ratio of folded texts, 0 to 100
MAX_TRIES = 5  # attempts with different costs before a rule is relaxed

Topics: TypeAlias = NDArray[np.intp]
Barred: TypeAlias = NDArray[np.bool_]  # symmetric, true on the diagonal: marks pairs of a block that must not meet

RULES = (
    "no two options share a topic",
    "no negative shares the topic of the right moral",
    "topics are not considered, because too many morals share one",
    "morals do not occur equally often as negatives, because too many are nearly equal",
)


@dataclass(frozen=True, slots=True)
class SplitItems:
    """The items of a split.

    Attributes:
        options: indices of the five pairs whose morals are the options, for each pair.
        gold: index of the own moral among the options, for each pair.
        rules: rule that was satisfied, for each block, as an index into `RULES`; smaller is better.
    """

    options: tuple[tuple[int, ...], ...]
    gold: tuple[int, ...]
    rules: tuple[int, ...]


def choose(morals: Sequence[str], topics: Topics, seed: str) -> SplitItems:
    """Choose four negatives for each moral of a split, and the order of the options.

    Raises:
        DataError: a moral has fewer than four others that differ from it and from each other.
    """
    generator = np.random.default_rng([*seed.encode()])
    order = generator.permutation(len(morals))
    negatives_by_index: dict[int, list[int]] = {}
    rules = []
    for block in np.array_split(order, max(1, -(-len(morals) // MAX_BLOCK_PAIRS))):
        block_negatives, rule = _block([morals[index] for index in block], topics[block], generator)
        rules.append(rule)
        for index, negatives in zip(block.tolist(), block_negatives, strict=True):
            negatives_by_index[index] = [int(block[negative]) for negative in negatives]
    gold = generator.permutation(np.arange(len(morals)) % OPTIONS).tolist()
    options = []
    for index, right in enumerate(gold):
        negatives = generator.permutation(negatives_by_index[index]).tolist()
        options.append((*negatives[:right], index, *negatives[right:]))
    return SplitItems(tuple(options), tuple(gold), tuple(rules))


def normalize(text: str) -> str:
    """Return a text in lower case, without punctuation and with single blanks, for comparisons by similarity.

    Whether two texts are the same is decided by their letters alone (`index.digest`).
    """
    return " ".join(re.sub(r"[\W_]+", " ", text.lower()).split())


def _block(morals: Sequence[str], topics: Topics, generator: np.random.Generator) -> tuple[list[list[int]], int]:
    """Return the negatives of each pair of a block and the index of the rule that they satisfy."""
    alike = _nearly_equal(morals)
    same_topic = topics[:, None] == topics
    with_topic = alike | same_topic
    for rule, (any_two, with_gold) in enumerate(((with_topic, with_topic), (alike, with_topic), (alike, alike))):
        for _ in range(MAX_TRIES):
            if (negatives := _assign(any_two, with_gold, same_topic, generator)) is not None:
                return negatives, rule
    return [_draw_negatives(index, alike, generator, morals) for index in range(len(morals))], len(RULES) - 1


def _nearly_equal(morals: Sequence[str]) -> Barred:
    from rapidfuzz import fuzz
    from rapidfuzz.process import cdist

    texts = [normalize(moral) for moral in morals]
    return np.asarray(cdist(texts, texts, scorer=fuzz.ratio, score_cutoff=MIN_EQUAL_RATIO) > 0) | np.eye(
        len(texts), dtype=bool
    )


def _assign(
    any_two: Barred, with_gold: Barred, avoided: Barred, generator: np.random.Generator
) -> list[list[int]] | None:
    """Return four negatives of each pair by one-to-one assignments, or None if one does not exist.

    Args:
        any_two: pairs that must not be negatives of the same item.
        with_gold: pairs that must not be negatives of each other's items.
        avoided: pairs that should meet in as few items as possible.
        generator: random generator for the costs.
    """
    from scipy.optimize import linear_sum_assignment

    barred, extra = with_gold.copy(), avoided.astype(np.float64)
    negatives: list[list[int]] = [[] for _ in barred]
    for _ in range(NEGATIVES):
        costs = generator.random(barred.shape)
        try:
            _, assigned = linear_sum_assignment(np.where(barred, np.inf, costs + extra))
        except ValueError:
            return None
        for index, negative in enumerate(assigned.tolist()):
            negatives[index].append(negative)
            barred[index] |= any_two[negative]
            extra[index] += avoided[negative]
    return negatives


def _draw_negatives(index: int, alike: Barred, generator: np.random.Generator, morals: Sequence[str]) -> list[int]:
    """Draw the negatives of one pair on its own. Raises `DataError` if there are too few."""
    barred = alike[index].copy()
    negatives: list[int] = []
    while len(negatives) < NEGATIVES:
        remaining = np.flatnonzero(~barred)
        if not len(remaining):
            raise DataError(
                f"the moral {morals[index][:60]!r} has only {len(negatives)} others in its split that differ from it "
                f"and from each other; {NEGATIVES} are needed: add pairs, or leave mocpt out of --tasks"
            )
        negatives.append(int(generator.choice(remaining)))
        barred |= alike[negatives[-1]]
    return negatives
