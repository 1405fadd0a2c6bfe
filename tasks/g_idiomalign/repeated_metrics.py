"""Accuracies of choices that may show the right option twice.

An accuracy of a choice is the probability that the answer is `gold`, 1/t in a tie of t options. Here it is the
probability that the answer is any of the right options, which is their sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from figeval import Prediction
from figeval.metrics import classification

from .repeated_options import RepeatedChoiceExample

Accuracy: TypeAlias = Callable[[RepeatedChoiceExample, Prediction], float | None]


def with_copies(accuracy: Accuracy) -> Accuracy:
    """Return a variant of an accuracy for which every copy of the right option is right."""

    def accuracy_with_copies(example: RepeatedChoiceExample, prediction: Prediction) -> float | None:
        values = [accuracy(replace(example, gold=copy), prediction) for copy in example.right]
        shares = [value for value in values if value is not None]
        return sum(shares) if shares else None

    accuracy_with_copies.__doc__ = f"{accuracy.__name__}, where every copy of the right option is right."
    return accuracy_with_copies


acc = with_copies(classification.choice_accuracy)
acc_norm = with_copies(classification.acc_norm)
acc_pmi = with_copies(classification.acc_pmi)
acc_of_all = classification.acc_of_all(acc)
