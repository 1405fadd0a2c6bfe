"""Task types as tests ask for them: their routes by name, and task definitions that know theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from figeval import plugins
from figeval.evaluation import Harness
from figeval.spec import TaskSpec
from figeval.task_types.base import TaskType, TaskTypes
from figeval.task_types.routes import Dialogue, Route


@cache
def task_types() -> TaskTypes:
    """The task types of figeval itself."""
    return Harness(plugins.load(modules=())).task_types


def bound(**keys: Any) -> TaskSpec:
    """A task with these keys of a task file, bound to its task type as one of a catalogue is."""
    return TaskSpec.model_validate(keys).bound(task_types())


def route_of(task_type: type[TaskType[Any]], name: str) -> Route:
    """The route of this name that a task type brings along."""
    return next(route for route in task_type.routes if route.name == name)


def start_of(task_type: type[TaskType[Any]], name: str) -> Callable[..., Dialogue]:
    """The function with which that route begins."""
    start = route_of(task_type, name).start
    assert callable(start)
    return start
