"""Was there an answer, and which answers share the best score?

A tie is scored by expectation, as if it were broken by a fair draw: a model that gives 250 candidates one score gets
1/250, not the luck of the first place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from figeval.types import Prediction, Value


def answered(prediction: Prediction) -> bool:
    """Whether the prediction can be right or wrong; what could not be parsed, was cut off or NaN is neither."""
    return prediction.status == "ok"


def answers(prediction: Prediction) -> Sequence[Prediction]:
    """One answer for each order of the options in which the question was put; none where an error kept an answer
    from coming: that is the network's fault, and the example is asked again.
    """
    return () if prediction.status == "error" else prediction.answers or (prediction,)


def best(scores: Sequence[float]) -> list[int]:
    """The indexes that share the highest score, compared exactly.

    Raises:
        ValueError: a score is NaN; such a prediction has the status `nan` and should not get here.
    """
    if any(map(math.isnan, scores)):
        raise ValueError("a prediction that claims an answer has NaN among its scores")
    top = max(scores)
    return [index for index, score in enumerate(scores) if score == top]


def given(prediction: Prediction) -> Sequence[Value]:
    """The answers among which the model did not decide: one, or several with the same best score, to be drawn from
    fairly. A label is in it once for each of its classes that ties.

    Labels where the prediction names them (pairs), option indexes otherwise.

    Raises:
        ValueError: the prediction claims a tie without the scores that show it.
    """
    if prediction.tied <= 1 and prediction.value is not None:
        return (prediction.value,)
    if prediction.among:
        return prediction.among
    if not prediction.scores:
        raise ValueError(f"prediction {prediction.example_id!r} has neither one answer nor scores that tie")
    names: Sequence[Value] = prediction.labels or range(len(prediction.scores))
    return tuple(names[index] for index in best(prediction.scores))
