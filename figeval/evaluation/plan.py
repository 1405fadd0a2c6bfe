"""Settles everything that can be wrong before a model's weights are touched: names, capabilities, data, templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from figeval.config import RunConfig
from figeval.errors import CapabilityError, ModelError, TaskError, near
from figeval.evaluation.harness import Harness
from figeval.evaluation.prompting import check_settings, context_of, pool_of, prompting, shots_of, template_of
from figeval.evaluation.variants import Variant, check_prompts, chosen, variants
from figeval.metrics.catalogue import Metrics, statistic_of
from figeval.models.model import Model, open_model
from figeval.prompts import PromptContext, PromptTemplate, Shots
from figeval.spec import TaskSpec
from figeval.spec.examples import check_languages
from figeval.spec.survey import Survey, first, survey
from figeval.task_types.base import Metric
from figeval.task_types.orders import in_orders
from figeval.task_types.routes import Route, choose
from figeval.types import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A task, put in one way, with all that was settled about it beforehand."""

    variant: Variant
    route: Route
    metrics: tuple[Metric, ...]
    baselines: tuple[str, ...]
    context: PromptContext
    template: PromptTemplate | None  # None on routes that show the model no prompt
    fit_examples: Callable[[tuple[str, ...]], Iterator[Example]]
    available: Survey
    notes: Mapping[str, Any]  # what the reader of the data says of it
    signatures: Mapping[str, str]  # what the libraries behind metrics say of how they compute them
    config: RunConfig

    @property
    def task(self) -> TaskSpec:
        """The task, with the template of the variant."""
        return self.variant.task

    @property
    def name(self) -> str:
        """Of the task and the variant."""
        return self.variant.full_name

    @property
    def n(self) -> int:
        """Examples after --limit."""
        return self.available.n if self.config.limit is None else min(self.config.limit, self.available.n)

    @property
    def extractor(self) -> str | None:
        """The version of what reads the answers, on routes where there is something to read."""
        return self.route.reader.version if self.route.reader is not None else None

    def examples(self) -> Iterator[Example]:
        """The examples to be scored."""
        return first(self.variant.examples(), self.config.limit)

    def originals(self) -> Iterator[Example]:
        """Of a probe, the examples as they stand in the task, with the same ids; else none."""
        return first(self.variant.originals(), self.config.limit)

    def source(self, splits: tuple[str, ...]) -> tuple[str, ...]:
        """What tells the examples of a split from those of another task: where they come from and how they are made."""
        if self.task.examples is not None:
            return (self.task.name,)
        split = self.task.split(*splits) or "test"
        return (self.task.owner, self.task.data[split], repr(self.task.fields), *self.task.labels)

    @property
    def settings(self) -> dict[str, Any]:
        """What the record says of how the task was put. What was not asked for is left out."""
        context, config = self.context, self.config
        found: dict[str, Any] = {"num_fewshot": config.num_fewshot, "split": "test", **self.notes}
        if len(self.task.languages) > 1:
            found["languages"] = list(self.task.languages)
        if context.labels:
            found["labels"] = list(context.labels)
        found |= context.settings
        if self.route.renders:
            found |= prompting(self.task, context, self.available)
        if self.route.parts:
            found["routes"] = {part.task_type: part.name for part in self.route.parts}
        if "generate" in self.route.needs:
            found |= {"stop": list(context.stop), "max_new_tokens": context.max_new_tokens}
        if self.signatures:
            found["signatures"] = dict(self.signatures)
        if config.num_fewshot and config.shots != "per_example":
            found["shots"] = config.shots
        scored = bool(context.labels) and bool(self.route.needs & {"fill", "loglikelihood"})
        given = {
            "decision": scored and "argmax",  # over the labels' words; earlier, a label's words were added up
            "chat_template": context.chat is not None,
            "system_instruction": config.system_instruction,
            "orders": config.orders,
        }
        return found | {key: value for key, value in given.items() if value}


