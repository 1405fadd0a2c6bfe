"""Metrics of found spans: token sets by narrative, SQuAD's F1 by row, exact match.

A prediction without an answer gets None, never 0; one that is there but has no words scores 0. Where spans tie for the
best (`Prediction.alike`) the score is the expectation of a fair draw. That no span is right is an answer (`NO_SPAN`): 1
where it is the gold answer, 0 where it is not; any span is 0 where it is.

Spans of a joint example count where its candidate is right, else nothing (Ghosh and Srivastava 2022, section 5.3); the
`*_ungated` metrics are without that condition, as in appendix E of the paper.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from statistics import fmean
from typing import TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from figeval.metrics import ranking
from figeval.metrics.statistic import Statistic, mean_of, ratio
from figeval.metrics.ties import answered
from figeval.task_types.joint import JointExample
from figeval.task_types.spans import SpanExample
from figeval.types import NO_SPAN, Prediction, Span

Floats = NDArray[np.float64]
Tokens: TypeAlias = tuple[str, ...]
Tokenize: TypeAlias = Callable[[str], Tokens]


@lru_cache(maxsize=8192)
def words(text: str) -> Tokens:
    """Tokens between white space without the punctuation and symbols at their edges; those of nothing else go."""
    return tuple(filter(None, map(_bare, text.split())))


@lru_cache(maxsize=65536)  # a text's tokens come back in every window of it
def _bare(token: str) -> str:
    inside = [place for place, character in enumerate(token) if unicodedata.category(character)[0] not in "PS"]
    return token[inside[0] : inside[-1] + 1] if inside else ""


def found_texts(example: SpanExample, prediction: Prediction) -> list[str]:
    """The text of the span that was found, of each one where several tie; none without an answer."""
    if not answered(prediction) or not isinstance(prediction.value, Span):
        return []
    return [example.text[span.start : span.end] for span in prediction.alike or (prediction.value,)]


def known(answer: str | None, tokens: Tokenize = words) -> TypeGuard[str]:
    """Whether a gold answer can be scored: that no span is right (the empty text), or a text with tokens."""
    return answer is not None and (answer == "" or bool(tokens(answer)))


def _none(found: str) -> tuple[float, float]:
    """Precision and recall where no span is right."""
    right = float(found == "")
    return right, right


def overlap(found: str, answer: str, tokens: Tokenize = words) -> tuple[float, float]:
    """Of the sets of different tokens: |found ∩ answer| / |found| and / |answer|; 0 where a set is empty."""
    mine, gold = set(tokens(found)), set(tokens(answer))
    shared = len(mine & gold)
    return (shared / len(mine) if mine else 0.0), (shared / len(gold) if gold else 0.0)


def harmonic(precision: Floats, recall: Floats) -> Floats:
    """2PR / (P + R), 0 where both are 0."""
    total = precision + recall
    return np.asarray(np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total != 0))


def precision_recall(
    example: SpanExample, prediction: Prediction, tokens: Tokenize = words
) -> tuple[float, float] | None:
    """Precision and recall of one prediction, ties by expectation; None without an answer, or with a hidden or wordless
    gold. Where no span is right, both are 1 for the answer that there is none and 0 for any span, as in SQuAD 2.0.
    """
    answer = example.answer
    if not known(answer, tokens):
        return None
    scored = [overlap(found, answer, tokens) if answer else _none(found) for found in found_texts(example, prediction)]
    return (fmean(p for p, _ in scored), fmean(r for _, r in scored)) if scored else None


def weighted(tokens: Tokenize, which: int) -> Statistic:
    """Mean precision (`which` 0) or recall (1) weighted by `example.weight`; weights of 1/k give means by narrative."""

    def features(example: SpanExample, prediction: Prediction) -> Sequence[float] | None:
        scored = precision_recall(example, prediction, tokens)
        return None if scored is None else (example.weight * scored[which], example.weight)

    return Statistic(features, ratio)


def weighted_f1(tokens: Tokenize) -> Statistic:
    """Harmonic mean of the two weighted means; not the mean of the rows' F1."""

    def features(example: SpanExample, prediction: Prediction) -> Sequence[float] | None:
        scored = precision_recall(example, prediction, tokens)
        return None if scored is None else (*(example.weight * value for value in scored), example.weight)

    return Statistic(features, f1_of_means)


