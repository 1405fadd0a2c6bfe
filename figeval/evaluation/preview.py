"""What a model would see: the first requests of every route, made by the routes themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from figeval.config import RunConfig
from figeval.errors import CapabilityError, TaskError
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import context_of, flagged, opened, pool_of, route_of, shots_of, template_of
from figeval.evaluation.variants import Variant, check_prompts, variants
from figeval.models.model import Model
from figeval.prompts import PromptContext
from figeval.spec import TaskSpec
from figeval.task_types.routes import Route, routes_of
from figeval.types import Example, Request


@dataclass(frozen=True, slots=True)
class Asked:
    """The first round of one route about one example, or why the task cannot be put that way."""

    route: Route
    requests: Sequence[Request] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """A route with all that it needs to begin."""

    route: Route
    context: PromptContext | None = None
    refusal: str = ""

    def ask(self, example: Example) -> Asked:
        """What the route's first yield asks about an example."""
        if self.context is None:
            return Asked(self.route, refusal=self.refusal)
        try:
            return Asked(self.route, next(self.route.begin(example, self.context)))
        except (TaskError, CapabilityError) as error:
            return Asked(self.route, refusal=str(error))


def preview(config: RunConfig, harness: Harness, n: int) -> Iterator[tuple[Variant, Example, list[Asked]]]:
    """(variant, example, what would be asked) for the first n examples of each task, of its further prompts and probes:
    along the route that the model takes, along every route of the task type where `config.model` is empty.

    Raises:
        FigevalError: an unknown name, broken data, a task that the model cannot answer.
    """
    tasks = harness.catalogue.expand(config.tasks)
    check_prompts(tasks, config.prompts)
    model = opened(config, harness) if config.model else None
    for task in tasks:
        for variant in variants(task, config, harness):
            ways = ways_of(variant, model, config, harness)
            for example in islice(variant.examples(), n):
                yield variant, example, [way.ask(example) for way in ways]


def ways_of(variant: Variant, model: Model | None, config: RunConfig, harness: Harness) -> list[Way]:
    """The model's way of answering a task, or every way there is."""
    task = variant.task
    if model is not None:
        return [_way(task, route_of(task, model, harness, config), model, config, harness)]
    return [_tried(task, route, config, harness) for route in routes_of(task.type, harness.routes)]


def _way(task: TaskSpec, route: Route, model: Model | None, config: RunConfig, harness: Harness) -> Way:
    template, shots = template_of(task, route), shots_of(task, harness, config)
    context = context_of(task, route, template, shots, config, model)
    return Way(route, replace(context, metrics=frozenset(task.metrics), pool=pool_of(task, harness)))


def _tried(task: TaskSpec, route: Route, config: RunConfig, harness: Harness) -> Way:
    """A way, or why there is none: one route without a template block must not hide the others."""
    try:
        return _way(task, flagged(task, route, config), None, config, harness)
    except (TaskError, CapabilityError) as error:
        return Way(route, refusal=str(error))
