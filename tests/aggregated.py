"""Add examples and predictions to an aggregator, as an evaluation does for its rows."""

from __future__ import annotations

from figeval import Example, Prediction
from figeval.metrics.aggregation import GroupAggregator, MetricAggregator


def count_in(aggregator: MetricAggregator | GroupAggregator, example: Example, prediction: Prediction) -> None:
    """Add the features of one example, unless the metric does not apply to it or it belongs to no group."""
    features = aggregator.statistic.features(example, prediction)
    if isinstance(aggregator, MetricAggregator):
        if features is not None:
            aggregator.add(example.cluster, features)
    elif example.group is not None:
        aggregator.add(example.group, example.cluster, features)
