"""The metrics that task types and plugins offer, and which of them apply to a task on a route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from figeval.errors import DuplicateName, TaskError, UnknownName
from figeval.metrics.statistic import Statistic, as_statistic
from figeval.plugins import PluginManager
from figeval.registry import fill, loaded
from figeval.task_types.base import Metric, TaskTypes


class Metrics:
    """Metrics by name. One name may stand for one function per task type (`acc` of a choice and of a ranking).

    Those of the task types themselves win over registered ones, so a type's own metric is found without the others.
    """

    def __init__(self, manager: PluginManager, task_types: TaskTypes) -> None:
        self._manager = manager
        self._task_types = task_types

    @cached_property
    def _named(self) -> dict[str, list[Metric]]:
        """Name → metrics of all task types and plugins."""
        named: dict[str, list[Metric]] = {}
        for entry, _ in self._task_types.usable(self._manager):
            for metric in self._of(entry.name):
                _add(named, metric)

        def register(
            name: str, function: Any, higher_is_better: bool, task_types: Any, routes: Any, *, owner: str
        ) -> None:
            types, limits = frozenset(task_types), frozenset(routes)
            made = Metric(name=name, target=function, task_types=types, routes=limits, owner=owner)
            _add(named, replace(made, higher_is_better=higher_is_better))

        fill(self._manager, "register_metrics", register)
        return named

    def _of(self, task_type: str) -> Iterator[Metric]:
        """Yield the metrics that a task type has itself; none for a type that nobody offers."""
        if task_type in self._task_types:
            entry = self._task_types.entry(task_type)
            for metric in entry.load().metrics:
                yield replace(metric, task_types=frozenset({task_type}), owner=entry.owner)

    def __iter__(self) -> Iterator[Metric]:
        """Yield one metric for each name, for all the task types that have one so called."""
        for metrics in self._named.values():
            types = frozenset(self.types_of(metrics[0].name))
            routes = frozenset().union(*(metric.routes for metric in metrics))
            yield replace(metrics[0], task_types=types, routes=routes)

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def get(self, name: str, task_type: str) -> Metric:
        """Return the metric as it is for a task type.

        Raises:
            UnknownName: there is none of that name.
            TaskError: it is for other task types.
        """
        own = next((one for one in self._of(task_type) if one.name == name), None)
        metric = own or next((one for one in self.named(name) if one.is_for(task_type)), None)
        if metric is None:
            raise TaskError(f"metric {name!r} is for {', '.join(self.types_of(name))}, not {task_type}")
        return metric

    def types_of(self, name: str) -> list[str]:
        """Return the task types that have a metric of this name. Raises `UnknownName`."""
        return sorted(frozenset().union(*(metric.task_types for metric in self.named(name))))

    def named(self, name: str) -> Sequence[Metric]:
        """Return the metrics of a name, one or several for different task types. Raises `UnknownName`."""
        if name not in self._named:
            raise UnknownName("metric", name, self._named, see="figeval ls metrics")
        return self._named[name]

    def applicable(self, names: Sequence[str], task_type: str, route: str) -> list[Metric]:
        """Return the metrics of these names that mean something on this route.

        A metric of another route is left out (per-character log-likelihood says nothing about cosines); one of another
        task type is a mistake of the task.

        Raises:
            UnknownName: no such metric.
            TaskError: a metric is not for this task type, or none of them applies.
        """
        metrics = [self.get(name, task_type) for name in names]
        fitting = [metric for metric in metrics if not metric.routes or route in metric.routes]
        if not fitting:
            raise TaskError(f"none of the metrics {', '.join(names)} means anything on the route {route}")
        return fitting


def _add(named: dict[str, list[Metric]], metric: Metric) -> None:
    """Add a metric. Raises `DuplicateName` if there is one of this name for the same task types."""
    known = named.setdefault(metric.name, [])
    for other in known:
        if not (metric.task_types and other.task_types) or metric.task_types & other.task_types:
            raise DuplicateName(
                f"metric {metric.name!r} of {metric.owner} is already registered by {other.owner}; rename it"
            )
    known.append(metric)


def statistic_of(metric: Metric, labels: tuple[str, ...]) -> Statistic:
    """Return what a metric computes for a task with these labels."""
    return as_statistic(loaded(metric.target), labels)
