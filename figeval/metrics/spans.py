"""Metrics of predicted spans: token sets by narrative, SQuAD's F1 by row and exact match.

A prediction without an answer gets None, never 0; an answer without words scores 0. If spans tie for the best
(`Prediction.tied_spans`), the score is the expectation of a fair draw. "No span is right" is an answer, too
(`NO_SPAN`): it scores 1 if it is the gold answer and 0 if it is not; any span scores 0 if it is.

The spans of a joint example count only if its candidate is right (Ghosh and Srivastava 2022, section 5.3); the
`*_ungated` metrics drop this condition, as in appendix E of the paper.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from statistics import fmean
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from figeval.language.words import split_tokens, without_invisible
from figeval.metrics import ranking
from figeval.metrics.statistic import Statistic, mean_of, ratio
from figeval.metrics.ties import answered
from figeval.task_types.joint import JointExample
from figeval.task_types.spans import SpanExample
from figeval.types import NO_SPAN, WITHOUT_REPLY, Prediction, Span

Floats = NDArray[np.float64]
Tokens: TypeAlias = tuple[str, ...]
Tokenize: TypeAlias = Callable[[str], Tokens]


@lru_cache(maxsize=8192)
def words(text: str, segmenter: str = "") -> Tokens:
    """Return the tokens between white space, without punctuation and symbols at their edges and without empty ones.

    Scripts without blanks are divided into the words of the task. Tokens are compared in NFC, with their capitals, and
    without characters that have no appearance of their own, such as direction marks and the joiners of emoji.
    """
    return tuple(filter(None, map(_bare, split_tokens(unicodedata.normalize("NFC", text), segmenter))))


@lru_cache(maxsize=65536)  # a text's tokens recur in every window of it
def _bare(token: str) -> str:
    token = without_invisible(token)
    inside = [index for index, character in enumerate(token) if unicodedata.category(character)[0] not in "PS"]
    return token[inside[0] : inside[-1] + 1] if inside else ""


def found_texts(example: SpanExample, prediction: Prediction) -> list[str]:
    """Return the text of the predicted span, or of each one if several tie; an empty list without an answer."""
    if not answered(prediction) or not isinstance(prediction.value, Span):
        return []
    return [example.text[span.start : span.end] for span in prediction.tied_spans or (prediction.value,)]


def is_scorable(answer: str | None, tokens: Tokenize = words) -> TypeGuard[str]:
    """Return whether a gold answer can be scored: "no span is right" (the empty text), or a text with tokens."""
    return answer is not None and (answer == "" or bool(tokens(answer)))


def _no_span_scores(text: str) -> tuple[float, float]:
    """Return precision and recall if the gold answer is that no span is right."""
    right = float(text == "")
    return right, right


def overlap(text: str, answer: str, tokens: Tokenize = words) -> tuple[float, float]:
    """Return |text ∩ answer| / |text| and |text ∩ answer| / |answer| of the token sets; 0 if a set is empty."""
    predicted, gold = set(tokens(text)), set(tokens(answer))
    shared = len(predicted & gold)
    return (shared / len(predicted) if predicted else 0.0), (shared / len(gold) if gold else 0.0)


def harmonic(precision: Floats, recall: Floats) -> Floats:
    """Return 2PR / (P + R), or 0 if both are 0."""
    total = precision + recall
    return np.asarray(np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total != 0))


def precision_recall(
    example: SpanExample, prediction: Prediction, tokens: Tokenize = words
) -> tuple[float, float] | None:
    """Return precision and recall of one prediction, with ties by expectation.

    The result is None without an answer, or if gold is hidden or has no words. If no span is right, both are 1 for the
    answer that there is none and 0 for any span, as in SQuAD 2.0.
    """
    answer = example.answer
    if tokens is words:
        tokens = partial(words, segmenter=example.segmenter)
    if not is_scorable(answer, tokens):
        return None
    scored = [
        overlap(text, answer, tokens) if answer else _no_span_scores(text) for text in found_texts(example, prediction)
    ]
    return (fmean(p for p, _ in scored), fmean(r for _, r in scored)) if scored else None


def weighted_mean(tokens: Tokenize, index: int) -> Statistic:
    """Return the mean precision (`index` 0) or recall (1) weighted by `example.weight`.

    Weights of 1/k give means by narrative.
    """

    def features(example: SpanExample, prediction: Prediction) -> Sequence[float] | None:
        scored = precision_recall(example, prediction, tokens)
        return None if scored is None else (example.weight * scored[index], example.weight)

    return Statistic(features, ratio)


def weighted_f1(tokens: Tokenize) -> Statistic:
    """Return the harmonic mean of the two weighted means, which is not the mean of the rows' F1."""

    def features(example: SpanExample, prediction: Prediction) -> Sequence[float] | None:
        scored = precision_recall(example, prediction, tokens)
        return None if scored is None else (*(example.weight * value for value in scored), example.weight)

    return Statistic(features, f1_of_means)