def f1_of_means(sums: Floats) -> Floats:
    """From the sums of weighted precision, weighted recall and weight, shape (..., 3)."""
    precision, recall = ratio(sums[..., (0, 2)]), ratio(sums[..., (1, 2)])
    return harmonic(precision, recall)


span_precision = weighted(words, 0)  # protocols of section 5.2 of the paper, with the right gold spans
span_recall = weighted(words, 1)
span_f1 = weighted_f1(words)


def squad_f1(example: SpanExample, prediction: Prediction) -> float | None:
    """F1 of the two bags of tokens (Rajpurkar et al. 2016, section 6.1; articles count here), ties by expectation.

    Where no span is right, that answer alone gets 1 (Rajpurkar et al. 2018).
    """
    return _expected(bag_f1, example, prediction)


def exact_match(example: SpanExample, prediction: Prediction) -> float | None:
    """Whether the tokens are the same, in the same order; ties by expectation."""
    return _expected(lambda found, gold: float(found == gold), example, prediction)


def bag_f1(found: Tokens, gold: Tokens) -> float:
    """2 |found ∩ gold| / (|found| + |gold|) of bags; 1 where both are empty."""
    mine, wanted = Counter(found), Counter(gold)
    if not mine and not wanted:
        return 1.0
    return 2 * (mine & wanted).total() / (mine.total() + wanted.total())


def _expected(score: Callable[[Tokens, Tokens], float], example: SpanExample, prediction: Prediction) -> float | None:
    texts, answer = found_texts(example, prediction), example.answer
    if not texts or not known(answer):
        return None
    if not answer:  # a span without a word would be as empty as no span
        return fmean(_none(text)[0] for text in texts)
    return fmean(score(words(text), words(answer)) for text in texts)


def squad_f1_of_all(example: SpanExample, prediction: Prediction) -> float | None:
    """SQuAD's F1 where no answer scores 0; None where an error kept it from coming, or gold is hidden."""
    if prediction.status == "error" or not known(example.answer):
        return None
    return squad_f1(example, prediction) or 0.0


def verbatim(_example: SpanExample, prediction: Prediction) -> float | None:
    """Share of the quotations that stand in the text word for word; None where nothing was quoted."""
    quoted = prediction.status in ("ok", "absent") and prediction.value != NO_SPAN
    return float(prediction.scores == (1.0,)) if quoted else None


# ---- spans of joint examples ----------------------------------------------------------------------------------------


def joint_features(example: JointExample, prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    """Features of a span statistic summed over the parts, times the probability that the candidate is right (1/t of t
    that tie for the best one). The last feature is a weight, which the candidate does not change.

    Where the candidate is wrong every part counts as if nothing had been found, whether it was asked for or not. None
    without an answer to the first question, or to any part that counts.
    """
    right = ranking.accuracy(example, prediction)
    if right is None:
        return None
    nothing = [Prediction(example_id=part.id, value=NO_SPAN) for part in example.parts]
    summed = summed_parts(example, prediction.parts if right else nothing, of)
    return summed and (*(right * value for value in summed[:-1]), summed[-1])


def ungated_features(example: JointExample, prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    """Sums over the parts, whatever the candidate; None where the spans were not asked for."""
    return summed_parts(example, prediction.parts, of) if prediction.parts else None


def summed_parts(example: JointExample, parts: Sequence[Prediction], of: Statistic) -> Sequence[float] | None:
    """Features summed over the parts that have an answer, so of k parts each has 1/k of the weight of the example."""
    found = [of.features(part, prediction) for part, prediction in zip(example.parts, parts, strict=True)]
    columns = list(zip(*(values for values in found if values is not None), strict=True))
    return [sum(column) for column in columns] or None


def gated(of: Statistic) -> Statistic:
    """A span statistic over the parts of joint examples whose candidate is right."""
    return Statistic(partial(joint_features, of=of), of.combine)


def ungated(of: Statistic) -> Statistic:
    """A span statistic over all parts of joint examples."""
    return Statistic(partial(ungated_features, of=of), of.combine)


joint_precision, joint_recall, joint_f1 = map(gated, (span_precision, span_recall, span_f1))
joint_precision_ungated, joint_recall_ungated, joint_f1_ungated = map(ungated, (span_precision, span_recall, span_f1))


def joint_squad_f1(example: JointExample, prediction: Prediction) -> float | None:
    """Mean over the parts of SQuAD's F1, which is 0 where the candidate is wrong."""
    found = joint_features(example, prediction, of=mean_of(squad_f1))
    return None if found is None else found[0] / found[1]
