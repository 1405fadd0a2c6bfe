"""Statistics, the basis of all metrics: additive numbers for each example (features) and a function of their sums.

Accuracy adds (1 if right, 1) and divides; macro-F1 adds true positives, predictions and golds of every label. Because
only sums matter, a metric can be streamed, its memory does not grow with the data, and a resample of clusters is one
matrix product. Five kinds of metric can be registered:

* a function `(example, prediction) -> float | None`, whose mean over the examples where it is not None is the score;
* a `Statistic`, for scores that are not means; a `PerLabel` if it depends on the labels of the task;
* a `Collective` statistic, whose numbers for one example depend on the other examples;
* a `Batched` statistic, whose numbers are computed for many examples in one call, as by a model;
* an `OfSamples` statistic, whose number for an example is computed from several samples of its answer.
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
    """Score made from per-example numbers.

    Attributes:
        features: maps an example and its prediction to k numbers, or to None if the metric does not apply (no answer,
            hidden gold). Adding a number that is NaN or infinite is an error.
        combine: maps sums of features, shape (..., k), to values, shape (...); vectorised, NaN if undefined.
        is_mean: whether the features are (value, 1.0) and the score is the mean value. Closed-form intervals are valid
            then; all other statistics are bootstrapped by cluster.
        bounds: limits of the values of a mean, or None if it has none; one of them may be infinite, as in
            `(0.0, math.inf)` for a count or a distance. A value beyond them shows that it has none.
        no_interval: reason why an interval would be wrong; there is none then.
        signature: returns a library's settings for computing the score, for the record, or raises `FigevalError`.
        signature_in: the same, given the languages of the task (BCP 47), for a score whose settings depend on them. It
            raises `TaskError` if the score has no sound value in one of them.
        absent: reason why there is no value if the metric applies to no example.
        check: raises `FigevalError` for an example of a task that the metric cannot score. It is called with the first
            example, before weights are loaded.
        describe: returns a description, as JSON, of the argument that the metric was made from, for the record. The
            text `remark` in it is printed with every score.
        is_skewed: whether the percentiles of its bootstrap are corrected for bias and skewness (BCa).
        kinds: kinds of examples, as pairs of a name and the place of the feature that counts them, e.g. the two classes
            of an area under a curve. A difference between two runs has an interval if there are enough of each kind.
    """

    features: Callable[[Any, Prediction], Sequence[float] | None]
    combine: Callable[[Floats], Floats]
    is_mean: bool = False
    bounds: Bounds = (0.0, 1.0)
    no_interval: str = ""
    signature: Callable[[], str] | None = None
    signature_in: Callable[[Sequence[str]], str] | None = None
    absent: str = "no examples"
    check: Callable[[Any], None] | None = None
    describe: Callable[[], Mapping[str, Any]] | None = None
    is_skewed: bool = False
    kinds: tuple[tuple[str, int], ...] = ()


Features: TypeAlias = "Sequence[float] | None"
Rows: TypeAlias = "Sequence[Mapping[str, Any]]"  # stored rows, in the order of the examples
Family: TypeAlias = "Callable[[Rows, Sequence[str], Mapping[str, Any]], Mapping[str, Sequence[Features]]]"


@dataclass(frozen=True, slots=True)
class Collective(Statistic):
    """Score whose per-example values depend on other examples, e.g. on nearest neighbours or on words used before.

    Attributes:
        family: `family(rows, names, settings)` computes the metrics with these names together once all rows exist;
            metrics with the same `family` share one call. `rows` are lines of the predictions file, `settings` those of
            the task's record. It returns the features of each row by metric, None if a metric does not apply.
        pooled: whether the metric describes a set of rows as a whole and is computed anew for each subset. Other
            metrics relate a row to all others, whatever subset it belongs to.
        size_invariant: whether the expected value is the same for any number of rows, as that of a correlation or of an
            area is, and as the number of words not used before is not.
    """

    family: Family | None = None
    pooled: bool = False
    size_invariant: bool = False


def _no_features(_example: Any, _prediction: Prediction) -> Features:
    """Return None, because one example alone has no value."""
    return None


def collective(  # noqa: PLR0913 - one argument per attribute
    family: Family,
    *,
    combine: Callable[[Floats], Floats] | None = None,
    absent: str = "no examples",
    no_interval: str = "",
    pooled: bool = False,
    size_invariant: bool = False,
    kinds: tuple[tuple[str, int], ...] = (),
) -> Collective:
    """Return a score whose features `family` gives for each example.

    Args:
        family: see `Collective`.
        combine: see `Statistic`; by default the mean of features (value, 1.0) or, with `no_interval`, the ratio of the
            sums of any two features.
        absent: see `Statistic`.
        no_interval: reason why there is no interval.
        pooled: see `Collective`.
        size_invariant: see `Collective`.
        kinds: see `Statistic`.
    """
    return Collective(
        _no_features,
        ratio if combine is None else combine,
        is_mean=combine is None and not no_interval,
        absent=absent,
        no_interval=no_interval,
        family=family,
        pooled=pooled,
        size_invariant=size_invariant,
        kinds=kinds,
    )


Case: TypeAlias = "tuple[Any, Prediction]"  # an example and its prediction


@dataclass(frozen=True, slots=True)
class Measured:
    """Value of a metric for one example.

    Attributes:
        value: the number, or None if the metric does not apply.
        remarks: facts that are counted over the examples and printed below the scores, in the plural, e.g. "texts cut
            to the length of the classifier".
    """

    value: float | None
    remarks: tuple[str, ...] = ()


Batch: TypeAlias = "Callable[[Sequence[Case]], Sequence[Measured]]"


@dataclass(frozen=True, slots=True)
class Batched(Statistic):
    """Mean of per-example values that are computed for many examples in one call.

    Attributes:
        batch: returns the value of each case, in order. The value of a case does not depend on the other cases.
    """

    batch: Batch | None = None


def batched(
    function: Batch,
    *,
    absent: str = "no examples",
    bounds: Bounds = (0.0, 1.0),
    check: Callable[[Any], None] | None = None,
    describe: Callable[[], Mapping[str, Any]] | None = None,
) -> Batched:
    """Return the mean of a number that `function` computes for several examples at once.

    Args:
        function: maps pairs (example, prediction) to a `Measured` for each.
        absent: reason why there is no value if the number is None for every example.
        bounds: see `mean_of`.
        check: see `Statistic`.
        describe: see `Statistic`.
    """

    def features(example: Any, prediction: Prediction) -> Features:
        (measured,) = function([(example, prediction)])
        return None if measured.value is None else (measured.value, 1.0)

    return Batched(
        features, ratio, is_mean=True, bounds=bounds, absent=absent, check=check, describe=describe, batch=function
    )


@dataclass(frozen=True, slots=True)
class OfSamples(Statistic):
    """Mean of a number that is computed from all samples of an answer (`--samples`), e.g. of how often they agree.

    Attributes:
        of_row: maps an example and its row, a line of the predictions file, to the number, or to None if it does not
            apply. A row without `samples` is that of a trivial model, or of an example that could not be asked.
    """

    of_row: Callable[[Any, Mapping[str, Any]], float | None] = lambda _example, _row: None


def of_samples(
    function: Callable[[Any, Mapping[str, Any]], float | None], *, absent: str, bounds: Bounds = (0.0, 1.0)
) -> OfSamples:
    """Return the mean of a number that `function` computes from the samples of a row; see `OfSamples`, `mean_of`."""
    return OfSamples(_no_features, ratio, is_mean=True, bounds=bounds, absent=absent, of_row=function)


@dataclass(frozen=True, slots=True)
class PerLabel:
    """Statistic whose features depend on the task's labels; `build(labels)` makes it."""

    build: Callable[[tuple[str, ...]], Statistic]


