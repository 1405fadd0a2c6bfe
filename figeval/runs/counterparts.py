"""The counterparts of tasks, which --protocol and --split put in their place."""

from __future__ import annotations

from collections.abc import Iterable

from figeval.config import RunConfig
from figeval.errors import TaskError
from figeval.io.text import near
from figeval.runs.harness import Harness
from figeval.spec import TaskSpec

INSTEAD = {"protocol": "protocols", "split": "splits"}  # flag → field of a task, which maps names to other tasks
ITSELF = ("split", "test")  # flag and value that mean the task itself


def counterparts(
    tasks: Iterable[TaskSpec], config: RunConfig, harness: Harness, *, must_exist: bool = False
) -> list[TaskSpec]:
    """Return the tasks, each replaced by its counterpart for --protocol and --split, if it has one.

    Raises:
        TaskError: none of the tasks has a protocol or split of that name, although it `must_exist`.
    """
    replaced = list(tasks)
    for flag, field in INSTEAD.items():
        choice = getattr(config, flag)
        if choice and (flag, choice) != ITSELF:
            names = {name: None for task in replaced for name in getattr(task, field)}
            if must_exist and choice not in names:
                has = f"they have {', '.join(names)}" if names else "they have no others"
                raise TaskError(f"--{flag} {choice}: none of these tasks has it{near(choice, names)}; {has}")
            replaced = harness.catalogue.expand([getattr(task, field).get(choice, task.name) for task in replaced])
    return replaced
