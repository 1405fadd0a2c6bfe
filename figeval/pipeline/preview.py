"""What a model would see: the first requests of every route, made by the routes themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from figeval.backends.models import open_model
from figeval.config import RunConfig
from figeval.errors import TaskError
from figeval.pipeline.harness import Harness
from figeval.pipeline.plan import PROMPTED, briefing_of, route_of, shots_of, template_of
from figeval.protocols.routes import Briefing, Route
from figeval.taskdef import TaskSpec
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
    briefing: Briefing | None = None
    refusal: str = ""

    def ask(self, example: Example) -> Asked:
        """What the route's first yield asks about an example."""
        if self.briefing is None:
            return Asked(self.route, refusal=self.refusal)
        try:
            return Asked(self.route, next(self.route.start(example, self.briefing)))
        except TaskError as error:
            return Asked(self.route, refusal=str(error))


def preview(config: RunConfig, harness: Harness, n: int) -> Iterator[tuple[TaskSpec, Example, list[Asked]]]:
    """The first n examples of each task with what would be asked: along the route that the model takes, along every
    route of the protocol where `config.model` is empty.

    Raises:
        FigevalError: an unknown name, broken data, a task that the model cannot answer.
    """
    for task in harness.catalogue.expand(config.tasks):
        ways = ways_of(task, config, harness)
        for example in islice(harness.examples(task), n):
            yield task, example, [way.ask(example) for way in ways]


def ways_of(task: TaskSpec, config: RunConfig, harness: Harness) -> list[Way]:
    """The model's way of answering a task, or every way there is."""
    if config.model:
        model = open_model(harness.backends, config.model, config.model_args, {"seed": config.seed})
        return [_way(task, route_of(task, model, harness, config), config, harness)]
    return [_tried(task, route, config, harness) for route in harness.routes if route.protocol == task.protocol]


def _way(task: TaskSpec, route: Route, config: RunConfig, harness: Harness) -> Way:
    return Way(route, briefing_of(task, template_of(task, route), shots_of(task, harness, config), config))


def _tried(task: TaskSpec, route: Route, config: RunConfig, harness: Harness) -> Way:
    """A way, or why there is none: one route without a template block must not hide the others."""
    if config.num_fewshot and not route.needs & PROMPTED:
        return Way(route, refusal="shows no solved examples, so --num_fewshot is refused")
    try:
        return _way(task, route, config, harness)
    except TaskError as error:
        return Way(route, refusal=str(error))
