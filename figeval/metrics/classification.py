"""Metrics of choice and classification: accuracy, checks on what it is worth, macro-F1 and balanced accuracy.

Accuracy is 1 or 0, or 1/t if t answers tie for the best one and the gold one is among them. The other metrics are
accuracies that correct for length and for the prior; the share of examples with an answer; and, if the options were
shown in several orders, how consistent the answers are across orders and how much they depend on an option's place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.statistic import PerExample, PerLabel, Statistic, mean_of
from figeval.metrics.ties import answered, answers, best, tied_answers
from figeval.types import Example, Prediction

if TYPE_CHECKING:
    from figeval.task_types.choice import ChoiceExample
    from figeval.task_types.pairs import PairExample

Floats: TypeAlias = NDArray[np.float64]
PLACES = 26  # at most as many options as letters
ONE_ORDER = "the options were shown in one order only (--orders)"


# ---- accuracy -------------------------------------------------------------------------------------------------------


def choice_accuracy(example: ChoiceExample, prediction: Prediction) -> float | None:
    """Return whether the chosen option is right, or 1/t if t options tie for the best and the right one is among them.

    The result is None without an answer or if gold is hidden. If options were shown in several orders, it is the mean
    over the orders.
    """
    return share_of_gold(example.gold, prediction)


def pair_accuracy(example: PairExample, prediction: Prediction) -> float | None:
    """Return whether the label is right, as in `choice_accuracy`; a label counts once for each of its tied classes."""
    return share_of_gold(example.label, prediction)


def half_accuracy(labels: tuple[str, ...], example: PairExample, prediction: Prediction) -> float | None:
    """Return whether the label is right if the first of two is given exactly when its probability exceeds one half.

    With three classes this differs from the most probable one: .40/.30/.30 is no entailment then. The probability is
    the first score, that of the first label's best class, so this label should have one class only. Two classes that
    tie are scored by expectation, as everywhere, and so are scores of 0; .40/.40/.20 is no tie by this rule.
    """
    if example.label is None or not answered(prediction) or not prediction.scores:
        return None
    if prediction.scores[0] == prediction.scores[1] and not 0 < prediction.scores[0] < 0.5:
        return 0.5
    return float(labels[0 if prediction.scores[0] > 0.5 else 1] == example.label)


def share_of_gold(gold: int | str | None, prediction: Prediction) -> float | None:
    """Return the probability that a fair draw from tied answers is gold, averaged over the orders of the options."""
    valid = [tied_answers(answer) for answer in answers(prediction) if answered(answer)]
    if gold is None or not valid:
        return None
    return fmean(tied.count(gold) / len(tied) for tied in valid)


def acc_norm(example: ChoiceExample, prediction: Prediction) -> float | None:
    """Return the accuracy by log-likelihood per character of the option (lm-eval's `acc_norm`); None without scores."""
    if not prediction.scores or not answered(prediction):
        return None
    return share_of_best(
        example.gold, [score / len(option) for score, option in zip(prediction.scores, example.options, strict=True)]
    )


def acc_pmi(example: ChoiceExample, prediction: Prediction) -> float | None:
    """Return the accuracy by log P(option | query) − log P(option); None without `priors`.

    A likely sentence is then not taken for a likely answer (PMI_DC, Holtzman et al. 2021, section 3; lm-eval's
    `acc_mutual_info` with a premise of its own).
    """
    if not prediction.priors or not answered(prediction):
        return None
    gains = [score - prior for score, prior in zip(prediction.scores, prediction.priors, strict=True)]
    return None if any(map(math.isnan, gains)) else share_of_best(example.gold, gains)


def share_of_best(gold: int | None, scores: Sequence[float]) -> float | None:
    """Return the probability that a fair draw among the options with the best score is gold."""
    tied = best(scores)
    return None if gold is None else (gold in tied) / len(tied)


accuracy_at_half = PerLabel(
    lambda labels: (
        mean_of(partial(half_accuracy, labels))
        if len(labels) == 2
        else mean_of(lambda _example, _prediction: None, absent=f"it is for two labels, not for {len(labels)}")
    )
)

# ---- checks on an accuracy -------------------------------------------------------------------------------------------


def parse_rate(_example: Example, prediction: Prediction) -> float | None:
    """Return the share of answers that could be read, not e.g. refusals or empty replies; None without an answer."""
    replies = answers(prediction)
    return fmean(answered(answer) for answer in replies) if replies else None


def acc_of_all(accuracy: PerExample) -> PerExample:
    """Return a variant of `accuracy` in which a missing answer is wrong, so that abstaining cannot raise the score.

    It is None if gold is hidden (`example.hidden`) or if an error prevented the answer.
    """

    def accuracy_of_all(example: Example, prediction: Prediction) -> float | None:
        right, rate = accuracy(example, prediction), parse_rate(example, prediction)
        return None if example.hidden or rate is None else (right or 0.0) * rate

    accuracy_of_all.__doc__ = f"{accuracy.__name__} where no answer counts as a wrong one; None where gold is hidden."
    return accuracy_of_all


choice_accuracy_of_all = acc_of_all(choice_accuracy)
pair_accuracy_of_all = acc_of_all(pair_accuracy)


def agreement(_example: ChoiceExample, prediction: Prediction) -> float | None:
    """Return the share of pairs of orders with the same answer, at any place (observed agreement, Fleiss 1971).

    The result is None with fewer than two answers. Tied answers agree with the probability that two fair draws agree.
    """
    valid = [frozenset(tied_answers(answer)) for answer in answers(prediction) if answered(answer)]
    if len(valid) < 2:
        return None
    return fmean(len(first & second) / (len(first) * len(second)) for first, second in combinations(valid, 2))


consistency = mean_of(agreement, absent=ONE_ORDER)


def _chosen_places(example: ChoiceExample, prediction: Prediction) -> Sequence[float] | None:
    """Return how much more often than by chance each place was chosen, followed by the number of answers.

    The result is None if the options were shown in one order only, as a place and its option cannot be told apart then.
    """
    excess = [0.0] * PLACES
    valid = [answer for answer in answers(prediction) if answered(answer) and answer.order]
    for answer in valid:
        tied = tied_answers(answer)
        for position, option in enumerate(answer.order):
            excess[position] += (option in tied) / len(tied) - 1 / len(example.options)
    return (*excess, float(len(valid))) if valid else None


# Total variation distance between the distribution of chosen places and equal shares, 0 to 1 − 1/options. It is the
# cause of the spread of recalls in Zheng et al. (2024). A distance is never negative, so it is biased upwards for few
# answers.
position_bias = Statistic(
    _chosen_places,
    lambda sums: np.asarray(np.abs(sums[..., :-1] / sums[..., -1:]).sum(axis=-1) / 2),
    absent=ONE_ORDER,
)


# ---- statistics of the confusion counts: not means, so they are bootstrapped ----------------------------------------


def confusion(labels: tuple[str, ...], example: PairExample, prediction: Prediction) -> Sequence[float] | None:
    """Return true positives, predictions and golds by label, shape (3 · labels,). Tied labels share one prediction.

    Raises:
        ValueError: gold or prediction is not among the labels.
    """
    if example.label is None or not answered(prediction):
        return None
    tied = tied_answers(prediction)
    unknown = {example.label, *tied} - set(labels)
    if unknown:
        raise ValueError(f"{sorted(map(str, unknown))} of example {example.id!r} not among the labels {labels}")
    gold = [float(label == example.label) for label in labels]
    predicted = [tied.count(label) / len(tied) for label in labels]
    return (*(g * p for g, p in zip(gold, predicted, strict=True)), *predicted, *gold)


def per_label(combine: Callable[[Floats, Floats, Floats], Floats]) -> PerLabel:
    """Return a statistic that combines (true positives, predicted, gold), each of shape (..., labels)."""

    def combine_sums(sums: Floats) -> Floats:
        true, predicted, gold = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, -1), -2, 0)
        return combine(true, predicted, gold)

    return PerLabel(lambda labels: Statistic(partial(confusion, labels), combine_sums))


def _mean_where(numerator: Floats, denominator: Floats) -> Floats:
    """Return the mean of the defined quotients over the last axis, NaN if none is defined."""
    defined = denominator > 0
    quotients = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=defined)
    count = defined.sum(axis=-1)
    return np.asarray(np.divide(quotients.sum(axis=-1), count, out=np.full(count.shape, np.nan), where=count > 0))


def _f1(true: Floats, predicted: Floats, gold: Floats) -> Floats:
    return _mean_where(2 * true, predicted + gold)


macro_f1 = per_label(_f1)  # unweighted mean over the labels that occur as gold or as prediction, as in scikit-learn
# Unweighted mean recall over the labels that occur as gold.
balanced_accuracy = per_label(lambda true, _, gold: _mean_where(true, gold))
