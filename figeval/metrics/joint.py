"""Spans of joint examples: what they score counts where the candidate is right, else nothing (Ghosh and Srivastava
2022, section 5.3); and, as in appendix E, without that condition.

For examples of the protocol `spans` the metrics of the same names are those of `metrics/spans.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, singledispatch

from figeval.metrics import spans
from figeval.metrics.ranking import accuracy
from figeval.metrics.statistic import Statistic, mean_of
from figeval.types import Example, JointExample, Prediction, Span, SpanExample

NOTHING = Span(0, 0)


@singledispatch
def features(example: Example, _prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    """Features of a span statistic, the last one a weight."""
    raise TypeError(f"{type(example).__name__} has no spans for {of}")


@features.register
def _(example: SpanExample, prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    return of.features(example, prediction)


@features.register
def _(example: JointExample, prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    """Sums over the parts, times the probability that the candidate is right (1/t of t that tie for the best one).

    Where it is wrong every part counts as if nothing had been found, whether it was asked for or not. None without an
    answer to the first question, or to any part that counts.
    """
    right = accuracy(example, prediction)
    if right is None:
        return None
    nothing = [Prediction(example_id=part.id, value=NOTHING) for part in example.parts]
    summed = sums(example, prediction.parts if right else nothing, of)
    return summed and (*(right * value for value in summed[:-1]), summed[-1])


def sums(example: JointExample, parts: Sequence[Prediction], of: Statistic) -> Sequence[float] | None:
    """Features summed over the parts that have an answer, so of k parts each has 1/k of the weight of the example."""
    found = [of.features(part, prediction) for part, prediction in zip(example.parts, parts, strict=True)]
    columns = list(zip(*(values for values in found if values is not None), strict=True))
    return [sum(column) for column in columns] or None


def ungated_features(example: JointExample, prediction: Prediction, *, of: Statistic) -> Sequence[float] | None:
    """Sums over the parts, whatever the candidate; None where the spans were not asked for."""
    return sums(example, prediction.parts, of) if prediction.parts else None


def gated(of: Statistic) -> Statistic:
    """A span statistic for examples of both protocols."""
    return Statistic(partial(features, of=of), of.combine)


def ungated(of: Statistic) -> Statistic:
    """A span statistic over all parts of joint examples."""
    return Statistic(partial(ungated_features, of=of), of.combine)


span_precision, span_recall, span_f1 = map(gated, (spans.span_precision, spans.span_recall, spans.span_f1))
span_precision_ungated, span_recall_ungated, span_f1_ungated = map(
    ungated, (spans.span_precision, spans.span_recall, spans.span_f1)
)


def squad_f1(example: SpanExample | JointExample, prediction: Prediction) -> float | None:
    """SQuAD's F1 of a span; of a joint example the mean over its parts, which is 0 where the candidate is wrong."""
    found = features(example, prediction, of=mean_of(spans.squad_f1))
    return None if found is None else found[0] / found[1]
