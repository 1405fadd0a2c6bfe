"""Try a plugin's parts without an installation: a harness with these plugins only, and a route on a few examples."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from figeval.errors import PluginError
from figeval.models.batching import BatchScheduler
from figeval.models.model import Model
from figeval.plugins import load
from figeval.prompts import PromptContext
from figeval.runs.harness import Harness
from figeval.task_types.routes import Route
from figeval.types import Example, Prediction, Request


def harness(*plugins: object, include: Sequence[str | Path] = ()) -> Harness:
    """Return a harness with figeval's own kinds of tasks and with these plugins, and with nothing else.

    Args:
        plugins: modules or other objects with hooks; a text is the name of a module.
        include: folders with task files.

    Raises:
        PluginError: a plugin cannot be loaded, or has a hook that does not exist.

    Example:
        ```python
        def test_the_task_has_its_examples():
            acme = harness(figeval_acme)
            task = acme.catalogue.tasks.get("acme_riddles")
            assert sum(1 for _ in acme.examples(task)) == 40
        ```
    """
    manager = load(modules=())
    for plugin in plugins:
        name = plugin if isinstance(plugin, str) else getattr(plugin, "__name__", type(plugin).__name__)
        imported = partial(importlib.import_module, name) if isinstance(plugin, str) else partial(_unchanged, plugin)
        manager.load(name, "tested", imported)
    for plugin in manager.plugins.values():
        if plugin.problems:
            raise PluginError(f"{plugin.name}: {'; '.join(plugin.problems)}")
    return Harness(manager, include=tuple(include))


def _no_prompt(name: str, *_: Any, **__: Any) -> str:
    raise PluginError(f"the route renders the block {name!r}; give predict(…, context=figeval.PromptContext(block=…))")


def _unchanged(plugin: object) -> object:
    return plugin


def predict(
    route: Route | Callable[..., Generator[Sequence[Request], Any, Prediction]],
    model: object,
    examples: Iterable[Example],
    context: PromptContext | None = None,
) -> list[Prediction]:
    """Return what a model answers to examples on a route, as a run would.

    Args:
        route: a route, such as one of `harness(…).routes.of("choice")`, or a generator function of an example and a
            context.
        model: a model object, such as a fake of `figeval.testing.fakes`, or the `figeval.Model` around it.
        examples: examples of the route's task type.
        context: prompts, labels and settings of a task; by default no prompts, and the settings of the route.

    Raises:
        CapabilityError: the model has no method that answers the requests.
        PluginError: the model gave another number of answers, or the route something other than a prediction.
    """
    begin: Callable[..., Any] = route.begin if isinstance(route, Route) else route
    context = context or PromptContext(_no_prompt, settings=route.settings if isinstance(route, Route) else {})
    backend = model.backend if isinstance(model, Model) else model
    scheduler = BatchScheduler(backend, lambda example: begin(example, context))
    return [prediction for _, prediction in scheduler.predictions(examples)]
