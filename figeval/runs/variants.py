"""The variants of a task: the task itself, its other prompts, and probes, which remove something from the examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from figeval.config import RunConfig
from figeval.errors import MissingTemplate, TaskError
from figeval.io.files import is_file
from figeval.io.flag_types import TEMPLATE, template_parts
from figeval.io.text import near
from figeval.prompts import PromptTemplate, builtin_templates, load_template
from figeval.runs.counterparts import counterparts
from figeval.runs.harness import Harness
from figeval.runs.task_settings import apply_settings
from figeval.spec import TaskSpec
from figeval.task_types.probes import SUBSTITUTES
from figeval.types import Example

Kind: TypeAlias = Literal["task", "prompt", "probe"]
ALL_PROMPTS = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of a task, e.g. `epic_mcq`, `epic_mcq@moral` or `epic_mcq@no_query`.

    Attributes:
        task: task, with the template of the variant.
        examples: function that returns the examples of the variant.
        kind: the task itself, a prompt or a probe.
        name: part of the full name after the @; empty for the task itself.
        originals: function that returns the task's own examples, with the same ids, if this is a probe.
        is_floor: True if the scores are added to the baselines of the task.
        substitute_for: floor of the task for which this probe stands in where that says nothing, or an empty text.
    """

    task: TaskSpec
    examples: Callable[[], Iterator[Example]]
    kind: Kind = "task"
    name: str = ""
    originals: Callable[[], Iterator[Example]] = dataclasses.field(default=lambda: iter(()))
    is_floor: bool = False
    substitute_for: str = ""

    @property
    def full_name(self) -> str:
        """Name in records and file names."""
        return f"{self.task.name}@{self.name}" if self.name else self.task.name


def variants(task: TaskSpec, config: RunConfig, harness: Harness, *, substitutes: bool = False) -> Iterator[Variant]:
    """Yield the task itself, then the prompts of --prompts, then the probes: all with --probes, else only the floor.

    A floor is a baseline, so without --probes, --no_baselines leaves it out. With `substitutes`, the probe that may
    stand in for the floor (`figeval.runs.baselines`) comes after it.
    """
    examples = partial(harness.examples, task)
    yield Variant(task=task, examples=examples)
    for name in (name for name in task.prompts if name in config.prompts or ALL_PROMPTS in config.prompts):
        worded = task.with_prompt(name)
        yield Variant(task=worded, examples=partial(harness.examples, worded), kind="prompt", name=name)
    floor = (task.floor or "") if config.baselines else ""
    for name, probe in task.task_type.probes.items():
        substitute_for = floor if name == SUBSTITUTES.get(floor) else ""
        if config.probes or name == floor or (substitutes and substitute_for):
            yield Variant(
                task=task,
                examples=probe(examples, config.seed, task.name),
                kind="probe",
                name=name,
                originals=examples,
                is_floor=name == floor,
                substitute_for=substitute_for,
            )


def missing_probes(variant: Variant, config: RunConfig) -> tuple[str, ...]:
    """Return a remark on a task whose type declares no probes if --probes asks for them."""
    if not config.probes or variant.kind != "task" or variant.task.task_type.probes:
        return ()
    return (f"--probes adds no probe, since {variant.task.type} tasks declare no query to remove or exchange",)


def chosen_tasks(config: RunConfig, harness: Harness) -> list[TaskSpec]:
    """Return the tasks of --tasks, each replaced by its counterpart for --protocol and --split, with --set applied.

    Raises:
        UnknownName: there is no such task.
        TaskError: none of the tasks has a protocol, split or setting of that name.
    """
    tasks = counterparts(harness.catalogue.expand(config.tasks), config, harness, must_exist=True)
    return [with_template(task, config) for task in apply_settings(tasks, config, harness)]


def with_template(task: TaskSpec, config: RunConfig) -> TaskSpec:
    """Return a task with the template of --template. Raises `TaskError` if there is none of that name."""
    if not config.template:
        return task
    file, _ = template_parts(config.template)
    name = f"{config.template.removesuffix(TEMPLATE)}{TEMPLATE}" if file is None else file.name
    try:
        template = named_template(name, task) if file is None else load_template(name, file.parent)
    except MissingTemplate as error:
        if error.name != name:  # of a part that the template includes
            raise
        problem = f"there is no such file, and no template of this name{near(name, builtin_templates())}"
        cure = "see `figeval ls templates`"
        if is_file(Path(config.template).expanduser()):
            problem, cure = f"the name of a template ends in {TEMPLATE}", "rename the file"
        raise TaskError(f"--template {config.template}: {problem}; {cure}") from error
    return task.model_copy(update={"template": template.name, "replaced_template": template})


def named_template(name: str, task: TaskSpec) -> PromptTemplate:
    """Load a template of the task, of figeval or of the task's type. Raises `TaskError` if it is missing or broken."""
    kind = task.task_type
    is_of_type = name == kind.template and kind.folder is not None
    return load_template(name, kind.folder if is_of_type else task.folder)


def tasks_by_name(config: RunConfig, harness: Harness) -> frozenset[str]:
    """Return the names of tasks that --tasks names directly, not only through a suite, and of their counterparts."""
    registry = harness.catalogue.tasks
    tasks = (registry.get(name) for name in config.tasks if name in registry)
    return frozenset(task.name for task in counterparts(tasks, config, harness))


def check_prompts(tasks: Iterable[TaskSpec], names: Sequence[str]) -> None:
    """Raise `TaskError` if none of the tasks has one of the wanted prompts."""
    existing_prompts = {name: None for task in tasks for name in task.prompts}
    for name in names:
        if name not in existing_prompts and (name != ALL_PROMPTS or not existing_prompts):
            has = f"they have {', '.join(existing_prompts)}" if existing_prompts else "they have no other prompts"
            raise TaskError(f"--prompts {name}: none of these tasks has it{near(name, existing_prompts)}; {has}")
