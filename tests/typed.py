"""Access to task types in tests: their routes by name, and task definitions bound to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from figeval import Dialogue, Harness, Route, TaskSpec, TaskType
from figeval.task_types.registry import TaskTypes
from figeval.testing import harness


@cache
def task_types() -> TaskTypes:
    """The task types of figeval itself."""
    return harness().task_types


def bound(**keys: Any) -> TaskSpec:
    """Return a task with these keys of a task file, bound to its task type as in a catalogue."""
    return TaskSpec.model_validate(keys).bound(task_types())


def find_route(task_type: str, name: str) -> Route:
    """Return the route of this name among those of a task type, figeval's plugins included."""
    return next(route for route in Harness().routes.of(task_type) if route.name == name)


def route_of(task_type: type[TaskType[Any]], name: str) -> Route:
    """Return the route of this name among a task type's own."""
    return next(route for route in task_type.routes if route.name == name)


def start_of(task_type: type[TaskType[Any]], name: str) -> Callable[..., Dialogue]:
    """Return the `start` function of that route."""
    start = route_of(task_type, name).start
    assert callable(start)
    return start
