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
LARGEST_BLOCK = 400
NEARLY_EQUAL = 85  # rapidfuzz's ratio of folded texts, 0 to 100
TRIES = 5  # attempts with different costs before a rule is relaxed

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
        options: places of the five pairs whose morals are the options, for each pair.
        gold: place of the own moral among the options, for each pair.
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
    wrong: dict[int, list[int]] = {}
    rules = []
    for block in np.array_split(order, max(1, -(-len(morals) // LARGEST_BLOCK))):
        chosen, rule = _block([morals[place] for place in block], topics[block], generator)
        rules.append(rule)
        for place, negatives in zip(block.tolist(), chosen, strict=True):
            wrong[place] = [int(block[negative]) for negative in negatives]
    gold = generator.permutation(np.arange(len(morals)) % OPTIONS).tolist()
    options = []
    for place, right in enumerate(gold):
        negatives = generator.permutation(wrong[place]).tolist()
        options.append((*negatives[:right], place, *negatives[right:]))
    return SplitItems(tuple(options), tuple(gold), tuple(rules))


def folded(text: str) -> str:
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
        for _ in range(TRIES):
            if (found := _assigned(any_two, with_gold, same_topic, generator)) is not None:
                return found, rule
    return [_drawn(place, alike, generator, morals) for place in range(len(morals))], len(RULES) - 1


def _nearly_equal(morals: Sequence[str]) -> Barred:
    from rapidfuzz import fuzz
    from rapidfuzz.process import cdist

    texts = [folded(moral) for moral in morals]
    return np.asarray(cdist(texts, texts, scorer=fuzz.ratio, score_cutoff=NEARLY_EQUAL) > 0) | np.eye(
        len(texts), dtype=bool
    )


def _assigned(
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
        for place, negative in enumerate(assigned.tolist()):
            negatives[place].append(negative)
            barred[place] |= any_two[negative]
            extra[place] += avoided[negative]
    return negatives


def _drawn(place: int, alike: Barred, generator: np.random.Generator, morals: Sequence[str]) -> list[int]:
    """Draw the negatives of one pair on its own. Raises `DataError` if there are too few."""
    barred = alike[place].copy()
    negatives: list[int] = []
    while len(negatives) < NEGATIVES:
        left = np.flatnonzero(~barred)
        if not len(left):
            raise DataError(
                f"the moral {morals[place][:60]!r} has only {len(negatives)} others in its split that differ from it "
                f"and from each other; {NEGATIVES} are needed: add pairs, or leave mocpt out of --tasks"
            )
        negatives.append(int(generator.choice(left)))
        barred |= alike[negatives[-1]]
    return negatives