def f1_of_means(sums: Floats) -> Floats:
    """Return F1 from the sums of weighted precision, weighted recall and weight, shape (..., 3)."""
    precision, recall = ratio(sums[..., (0, 2)]), ratio(sums[..., (1, 2)])
    return harmonic(precision, recall)


span_precision = weighted_mean(words, 0)  # protocols of section 5.2 of the paper, with the right gold spans
span_recall = weighted_mean(words, 1)
span_f1 = weighted_f1(words)


def squad_f1(example: SpanExample, prediction: Prediction) -> float | None:
    """Return F1 of the two bags of tokens (Rajpurkar et al. 2016, section 6.1), with ties by expectation.

    Unlike in SQuAD, articles count. If no span is right, only that answer gets 1 (Rajpurkar et al. 2018).
    """
    return _expectation(bag_f1, example, prediction)


def exact_match(example: SpanExample, prediction: Prediction) -> float | None:
    """Return whether the tokens are the same, in the same order, with ties by expectation."""
    return _expectation(lambda tokens, gold: float(tokens == gold), example, prediction)


def bag_f1(tokens: Tokens, gold: Tokens) -> float:
    """Return 2 |tokens ∩ gold| / (|tokens| + |gold|) of bags, or 1 if both are empty."""
    counts, gold_counts = Counter(tokens), Counter(gold)
    if not counts and not gold_counts:
        return 1.0
    return 2 * (counts & gold_counts).total() / (counts.total() + gold_counts.total())


def _expectation(
    score: Callable[[Tokens, Tokens], float], example: SpanExample, prediction: Prediction
) -> float | None:
    texts, answer = found_texts(example, prediction), example.answer
    if not texts or not is_scorable(answer):
        return None
    if not answer:  # a span without a word would be as empty as no span
        return fmean(_no_span_scores(text)[0] for text in texts)
    gold = words(answer, example.segmenter)
    return fmean(score(words(text, example.segmenter), gold) for text in texts)


def squad_f1_of_all(example: SpanExample, prediction: Prediction) -> float | None:
    """Return SQuAD's F1 with a missing answer scored 0; None if an error prevented the answer or gold is hidden."""
    if prediction.status in WITHOUT_REPLY or not is_scorable(example.answer):
        return None
    return squad_f1(example, prediction) or 0.0


def verbatim(_example: SpanExample, prediction: Prediction) -> float | None:
    """Return 1 if the quotation occurs verbatim in the text, else 0; None if nothing was quoted."""
    quoted = prediction.status in ("ok", "absent") and prediction.value != NO_SPAN
    return float(prediction.scores == (1.0,)) if quoted else None


# ---- spans of joint examples ----------------------------------------------------------------------------------------


def joint_features(example: JointExample, prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    """Return a span statistic's features summed over the parts, times the probability that the candidate is right.

    The probability is 1/t if t candidates tie for the best. The last feature is a weight, which is not multiplied.

    If the candidate is wrong, every part counts as if nothing had been found, whether it was requested or not. The
    result is None without an answer to the first question, or without an answer to any of the parts that count.
    """
    right = ranking.accuracy(example, prediction)
    if right is None:
        return None
    nothing = [Prediction(example_id=part.id, value=NO_SPAN) for part in example.parts]
    summed = summed_parts(example, prediction.parts if right else nothing, of)
    return summed and (*(right * value for value in summed[:-1]), summed[-1])


def ungated_features(example: JointExample, prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    """Return features summed over the parts, whatever the candidate; None if the spans were not requested."""
    return summed_parts(example, prediction.parts, of) if prediction.parts else None


def summed_parts(example: JointExample, parts: Sequence[Prediction], of: Statistic) -> Sequence[float] | None:
    """Return features summed over the answered parts; of k parts, each has 1/k of the example's weight."""
    examples = [replace(part, segmenter=example.segmenter) if example.segmenter else part for part in example.parts]
    features = [of.features(part, prediction) for part, prediction in zip(examples, parts, strict=True)]
    columns = list(zip(*(values for values in features if values is not None), strict=True))
    return [sum(column) for column in columns] or None


def gate_by_choice(of: Statistic) -> Statistic:
    """Return a span statistic over the parts of joint examples whose candidate is right."""
    return Statistic(partial(joint_features, of=of), of.combine)


def all_parts(of: Statistic) -> Statistic:
    """Return a span statistic over all parts of joint examples."""
    return Statistic(partial(ungated_features, of=of), of.combine)


joint_precision, joint_recall, joint_f1 = map(gate_by_choice, (span_precision, span_recall, span_f1))
joint_precision_ungated, joint_recall_ungated, joint_f1_ungated = map(all_parts, (span_precision, span_recall, span_f1))


def joint_squad_f1(example: JointExample, prediction: Prediction) -> float | None:
    """Return the mean of SQuAD's F1 over the parts, which is 0 if the candidate is wrong."""
    features = joint_features(example, prediction, of=mean_of(squad_f1))
    return None if features is None else features[0] / features[1]
