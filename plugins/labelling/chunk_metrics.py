"""Metrics of labelled words, from counts that are summed over examples: F1 of chunks, F1 of words.

A chunk is right if its first word, last word and kind are (conlleval; seqeval's default reading). If several labels of
a word tie, the answer represents all ways to draw one of them for each word, independently and fairly, and the counts
are expected values over these draws. They are computed exactly, without drawing: the probability of a chunk at given
words depends only on those words and their two neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from figeval.metrics import Statistic
from figeval.metrics.statistic import quotient, ratio
from figeval.types import WITHOUT_REPLY, Prediction

from .tags import BEGIN, DEFAULT_SCHEME, END, INSIDE, OUTSIDE, SINGLE, Chunk, Scheme, chunks, kinds, parse_tag

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .labelling import Answer, LabellingExample

    Floats: TypeAlias = NDArray[np.float64]

Shares: TypeAlias = "dict[str | None, float]"  # kind → probability; None is outside
Counts: TypeAlias = "Sequence[float] | None"


class ChunkDistribution:
    """The random chunks of an answer whose ties are drawn fairly; `scheme` is that of its tags."""

    def __init__(self, answer: Answer, scheme: Scheme = DEFAULT_SCHEME) -> None:
        self.words = len(answer)
        self.begins: list[Shares] = []
        self.goes_on: list[Shares] = []  # or begins, if it continues nothing
        self.ends: list[Shares] = []  # likewise
        self.single: list[Shares] = []
        for options in ((tag,) if isinstance(tag, str) else tag for tag in answer):
            shares: dict[str, Shares] = {BEGIN: {}, INSIDE: {}, END: {}, SINGLE: {}}
            for tag in options:
                position, kind = parse_tag(tag, scheme)
                part = shares[position or INSIDE]
                part[kind] = part.get(kind, 0.0) + 1 / len(options)
            self.begins.append(shares[BEGIN])
            self.goes_on.append(shares[INSIDE])
            self.ends.append(shares[END])
            self.single.append(shares[SINGLE])

    def is_open(self, index: int, kind: str) -> float:
        """Return the probability that a chunk of a kind may go on after a word; 0 outside the text."""
        if not 0 <= index < self.words:
            return 0.0
        return self.begins[index].get(kind, 0.0) + self.goes_on[index].get(kind, 0.0)

    def inside(self, index: int, kind: str) -> float:
        """Return the probability that a word has a kind; 0 outside the text."""
        if not 0 <= index < self.words:
            return 0.0
        return self.is_open(index, kind) + self.ends[index].get(kind, 0.0) + self.single[index].get(kind, 0.0)

    def starts(self, index: int, kind: str) -> float:
        """Return the probability that a chunk of a kind begins at a word."""
        return self.starts_longer(index, kind) + self.starts_and_ends(index, kind)

    def starts_longer(self, index: int, kind: str) -> float:
        """Return the probability that a chunk of a kind begins at a word and may go on after it."""
        going_on = self.goes_on[index].get(kind, 0.0) * (1 - self.is_open(index - 1, kind))
        return self.begins[index].get(kind, 0.0) + going_on

    def starts_and_ends(self, index: int, kind: str) -> float:
        """Return the probability that a word is a chunk of a kind, whatever follows."""
        ending = self.ends[index].get(kind, 0.0) * (1 - self.is_open(index - 1, kind))
        return self.single[index].get(kind, 0.0) + ending

    def probability(self, chunk: Chunk) -> float:
        """Return the probability of a chunk at exactly these words."""
        start, end, kind = chunk
        going_on = [self.goes_on[index].get(kind, 0.0) for index in range(start + 1, end)]
        continuation = self.continues(end, kind)
        left_open = self.starts_longer(start, kind) * math.prod(going_on) * (1 - continuation)
        if not going_on:
            return left_open + self.starts_and_ends(start, kind)
        return left_open + self.starts_longer(start, kind) * math.prod(going_on[:-1]) * self.ends[end - 1].get(
            kind, 0.0
        )

    def continues(self, index: int, kind: str) -> float:
        """Return the probability that a word continues an open chunk of a kind; 0 outside the text."""
        if index >= self.words:
            return 0.0
        return self.goes_on[index].get(kind, 0.0) + self.ends[index].get(kind, 0.0)

    def expected_count(self) -> float:
        """Return the number of chunks, averaged over all ways to break the ties."""
        parts = zip(self.begins, self.goes_on, self.ends, self.single, strict=True)
        all_kinds = {kind for shares in parts for part in shares for kind in part if kind is not None}
        return math.fsum(self.starts(index, kind) for index in range(self.words) for kind in all_kinds)

    def probability_of_all(self, gold: Sequence[Chunk]) -> float:
        """Return the probability that these are the chunks: all of them, and no others."""
        chunk_at = {chunk.start: chunk for chunk in gold}
        chunk = Chunk(0, 0, "")
        left_open, closed = 0.0, 1.0  # probabilities of being right so far, with a chunk that may go on, and without
        for index in range(self.words):
            previous, chunk = chunk, chunk_at.get(index, chunk)
            begins, goes_on, ends, single = (
                part[index].get(chunk.kind, 0.0) for part in (self.begins, self.goes_on, self.ends, self.single)
            )
            if index >= chunk.end:
                left_open, closed = 0.0, (left_open + closed) * self.goes_on[index].get(None, 0.0)
            elif index > chunk.start:
                is_last = index == chunk.end - 1
                left_open, closed = left_open * goes_on, left_open * ends if is_last else 0.0
            else:
                # A chunk of the same kind that is still open would go on; after any other word, I and E begin one too.
                touches = (previous.end, previous.kind) == (index, chunk.kind)
                fresh = closed if touches else left_open + closed
                still_open = left_open if touches else 0.0
                left_open = still_open * begins + fresh * (begins + goes_on)
                closed = still_open * single + fresh * (single + ends) if chunk.end == index + 1 else 0.0
        return left_open + closed


def answered_of_all(prediction: Prediction, words: int) -> Answer | None:
    """Return the answer; a missing one counts as nothing found, but it is None if an error prevented it."""
    if prediction.status in WITHOUT_REPLY:
        return None
    return (OUTSIDE,) * words if prediction.value is None else prediction.value


# ---- counts ----------------------------------------------------------------------------------------------------------


def chunk_counts(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return the numbers of (right, predicted, gold) chunks, or None without an answer or gold."""
    return None if prediction.value is None else _chunk_counts(example, prediction.value)


