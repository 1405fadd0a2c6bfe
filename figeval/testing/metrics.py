"""Check of metrics against their contract (`check_metric`)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import TypeAlias

from figeval.metrics.statistic import Batched, Collective, PerExample, PerLabel, Statistic, as_statistic
from figeval.plugins import describe
from figeval.types import Example, Prediction, Status

NO_ANSWER: tuple[Status, ...] = ("unparseable", "nan", "refusal", "empty", "error", "unasked")
Case: TypeAlias = tuple[Example, Prediction] | tuple[Example, Prediction, float | None]
GOLDS = {"gold", "label"}  # fields of examples that are None if the right answer is hidden


def check_metric(
    metric: Statistic | PerLabel | PerExample,
    cases: Iterable[Case],
    *,
    labels: tuple[str, ...] = (),
    tolerance: float = 1e-9,
) -> None:
    """Check that a metric keeps its contract.

    The metric is called with every case and with variations of it. It returns a number or None ("does not apply", which
    is not 0), never NaN, and always the same for the same prediction. It accepts a prediction without a value
    (unparseable, NaN, refused …) and an example whose right answer is hidden: it returns None, or a number that needs
    neither. If several options tie for the best, the result does not depend on which one comes first: figeval scores
    ties by expectation. A `figeval.Statistic` has the same number of features for all examples, and its `combine` is
    vectorised: sums of shape (n, k) give n values, each the same as for its row alone. A `figeval.Batched` metric gives
    a case the same value alone and among others.

    Args:
        metric: The registered object: a function of an example and a prediction, a `Statistic`, or a `PerLabel`.
        cases: Tuples (example, prediction) or (example, prediction, expected number or None). Some of them should have
            several options that tie for the best.
        labels: The labels of the task, for a metric that depends on them.
        tolerance: Maximum difference from the expected number.

    Raises:
        AssertionError: The check failed; the message says what is wrong, for which example and prediction.
    """
    statistic = as_statistic(metric, labels)
    name = getattr(metric, "__name__", type(metric).__name__)
    listed_cases = list(cases)
    assert listed_cases, "check_metric needs cases: tuples (example, prediction) or (example, prediction, expected)"
    rows = []
    for example, prediction, *expected in listed_cases:
        features = _features(name, statistic, example, prediction)
        rows.append(features)
        if expected:
            _check_expected(name, statistic, features, expected[0], tolerance)
        for other in alternatives(prediction):
            again = _features(name, statistic, example, other)
            assert _alike(features, again, tolerance), (
                f"{name} gives {features} for {prediction}, but {again} where another of the tied options comes first; "
                "score ties by expectation (`tied` counts them)"
            )
        for variation, other in variations(example, prediction):
            _features(name, statistic, variation, other)
    if isinstance(statistic, Batched):
        _check_batch(
            name, statistic, [(example, prediction) for example, prediction, *_ in listed_cases], rows, tolerance
        )
    if not isinstance(statistic, Collective):
        _check_combine(name, statistic, [row for row in rows if row is not None])


def _check_batch(
    name: str,
    statistic: Batched,
    cases: Sequence[tuple[Example, Prediction]],
    alone: Sequence[tuple[float, ...] | None],
    tolerance: float,
) -> None:
    """Check that each case has the same value in one call with all cases as alone."""
    assert statistic.batch is not None, f"{name} has no `batch`; make it with figeval.batched"
    together = [one.value for one in statistic.batch(cases)]
    assert len(together) == len(cases), f"{name} measures {len(together)} of {len(cases)} cases; return one for each"
    for (example, prediction), value, value_alone in zip(cases, together, alone, strict=True):
        assert _alike(None if value is None else (value, 1.0), value_alone, tolerance), (
            f"{name} gives {value} among other cases and {value_alone} alone for {example} and {prediction}"
        )


def alternatives(prediction: Prediction) -> Iterator[Prediction]:
    """Yield the prediction with each of the other options that tie for the best as its value."""
    if prediction.tied > 1 and isinstance(prediction.value, int) and prediction.scores:
        best = prediction.scores[prediction.value]
        for index, score in enumerate(prediction.scores):
            if score == best and index != prediction.value:
                yield replace(prediction, value=index)


def variations(example: Example, prediction: Prediction) -> Iterator[tuple[Example, Prediction]]:
    """Yield the case without an answer, once for each possible status, and with the right answer hidden."""
    for status in NO_ANSWER:
        yield example, Prediction(example_id=prediction.example_id, value=None, status=status)
    for gold in GOLDS & {field.name for field in fields(example)}:
        yield replace(example, **{gold: None}), prediction  # type: ignore[arg-type]


def _features(name: str, statistic: Statistic, example: Example, prediction: Prediction) -> tuple[float, ...] | None:
    """Return the features of one example, after checking that a second call returns the same."""
    features = _once(name, statistic, example, prediction)
    assert _alike(features, _once(name, statistic, example, prediction), 0.0), (
        f"{name} changes from call to call for {prediction}"
    )
    return features


def _once(name: str, statistic: Statistic, example: Example, prediction: Prediction) -> tuple[float, ...] | None:
    about = f"{example} and {prediction}"
    try:
        features = statistic.features(example, prediction)
    except Exception as error:
        raise AssertionError(f"{name} raised {describe(error)} for {about}") from error
    if features is None:
        return None
    for number in features:
        assert hasattr(number, "__float__"), (
            f"{name} returned {type(number).__name__}, not a number or None, for {about}"
        )
        assert not math.isnan(float(number)), f"{name} returned NaN for {about}; return None where it does not apply"
    return tuple(float(number) for number in features)


def _check_expected(
    name: str, statistic: Statistic, features: Sequence[float] | None, expected: float | None, tolerance: float
) -> None:
    import numpy as np

    value = None if features is None else float(statistic.combine(np.asarray(features)))
    same = value is expected if value is None or expected is None else math.isclose(value, expected, abs_tol=tolerance)
    assert same, f"{name} gives {value}, not {expected}"


def _alike(a: Sequence[float] | None, b: Sequence[float] | None, tolerance: float) -> bool:
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(math.isclose(x, y, abs_tol=tolerance) for x, y in zip(a, b, strict=True))


def _check_combine(name: str, statistic: Statistic, rows: Sequence[tuple[float, ...]]) -> None:
    """Check that `combine` accepts one row of sums or many."""
    import numpy as np

    assert rows, f"{name} applies to none of the cases; give some with an answer"
    widths = {len(row) for row in rows}
    assert len(widths) == 1, f"{name} returns different numbers of features for different examples: {sorted(widths)}"
    sums = np.array([rows[0], *np.cumsum(rows, axis=0), np.zeros(len(rows[0]))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            combined = np.asarray(statistic.combine(sums))
            alone = np.array([float(statistic.combine(row)) for row in sums])
        except Exception as error:
            raise AssertionError(f"combine of {name} raised {describe(error)}; it maps (..., k) to (...)") from error
    assert combined.shape == alone.shape, f"combine of {name} is not vectorised: {sums.shape} became {combined.shape}"
    assert np.allclose(combined, alone, equal_nan=True), (
        f"combine of {name} gives different values for many rows than for one"
    )
    assert not statistic.is_mean or np.isnan(combined[-1]), (
        f"the mean of {name} over no examples is {combined[-1]}, not NaN"
    )
    assert not statistic.is_mean or all(row[1:] == (1.0,) for row in rows), (
        f"{name} is declared as a mean, so its features must be (value, 1.0)"
    )