def mean_of(function: PerExample, *, absent: str = "no examples", bounds: Bounds = (0.0, 1.0)) -> Statistic:
    """Return the mean of a per-example number over the examples for which it is not None.

    Args:
        function: maps an example and its prediction to the number.
        absent: reason why there is no value if the function returns None for every example.
        bounds: limits of the numbers, or None if they have none; one of them may be infinite, as in `(0.0, math.inf)`
            for a number of words.
    """

    def features(example: Any, prediction: Prediction) -> Sequence[float] | None:
        value = function(example, prediction)
        return None if value is None else (value, 1.0)

    return Statistic(features, ratio, is_mean=True, bounds=bounds, absent=absent)


def ratio(sums: Floats) -> Floats:
    """Return sums[..., 0] / sums[..., 1], NaN if the denominator is 0."""
    return quotient(sums[..., 0], sums[..., 1])


def quotient(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator / denominator, of the same shape; NaN if the denominator is 0."""
    import numpy as np

    undefined = np.full(np.shape(denominator), np.nan)
    return np.asarray(np.divide(numerator, denominator, out=undefined, where=denominator != 0))


def as_statistic(target: Statistic | PerLabel | PerExample, labels: tuple[str, ...] = ()) -> Statistic:
    """Return the statistic of a registered metric for a task with these labels; a function becomes its mean."""
    match target:
        case Statistic():
            return target
        case PerLabel():
            return target.build(labels)
        case _:
            return mean_of(target)