def chunk_counts_of_all(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return the numbers of (right, predicted, gold) chunks, with a missing answer counted as nothing found."""
    answer = answered_of_all(prediction, len(example.tokens))
    return None if answer is None else _chunk_counts(example, answer)


def _chunk_counts(example: LabellingExample, answer: Answer) -> Counts:
    if example.tags is None:
        return None
    gold, distribution = chunks(example.tags, example.scheme), ChunkDistribution(answer, example.scheme)
    return math.fsum(map(distribution.probability, gold)), distribution.expected_count(), float(len(gold))


def counts_by_training(*, seen: bool) -> Callable[[LabellingExample, Prediction], Counts]:
    """Return a function for the (right, predicted, gold) chunks whose words are, or are not, in the training split.

    Predicted chunks are classified by their own words, like gold ones, so that both sets have a precision.
    """

    def counts(example: LabellingExample, prediction: Prediction) -> Counts:
        if example.tags is None or example.seen is None or prediction.value is None:
            return None
        gold, distribution = chunks(example.tags, example.scheme), ChunkDistribution(prediction.value, example.scheme)
        seen_spans = set(example.seen)
        tags = (tag for options in prediction.value for tag in ((options,) if isinstance(options, str) else options))
        all_kinds = kinds(tags, example.scheme)
        predicted = math.fsum(distribution.probability(Chunk(*span, kind)) for span in seen_spans for kind in all_kinds)
        relevant = [chunk for chunk in gold if ((chunk.start, chunk.end) in seen_spans) is seen]
        right = math.fsum(map(distribution.probability, relevant))
        return right, predicted if seen else max(0.0, distribution.expected_count() - predicted), float(len(relevant))

    return counts


def word_counts(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return the numbers of (right, predicted, gold) words with a kind; their prefixes do not matter."""
    if example.tags is None or prediction.value is None:
        return None
    distribution = ChunkDistribution(prediction.value, example.scheme)
    gold = [parse_tag(tag, example.scheme).kind for tag in example.tags]
    right = math.fsum(distribution.inside(index, kind) for index, kind in enumerate(gold) if kind is not None)
    outside = math.fsum(shares.get(None, 0.0) for shares in distribution.goes_on)
    return right, max(0.0, len(gold) - outside), float(sum(kind is not None for kind in gold))


def right_words(example: LabellingExample, prediction: Prediction) -> Counts:
    """Return (number of words with the right kind or rightly outside, number of words)."""
    if example.tags is None or prediction.value is None:
        return None
    distribution = ChunkDistribution(prediction.value, example.scheme)
    gold = [parse_tag(tag, example.scheme).kind for tag in example.tags]
    right = (
        distribution.goes_on[index].get(None, 0.0) if kind is None else distribution.inside(index, kind)
        for index, kind in enumerate(gold)
    )
    return math.fsum(right), float(len(gold))


def sentence_acc(example: LabellingExample, prediction: Prediction) -> float | None:
    """Return 1 if all chunks are right and there are no others, else 0; `figeval compare` can pair this mean.

    With ties, it is the probability that a draw has these chunks. Several draws may: if no chunk of the kind precedes
    it, a chunk begins with `I-` as well as with `B-`, and both count.
    """
    if example.tags is None or prediction.value is None:
        return None
    return ChunkDistribution(prediction.value, example.scheme).probability_of_all(chunks(example.tags, example.scheme))


def quotes_found(example: LabellingExample, prediction: Prediction) -> float | None:  # noqa: ARG001
    """Return the share of a reply's quotations that occur in the text, or None if there are none."""
    return sum(score > 0 for score in prediction.scores) / len(prediction.scores) if prediction.scores else None


# ---- scores ----------------------------------------------------------------------------------------------------------


def f1(sums: Floats) -> Floats:
    """Return 2 · right / (predicted + gold), shape (…, 3) → (…); NaN if both are 0."""
    return quotient(2 * sums[..., 0], sums[..., 1] + sums[..., 2])


def precision(sums: Floats) -> Floats:
    """Return right / predicted; NaN if nothing was predicted."""
    return quotient(sums[..., 0], sums[..., 1])


def recall(sums: Floats) -> Floats:
    """Return right / gold; NaN if there is nothing to find."""
    return quotient(sums[..., 0], sums[..., 2])


NO_TRAINING = "the task has no training split, so it is unknown which expressions the model has seen"
span_f1 = Statistic(chunk_counts, f1)
span_precision = Statistic(chunk_counts, precision)
span_recall = Statistic(chunk_counts, recall)
span_f1_of_all = Statistic(chunk_counts_of_all, f1)
f1_seen = Statistic(counts_by_training(seen=True), f1, absent=NO_TRAINING)
f1_unseen = Statistic(counts_by_training(seen=False), f1, absent=NO_TRAINING)
token_f1 = Statistic(word_counts, f1)
token_acc = Statistic(right_words, ratio)
