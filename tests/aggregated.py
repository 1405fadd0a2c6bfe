"""Add examples and predictions to an aggregator, as an evaluation does for its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from figeval import Example, Harness, MetricAggregator, MetricContext, Prediction, Statistic
from figeval.metrics.aggregation import GroupAggregator
from figeval.metrics.catalogue import statistic_of
from figeval.registry import resolve


def count_in(aggregator: MetricAggregator | GroupAggregator, example: Example, prediction: Prediction) -> None:
    """Add the features of one example, unless the metric does not apply to it or it belongs to no group."""
    features = aggregator.statistic.features(example, prediction)
    if isinstance(aggregator, MetricAggregator):
        if features is not None:
            aggregator.add(example.cluster, features)
    elif example.group is not None:
        aggregator.add(example.group, example.cluster, features)


@cache
def statistic(name: str, task_type: str) -> Statistic:
    """Return a metric as runs get it."""
    return statistic_of(Harness().metrics.get(name, task_type), ())


@cache
def metric_factory(name: str, task_type: str) -> Callable[[MetricContext], Any]:
    """Return what makes a metric from the argument behind its name."""
    factory: Callable[[MetricContext], Any] = resolve(Harness().metrics.get(name, task_type).target)
    return factory


def score_of(name: str, task_type: str, cases: Iterable[tuple[Example, Prediction]]) -> float | None:
    """Return the score of a metric on these examples and predictions."""
    total = MetricAggregator(name, statistic(name, task_type))
    for example, prediction in cases:
        count_in(total, example, prediction)
    return total.score().value


def score_of_rows(name: str, task_type: str, rows: list[dict[str, Any]]) -> float | None:
    """Return the score of a metric of all rows together."""
    metric: Any = statistic(name, task_type)
    total = MetricAggregator(name, metric)
    for features in metric.family(rows, [name], {})[name]:
        if features is not None:
            total.add(None, features)
    return total.score().value
