"""Settings of tasks (`--set`): other values for the settings that the routes of a task type declare.

`--set motif.temperature=2` is for a task, or for all tasks of a suite; `--set temperature=2` for every task that has
the setting. What is set for a task wins over what is set for a suite, and both over what is set for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from figeval.config import RunConfig
from figeval.errors import FigevalError, TaskError
from figeval.io.text import near
from figeval.runs.counterparts import counterparts
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec
from figeval.task_types.routes import Route


def apply_settings(tasks: Sequence[TaskSpec], config: RunConfig, harness: Harness) -> list[TaskSpec]:
    """Return the tasks with the values of --set.

    Raises:
        TaskError: a task is not among these, or has no such setting; or a value is of another type or out of range.
    """
    changes: dict[str, dict[str, Any]] = {task.name: {} for task in tasks}
    for key in sorted(config.settings, key=lambda key: _precedence(key, harness)):
        name = key.rpartition(".")[2]
        for task in tasks_of(key, tasks, config, harness):
            changes[task.name][name] = _check_type(
                config.settings[key], _declared_settings(task, harness)[name], f"--set {key}"
            )
    return [_with_settings(task, changes[task.name]) if changes[task.name] else task for task in tasks]


def tasks_of(key: str, tasks: Sequence[TaskSpec], config: RunConfig, harness: Harness) -> list[TaskSpec]:
    """Return the tasks that `TASK.SETTING`, `SUITE.SETTING` or `SETTING` means.

    A task may have its own name or that of the task in whose place --protocol or --split put it.

    Raises:
        TaskError: it is none of them, or none of its tasks has the setting.
    """
    target, _, name = key.rpartition(".")
    targets = list(tasks)
    if target:
        names = [task.name for task in tasks]
        is_registered = target in harness.catalogue.tasks or target in harness.catalogue.suites
        members = harness.catalogue.expand([target]) if is_registered else []
        names_of_members = {task.name for task in (*members, *counterparts(members, config, harness))}
        targets = [task for task in tasks if task.name in names_of_members]
        if not targets:
            raise TaskError(f"--set {key}: {target!r} is not among the tasks{near(target, names)}: {', '.join(names)}")
    tasks_with_setting = [task for task in targets if name in _declared_settings(task, harness)]
    if not tasks_with_setting:
        settings = {setting: None for task in targets for setting in _declared_settings(task, harness)}
        who = target or "these tasks"
        has = f"{who} {'has' if target else 'have'} {', '.join(settings) or 'no settings'}"
        raise TaskError(f"--set {key}: there is no setting {name!r}{near(name, settings)}; {has}")
    return tasks_with_setting


def settings_of(tasks: Sequence[TaskSpec], config: RunConfig, harness: Harness) -> dict[str, Any]:
    """Return the part of --set that is for these tasks, which may be a part of those of --tasks."""

    def is_for_one(key: str) -> bool:
        try:
            return bool(tasks_of(key, tasks, config, harness))
        except TaskError:
            return False

    return {key: value for key, value in config.settings.items() if is_for_one(key)}


def refuse_unused_settings(choices: Iterable[tuple[TaskSpec, Route]], config: RunConfig, harness: Harness) -> None:
    """Raise `TaskError` if --set would have no effect, since no route that the model takes has the setting."""
    routes = {task.name: (task, route) for task, route in choices}
    for key in config.settings:
        name = key.rpartition(".")[2]
        try:
            tasks_to_set = tasks_of(key, [task for task, _ in routes.values()], config, harness)
        except TaskError:  # the tasks that it means are left out
            continue
        targets = [routes[task.name] for task in tasks_to_set]
        if not any(name in route.settings for _, route in targets):
            task, route = targets[0]
            has = f"which has {', '.join(route.settings) or 'no settings'}"
            raise TaskError(f"--set {key}: {task.name} takes the route {route.name}, {has}; leave it out")


def check_settings(task: TaskSpec, harness: Harness) -> None:
    """Raise `TaskError` if no route of the task's type has a setting of its file, or if a value has another type."""
    declared, source = _declared_settings(task, harness), task.origin or task.name
    for name, value in task.settings.items():
        if name not in declared:
            has = f"they have {', '.join(declared)}" if declared else "they have none"
            raise TaskError(
                f"{source}: no route of {task.type} tasks has the setting {name!r}{near(name, declared)}; {has}"
            )
        _check_type(value, declared[name], f"{source}: the setting {name!r}")


def _declared_settings(task: TaskSpec, harness: Harness) -> dict[str, Any]:
    """Return the settings that the routes of a task's type declare, with their defaults."""
    declared: dict[str, Any] = {}
    for route in harness.routes.of(task.type):
        declared.update(route.settings)
    return declared


def _precedence(key: str, harness: Harness) -> int:
    """Return 0 for a setting of all tasks, 1 for one of a suite, and 2 for one of a task."""
    target = key.rpartition(".")[0]
    return 0 if not target else 1 if target in harness.catalogue.suites else 2


def _check_type(value: Any, default: Any, source: str) -> Any:
    """Return a value as the type of its default. Raises `TaskError` if it is of another type."""
    match default:
        case bool() if not isinstance(value, bool):
            raise TaskError(f"{source} is true or false, not {value!r:.80}")
        case int() | float() if not isinstance(default, bool):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TaskError(f"{source} is a number, not {value!r:.80}")
            if isinstance(default, float):
                return float(value)
            if value != int(value):
                raise TaskError(f"{source} is a whole number, not {value!r:.80}")
            return int(value)
        case str() if not isinstance(value, str):
            raise TaskError(f"{source} is a text, not {value!r:.80}")
    return value


def _with_settings(task: TaskSpec, changes: Mapping[str, Any]) -> TaskSpec:
    """Return a task with other settings. Raises `TaskError` if its type refuses a value."""
    changed = task.model_copy(update={"settings": {**task.settings, **changes}})
    try:
        task.task_type.check(changed)
    except (ValueError, FigevalError) as error:
        shown = ",".join(f"{task.name}.{name}={value}" for name, value in changes.items())
        raise TaskError(f"--set {shown}: {error}") from error
    return changed
