"""All task types of plugins and their routes, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any

from figeval.errors import PluginError, near
from figeval.plugins import PluginManager, describe
from figeval.registry import Deferred, Registry, fill, loaded, preferred
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
            self.add(name, Deferred(partial(_named, name, task_type, owner)), owner)
            return
        one = task_type_of(loaded(task_type))
        self.add(one.name, one, owner)


def _named(name: str, task_type: Any, owner: str) -> TaskType[Any]:
    """Return the task type that was registered under a name. Raises `PluginError`, which names type and plugin."""
    try:
        one = task_type_of(loaded(task_type))
    except Exception as error:  # importing its module may raise anything
        raise PluginError(f"task type {name!r} of {owner}: {describe(error)}") from error
    if one.name != name:
        raise PluginError(f"task type {name!r} of {owner} is named {one.name!r}; register it under that name")
    return one


def task_type_of(made: Any) -> TaskType[Any]:
    """Return the task type that a subclass of `TaskType` declares, or the type itself.

    Raises:
        PluginError: it is not a task type, or has a fault that would break all of its tasks.
    """
    if not (isinstance(made, TaskType) or (isinstance(made, type) and issubclass(made, TaskType))):
        raise PluginError(f"register(task_type) takes a subclass of figeval.TaskType, not {made!r:.80}")
    one: TaskType[Any] = made() if isinstance(made, type) else made
    name = type(one).__name__
    for attribute in ("name", "Example"):
        if not hasattr(one, attribute):
            raise PluginError(f"the task type {name} has no `{attribute}`; add it as a class attribute")
    example: Any = one.Example
    if not (is_dataclass(example) and isinstance(example, type) and issubclass(example, Example)):
        raise PluginError(
            f"{name}.Example is {one.Example!r:.80}; make it a dataclass that derives from figeval.Example"
        )
    known = fields_of(one.Example)  # fails here on invalid annotations, not with the first task
    if one.options and one.options not in known:
        raise PluginError(f"{name}.options is {one.options!r:.80}, which is not a field{near(one.options, known)}")
    seen: set[str] = set()
    for listed in one.metrics:
        if not isinstance(listed, Metric):
            raise PluginError(f"{name}.metrics lists {listed!r:.80}; create it with figeval.metric(name, target)")
        if listed.name in seen:
            raise PluginError(f"{name}.metrics has two metrics {listed.name!r}; rename one")
        seen.add(listed.name)
    return one


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
        self._added.setdefault(task_type, []).append(_checked(route, task_type, owner))

    def of(self, task_type: str) -> list[Route]:
        """Return the routes of a task type, best first.

        The type's own routes come before those of plugins, so that installing a plugin changes no score, unless the
        plugin requests `tryfirst`. A route whose name is taken is left out and reported as a problem of its plugin.
        """
        if task_type not in self._of:
            own = list(self._own(task_type))
            routes = {route.name: route for route in own}
            for route in self._added.get(task_type, ()):
                known = routes.setdefault(route.name, route)
                if known is not route:
                    taken = f"route {route.name!r} for {task_type} of {route.owner} is already registered"
                    self._manager.problem(route.owner, f"{taken} by {known.owner}")
            added = preferred(list(routes.values())[len(own) :], self._owners)
            first = [route for route in added if route.owner in self._tried_first]
            self._of[task_type] = [*first, *own, *(route for route in added if route.owner not in self._tried_first)]
        return self._of[task_type]

    def _own(self, task_type: str) -> Iterator[Route]:
        """Yield a task type's own routes; none for an unknown type."""
        if task_type not in self._task_types:
            return
        entry = self._task_types.entry(task_type)
        for route in entry.load().routes:
            try:
                yield _checked(route, task_type, entry.owner)
            except PluginError as error:  # only this route is lost
                self._manager.problem(entry.owner, f"task type {task_type!r}: {error}")

    def with_parts(self, task_type: str) -> list[Route]:
        """Return the routes of a task type and of the types whose routes they combine (see `choose`)."""
        types = [task_type]
        for one in types:  # the list grows during the loop
            parts = dict.fromkeys(part for route in self.of(one) for part in route.of)
            types += [part for part in parts if part not in types]
        return [route for one in types for route in self.of(one)]

    def __iter__(self) -> Iterator[Route]:
        """Yield every route, by task type."""
        types = dict.fromkeys([*(entry.name for entry, _ in self._task_types.usable(self._manager)), *self._added])
        return (route for one in types for route in self.of(one))


def _checked(route: Any, task_type: str, owner: str) -> Route:
    """Return a route with its owner and all its needs. Raises `PluginError` if no model could take it."""
    if not isinstance(route, Route):
        raise PluginError(f"a route of {task_type} must be a figeval.Route, not {route!r:.80}")
    route.check()
    needs = route.needs | {request.capability for request in route.requests}
    return replace(route, needs=needs, task_type=task_type, owner=owner)
