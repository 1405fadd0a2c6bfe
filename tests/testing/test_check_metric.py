"""The check of metrics: None is no number, ties have no first, sums are combined row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from figeval import ChoiceExample, Measured, Prediction, Statistic, answered, batched, mean_of
from figeval.testing import check_metric

EXAMPLE = ChoiceExample(id="1", query="q", options=("a", "b", "c"), gold=1)
RIGHT_ANSWER = Prediction(example_id="1", value=1, scores=(0.2, 0.7, 0.1))
WRONG_ANSWER = Prediction(example_id="1", value=0, scores=(0.7, 0.2, 0.1))
TIED_ANSWER = Prediction(example_id="1", value=0, scores=(0.4, 0.4, 0.2), tied=2)
CASES = [(EXAMPLE, RIGHT_ANSWER), (EXAMPLE, WRONG_ANSWER), (EXAMPLE, TIED_ANSWER)]


def accuracy(example: Any, prediction: Prediction) -> float | None:
    """Ties are scored by expectation."""
    if prediction.value is None or example.gold is None:
        return None
    best = [index for index, score in enumerate(prediction.scores) if score == max(prediction.scores)]
    return (example.gold in best) / len(best)


def test_a_sound_metric_passes() -> None:
    check_metric(accuracy, [(EXAMPLE, RIGHT_ANSWER, 1.0), (EXAMPLE, WRONG_ANSWER, 0.0), (EXAMPLE, TIED_ANSWER, 0.5)])


def right(example: Any, prediction: Any) -> float | None:
    return None if prediction.value is None or example.gold is None else float(prediction.value == example.gold)


BROKEN_METRICS: dict[str, tuple[Any, str]] = {
    "NaN": (lambda example, prediction: math.nan, "returned NaN .*; return None where it does not apply"),
    "a text": (lambda example, prediction: "good", "returned str, not a number or None"),
    "no answer": (lambda example, prediction: prediction.scores[0], "raised IndexError: .* value=None"),
    "hidden gold": (
        lambda example, prediction: prediction.scores[example.gold] if prediction.scores else None,
        "raised TypeError: .* gold=None",
    ),
    "first of the tied": (right, "where another of the tied options comes first; score ties by expectation"),
    "one row at a time": (
        Statistic(lambda example, prediction: (1.0, 1.0), lambda sums: np.asarray(sums[0] / max(sums[1], 1))),
        "combine of Statistic raised",
    ),
    "all rows at once": (
        Statistic(lambda example, prediction: (1.0,), lambda sums: np.asarray(sums.sum())),
        "combine of Statistic is not vectorised",
    ),
    "not quite a mean": (
        Statistic(lambda example, prediction: (1.0, 2.0), mean_of(accuracy).combine, is_mean=True),
        r"its features must be \(value, 1.0\)",
    ),
    "zero over nothing": (
        Statistic(lambda e, p: (1.0, 1.0), lambda sums: sums[..., 0] / np.maximum(sums[..., 1], 1), is_mean=True),
        "the mean of Statistic over no examples is 0.0, not NaN",
    ),
    "nothing": (lambda example, prediction: None, "applies to none of the cases"),
}


@pytest.mark.parametrize(("metric", "message"), BROKEN_METRICS.values(), ids=BROKEN_METRICS)
def test_a_broken_metric_is_told_what_is_wrong(metric: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_metric(metric, CASES)


def test_a_batch_is_measured_as_its_cases_are_alone() -> None:
    def sound(cases: Sequence[Any]) -> list[Measured]:
        return [Measured(float(answered(prediction))) for _, prediction in cases]

    check_metric(batched(sound), CASES)
    with pytest.raises(AssertionError, match=r"gives 0\.3333333333333333 among other cases and \(1\.0, 1\.0\) alone"):
        check_metric(batched(lambda cases: [Measured(1 / len(cases)) for _ in cases]), CASES)
    with pytest.raises(AssertionError, match="measures 1 of 3 cases; return one for each"):
        check_metric(batched(lambda cases: sound(cases)[:1]), CASES)


def test_a_metric_that_changes() -> None:
    count = iter(range(100))
    with pytest.raises(AssertionError, match="changes from call to call"):
        check_metric(lambda example, prediction: next(count), CASES)


def test_features_of_different_lengths() -> None:
    ragged = Statistic(lambda example, prediction: (1.0,) * (1 + int(prediction.value or 0)), lambda sums: sums[..., 0])
    with pytest.raises(AssertionError, match="different numbers of features"):
        check_metric(ragged, [(EXAMPLE, RIGHT_ANSWER), (EXAMPLE, WRONG_ANSWER)])


def test_an_expected_value() -> None:
    with pytest.raises(AssertionError, match=r"accuracy gives 1\.0, not None"):
        check_metric(accuracy, [(EXAMPLE, RIGHT_ANSWER, None)])
    with pytest.raises(AssertionError, match=r"accuracy gives 0\.5, not 1"):
        check_metric(accuracy, [(EXAMPLE, TIED_ANSWER, 1)])


def test_without_cases_nothing_is_checked() -> None:
    with pytest.raises(AssertionError, match="check_metric needs cases"):
        check_metric(accuracy, [])
