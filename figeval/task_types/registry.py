"""All task types of plugins and their routes, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any

from figeval.errors import PluginError
from figeval.io.text import near
from figeval.plugins import PluginManager, describe
from figeval.registry import Deferred, Registry, fill, resolve, sort_by_owner
from figeval.task_types.base import Metric, TaskType
from figeval.task_types.fields import fields_of
from figeval.task_types.routes import Route
from figeval.types import Example


class TaskTypes(Registry[Any]):
    """Task types of all plugins, by name. A type that was registered with a name is imported when it is first used."""

    def __init__(self, manager: PluginManager) -> None:
        super().__init__("task type", "figeval ls types")
        fill(manager, "register_task_types", self._register)

    def _register(self, task_type: Any, name: str, *, owner: str) -> None:
        if name:
            self.add(name, Deferred(partial(_check_name, name, task_type, owner)), owner)
            return
        kind = task_type_of(resolve(task_type))
        self.add(kind.name, kind, owner)


def _check_name(name: str, task_type: Any, owner: str) -> TaskType[Any]:
    """Return the task type that was registered under a name. Raises `PluginError`, which names type and plugin."""
    try:
        kind = task_type_of(resolve(task_type))
    except Exception as error:  # importing its module may raise anything
        raise PluginError(f"task type {name!r} of {owner}: {describe(error)}") from error
    if kind.name != name:
        raise PluginError(f"task type {name!r} of {owner} is named {kind.name!r}; register it under that name")
    return kind


def task_type_of(declared: Any) -> TaskType[Any]:
    """Return the task type that a subclass of `TaskType` declares, or the type itself.

    Raises:
        PluginError: it is not a task type, or has a fault that would break all of its tasks.
    """
    if not (isinstance(declared, TaskType) or (isinstance(declared, type) and issubclass(declared, TaskType))):
        raise PluginError(f"register(task_type) takes a subclass of figeval.TaskType, not {declared!r:.80}")
    kind: TaskType[Any] = declared() if isinstance(declared, type) else declared
    name = type(kind).__name__
    for attribute in ("name", "Example"):
        if not hasattr(kind, attribute):
            raise PluginError(f"the task type {name} has no `{attribute}`; add it as a class attribute")
    example: Any = kind.Example
    if not (is_dataclass(example) and isinstance(example, type) and issubclass(example, Example)):
        raise PluginError(
            f"{name}.Example is {kind.Example!r:.80}; make it a dataclass that derives from figeval.Example"
        )
    names = fields_of(kind.Example)  # fails here on invalid annotations, not with the first task
    if kind.options and kind.options not in names:
        raise PluginError(f"{name}.options is {kind.options!r:.80}, which is not a field{near(kind.options, names)}")
    seen: set[str] = set()
    for listed in kind.metrics:
        if not isinstance(listed, Metric):
            raise PluginError(f"{name}.metrics lists {listed!r:.80}; create it with figeval.metric(name, target)")
        if listed.name in seen:
            raise PluginError(f"{name}.metrics has two metrics {listed.name!r}; rename one")
        seen.add(listed.name)
    return kind


class Routes:
    """Routes of task types: each type's own, and those that plugins add to it."""

    def __init__(self, manager: PluginManager, task_types: TaskTypes) -> None:
        self._manager = manager
        self._task_types = task_types
        self._added: dict[str, list[Route]] = {}
        self._of: dict[str, list[Route]] = {}
        self._owners = fill(manager, "register_routes", self._add)
        self._tried_first = frozenset(manager.tried_first("register_routes"))

    def _add(self, task_type: str, route: Any, *, owner: str) -> None:
        self._added.setdefault(task_type, []).append(_check_route(route, task_type, owner))

    def of(self, task_type: str) -> list[Route]:
        """Return the routes of a task type, best first.

        The type's own routes come before those of plugins, so that installing a plugin changes no score, unless the
        plugin requests `tryfirst`. A route whose name is taken is left out and reported as a problem of its plugin.
        """
        if task_type not in self._of:
            own_routes = list(self._own(task_type))
            routes = {route.name: route for route in own_routes}
            for route in self._added.get(task_type, ()):
                registered = routes.setdefault(route.name, route)
                if registered is not route:
                    taken = f"route {route.name!r} for {task_type} of {route.owner} is already registered"
                    self._manager.problem(route.owner, f"{taken} by {registered.owner}")
            added = sort_by_owner(list(routes.values())[len(own_routes) :], self._owners)
            first = [route for route in added if route.owner in self._tried_first]
            self._of[task_type] = [
                *first,
                *own_routes,
                *(route for route in added if route.owner not in self._tried_first),
            ]
        return self._of[task_type]

    def _own(self, task_type: str) -> Iterator[Route]:
        """Yield a task type's own routes; none for an unknown type."""
        if task_type not in self._task_types:
            return
        entry = self._task_types.entry(task_type)
        for route in entry.load().routes:
            try:
                yield _check_route(route, task_type, entry.owner)
            except PluginError as error:  # only this route is lost
                self._manager.problem(entry.owner, f"task type {task_type!r}: {error}")

    def with_parts(self, task_type: str) -> list[Route]:
        """Return the routes of a task type and of the types whose routes they combine (see `choose`)."""
        types = [task_type]
        for name in types:  # the list grows during the loop
            parts = dict.fromkeys(part for route in self.of(name) for part in route.of)
            types += [part for part in parts if part not in types]
        return [route for name in types for route in self.of(name)]

    def __iter__(self) -> Iterator[Route]:
        """Yield every route, by task type."""
        types = dict.fromkeys([*(entry.name for entry, _ in self._task_types.usable(self._manager)), *self._added])
        return (route for name in types for route in self.of(name))


def _check_route(route: Any, task_type: str, owner: str) -> Route:
    """Return a route with its owner and all its needs. Raises `PluginError` if no model could take it."""
    if not isinstance(route, Route):
        raise PluginError(f"a route of {task_type} must be a figeval.Route, not {route!r:.80}")
    route.check()
    needs = route.needs | {request.capability for request in route.requests}
    return replace(route, needs=needs, task_type=task_type, owner=owner)
