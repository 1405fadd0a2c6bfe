"""Metrics that are made from an argument: `--metrics faithfulness=models/f`.

A metric that is registered with `argument` is a factory: it is called with a `MetricContext` for every task, and
returns the metric. The name in records is that before the `=`. Such a metric often asks a model of its own, which the
context opens as `--model` does, so that neither plugins nor metrics know how models are found.
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
    """A model that a metric asks. Its weights are loaded with the first question."""

    @property
    def capabilities(self) -> frozenset[str]:
        """What it can be asked."""

    @property
    def fingerprint(self) -> str:
        """What changes whenever an answer could."""

    @property
    def about(self) -> Mapping[str, Any]:
        """How `figeval train` made it, as its figeval.json says (`task`, `held_out` …); empty for other models."""

    def role(self, example: Example) -> Role | None:
        """Return how the model has seen an example: it was trained on it, chosen on it, or neither."""

    def answer(self, requests: Sequence[Request]) -> Sequence[tuple[Any, bool]]:
        """Return (output, whether the input was cut) for requests of one class; equal ones are computed once in a run.

        Raises:
            CapabilityError: the model cannot answer such requests.
        """


@dataclass(frozen=True, slots=True)
class MetricContext:
    """What a metric is made from.

    Attributes:
        name: of the metric.
        argument: what stands behind the `=`.
        task: the name of the task that is scored.
        languages: of the task.
        model: opens a model by the name that `--model` takes, once in a run, on the device of the run. It raises
            `ModelError` where there is none.
        trained: returns `about` of a model, and opens it only if the name is not that of a folder: a metric that needs
            a certain training can refuse whatever lies in a folder.
    """

    name: str
    argument: str
    task: str
    languages: Sequence[str]
    model: Callable[[str], MetricModel]
    trained: Callable[[str], Mapping[str, Any]]


def split(name: str) -> tuple[str, str | None]:
    """Return (name, argument) of what a task file or `--metrics` lists; the argument is None without a `=`."""
    plain, sign, argument = name.partition("=")
    return plain, argument if sign else None


def with_argument(metric: Metric, argument: str | None) -> Metric:
    """Return the metric as it was asked for.

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


def made(metric: Metric, labels: tuple[str, ...], context: MetricContext) -> Metric:
    """Return a metric with what its factory makes of the argument as `target`.

    Raises:
        FigevalError: the argument is no good; the factory says why.
        PluginError: the factory returns a score that is no mean.
    """
    statistic = as_statistic(loaded(metric.target)(context), labels)
    if not statistic.is_mean:  # a breakdown of stored values must not need the argument
        raise PluginError(f"metric {metric.name!r} of {metric.owner} is made from an argument, so it has to be a mean")
    return replace(metric, target=statistic)
