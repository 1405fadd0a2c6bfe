"""Scores of labelled words, from counts that add up over examples: F1 of chunks, F1 of words.

A chunk is right if its first word, its last word and its kind are (conlleval; seqeval's default reading). Where several
labels of a word tie, the answer stands for all ways to draw one of them for each word, independently and fairly, and
the counts are expected values over these draws. They are exact, without any draw: whether a chunk stands at given
words depends on those words and on their two neighbours alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from figeval.metrics import Statistic
from figeval.metrics.statistic import quotient, ratio
from figeval.types import Prediction

from .tags import OUTSIDE, Chunk, chunks, kinds, parsed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .labelling import Answer, LabellingExample

    Floats: TypeAlias = NDArray[np.float64]

Shares: TypeAlias = "dict[str | None, float]"  # kind → probability; None is outside
Counts: TypeAlias = "Sequence[float] | None"


class Drawn:
    """The chunks of an answer whose ties are drawn fairly: how many there are, and how likely is a given one."""

    def __init__(self, answer: Answer) -> None:
        self.words = len(answer)
        self.begins: list[Shares] = []
        self.goes_on: list[Shares] = []
        for tied in ((one,) if isinstance(one, str) else one for one in answer):
            begins: Shares = {}
            goes_on: Shares = {}
            for tag in tied:
                prefix, kind = parsed(tag)
                part = begins if prefix == "B" else goes_on
                part[kind] = part.get(kind, 0.0) + 1 / len(tied)
            self.begins.append(begins)
            self.goes_on.append(goes_on)

    def inside(self, place: int, kind: str) -> float:
        """Return how likely a word is of a kind; 0 beside the text."""
        if not 0 <= place < self.words:
            return 0.0
        return self.begins[place].get(kind, 0.0) + self.goes_on[place].get(kind, 0.0)

    def starts(self, place: int, kind: str) -> float:
        """Return how likely a chunk of a kind begins at a word."""
        going_on = self.goes_on[place].get(kind, 0.0) * (1 - self.inside(place - 1, kind))
        return self.begins[place].get(kind, 0.0) + going_on

    def probability(self, chunk: Chunk) -> float:
        """Return how likely a chunk stands at exactly these words."""
        start, end, kind = chunk
        inner = math.prod(self.goes_on[place].get(kind, 0.0) for place in range(start + 1, end))
        longer = self.goes_on[end].get(kind, 0.0) if end < self.words else 0.0
        return self.starts(start, kind) * inner * (1 - longer)

    def expected(self) -> float:
        """Return how many chunks there are."""
        found = (kind for place in range(self.words) for kind in (self.begins[place] | self.goes_on[place]))
        every = {kind for kind in found if kind is not None}
        return math.fsum(self.starts(place, kind) for place in range(self.words) for kind in every)


def answered_of_all(prediction: Prediction, words: int) -> Answer | None:
    """Return the answer, where none counts as nothing found; None where an error kept it from coming."""
    if prediction.status == "error":
        return None
    return (OUTSIDE,) * words if prediction.value is None else prediction.value


# ---- counts ----------------------------------------------------------------------------------------------------------


def chunk_counts(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return (right, predicted, gold) chunks; None without an answer or where gold is hidden."""
    return None if prediction.value is None else _chunk_counts(example, prediction.value)