def prepare(config: RunConfig, harness: Harness) -> tuple[Model, list[Plan], list[TaskSpec]]:
    """Model, plans, and the tasks of suites that such a model cannot answer.

    Routes are chosen for all tasks before any data is read, and all data before any weights.

    Raises:
        FigevalError: an unknown name, a task that the model cannot answer, a wrong template, broken data.
    """
    asked = chosen(config, harness)
    check_prompts(asked, config.prompts)
    check_metrics(asked, config, harness.metrics)
    model = opened(config, harness)
    for task_type in config.routes:
        harness.task_types.entry(task_type)  # which says what there is
    for task in asked:
        check_settings(task, harness)
    tasks, left_out = answerable(asked, model, harness, config)
    planner = Planner(config, harness, model)
    routes = [route_of(task, model, harness, config) for task in tasks]
    check_temperature(routes, config)
    plans = [plan for task, route in zip(tasks, routes, strict=True) for plan in planner.plans(task, route)]
    _check_breakdowns(config, plans)
    return model, plans, left_out


def answerable(
    tasks: Sequence[TaskSpec], model: Model, harness: Harness, config: RunConfig
) -> tuple[list[TaskSpec], list[TaskSpec]]:
    """The tasks for which the model has some route or that were asked for by name, and the others, out of suites.

    A suite of which nothing would be left is kept whole: why it cannot be answered is said of its first task.
    """
    kept = [task for task in tasks if task.name in config.tasks or has_way(task, model, harness, config)]
    return (kept, [task for task in tasks if task not in kept]) if kept else (list(tasks), [])


def has_way(task: TaskSpec, model: Model, harness: Harness, config: RunConfig) -> bool:
    """Whether there is a route to the task, or the one that it insists on; what --route asks for is looked at later."""
    known = [one for one in harness.routes if one.tells(task.labels)]
    try:
        choose(task.type, model.offers, known, None if task.type in config.routes else task.route)
    except CapabilityError:
        return False
    return True


def opened(config: RunConfig, harness: Harness) -> Model:
    """The model of --model.

    Raises:
        UnknownName, ModelError: there is no such model, or several processes would not be faster with it.
        CapabilityError: it has no chat template to apply, or nothing else.
    """
    flags = ("device", "batch_size", "seed", "apply_chat_template", "max_cost", "max_tokens")
    common = {flag: getattr(config, flag) for flag in flags} | {"account": config.identity()}
    model = open_model(harness.backends, config.model, config.model_args, common)
    if config.processes > 1 and getattr(model.backend, "at_once", 1) > 1:  # they would share out one budget, too
        raise ModelError(f"{model.name} answers many requests at once by itself; leave out --processes")
    if config.apply_chat_template is True and not model.converses:
        raise CapabilityError(f"{model.name} has no chat template to apply; leave out --apply_chat_template")
    if config.apply_chat_template is False and model.converses:
        raise CapabilityError(f"{model.name} answers conversations only; leave out --no_chat_template")
    return model


def route_of(task: TaskSpec, model: Model, harness: Harness, config: RunConfig) -> Route:
    """The route that a model takes on a task. Raises `CapabilityError` where there is none, or a flag is lost on it."""
    try:
        wanted = config.routes.get(task.type, task.route)
        known = [one for one in harness.routes if allowed(one, task, config, wanted)]
        route = choose(task.type, model.offers, known, wanted)
    except CapabilityError as error:
        raise CapabilityError(
            f"{model.name} cannot answer {task.name}: {error}; leave {task.name} out of --tasks, or take another model"
        ) from error
    return flagged(task, route, config)


def allowed(route: Route, task: TaskSpec, config: RunConfig, wanted: str | None) -> bool:
    """Whether a route may be taken, or stand in one that puts routes together: --route names others for its task type,
    and some tell only so many labels apart (one that was asked for says so itself).
    """
    if route.task_type == task.type:
        return route.name == wanted or route.tells(task.labels)
    return config.routes.get(route.task_type, route.name) == route.name


LOST = {
    "num_fewshot": "shows no examples",
    "system_instruction": "has no place for a system message",
    "prompts": "shows no prompt",
}


