"""What a metric is: numbers per example that add up, called features, and a function of their sums.

Accuracy adds (1 if right, 1) and divides; macro-F1 adds true positives, predictions and golds of every label. Because
only sums count, a metric streams, its memory does not grow with the data, and a resample of clusters is one matrix
product. Four kinds of metric can be registered:

* a function `(example, prediction) -> float | None`, the score being the mean over the examples where it is not None;
* a `Statistic`, for scores that are no mean; `PerLabel` where it depends on the labels of the task;
* a `Collective` statistic, whose numbers for one example depend on the other examples;
* a `Batched` statistic, whose numbers are computed for many examples in one call, as a model computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from figeval.metrics.intervals import Bounds

    Floats: TypeAlias = NDArray[np.float64]

    from figeval.types import Prediction

PerExample: TypeAlias = Callable[[Any, "Prediction"], "float | None"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """A score made of per-example numbers.

    Attributes:
        features: maps an example and its prediction to k numbers, None where the metric does not apply (no answer,
            hidden gold). A number that is NaN or infinite is refused when it is added.
        combine: maps sums of features, shape (..., k), to values, shape (...): vectorised, NaN where undefined.
        is_mean: promises that the features are (value, 1.0) and the score is the mean value. Then closed-form intervals
            hold; all other statistics are bootstrapped by cluster.
        bounds: between which the values of a mean lie, None for one that has no bounds. A value beyond them shows that
            it has none.
        no_interval: why an interval would be wrong; there is none then.
        signature: tells with what a library computes the score, for the record. It raises `FigevalError` if it cannot.
        absent: why there is no value where the metric applies to no example.
        check: raises `FigevalError` for an example of a task that the metric cannot score. It is called with the first
            example, before weights are loaded.
        describe: returns what the record is to hold of the argument that the metric was made from, as JSON. The text
            `remark` in it is printed with every score.
    """

    features: Callable[[Any, Prediction], Sequence[float] | None]
    combine: Callable[[Floats], Floats]
    is_mean: bool = False
    bounds: Bounds = (0.0, 1.0)
    no_interval: str = ""
    signature: Callable[[], str] | None = None
    absent: str = "no examples"
    check: Callable[[Any], None] | None = None
    describe: Callable[[], Mapping[str, Any]] | None = None


Features: TypeAlias = "Sequence[float] | None"
Rows: TypeAlias = "Sequence[Mapping[str, Any]]"  # as stored, in the order of the examples
Family: TypeAlias = "Callable[[Rows, Sequence[str], Mapping[str, Any]], Mapping[str, Sequence[Features]]]"


@dataclass(frozen=True, slots=True)
class Collective(Statistic):
    """A score whose per-example numbers depend on the other examples: a nearest neighbour, a word not used before.

    Attributes:
        family: `family(rows, names, settings)` computes the metrics called `names` together, once all rows are there;
            metrics with the same `family` are one call. `rows` are lines of the predictions file, `settings` those of
            the task's record. It returns per metric the features of each row, None where the metric does not apply.
        pooled: the metric describes a set of rows as a whole and is computed anew for a part of them. Others relate a
            row to all others, whatever part it belongs to.
    """

    family: Family | None = None
    pooled: bool = False


def _alone(_example: Any, _prediction: Prediction) -> Features:
    """Nothing is known from one example."""
    return None


def collective(family: Family, *, no_interval: str = "", pooled: bool = False) -> Collective:
    """The mean of a number that `family` gives each example as (value, 1.0).

    Args:
        family: see `Collective`.
        no_interval: why there is no interval. The score is then the ratio of the sums of any two features.
        pooled: see `Collective`.
    """
    return Collective(_alone, ratio, is_mean=not no_interval, no_interval=no_interval, family=family, pooled=pooled)


Case: TypeAlias = "tuple[Any, Prediction]"  # an example and what was answered


@dataclass(frozen=True, slots=True)
class Measured:
    """What a metric says of one example.

    Attributes:
        value: the number; None where the metric does not apply.
        remarks: facts that are counted over the examples and printed below the scores, in the plural, such as "texts
            cut to the length of the classifier".
    """

    value: float | None
    remarks: tuple[str, ...] = ()


Batch: TypeAlias = "Callable[[Sequence[Case]], Sequence[Measured]]"


@dataclass(frozen=True, slots=True)
class Batched(Statistic):
    """The mean of a number that is computed for many examples in one call.

    Attributes:
        batch: returns what is measured of each case, in their order. A case is measured alike alone and among others.
    """

    batch: Batch | None = None


def batched(
    function: Batch,
    *,
    absent: str = "no examples",
    check: Callable[[Any], None] | None = None,
    describe: Callable[[], Mapping[str, Any]] | None = None,
) -> Batched:
    """The mean of a number that `function` gives to each of several examples.

    Args:
        function: maps pairs (example, prediction) to a `Measured` for each.
        absent: why there is no value where the number is None for every example.
        check: see `Statistic`.
        describe: see `Statistic`.
    """

    def features(example: Any, prediction: Prediction) -> Features:
        (measured,) = function([(example, prediction)])
        return None if measured.value is None else (measured.value, 1.0)

    return Batched(features, ratio, is_mean=True, absent=absent, check=check, describe=describe, batch=function)


@dataclass(frozen=True, slots=True)
class PerLabel:
    """A statistic whose features depend on the task's labels: `build(labels)` makes it."""

    build: Callable[[tuple[str, ...]], Statistic]


def mean_of(function: PerExample, *, absent: str = "no examples", bounds: Bounds = (0.0, 1.0)) -> Statistic:
    """The mean of a per-example number over the examples for which it is not None.

    Args:
        function: maps an example and its prediction to the number.
        absent: why there is no value where the function is None for every example.
        bounds: between which the numbers lie, None where they may be any.
    """

    def features(example: Any, prediction: Prediction) -> Sequence[float] | None:
        value = function(example, prediction)
        return None if value is None else (value, 1.0)

    return Statistic(features, ratio, is_mean=True, bounds=bounds, absent=absent)


def ratio(sums: Floats) -> Floats:
    """sums[..., 0] / sums[..., 1], NaN where the denominator is 0."""
    return quotient(sums[..., 0], sums[..., 1])


def quotient(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator / denominator, of the same shape; NaN where the denominator is 0."""
    import numpy as np

    undefined = np.full(np.shape(denominator), np.nan)
    return np.asarray(np.divide(numerator, denominator, out=undefined, where=denominator != 0))


def as_statistic(target: Statistic | PerLabel | PerExample, labels: tuple[str, ...] = ()) -> Statistic:
    """What a registered metric amounts to for a task with these labels: a function is the mean of its values."""
    match target:
        case Statistic():
            return target
        case PerLabel():
            return target.build(labels)
        case _:
            return mean_of(target)
