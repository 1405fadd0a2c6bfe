"""Metrics of choice and classification: accuracy, also by length or prior, macro-F1, balanced accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, singledispatch
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from figeval.metrics import ranking
from figeval.metrics.answers import answered, answers, best, given
from figeval.metrics.statistic import PerLabel, Statistic
from figeval.types import ChoiceExample, Example, PairExample, Prediction, RankingExample

Floats = NDArray[np.float64]


@singledispatch
def accuracy(example: Example, _prediction: Prediction) -> float | None:
    """Right or wrong; 1/t where t answers tie for the best and the gold one is among them (None: no answer)."""
    raise TypeError(f"accuracy is not defined for {type(example).__name__}")


def share_of_gold(gold: int | str | None, prediction: Prediction) -> float | None:
    """Probability that a fair draw from the given answers is gold; their mean over the orders of the options."""
    valid = [given(answer) for answer in answers(prediction) if answered(answer)]
    if gold is None or not valid:
        return None
    return fmean(tied.count(gold) / len(tied) for tied in valid)


@accuracy.register
def _(example: ChoiceExample, prediction: Prediction) -> float | None:
    return share_of_gold(example.gold, prediction)


@accuracy.register
def _(example: PairExample, prediction: Prediction) -> float | None:
    return share_of_gold(example.label, prediction)


@accuracy.register
def _(example: RankingExample, prediction: Prediction) -> float | None:
    return ranking.accuracy(example, prediction)


def acc_norm(example: ChoiceExample, prediction: Prediction) -> float | None:
    """Accuracy of the best log-likelihood per character of the option (lm-eval's `acc_norm`); None without scores."""
    if not prediction.scores or not answered(prediction):
        return None
    return share_of_best(
        example.gold, [score / len(option) for score, option in zip(prediction.scores, example.options, strict=True)]
    )


def acc_pmi(example: ChoiceExample, prediction: Prediction) -> float | None:
    """Accuracy of log P(option | query) − log P(option), so that a likely sentence is not taken for a likely answer
    (PMI_DC, Holtzman et al. 2021, section 3; lm-eval's `acc_mutual_info` with a premise of its own); None without
    `priors`.
    """
    if not prediction.priors or not answered(prediction):
        return None
    gains = [score - prior for score, prior in zip(prediction.scores, prediction.priors, strict=True)]
    return None if any(map(math.isnan, gains)) else share_of_best(example.gold, gains)


def share_of_best(gold: int | None, scores: Sequence[float]) -> float | None:
    """Probability that a fair draw among the options with the best score is gold."""
    tied = best(scores)
    return None if gold is None else (gold in tied) / len(tied)


# ---- statistics of the confusion counts: no means, so they are bootstrapped -----------------------------------------


def confusion(labels: tuple[str, ...], example: PairExample, prediction: Prediction) -> Sequence[float] | None:
    """Per label: true positives, times predicted, times gold; shape (3 · labels,). Tied labels share one prediction.

    Raises:
        ValueError: gold or prediction is none of the labels.
    """
    if example.label is None or not answered(prediction):
        return None
    tied = given(prediction)
    unknown = {example.label, *tied} - set(labels)
    if unknown:
        raise ValueError(f"{sorted(map(str, unknown))} of example {example.id!r} not among the labels {labels}")
    gold = [float(label == example.label) for label in labels]
    predicted = [tied.count(label) / len(tied) for label in labels]
    return (*(g * p for g, p in zip(gold, predicted, strict=True)), *predicted, *gold)


def per_label(combine: Callable[[Floats, Floats, Floats], Floats]) -> PerLabel:
    """A statistic of (true positives, predicted, gold), each of shape (..., labels)."""

    def combine_sums(sums: Floats) -> Floats:
        true, predicted, gold = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0)
        return combine(true, predicted, gold)

    return PerLabel(lambda labels: Statistic(partial(confusion, labels), combine_sums))


def _mean_where(numerator: Floats, denominator: Floats) -> Floats:
    """Mean over the last axis of numerator / denominator where that is defined; NaN where it nowhere is."""
    defined = denominator > 0
    quotients = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=defined)
    count = defined.sum(axis=-1)
    return np.asarray(np.divide(quotients.sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0))


def _f1(true: Floats, predicted: Floats, gold: Floats) -> Floats:
    return _mean_where(2 * true, predicted + gold)


def _recall(true: Floats, _predicted: Floats, gold: Floats) -> Floats:
    return _mean_where(true, gold)


macro_f1 = per_label(_f1)  # unweighted mean over the labels that occur as gold or as prediction, as in scikit-learn
balanced_accuracy = per_label(_recall)  # unweighted mean recall over the labels that occur as gold