def flagged(task: TaskSpec, route: Route, config: RunConfig) -> Route:
    """The route as --orders changes it. Raises `CapabilityError` for a flag that would change nothing on it."""
    for flag, why in LOST.items():
        if getattr(config, flag) and not route.is_prompted:
            raise CapabilityError(f"{task.name} goes {route.name}, which {why}; leave out --{flag}")
    if not config.orders:
        return route
    try:
        return in_orders(route, config.orders, config.seed)
    except CapabilityError as error:
        raise CapabilityError(f"{task.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes plans for one model."""

    config: RunConfig
    harness: Harness
    model: Model

    def plans(self, task: TaskSpec, route: Route) -> Iterator[Plan]:
        """One for each variant of the task; the task itself first."""
        available: Survey | None = None
        for variant in variants(task, self.config, self.harness):
            if available is None or variant.kind == "probe":  # another prompt asks about the same examples
                available = survey(variant.full_name, variant.examples, self.config.limit)
                check_languages(task, available.languages)
            yield self._plan(variant, route, shots_of(variant.task, self.harness, self.config), available)

    def _plan(self, variant: Variant, route: Route, shots: Shots, available: Survey) -> Plan:
        task = variant.task
        metrics = metrics_of(task, route, self.config, self.harness.metrics)
        template = template_of(task, route)
        context = replace(
            context_of(task, route, template, shots, self.config, self.model),
            metrics=frozenset(metric.name for metric in metrics),
            pool=pool_of(task, self.harness),
        )
        next(route.begin(next(variant.examples()), context))  # a wrong template fails here, not after loading
        probed = ("overlap",) if self.config.probes else ()
        return Plan(
            variant=variant,
            route=route,
            metrics=metrics,
            baselines=tuple(dict.fromkeys((*task.baselines, *probed))) if variant.kind == "task" else (),
            context=context,
            template=template,
            fit_examples=partial(_fit_examples, self.harness, task),
            available=available,
            notes=self.harness.notes(task),
            signatures=signatures(metrics, task),
            config=self.config,
        )


def metrics_of(task: TaskSpec, route: Route, config: RunConfig, metrics: Metrics) -> tuple[Metric, ...]:
    """The task's metrics, those of --metrics, and what the route computes beside them."""
    asked_for = [name for name in config.metrics if applies(name, task, metrics)]
    names = list(dict.fromkeys((*task.metrics, *asked_for, *route.metrics)))
    return tuple(metrics.applicable(names, task.type, route.name))


def signatures(metrics: Sequence[Metric], task: TaskSpec) -> dict[str, str]:
    """By metric, where a library computes it. Raises `FigevalError` where it could not."""
    found = {metric.name: statistic_of(metric, task.labels).signature for metric in metrics}
    return {name: signature() for name, signature in found.items() if signature is not None}


def applies(name: str, task: TaskSpec, metrics: Metrics) -> bool:
    """Whether a metric is for the task's type. Raises `UnknownName` if there is none of that name."""
    return any(metric.is_for(task.type) for metric in metrics.named(name))


def check_metrics(tasks: Sequence[TaskSpec], config: RunConfig, metrics: Metrics) -> None:
    """Raise `TaskError` for a metric of --metrics that none of the tasks could have."""
    for name in config.metrics:
        if not any(applies(name, task, metrics) for task in tasks):
            raise TaskError(f"--metrics {name}: it is for {' and '.join(metrics.types_of(name))}, not these tasks")


def check_temperature(routes: Sequence[Route], config: RunConfig) -> None:
    """Raise `TaskError` for a --temperature that would change nothing."""
    if "temperature" in config.settings and not any("temperature" in route.settings for route in routes):
        raise TaskError("--temperature is of distributions that are compared, and these tasks have none; leave it out")


def _fit_examples(harness: Harness, task: TaskSpec, splits: tuple[str, ...]) -> Iterator[Example]:
    """The examples that a model may learn word weights or label frequencies from."""
    return harness.examples(task, task.split(*splits) or "test")


def _check_breakdowns(config: RunConfig, plans: list[Plan]) -> None:
    known = {key for plan in plans for key in plan.available.meta_keys}
    for key in config.by:
        if key not in known:
            has = ", ".join(sorted(known)) or "no meta columns"
            raise TaskError(f"--by {key}: none of these tasks has it{near(key, known)}; they have {has}")
