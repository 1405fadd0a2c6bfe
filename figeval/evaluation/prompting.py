"""Puts a task's prompt together: template, solved examples, system message, and how the model reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from figeval.config import RunConfig
from figeval.errors import TaskError, near
from figeval.evaluation.harness import Harness
from figeval.models.model import Model
from figeval.prompts import LETTERS, PromptContext, PromptTemplate, Shots, load_template
from figeval.spec import TaskSpec
from figeval.spec.survey import Survey
from figeval.task_types.routes import Route, routes_of
from figeval.types import Example

PARAGRAPH = ("\n\n",)  # where a model that merely goes on with a text has given its answer
SHORT, LONG = 16, 512  # new tokens: a letter or a word, and what a chat model says before it


def template_file(task: TaskSpec) -> PromptTemplate:
    """The template that a task names, else that of its task type. Raises `TaskError` if it is missing or broken."""
    return load_template(task.template, task.folder) if task.template else default_template(task)


def default_template(task: TaskSpec) -> PromptTemplate:
    """The template of a task's type. Raises `TaskError` if it is missing or broken."""
    return load_template(task.task_type.template, task.task_type.folder or task.folder)


def template_of(task: TaskSpec, route: Route) -> PromptTemplate | None:
    """The template of a task on a route that uses one: the task's own if it has the blocks that the route renders,
    else that of its task type.

    Raises:
        TaskError: neither has them, or a template is missing or broken.
    """
    if not route.renders:
        return None
    own = template_file(task)
    if route.renders <= own.blocks:
        return own
    general = default_template(task)
    for block in sorted(route.renders - general.blocks):
        raise TaskError(f"{task.name} goes {route.name}, but neither {own.name} nor {general.name} has {block!r}")
    return general


def shots_of(task: TaskSpec, harness: Harness, config: RunConfig) -> Shots:
    """The few-shot pool of a task: its training split."""
    if not config.num_fewshot:
        return Shots((), 0, config.seed)
    if "train" not in task.data:
        raise TaskError(f"{task.name} has no train split to take examples from; leave out --num_fewshot")
    pool = [example.for_prompt() for example in harness.examples(task, "train")]
    return Shots(pool, config.num_fewshot, config.seed, shared=config.shots == "shared")


def pool_of(task: TaskSpec, harness: Harness) -> Callable[[], Sequence[Example]]:
    """The examples of a task's training split, none without one; read when they are first asked for."""
    return cache(lambda: list(harness.examples(task, "train")) if "train" in task.data else [])


def variables(example: Example) -> dict[str, Any]:
    """What a template may say of an example: its fields, and `meta`."""
    names = example.__dataclass_fields__  # fields() is slow
    return {name: getattr(example, name) for name in names if name != "prompted"}


def context_of(
    task: TaskSpec,
    route: Route | None,
    template: PromptTemplate | None,
    shots: Shots,
    config: RunConfig,
    model: Model | None = None,
) -> PromptContext:
    """What a route may know of the task, with the prompt put together; without a model as one that knows no chat."""
    converses = model is not None and model.converses
    return PromptContext(
        block=_renderer(task, template),
        labels=task.labels,
        settings=settings_of(task, route, config) if route is not None else {},
        verbalizer=dict(task.verbalizer),
        shots=shots.before,
        few_shot_answer=task.task_type.few_shot_answer,
        system=config.system_instruction,
        chat=model.chat if model is not None else None,
        stop=() if converses else PARAGRAPH,
        max_new_tokens=config.max_new_tokens or max(task.max_new_tokens or SHORT, LONG if converses else 0),
    )


def settings_of(task: TaskSpec, route: Route, config: RunConfig) -> dict[str, Any]:
    """Return the settings that a route obeys: of a flag, else of the task file, else the route's own."""
    given = {**task.settings, **config.settings}
    return {name: given.get(name, default) for name, default in route.settings.items()}


def check_settings(task: TaskSpec, harness: Harness) -> None:
    """Raise `TaskError` for a setting that no route of the task's type obeys, or a word where a number is wanted."""
    declared: dict[str, Any] = {}
    where = task.origin or task.name
    for route in routes_of(task.type, harness.routes):
        declared.update(route.settings)
    for name, value in task.settings.items():
        if name not in declared:
            has = f"they have {', '.join(declared)}" if declared else "they have none"
            raise TaskError(
                f"{where}: no route of {task.type} tasks has the setting {name!r}{near(name, declared)}; {has}"
            )
        if is_number(declared[name]) and not is_number(value):
            raise TaskError(f"{where}: the setting {name!r} is a number, not {value!r:.80}")


def is_number(value: object) -> bool:
    """Whether a setting is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def prompting(task: TaskSpec, context: PromptContext, available: Survey) -> dict[str, Any]:
    """Return what the record says of a route that renders prompts: words for labels, and the fields that prompts show
    in other words than other models read, with a digest of what is shown.
    """
    found: dict[str, Any] = {"verbalizer": {label: list(context.words(label)) for label in task.labels}}
    if task.prompt_fields:
        found["prompt_fields"] = {"names": sorted(task.prompt_fields), "sha256": available.prompted_sha256}
    return found


def _renderer(task: TaskSpec, template: PromptTemplate | None) -> Callable[..., str]:
    """A function of block and example; templates know the example's fields, `letters` and the label `words`."""
    words = [word for label in task.labels for word in task.verbalizer.get(label, (label,))]

    def block(name: str, example: Example, **extra: Any) -> str:
        if template is None:
            raise TaskError(
                f"{task.name}: the route renders the prompt block {name!r} and does not say so; declare it as "
                "`question` or among its `blocks`"
            )
        return template.render(name, {"letters": LETTERS, "words": words, **variables(example), **extra})

    return block
