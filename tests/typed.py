"""Task types in tests: their routes by name, task definitions bound to them, and the examples of rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import figeval
from figeval import (
    Dialogue,
    Example,
    Given,
    Harness,
    Prediction,
    Route,
    SpanExample,
    TaskSpec,
    TaskType,
    hookimpl,
)
from figeval.task_types.routes import choose
from figeval.testing import harness


@cache
def task_types() -> Any:
    """The task types of figeval itself."""
    return harness().task_types


def bound(**keys: Any) -> TaskSpec:
    """Return a task with these keys of a task file, bound to its task type as in a catalogue."""
    return TaskSpec.model_validate(keys).bound(task_types())


def find_route(task_type: str, name: str) -> Route:
    """Return the route of this name among those of a task type, figeval's plugins included."""
    return next(route for route in Harness().routes.of(task_type) if route.name == name)


def choose_route(task_type: str, offers: Collection[str], name: str | None = None) -> Route:
    """Return the route that a run takes for a model with these capabilities."""
    return choose(task_type, frozenset(offers), harness().routes.with_parts(task_type), name)


def find_quotation(quote: str, text: str, language: str = "") -> Prediction:
    """Return the span that a quotation stands for, with its likeness as the score."""
    example = SpanExample(id="1", text=text, given="", known="", gold=None, language=language)
    prediction: Prediction = task_types().get("spans").given(example, Given(value=quote), ())
    return prediction


def route_of(task_type: type[TaskType[Any]], name: str) -> Route:
    """Return the route of this name among a task type's own."""
    return next(route for route in task_type.routes if route.name == name)


def start_of(task_type: type[TaskType[Any]], name: str) -> Callable[..., Dialogue]:
    """Return the `start` function of that route."""
    start = route_of(task_type, name).start
    assert callable(start)
    return start


class Rows:
    """A plugin whose data scheme `rows` has these rows: `rows:test` those of the argument `test`."""

    def __init__(self, **rows: Iterable[Any]) -> None:
        self.rows = rows

    @hookimpl
    def register_sources(self, register: Any) -> None:
        register("rows", lambda path, _context: iter(self.rows[path]))


def examples_of(rows: Iterable[Any], documents: Iterable[Any] = (), *plugins: object, **keys: Any) -> Iterator[Example]:
    """Yield the examples of rows, by the keys of a task file whose data are `rows:test` and `rows:corpus`."""
    trial = harness(Rows(test=rows, corpus=documents), *plugins)
    return trial.examples(TaskSpec.model_validate({"data": {"test": "rows:test"}, **keys}).bound(trial.task_types))


def fingerprint(task_type: str, examples: Iterable[Example], folder: Path, **keys: Any) -> str:
    """Return the fingerprint of the examples in the record of a run, which is written to the folder."""
    listed = list(examples)
    task = figeval.task(name="t", type=task_type, **keys)(lambda: iter(listed))
    model = "echo" if task_type == "generation" else "random"
    run = figeval.run(task, model, output_path=folder, baselines=False, fresh=True)
    return run.record.tasks[0].examples_sha256
