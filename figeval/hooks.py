"""The contract between figeval and its plugins: every hook, in the order in which a run meets them.

A plugin is a module (or object) whose functions carry `@figeval.hookimpl`. It may implement any subset, and may
leave out arguments that it does not need. The built-in benchmarks and models use these hooks and no others.

A name that is already taken is refused with a message naming both owners; the rest of the plugin stays in force.
Targets may be given as `"module:attribute"` strings, imported on first use: that keeps `figeval ls` fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from figeval.registry import (
        BackendRegister,
        ExporterRegister,
        LearnerRegister,
        MetricRegister,
        PresetRegister,
        RouteRegister,
        SourceRegister,
        TaskRegister,
        TaskTypeRegister,
    )
    from figeval.types import JSON

PROJECT = "figeval"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_tasks(register: TaskRegister) -> None:
    """Offer tasks: `register(task)` for one made with `@figeval.task`, `register.folder(traversable)` for YAML files.

    A folder is an `importlib.resources` Traversable; its `*.task.yaml` and `*.suite.yaml` are read. Templates are
    looked up in the `templates/` folder beside or inside it.
    """


@hookspec
def register_sources(register: SourceRegister) -> None:
    """Offer readers of raw files: `register(scheme, open)` serves every task with `data: {test: "scheme:path"}`.

    `open(path, context)` yields rows (mappings); `context` is a `figeval.data.DataContext`.
    """


@hookspec
def register_task_types(register: TaskTypeRegister) -> None:
    """Offer kinds of tasks: `register(task_type)`, a subclass of `figeval.TaskType` or `"module:attribute"`."""


@hookspec
def register_routes(register: RouteRegister) -> None:
    """Offer further routes of a task type: `register(task_type, route)` with the type's name and a `figeval.Route`.

    `start(example, context)` of a route is a generator that yields lists of requests, receives their outputs and
    returns a `Prediction`. Routes of the task type itself are preferred, then earlier registrations.
    """


@hookspec
def register_backends(register: BackendRegister) -> None:
    """Offer models: `register(name, factory)`; `factory(model, **options)` returns an object with capabilities.

    `model` is what stands behind the colon of `--model name:model` (empty without one), `options` come from
    `--model_args` as strings, numbers or booleans. See `figeval.models.capabilities`.
    """


@hookspec(firstresult=True)
def resolve_backend(model: str, options: dict[str, Any]) -> str | None:
    """Which backend is `--model roberta-large`? Return its name, or None to let the next plugin try.

    Stops at the first answer that is not None.
    """


@hookspec
def register_learners(register: LearnerRegister) -> None:
    """Offer what can be trained: `register(task_type, head, factory, summary)`.

    `factory(setup)` takes a `figeval.training.contract.Setup` and returns a `Learner`. The first head of a task type
    is its default; the task type `*` is for heads that learn from the texts of any task.
    """


@hookspec
def register_presets(register: PresetRegister) -> None:
    """Offer hyper-parameters of published results: `register(traversable)` for a `*.presets.yaml`."""


@hookspec
def register_metrics(register: MetricRegister) -> None:
    """Offer metrics: `register(name, function, higher_is_better, task_types, routes)`.

    `function(example, prediction)` returns a number, or None where the metric does not apply; the task's score is
    the mean. A statistic that is no mean registers a `figeval.metrics.Statistic`.
    """


@hookspec
def register_exporters(register: ExporterRegister) -> None:
    """Offer file formats for finished runs: `register(name, function)`; `function(runs)` returns the text.

    `runs` is a list of run records, as in `run.json`.
    """


@hookspec
def register_commands(cli: click.Group) -> None:
    """Add click commands: `cli.add_command(...)`, or `cli.commands["build"].add_command(...)` for derived data."""


@hookspec
def run_started(run: JSON) -> None:
    """A run begins; `run` is its record so far."""


@hookspec
def task_finished(task: str, rows: Iterator[JSON]) -> None:
    """A task is complete; `rows` are the lines of its predictions file, read as they are asked for."""


@hookspec
def run_finished(run: JSON) -> None:
    """A run ends; `run` is the record as written to `run.json`."""