def chunk_counts_of_all(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return the same, where no answer counts as nothing found."""
    answer = answered_of_all(prediction, len(example.tokens))
    return None if answer is None else _chunk_counts(example, answer)


def _chunk_counts(example: LabellingExample, answer: Answer) -> Counts:
    if example.tags is None:
        return None
    gold, drawn = chunks(example.tags), Drawn(answer)
    return math.fsum(map(drawn.probability, gold)), drawn.expected(), float(len(gold))


def counts_by_training(*, seen: bool) -> Callable[[LabellingExample, Prediction], Counts]:
    """Return a function for (right, predicted, gold) among chunks whose words the training split has, or has not.

    Predicted chunks are told apart by their own words, as gold ones are, so that both have a precision.
    """

    def counts(example: LabellingExample, prediction: Prediction) -> Counts:
        if example.tags is None or example.seen is None or prediction.value is None:
            return None
        gold, drawn = chunks(example.tags), Drawn(prediction.value)
        known = set(example.seen)
        every = kinds(tag for one in prediction.value for tag in ((one,) if isinstance(one, str) else one))
        predicted = math.fsum(drawn.probability(Chunk(*place, kind)) for place in known for kind in every)
        mine = [chunk for chunk in gold if ((chunk.start, chunk.end) in known) is seen]
        right = math.fsum(map(drawn.probability, mine))
        return right, predicted if seen else max(0.0, drawn.expected() - predicted), float(len(mine))

    return counts


def word_counts(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return (right, predicted, gold) words that are of some kind; whether they begin or go on does not matter."""
    if example.tags is None or prediction.value is None:
        return None
    drawn = Drawn(prediction.value)
    gold = [parsed(tag).kind for tag in example.tags]
    right = math.fsum(drawn.inside(place, kind) for place, kind in enumerate(gold) if kind is not None)
    outside = math.fsum(shares.get(None, 0.0) for shares in drawn.goes_on)
    return right, max(0.0, len(gold) - outside), float(sum(kind is not None for kind in gold))


def right_words(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return (words with the right kind or rightly without, words)."""
    if example.tags is None or prediction.value is None:
        return None
    drawn = Drawn(prediction.value)
    gold = [parsed(tag).kind for tag in example.tags]
    right = (
        drawn.goes_on[place].get(None, 0.0) if kind is None else drawn.inside(place, kind)
        for place, kind in enumerate(gold)
    )
    return math.fsum(right), float(len(gold))


def sentence_acc(example: LabellingExample, prediction: Prediction) -> float | None:
    """Whether all chunks are right and there are no others; a mean, which `figeval compare` can pair.

    Of ties the probability that a draw has these chunks. Several draws may: where nothing of the kind stands before, a
    chunk begins with `I-` as well as with `B-`, and both count.
    """
    if example.tags is None or prediction.value is None:
        return None
    drawn = Drawn(prediction.value)
    right = [shares.get(None, 0.0) for shares in drawn.goes_on]
    before = Chunk(0, 0, "")
    for chunk in chunks(example.tags):
        start, end, kind = chunk
        touches = (before.end, before.kind) == (start, kind)
        right[start] = drawn.begins[start].get(kind, 0.0) if touches else drawn.inside(start, kind)
        right[start + 1 : end] = [drawn.goes_on[place].get(kind, 0.0) for place in range(start + 1, end)]
        before = chunk
    return math.prod(right)


def quotes_found(example: LabellingExample, prediction: Prediction) -> float | None:  # noqa: ARG001
    """Share of the quotations of a reply that stand in the text; None for a reply without any."""
    return sum(score > 0 for score in prediction.scores) / len(prediction.scores) if prediction.scores else None


# ---- scores ----------------------------------------------------------------------------------------------------------


def f1(sums: Floats) -> Floats:
    """Return 2 · right / (predicted + gold), shape (…, 3) → (…); NaN where there is neither."""
    return quotient(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def precision(sums: Floats) -> Floats:
    """Return right / predicted; NaN where nothing was predicted."""
    return quotient(sums[..., 0], sums[..., 1])


def recall(sums: Floats) -> Floats:
    """Return right / gold; NaN where there is nothing to be found."""
    return quotient(sums[..., 0], sums[..., 2])


NO_TRAINING = "the task has no training split to have seen expressions in"
span_f1 = Statistic(chunk_counts, f1)
span_precision = Statistic(chunk_counts, precision)
span_recall = Statistic(chunk_counts, recall)
span_f1_of_all = Statistic(chunk_counts_of_all, f1)
f1_seen = Statistic(counts_by_training(seen=True), f1, absent=NO_TRAINING)
f1_unseen = Statistic(counts_by_training(seen=False), f1, absent=NO_TRAINING)
token_f1 = Statistic(word_counts, f1)
token_acc = Statistic(right_words, ratio)
