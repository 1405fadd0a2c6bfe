"""Metrics that have one name for several kinds of examples, until a name is registered once per task type.

Each of them only chooses among functions of `classification`, `ranking` and `spans` by the class of the example.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from figeval.metrics import classification, ranking, spans
from figeval.metrics.statistic import Statistic
from figeval.types import ChoiceExample, Example, JointExample, PairExample, Prediction, RankingExample, SpanExample


@singledispatch
def accuracy(example: Example, _prediction: Prediction) -> float | None:
    """Right or wrong; 1/t where t answers tie for the best and the gold one is among them (None: no answer)."""
    raise TypeError(f"accuracy is not defined for {type(example).__name__}")


accuracy.register(ChoiceExample, classification.choice_accuracy)
accuracy.register(PairExample, classification.pair_accuracy)
accuracy.register(RankingExample, ranking.accuracy)
acc_of_all = classification.acc_of_all(accuracy)


def _either(single: Statistic, joint: Statistic) -> Statistic:
    """A statistic of span examples and of joint ones."""

    def features(example: SpanExample | JointExample, prediction: Prediction) -> Sequence[float] | None:
        return (joint if isinstance(example, JointExample) else single).features(example, prediction)

    return Statistic(features, single.combine)


span_precision = _either(spans.span_precision, spans.joint_precision)
span_recall = _either(spans.span_recall, spans.joint_recall)
span_f1 = _either(spans.span_f1, spans.joint_f1)


def squad_f1(example: SpanExample | JointExample, prediction: Prediction) -> float | None:
    """SQuAD's F1 of a span; of a joint example the mean over its parts, which is 0 where the candidate is wrong."""
    if isinstance(example, JointExample):
        return spans.joint_squad_f1(example, prediction)
    return spans.squad_f1(example, prediction)
