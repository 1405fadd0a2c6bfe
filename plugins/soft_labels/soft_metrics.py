"""Metrics of answers beside the votes of several annotators (`votes`).

* Distances between the predicted probabilities of the labels and the shares of the votes: Manhattan (LeWiDi 2025, its
  measure for categories), Wasserstein (its measure for scales), Jensen–Shannon, and cross-entropy (LeWiDi 2023).
* Errors per annotator: the answer beside the label of every annotator (LeWiDi 2025, its perspectivist measures, for a
  system that gives all annotators the same answer).
* Accuracy against the majority of the votes, and beside it how often annotators themselves agree with the others.

LeWiDi 2025 is Leonardelli et al., "LeWiDi-2025 at NLPerspectives: The Third Edition of the Learning with Disagreements
Shared Task"; LeWiDi 2023 is Leonardelli et al., SemEval-2023 task 11. Answers that tie are scored by expectation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import mul
from statistics import fmean
from typing import Any, TypeAlias

from figeval.metrics import PerLabel, Statistic, answered, mean_of, tied_answers
from figeval.types import Example, Prediction

from .distances import cross_entropy, jensen_shannon, manhattan, normalized, wasserstein
from .votes import labels_by_annotator, majority_of, votes_of, whole_votes

NO_VOTES = "no example has votes in the columns `votes` or `annotators` of meta"
NO_PROBABILITIES = "no example has votes (columns `votes` or `annotators` of meta) and probabilities of the labels"
ROUNDING = 1e-6  # by which probabilities may differ from a sum of 1
UNIT = (0.0, 1.0)

Labels: TypeAlias = tuple[str, ...]
AnnotatorError: TypeAlias = Callable[[Labels, Any, str], float]  # of labels, answer, and the annotator's label
OfExample: TypeAlias = Callable[[Labels, Example, Prediction], "float | None"]


def _per_label(function: OfExample, *, absent: str = NO_VOTES, bounds: tuple[float, float] = UNIT) -> PerLabel:
    """Return the mean of a function of labels, example and prediction; the votes of an example can be checked."""

    def build(labels: Labels) -> Statistic:
        def check(example: Example) -> None:
            votes_of(example, labels)
            labels_by_annotator(example, labels)  # which `figeval show RUN --annotators` reads from the stored answers

        statistic = mean_of(partial(function, labels), absent=absent, bounds=bounds)
        return replace(statistic, check=check)

    return PerLabel(build)


# ---- predicted probabilities -----------------------------------------------------------------------------------------


def probabilities_of(labels: Labels, prediction: Prediction) -> tuple[float, ...] | None:
    """Return the predicted probability of each label; None if the scores are no probabilities.

    Scores are probabilities of the labels' best classes. If several classes mean one label, they sum to less than 1. Of
    two labels, the second then has the rest (as for `acc_at_half`); for more labels the probabilities are unknown.
    """
    scores = prediction.scores
    if (
        not answered(prediction)
        or len(scores) != len(labels)
        or not all(0 <= score <= 1 + ROUNDING for score in scores)
    ):
        return None
    total = math.fsum(scores)
    if abs(total - 1) <= ROUNDING:
        return normalized(scores)
    return (scores[0], 1 - scores[0]) if len(labels) == 2 and total < 1 else None


def _distance(
    function: Callable[[Labels, Sequence[float], Sequence[float]], float], bounds: tuple[float, float]
) -> PerLabel:
    """Return the mean distance of predicted probabilities from the shares of the votes."""

    def distance(labels: Labels, example: Example, prediction: Prediction) -> float | None:
        probabilities, votes = probabilities_of(labels, prediction), votes_of(example, labels)
        shares = None if votes is None else normalized(votes)
        return None if probabilities is None or shares is None else function(labels, shares, probabilities)

    return _per_label(distance, absent=NO_PROBABILITIES, bounds=bounds)


MANHATTAN = _distance(lambda _labels, gold, predicted: manhattan(gold, predicted), (0.0, 2.0))
JSD = _distance(lambda _labels, gold, predicted: jensen_shannon(gold, predicted), UNIT)
SOFT_CROSS_ENTROPY = _distance(lambda _labels, gold, predicted: cross_entropy(gold, predicted), (0.0, math.inf))
WASSERSTEIN = _distance(
    lambda labels, gold, predicted: wasserstein(tuple(map(float, labels)), gold, predicted), (0.0, math.inf)
)


# ---- one annotator ---------------------------------------------------------------------------------------------------


def category_error(_labels: Labels, answer: Any, label: str) -> float:
    """Return 1 if an annotator's label is not the answer, else 0."""
    return float(answer != label)


def scale_error(labels: Labels, answer: Any, label: str) -> float:
    """Return the distance of the answer from an annotator's grade, as a share of the scale's width."""
    return abs(float(answer) - float(label)) / (float(labels[-1]) - float(labels[0]))


def error_of(error: AnnotatorError, labels: Labels, prediction: Prediction, label: str) -> float:
    """Return the error for an annotator who gave this label; the mean for tied answers."""
    return fmean(error(labels, answer, label) for answer in tied_answers(prediction))


def _over_annotators(error: AnnotatorError) -> PerLabel:
    """Return the mean of an error over the annotators of each example."""

    def mean_error(labels: Labels, example: Example, prediction: Prediction) -> float | None:
        votes = votes_of(example, labels)
        shares = None if votes is None else normalized(votes)
        if shares is None or not answered(prediction) or prediction.value is None:
            return None
        errors = [error_of(error, labels, prediction, label) for label in labels]
        return math.fsum(map(mul, shares, errors))

    return _per_label(mean_error)


ANNOTATOR_ERROR = _over_annotators(category_error)
ANNOTATOR_DISTANCE = _over_annotators(scale_error)
ERRORS_BY_TYPE: Mapping[str, AnnotatorError] = {
    "classification": category_error,
    "pairs": category_error,
    "rating": scale_error,
}


# ---- the majority, and how much annotators disagree ------------------------------------------------------------------


def _majority_acc(labels: Labels, example: Example, prediction: Prediction) -> float | None:
    """Return whether the answer is the label with the most votes; None if several labels have equally many."""
    votes = votes_of(example, labels)
    winners = () if votes is None else majority_of(votes)
    if len(winners) != 1 or not answered(prediction):
        return None
    return fmean(float(answer == labels[winners[0]]) for answer in tied_answers(prediction))


def _annotator_acc(labels: Labels, example: Example, _prediction: Prediction) -> float | None:
    """Return how often an annotator gives the label that most of the others give; a fair draw decides among several.

    It does not depend on the prediction. It is None for fewer than two votes, and for votes that are shares.
    """
    votes = whole_votes(votes_of(example, labels))
    if votes is None or sum(votes) < 2:
        return None
    right = 0.0
    for index, count in enumerate(votes):
        if count:
            without_annotator = [*votes]
            without_annotator[index] -= 1
            winners = majority_of(without_annotator)
            right += count * (index in winners) / len(winners)
    return right / sum(votes)


def _least_annotator_error(labels: Labels, example: Example, _prediction: Prediction) -> float | None:
    """Return the share of votes that are not for the majority: no single answer has a lower `annotator_error`."""
    votes = votes_of(example, labels)
    shares = None if votes is None else normalized(votes)
    return None if shares is None else 1 - max(shares)


MAJORITY_ACC = _per_label(_majority_acc, absent=f"{NO_VOTES}, or no label has the most votes")
ANNOTATOR_ACC = _per_label(_annotator_acc)
LEAST_ANNOTATOR_ERROR = _per_label(_least_annotator_error)
