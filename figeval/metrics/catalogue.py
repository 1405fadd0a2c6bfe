"""Catalogue of the metrics of task types and plugins, with a choice of those that apply to a task on a route.

Some metrics are made from an argument, e.g. `--metrics faithfulness=models/f`. A metric that is registered with
`argument` is a factory: it is called with a `MetricContext` for every task and returns the metric. Records contain the
name before the `=`. Such a metric often asks a model of its own, which the context opens as `--model` does, so that
neither plugins nor metrics need to know how models are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from figeval.errors import DuplicateName, PluginError, TaskError, UnknownName
from figeval.io.text import whole_number
from figeval.metrics.samples import METRICS
from figeval.metrics.statistic import Statistic, as_statistic, mean_of
from figeval.plugins import PluginManager
from figeval.registry import fill, resolve
from figeval.task_types.base import Metric
from figeval.task_types.registry import TaskTypes
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
    statistic = as_statistic(resolve(metric.target)(context), labels)
    if not statistic.is_mean:  # a breakdown of stored values must not need the argument
        raise PluginError(f"metric {metric.name!r} of {metric.owner} is created from an argument, so it must be a mean")
    return replace(metric, target=statistic)


FAMILY = "@k"  # ends the name of a metric with a number, e.g. pass@k for pass@5; its target makes the metric


class Metrics:
    """Metrics by name. One name may refer to a different function for each task type (`acc` of a choice, of a ranking).

    A task type's own metrics take precedence over registered ones, so they are found without loading the others.
    """

    def __init__(self, manager: PluginManager, task_types: TaskTypes) -> None:
        self._manager = manager
        self._task_types = task_types

    @cached_property
    def _by_name(self) -> dict[str, list[Metric]]:
        """Metrics of all task types and plugins, by name."""
        by_name: dict[str, list[Metric]] = {}
        for entry, _ in self._task_types.usable(self._manager):
            for metric in self._of(entry.name):
                _add(by_name, metric)

        def register(*, function: Any, task_types: Any, routes: Any, owner: str, **attributes: Any) -> None:
            metric = Metric(target=function, task_types=frozenset(task_types), routes=frozenset(routes), **attributes)
            _add(by_name, replace(metric, owner=owner))

        fill(self._manager, "register_metrics", register)
        for metric in METRICS:
            _add(by_name, replace(metric, owner="figeval.metrics"))
        return by_name

    def _of(self, task_type: str) -> Iterator[Metric]:
        """Yield a task type's own metrics; none for an unknown task type."""
        if task_type in self._task_types:
            entry = self._task_types.entry(task_type)
            for metric in entry.load().metrics:
                yield replace(metric, task_types=frozenset({task_type}), owner=entry.owner)

    def __iter__(self) -> Iterator[Metric]:
        """Yield one metric for each name, with all the task types and routes that the name has."""
        for metrics in self._by_name.values():
            types = frozenset[str]().union(*(metric.task_types for metric in metrics))
            routes = frozenset().union(*(metric.routes for metric in metrics))
            yield replace(metrics[0], task_types=types, routes=routes)

    def __contains__(self, name: object) -> bool:
        with suppress(UnknownName, TaskError):
            return isinstance(name, str) and "=" not in name and bool(self.named(name))
        return False

    def get(self, name: str, task_type: str) -> Metric:
        """Return the metric of a task type, with the argument that `name` contains.

        Raises:
            UnknownName: there is no metric of that name.
            TaskError: the metric is for other task types, or takes no argument.
        """
        plain, argument = split(name)
        own_metric = next((metric for metric in self._of(task_type) if metric.name == plain), None)
        metric = own_metric or next((metric for metric in self.named(plain) if metric.is_for(task_type)), None)
        if metric is None:
            raise TaskError(f"metric {plain!r} is for {', '.join(self.types_of(plain))}, not {task_type}")
        return with_argument(metric, argument)

    def types_of(self, name: str) -> list[str]:
        """Return the task types that have a metric of this name. Raises `UnknownName`."""
        return sorted(frozenset().union(*(metric.task_types for metric in self.named(name))))

    def named(self, name: str) -> Sequence[Metric]:
        """Return the metrics of a name, one or more for different task types; an argument in the name is ignored.

        Raises:
            UnknownName: there is no metric of that name.
            TaskError: a number is missing, as in pass@k.
        """
        plain, _ = split(name)
        stem, _, digits = plain.rpartition("@")
        family = self._by_name.get(f"{stem}{FAMILY}", [])
        if plain not in self._by_name and family and (number := whole_number(digits)) and str(number) == digits:
            return [replace(metric, name=plain, target=resolve(metric.target)(number)) for metric in family]
        if plain not in self._by_name:
            raise UnknownName("metric", plain, self._by_name, see="figeval ls metrics")
        if plain.endswith(FAMILY):
            raise TaskError(f"metric {plain!r} needs a number in place of k, e.g. {stem}@5")
        return self._by_name[plain]

    def applicable(self, names: Sequence[str], task_type: str, route: str) -> list[Metric]:
        """Return the metrics of these names that are meaningful on this route.

        A metric for other routes is left out (per-character log-likelihood says nothing about cosines); one for other
        task types is a mistake in the task.

        Raises:
            UnknownName: there is no such metric.
            TaskError: a metric is not for this task type, none of them applies, or an argument is missing, not accepted
                or given twice with different values.
        """
        metrics: dict[str, Metric] = {}
        for metric in (self.get(name, task_type) for name in names):
            check_argument(metric)
            namesake = metrics.setdefault(metric.name, metric)
            if namesake.given != metric.given:
                raise TaskError(
                    f"metric {metric.name!r} is requested with {namesake.given} and with {metric.given}; leave one "
                    "out, because a metric means the same in the whole run"
                )
        fitting = [metric for metric in metrics.values() if not metric.routes or route in metric.routes]
        if not fitting:
            name_list = ", ".join(names)
            raise TaskError(
                f"none of the metrics {name_list} applies to the route {route}; choose others or another route"
            )
        return fitting


def _add(by_name: dict[str, list[Metric]], metric: Metric) -> None:
    """Add a metric. Raises `DuplicateName` if the name is taken for one of its task types."""
    namesakes = by_name.setdefault(metric.name, [])
    for other in namesakes:
        if not (metric.task_types and other.task_types) or metric.task_types & other.task_types:
            raise DuplicateName(
                f"metric {metric.name!r} of {metric.owner} is already registered by {other.owner}; rename it"
            )
    namesakes.append(metric)


def statistic_of(metric: Metric, labels: tuple[str, ...]) -> Statistic:
    """Return the statistic that a metric computes for a task with these labels.

    A metric that has not been made from its argument computes nothing, but its stored values can still be summed.
    """
    target = resolve(metric.target)
    if metric.argument and not isinstance(target, Statistic):
        return mean_of(lambda _example, _prediction: None)
    return as_statistic(target, labels)
