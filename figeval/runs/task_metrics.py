"""The metrics of a task in a run: their selection, their preparation, and their description in the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from figeval.config import RunConfig
from figeval.errors import TaskError
from figeval.language.words import notion_of, primary
from figeval.metrics.catalogue import Metrics, make_metric, statistic_of
from figeval.metrics.samples import sample_metrics
from figeval.metrics.statistic import OfSamples
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.spec.tasks import ENGLISH
from figeval.task_types.base import Metric
from figeval.task_types.routes import Route


def metrics_of(task: TaskSpec, route: Route, config: RunConfig, harness: Harness) -> tuple[Metric, ...]:
    """Return the metrics of the task, of --metrics (if they apply to the task), of the route and of several samples.

    Raises:
        FigevalError: a metric does not exist, does not apply, or cannot be made from its argument.
    """
    requested = [name for name in config.metrics if applies(name, task, harness.metrics)]
    names = list(dict.fromkeys((*task.metrics, *requested, *route.metrics)))
    if config.samples > 1:
        names += sample_metrics(names, config.samples, writes_texts=bool(task.task_type.written_routes))
    applicable = harness.metrics.applicable(names, task.type, route.name)
    return tuple(
        make_metric(metric, task.labels, harness.metric_models.context(metric, task, config.device))
        if metric.argument
        else with_reason(metric, task)
        for metric in applicable
        if config.samples > 1 or not is_of_samples(metric)
    )


def is_of_samples(metric: Metric) -> bool:
    """Return whether a metric is computed from several samples of an answer."""
    return isinstance(metric.target, OfSamples)


def with_reason(metric: Metric, task: TaskSpec) -> Metric:
    """Return a metric that says why it has no value, if it has none in the languages of the task."""
    if not metric.languages or metric.languages & set(map(primary, task.languages)):
        return metric
    reason = f"it is for texts in {', '.join(sorted(metric.languages))}, not in {', '.join(task.languages)}"
    return replace(metric, target=replace(statistic_of(metric, task.labels), absent=reason))


def signatures(metrics: Sequence[Metric], task: TaskSpec) -> dict[str, str]:
    """Return the signatures of the metrics that a library computes, and of those that count words.

    In English, words are those of every version of figeval, so that metrics which count them have no signature.

    Raises:
        FigevalError: the library is not installed, or the metric has no sound value in a language of the task.
    """
    signatures = {}
    for metric in metrics:
        statistic = statistic_of(metric, task.labels)
        if statistic.signature_in is not None:
            signatures[metric.name] = statistic.signature_in(task.languages)
        elif statistic.signature is not None:
            signatures[metric.name] = statistic.signature()
        elif metric.counts_words and task.languages != (ENGLISH,):
            signatures[metric.name] = f"words:{notion_of(task.segmenters.values())}"
    return signatures


def applies(name: str, task: TaskSpec, metrics: Metrics) -> bool:
    """Return whether a metric applies to the task's type. Raises `UnknownName` if there is no such metric."""
    return any(metric.is_for(task.type) for metric in metrics.named(name))


def check_metrics(tasks: Sequence[TaskSpec], config: RunConfig, metrics: Metrics) -> None:
    """Raise `TaskError` if a metric of --metrics applies to none of the tasks, or needs --samples."""
    for name in config.metrics:
        if config.samples == 1 and any(is_of_samples(metric) for metric in metrics.named(name)):
            raise TaskError(f"--metrics {name}: it is computed from several samples of an answer; give --samples")
        if not any(applies(name, task, metrics) for task in tasks):
            types = " and ".join(metrics.types_of(name))
            raise TaskError(f"--metrics {name}: it applies to {types}, not to these tasks")


def descriptions(metrics: Sequence[Metric]) -> dict[str, Mapping[str, Any]]:
    """Return, by name, the descriptions of metrics that were made from an argument, for the record of a task."""
    return {
        metric.name: {"argument": metric.given, **(metric.target.describe() if metric.target.describe else {})}
        for metric in metrics
        if metric.argument
    }
