"""The metrics that plugins offer, and which of them apply to a task on a route."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from figeval.errors import TaskError
from figeval.metrics.statistic import Statistic, as_statistic
from figeval.plugins import PluginManager
from figeval.registry import Registry, fill, loaded


@dataclass(frozen=True, slots=True)
class Metric:
    """A named metric; `protocols` and `routes` limit where it means something (empty: everywhere)."""

    name: str
    target: Any
    higher_is_better: bool = True
    protocols: frozenset[str] = frozenset()
    routes: frozenset[str] = frozenset()

    def statistic(self, labels: tuple[str, ...]) -> Statistic:
        """What it computes for a task with these labels."""
        return as_statistic(loaded(self.target), labels)


def load_metrics(manager: PluginManager) -> Registry[Metric]:
    """Every metric of every plugin."""
    registry: Registry[Metric] = Registry("metric", "figeval ls metrics")

    def add(
        name: str,
        function: Any,
        higher_is_better: bool = True,
        protocols: Iterable[str] = (),
        routes: Iterable[str] = (),
        *,
        owner: str,
    ) -> None:
        registry.add(name, Metric(name, function, higher_is_better, frozenset(protocols), frozenset(routes)), owner)

    registry.prefer(fill(manager, "register_metrics", add))
    return registry


def applicable(registry: Registry[Metric], names: Sequence[str], protocol: str, route: str) -> list[Metric]:
    """The metrics that a task asks for and that mean something on this route.

    A metric of another route is left out (per-character log-likelihood says nothing about cosines); one of another
    protocol is a mistake of the task.

    Raises:
        UnknownName: no such metric.
        TaskError: a metric is not for this protocol, or none of them applies.
    """
    metrics = [registry.get(name) for name in names]
    for metric in metrics:
        if metric.protocols and protocol not in metric.protocols:
            raise TaskError(f"metric {metric.name!r} is for {', '.join(sorted(metric.protocols))}, not {protocol}")
    fitting = [metric for metric in metrics if not metric.routes or route in metric.routes]
    if not fitting:
        raise TaskError(f"none of the metrics {', '.join(names)} means anything on the route {route}")
    return fitting
