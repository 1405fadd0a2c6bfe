"""The requests that a model would get, for `figeval preview`; they are made by the routes themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from figeval.config import RunConfig
from figeval.errors import CapabilityError, DataError, TaskError
from figeval.io.text import near
from figeval.models.model import Model
from figeval.prompts import PromptContext, Shots
from figeval.runs.harness import Harness
from figeval.runs.limits import apply_flags, is_askable
from figeval.runs.plan import context_of, model_of, pool_of, route_of, template_of
from figeval.runs.retrieval.augmentation import Augmenter, augmenter
from figeval.runs.retrieval.shots import shots_of
from figeval.runs.variants import Variant, check_prompts, chosen_tasks, variants
from figeval.spec import TaskSpec
from figeval.task_types.routes import Route
from figeval.types import Example, Request, Text


@dataclass(frozen=True, slots=True)
class Asked:
    """The first round of one route's requests about one example, or the reason why there is none."""

    route: Route
    requests: Sequence[Request] = ()
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class PreviewedRoute:
    """A route with its context, or the reason why it cannot be used for the task; the model, if one takes it."""

    route: Route
    context: PromptContext | None = None
    refusal: str = ""
    model: Model | None = None

    def ask(self, example: Example) -> Asked:
        """Return the first round of requests about an example."""
        if self.context is None:
            return Asked(self.route, refusal=self.refusal)
        try:
            requests = self.route.first_requests(example, self.context)
            return Asked(self.route, with_prompts(requests, self.model))
        except (TaskError, CapabilityError) as error:
            return Asked(self.route, refusal=str(error))


def with_prompts(requests: Sequence[Request], model: Model | None) -> Sequence[Request]:
    """Return requests as a model reads them: an encoder puts its prompt before a text, if `describe` says so."""
    if model is None or not any(isinstance(request, Text) for request in requests):
        return requests
    prompts = model.description().get("prompts")
    if not isinstance(prompts, dict):
        return requests
    return [
        replace(request, text=f"{prompts.get(request.role or 'text', '')}{request.text}")
        if isinstance(request, Text)
        else request
        for request in requests
    ]


def preview(
    config: RunConfig, harness: Harness, n: int, ids: Sequence[str] = ()
) -> Iterator[tuple[Variant, Example, list[Asked]]]:
    """Yield (variant, example, requests) for the first n examples of each variant of each task, or for those with ids.

    The requests are those of the route that the model takes, or of every route of the task type if there is no
    `config.model`.

    Raises:
        FigevalError: a name or an id is unknown, the data are broken, or the model cannot answer a task.
    """
    tasks = chosen_tasks(config, harness)
    check_prompts(tasks, config.prompts)
    if ids:
        _check_ids(tasks, ids, harness)
    model = model_of(config, harness) if config.model else None
    for task in tasks:
        augment = augmenter(task, config.augment, harness, config.device)
        for variant in variants(task, config, harness):
            if model is not None:
                taken = route_of(variant.task, model, harness, config)
                routes = [_preview_route(variant.task, taken, model, config, harness, augment)]
            else:
                candidates = harness.routes.of(task.type)
                routes = [_previewed_or_refused(variant.task, route, config, harness, augment) for route in candidates]
            chosen = (
                (example for example in variant.examples() if example.id in ids)
                if ids
                else islice(variant.examples(), n)
            )
            for example in chosen:
                model_input = example if augment is None else augment(example)
                yield variant, example, [route.ask(model_input) for route in routes]


def _check_ids(tasks: Sequence[TaskSpec], ids: Sequence[str], harness: Harness) -> None:
    """Raise `DataError` if none of the tasks has an example with one of the ids."""
    existing_ids = {example.id: None for task in tasks for example in harness.examples(task)}
    for example_id in ids:
        if example_id not in existing_ids:
            names = ", ".join(task.name for task in tasks)
            raise DataError(f"--id {example_id!r:.80}: {names} has no such example{near(example_id, existing_ids)}")


def _preview_route(
    task: TaskSpec, route: Route, model: Model | None, config: RunConfig, harness: Harness, augment: Augmenter | None
) -> PreviewedRoute:
    template = template_of(task, route)
    context = context_of(task, route, template, Shots((), 0, 0), config, model)
    shots = shots_of(task, harness, config, augment, partial(is_askable, route, context))
    context = replace(context, shots=shots.before)
    context = replace(context, metrics=frozenset(task.metrics), pool=pool_of(task, harness))
    return PreviewedRoute(route, context, model=model)


def _previewed_or_refused(
    task: TaskSpec, route: Route, config: RunConfig, harness: Harness, augment: Augmenter | None
) -> PreviewedRoute:
    try:  # one route without a template block must not hide the others
        return _preview_route(task, apply_flags(task, route, config), None, config, harness, augment)
    except (TaskError, CapabilityError) as error:
        return PreviewedRoute(route, refusal=str(error))
