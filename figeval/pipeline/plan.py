"""Settles everything that can be wrong before a model's weights are touched: names, capabilities, data, templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from figeval.backends.models import Model, open_model
from figeval.config import RunConfig
from figeval.errors import CapabilityError, TaskError, near
from figeval.metrics.catalogue import Metric, applicable
from figeval.pipeline.harness import Harness
from figeval.prompt import PromptTemplate, Shots, load_template
from figeval.protocols.routes import Briefing, Route, choose
from figeval.protocols.shown import solved
from figeval.taskdef import TaskSpec
from figeval.taskdef.survey import Survey, first, survey
from figeval.types import Example

PROMPTED = frozenset({"loglikelihood", "generate"})  # capabilities that read a prompt, where shots can stand
BLOCK_OF = {"loglikelihood": "context", "fill": "cloze", "generate": "context"}


@dataclass(frozen=True, slots=True)
class Plan:
    """A task with all that was settled about it beforehand."""

    task: TaskSpec
    route: Route
    metrics: tuple[Metric, ...]
    briefing: Briefing
    template: PromptTemplate | None  # None on routes that show the model no prompt
    all_examples: Callable[[], Iterator[Example]]
    fit_examples: Callable[[tuple[str, ...]], Iterator[Example]]
    available: Survey
    limit: int | None

    @property
    def n(self) -> int:
        """Examples after --limit."""
        return self.available.n if self.limit is None else min(self.limit, self.available.n)

    def examples(self) -> Iterator[Example]:
        """The examples to be scored."""
        return first(self.all_examples(), self.limit)

    def source(self, splits: tuple[str, ...]) -> tuple[str, ...]:
        """What tells the examples of a split from those of another task: where they come from and how they are made."""
        if self.task.examples is not None:
            return (self.task.name,)
        split = self.task.split(*splits) or "test"
        return (self.task.owner, self.task.data[split], repr(self.task.fields), *self.task.labels)

    def settings(self, config: RunConfig) -> dict[str, Any]:
        """What the record says of how the task was put."""
        briefing = self.briefing
        found: dict[str, Any] = {"num_fewshot": config.num_fewshot, "split": "test"}
        if briefing.labels:
            found["labels"] = list(briefing.labels)
        if "threshold" in self.route.name:
            found["threshold"] = briefing.threshold
        if "fill" in self.route.needs or "loglikelihood" in self.route.needs:
            found["verbalizer"] = {label: list(briefing.words(label)) for label in briefing.labels}
        return found


def prepare(config: RunConfig, harness: Harness) -> tuple[Model, list[Plan]]:
    """Model and plans; routes are chosen for all tasks before any data is read, and all data before any weights.

    Raises:
        FigevalError: an unknown name, a task that the model cannot answer, a wrong template, broken data.
    """
    tasks = harness.catalogue.expand(config.tasks)
    common = {"device": config.device, "batch_size": config.batch_size, "seed": config.seed}
    model = open_model(harness.backends, config.model, config.model_args, common)
    routes = [route_of(task, model, harness, config) for task in tasks]
    plans = [_plan(task, route, harness, config) for task, route in zip(tasks, routes, strict=True)]
    _check_breakdowns(config, plans)
    return model, plans


def route_of(task: TaskSpec, model: Model, harness: Harness, config: RunConfig) -> Route:
    """The route that a model takes on a task. Raises `CapabilityError` where there is none."""
    try:
        route = choose(task.protocol, model.offers, harness.routes, config.routes.get(task.protocol))
    except CapabilityError as error:
        raise CapabilityError(
            f"{model.name} cannot answer {task.name}: {error}; leave {task.name} out of --tasks, or take another model"
        ) from error
    if config.num_fewshot and not route.needs & PROMPTED:
        raise CapabilityError(f"{task.name} goes {route.name}, which shows no examples; leave out --num_fewshot")
    return route


def _plan(task: TaskSpec, route: Route, harness: Harness, config: RunConfig) -> Plan:
    template = template_of(task, route)
    all_examples = partial(harness.examples, task)
    available = survey(task.name, all_examples)
    briefing = briefing_of(task, template, shots_of(task, harness, config), config)
    next(route.start(next(all_examples()), briefing))  # a template that does not render fails here, not after loading
    return Plan(
        task=task,
        route=route,
        metrics=tuple(applicable(harness.metrics, task.metrics, task.protocol, route.name)),
        briefing=briefing,
        template=template,
        all_examples=all_examples,
        fit_examples=partial(_fit_examples, harness, task),
        available=available,
        limit=config.limit,
    )


def blocks_of(route: Route) -> frozenset[str]:
    """The template blocks that a route cannot do without."""
    return frozenset(BLOCK_OF[capability] for capability in route.needs & set(BLOCK_OF))


def template_file(task: TaskSpec) -> PromptTemplate:
    """The template that a task names, else that of its protocol. Raises `TaskError` if it is missing or broken."""
    return load_template(task.template or f"_default/{task.protocol}.jinja", task.folder)


def template_of(task: TaskSpec, route: Route) -> PromptTemplate | None:
    """The template of a task, on a route that uses one; it must have the blocks that the route renders."""
    blocks = blocks_of(route)
    if not blocks:
        return None
    template = template_file(task)
    for block in sorted(blocks - template.blocks):
        raise TaskError(f"{task.name} goes {route.name}, but template {template.name} has no block {block!r}")
    return template


def _fit_examples(harness: Harness, task: TaskSpec, splits: tuple[str, ...]) -> Iterator[Example]:
    """The examples that a model may learn word weights or label frequencies from."""
    return harness.examples(task, task.split(*splits) or "test")


def shots_of(task: TaskSpec, harness: Harness, config: RunConfig) -> Shots:
    """The few-shot pool of a task: its training split."""
    if not config.num_fewshot:
        return Shots((), 0, config.seed)
    if "train" not in task.data:
        raise TaskError(f"{task.name} has no train split to take examples from; leave out --num_fewshot")
    return Shots(list(harness.examples(task, "train")), config.num_fewshot, config.seed)


def variables(example: Example) -> dict[str, Any]:
    """What a template may say of an example: its fields, and `meta`."""
    return {field.name: getattr(example, field.name) for field in fields(example)}


def briefing_of(task: TaskSpec, template: PromptTemplate | None, shots: Shots, config: RunConfig) -> Briefing:
    """What a route may know of the task, with the prompt put together."""
    threshold = task.threshold if config.threshold is None else config.threshold

    def bare(block: str, example: Example, **extra: Any) -> str:
        if template is None:
            raise TaskError(
                f"{task.name}: a route that asks for the prompt block {block!r} must need a capability "
                f"that reads prompts ({', '.join(BLOCK_OF)})"
            )
        return template.render(block, {**variables(example), **extra})

    plain = Briefing(bare, task.labels, threshold, dict(task.verbalizer))
    if not shots.k:
        return plain

    def with_shots(block: str, example: Example, **extra: Any) -> str:
        text = bare(block, example, **extra)
        if block != "context":
            return text
        return "".join(solved(shot, plain) + "\n\n" for shot in shots.before(example)) + text

    return Briefing(with_shots, task.labels, threshold, dict(task.verbalizer))


def _check_breakdowns(config: RunConfig, plans: list[Plan]) -> None:
    known = {key for plan in plans for key in plan.available.meta_keys}
    for key in config.by:
        if key not in known:
            has = ", ".join(sorted(known)) or "no meta columns"
            raise TaskError(f"--by {key}: none of these tasks has it{near(key, known)}; they have {has}")
