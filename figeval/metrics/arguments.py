"""Metrics that are made from an argument, e.g. `--metrics faithfulness=models/f`.

A metric that is registered with `argument` is a factory: it is called with a `MetricContext` for every task and returns
the metric. Records contain the name before the `=`. Such a metric often asks a model of its own, which the context
opens as `--model` does, so that neither plugins nor metrics need to know how models are found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from figeval.errors import PluginError, TaskError
from figeval.metrics.statistic import as_statistic
from figeval.registry import loaded
from figeval.task_types.base import Metric
from figeval.types import Example, Request, Role


class MetricModel(Protocol):
    """Model that a metric uses. Its weights are loaded at the first request."""

    @property
    def capabilities(self) -> frozenset[str]:
        """Capabilities of the model, i.e. the kinds of request that it answers."""

    @property
    def fingerprint(self) -> str:
        """Text that changes whenever an answer could change."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Provenance in the figeval.json of `figeval train` (`task`, `held_out` …); empty for other models."""

    def role(self, example: Example) -> Role | None:
        """Return how the model has seen an example: in training, in model selection, or not at all (None)."""

    def answer(self, requests: Sequence[Request]) -> Sequence[tuple[Any, bool]]:
        """Return (output, whether the input was truncated) for requests of one class.

        Equal requests are computed once in a run.

        Raises:
            CapabilityError: the model cannot answer such requests.
        """


@dataclass(frozen=True, slots=True)
class MetricContext:
    """Context from which the factory of a metric makes it.

    Attributes:
        name: name of the metric.
        argument: text after the `=`.
        task: name of the task that is scored.
        languages: languages of the task.
        model: opens a model by the name that `--model` takes, once in a run, on the device of the run. It raises
            `ModelError` if there is none.
        trained: returns `about` of a model, and opens the model only if the name is not that of a folder, so that a
            metric which needs a certain training can refuse a folder without loading its weights.
    """

    name: str
    argument: str
    task: str
    languages: Sequence[str]
    model: Callable[[str], MetricModel]
    trained: Callable[[str], Mapping[str, Any]]


def split(name: str) -> tuple[str, str | None]:
    """Return (name, argument) of a metric in a task file or `--metrics`; without a `=`, the argument is None."""
    plain, sign, argument = name.partition("=")
    return plain, argument if sign else None


def with_argument(metric: Metric, argument: str | None) -> Metric:
    """Return the metric with the given argument.

    Raises:
        TaskError: an argument was given to a metric that takes none.
    """
    if argument is not None and not metric.argument:
        raise TaskError(f"metric {metric.name!r} takes no argument; write {metric.name} without ={argument}")
    return replace(metric, given=argument)


def check_argument(metric: Metric) -> None:
    """Raise `TaskError` for a metric that needs an argument and has none."""
    if metric.argument and not metric.given:
        raise TaskError(f"metric {metric.name!r} needs {metric.argument}; write {metric.name}=…")


def make_metric(metric: Metric, labels: tuple[str, ...], context: MetricContext) -> Metric:
    """Return a metric whose `target` is the statistic that its factory makes from the argument.

    Raises:
        FigevalError: the argument is invalid; the factory says why.
        PluginError: the factory returns a score that is not a mean.
    """
    statistic = as_statistic(loaded(metric.target)(context), labels)
    if not statistic.is_mean:  # a breakdown of stored values must not need the argument
        raise PluginError(f"metric {metric.name!r} of {metric.owner} is created from an argument, so it must be a mean")
    return replace(metric, target=statistic)
