"""Tasks that a run leaves out: they have no solved examples, no route of the model, or data that need a copy.

A task that --tasks names directly, not only through a suite, is only left out if it has no solved examples. All tasks
are never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from figeval.config import RunConfig
from figeval.errors import CapabilityError, MissingCopy, TaskError
from figeval.models.model import Model
from figeval.records.schema import OmissionRecord
from figeval.runs.harness import Harness
from figeval.runs.retrieval.shot_pools import FLAG, check_shot_flags, shot_source
from figeval.runs.variants import tasks_by_name
from figeval.spec import TaskSpec
from figeval.task_types.routes import Route

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class Omission:
    """A task that is left out, with the reason and the cure as the record says them of several tasks."""

    task: str
    reason: str
    cure: str


def solved_tasks(
    tasks: Sequence[TaskSpec], config: RunConfig, harness: Harness
) -> tuple[list[TaskSpec], list[Omission]]:
    """Split tasks into those that have the solved examples of --num_fewshot and those to leave out.

    Raises:
        UnknownName: there is no task of the name that --fewshot_from gives.
        TaskError: no task has solved examples, or a flag about them would have no effect.
    """
    check_shot_flags(config)
    if not config.num_fewshot:
        return list(tasks), []
    errors: dict[str, TaskError] = {}
    for task in tasks:
        try:
            shot_source(task, config, harness)
        except TaskError as error:
            errors[task.name] = error
    solved = [task for task in tasks if task.name not in errors]
    if errors and not solved:
        raise next(iter(errors.values()))
    reason, cure = "they have no train split with solved examples", f"{FLAG} TASK takes them from another task"
    if config.fewshot_from:
        reason = f"examples of {config.fewshot_from} cannot be shown for them"
        cure = "name one alone in --tasks to see why"
    return solved, [Omission(name, reason, cure) for name in errors]


def answerable(
    tasks: Sequence[TaskSpec], model: Model, harness: Harness, config: RunConfig
) -> tuple[list[TaskSpec], list[Omission]]:
    """Split tasks into those that the model has a route for and those to leave out.

    If no task would be left, all are kept, so that `route_of` can report what is missing.
    """

    def has_route(task: TaskSpec) -> bool:
        try:  # a route given by --route is looked up later, with its own error
            harness.choose_route(task, model.offers, None if task.type in config.routes else task.route)
        except CapabilityError:
            return False
        return True

    by_name = tasks_by_name(config, harness)
    tasks_to_run = [task for task in tasks if task.name in by_name or has_route(task)]
    if not tasks_to_run:
        return list(tasks), []
    reason, cure = "the model cannot answer them", "name one in --tasks to see why"
    return tasks_to_run, [Omission(task.name, reason, cure) for task in tasks if task not in tasks_to_run]


def available(
    plans_of: Callable[[TaskSpec, Route], Iterable[P]],
    tasks: Iterable[tuple[TaskSpec, Route]],
    by_name: frozenset[str],
) -> tuple[list[P], list[Omission]]:
    """Return the plans of all tasks whose data are here or can be fetched, and the other tasks.

    Raises:
        MissingCopy: a task in `by_name` needs a copy, or all tasks do.
    """
    plans: list[P] = []
    errors: dict[str, MissingCopy] = {}
    for task, route in tasks:
        try:
            plans += list(plans_of(task, route))
        except MissingCopy as error:
            if task.name in by_name:
                raise
            errors[task.name] = error
    if errors and not plans:
        raise next(iter(errors.values()))
    return plans, [Omission(name, "they need your copy of the data", error.cure) for name, error in errors.items()]


def omission_records(omissions: Iterable[Omission]) -> list[OmissionRecord]:
    """Return a record for each reason and cure."""
    names: dict[tuple[str, str], list[str]] = {}
    for omission in omissions:
        names.setdefault((omission.reason, omission.cure), []).append(omission.task)
    return [OmissionRecord(tasks=tasks, reason=reason, cure=cure) for (reason, cure), tasks in names.items()]
