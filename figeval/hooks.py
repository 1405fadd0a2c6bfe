"""The contract between figeval and its plugins: every hook, in the order in which a run meets them.

A plugin is a module (or object) whose functions carry `@figeval.hookimpl`. It may implement any subset of the hooks,
and each function may leave out arguments that it does not need. The built-in benchmarks and models use these hooks
and no others.

**Registration hooks** (`register_*`) are called in the order of loading: figeval itself, the built-in plugins, then the
installed ones. A name belongs to the plugin that was loaded first; a second claim is refused with both owners named,
and costs only that registration. `register` takes a target as an object or as a `"module:attribute"` string, which
is imported on first use: that keeps `figeval ls` fast.

**All other hooks** are called as pluggy calls them: the plugin that was loaded last comes first, so that an installed
plugin overrides a built-in one if only one answer counts (`resolve_backend`).

`@hookimpl(tryfirst=True)` and `@hookimpl(trylast=True)` work for both. On a registration hook they decide about
*preference*, never about names: routes, heads and presets are chosen by first match, in the order of loading, so that
installing a plugin does not silently change the scores of built-in tasks. A plugin whose routes (or heads) should be
chosen before the built-in ones uses `tryfirst=True`. Hook wrappers, generator functions and coroutines are refused
when the plugin is loaded.

The classes named `…Registrar` are the arguments of the registration hooks, written out for readers and type checkers.
Every call is bound by these very signatures, and a test compares them with the docstrings here and with the table in
`docs/plugins.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pluggy

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import click

    from figeval import (
        DataContext,
        Harness,
        Learner,
        MetricContext,
        Prediction,
        Result,
        Route,
        Run,
        RunRecord,
        Setup,
        Statistic,
        SuiteSpec,
        TaskRecord,
        TaskSpec,
        TaskType,
    )

    Opener: TypeAlias = Callable[[str, DataContext], Iterable[Mapping[str, Any]]]
    Metric: TypeAlias = Callable[[Any, Prediction], float | None] | Statistic | Callable[[MetricContext], Statistic]
    Exported: TypeAlias = str | bytes | Mapping[str, str | bytes]
    Exporter: TypeAlias = Callable[[Sequence[RunRecord]], Exported] | Callable[..., Exported]
    LearnerFactory: TypeAlias = Callable[[Setup], Learner]
    Rows: TypeAlias = Callable[[Harness], Iterable[Mapping[str, Any]]]
    Names: TypeAlias = Callable[[Harness], Iterable[str]]
    View: TypeAlias = Callable[[Harness, str], Result]
    RunView: TypeAlias = Callable[[Run], Result]

PROJECT = "figeval"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Decorator for the functions of a plugin that implement hooks."""


# ---- arguments of the registration hooks ----------------------------------------------------------------------------


class TaskRegistrar(Protocol):
    """Receives tasks and suites, one by one or as a folder of YAML files."""

    def __call__(self, task: TaskSpec | SuiteSpec) -> None:
        """Register a task made with `@figeval.task`, or a suite."""

    def folder(self, folder: Traversable) -> None:
        """Register every `*.task.yaml` and `*.suite.yaml` of a folder."""


class SourceRegistrar(Protocol):
    """Receives readers of raw files."""

    def __call__(self, scheme: str, open: Opener | str) -> None:
        """Register a reader under a scheme, the part of a task's `data` before the colon."""


class TaskTypeRegistrar(Protocol):
    """Receives task types."""

    def __call__(self, task_type: type[TaskType[Any]] | str, name: str = "") -> None:
        """Register a task type under its own name, which may be omitted."""


class RouteRegistrar(Protocol):
    """Receives additional routes of task types."""

    def __call__(self, task_type: str, route: Route) -> None:
        """Register a route of a task type under its own name."""


class BackendRegistrar(Protocol):
    """Receives models."""

    def __call__(self, name: str, factory: Callable[..., Any] | str, summary: str = "") -> None:
        """Register a factory of models under the name that `--model` takes."""


class LearnerRegistrar(Protocol):
    """Receives heads that can be trained."""

    def __call__(self, task_type: str, head: str, factory: LearnerFactory | str, summary: str = "") -> None:
        """Register a factory of learners as a head of a task type."""


class PresetRegistrar(Protocol):
    """Receives hyper-parameters of published results."""

    def __call__(self, file: Traversable) -> None:
        """Register the rows of a `*.presets.yaml`."""


class MetricRegistrar(Protocol):
    """Receives metrics."""

    def __call__(
        self,
        name: str,
        function: Metric | str,
        higher_is_better: bool = True,
        task_types: Iterable[str] = (),
        routes: Iterable[str] = (),
        argument: str = "",
    ) -> None:
        """Register a metric under the name that task files and `--metrics` use."""


class ExporterRegistrar(Protocol):
    """Receives file formats for finished runs."""

    def __call__(self, name: str, function: Exporter | str) -> None:
        """Register a format under the name that `figeval export --to` takes."""


class LayoutRegistrar(Protocol):
    """Receives layouts of tables."""

    def __call__(self, file: Traversable) -> None:
        """Register the layouts of a `*.layouts.yaml`."""


class ListingRegistrar(Protocol):
    """Receives kinds of things that `figeval ls` lists."""

    def __call__(self, kind: str, rows: Rows | str, columns: Sequence[str], summary: str = "") -> None:
        """Register a kind under the word that `figeval ls` takes."""


class ViewRegistrar(Protocol):
    """Receives kinds of things that `figeval show` describes."""

    def __call__(self, kind: str, names: Names | str, view: View | str) -> None:
        """Register the things of one kind, by their names."""


class RunViewRegistrar(Protocol):
    """Receives views of runs, each a flag of `figeval show`."""

    def __call__(self, name: str, view: RunView | str, summary: str) -> None:
        """Register a view under the name of its flag."""


class CommandLine(Protocol):
    """The command `figeval`, or a group of its commands, as plugins extend it."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """Commands and groups that are already imported, such as `benchmark`, by name."""

    def add_command(self, cmd: click.Command, name: str | None = None, heading: str = "") -> None:
        """Add a command."""

    def add_lazy_command(self, name: str, target: str, summary: str, heading: str = "") -> None:
        """Add a command that is imported when it is used."""


# ---- the hooks ------------------------------------------------------------------------------------------------------


@hookspec
def register_tasks(register: TaskRegistrar) -> None:
    """Offer tasks: `register(task)` for one made with `@figeval.task`, `register.folder(folder)` for YAML files.

    A folder is an `importlib.resources` Traversable; its `*.task.yaml` and `*.suite.yaml` are read. Templates are
    looked up in the `templates/` folder beside or inside it.
    """


@hookspec
def register_sources(register: SourceRegistrar) -> None:
    """Offer readers of raw files: `register(scheme, open)` serves every task with `data: {test: "scheme:path"}`.

    `open(path, context)` yields rows (mappings); `context` is a `figeval.DataContext`.
    """


@hookspec
def register_task_types(register: TaskTypeRegistrar) -> None:
    """Offer task types: `register(task_type, name='')`, a subclass of `figeval.TaskType`.

    `"module:attribute"` is imported at once, to learn its name. If the name is given, as in
    `register("acme.kind:Kind", "kind")`, it is imported when a task of the type is used, and its errors appear then.
    """


@hookspec
def register_routes(register: RouteRegistrar) -> None:
    """Offer additional routes of a task type: `register(task_type, route)`, the type's name and a `figeval.Route`.

    The first route of a task type whose capabilities the model has is used. Those of the type itself come first, then
    those of plugins in the order of loading, unless this hook is marked `tryfirst=True`.
    """


@hookspec
def register_backends(register: BackendRegistrar) -> None:
    """Offer models: `register(name, factory, summary='')`.

    `factory(model, **options)` returns an object with capabilities. `model` is the part after the colon of
    `--model name:model` (empty without one), `options` come from `--model_args` as strings, numbers or booleans, and
    `summary` is the line in `figeval ls models`. See `figeval.models.capabilities`.
    """


@hookspec(firstresult=True)
def resolve_backend(model: str, options: dict[str, Any]) -> str | None:
    """Name the backend that serves `--model roberta-large`, or return None to let the next plugin try.

    `resolve_backend(model, options)` of the plugin that was loaded last is called first; the first answer that is not
    None counts. A `FigevalError` is an answer, too: it reaches the user.
    """


@hookspec
def register_learners(register: LearnerRegistrar) -> None:
    """Offer heads that can be trained: `register(task_type, head, factory, summary='')`.

    `factory(setup)` takes a `figeval.Setup` and returns a `figeval.Learner`. The first head of a task type is its
    default; the task type `*` is for heads that learn from the texts of any task.
    """


@hookspec
def register_presets(register: PresetRegistrar) -> None:
    """Offer hyper-parameters of published results: `register(file)` for a `*.presets.yaml`, as a Traversable."""


@hookspec
def register_metrics(register: MetricRegistrar) -> None:
    """Offer metrics: `register(name, function, higher_is_better=True, task_types=(), routes=(), argument='')`.

    `function(example, prediction)` returns a number, or None if the metric does not apply; the task's score is the
    mean. A statistic that is not a mean registers a `figeval.Statistic`. `task_types` and `routes` limit where the
    metric is meaningful. With `argument`, which describes the metric's argument, `function(context)` returns the
    metric for a `figeval.MetricContext`, and `--metrics name=ARGUMENT` requests it.
    """


@hookspec
def register_exporters(register: ExporterRegistrar) -> None:
    """Offer file formats for finished runs: `register(name, function)`; `function(runs)` returns the text.

    `runs` is a list of `figeval.RunRecord`. A format of several files returns a mapping from file names to texts or
    bytes: `--output` is then a folder, and required. A binary format returns bytes, and `--output` is required, too.

    A function with an argument called `stored` also gets a list of `figeval.StoredRun`, parallel to `runs`: the answers
    to every example, with the texts of the examples if the user asked for them (`--include_text`). Users set its
    keyword-only arguments with `--format_args`; those without a default are required. An argument called `layouts`
    gets the layouts of all plugins by name, and `compare(metric, tasks, against=None)` compares
    the runs as `figeval compare` does.
    """


@hookspec
def register_layouts(register: LayoutRegistrar) -> None:
    """Offer tables for `figeval export --layout`: `register(file)` for a `*.layouts.yaml`, as a Traversable."""


@hookspec
def register_commands(cli: CommandLine) -> None:
    """Add click commands: `register_commands(cli)` calls `cli.add_command(...)`.

    `cli.add_lazy_command(name, "module:attribute", summary, heading="")` adds a command that is imported when it is
    used; the summary is its line in `figeval --help`, where it stands under the heading, e.g. `"Evaluate"`, or under
    `"Plugins"`. In a name of several words, such as `"benchmark build poems"`, all but the last are groups. A command
    whose name is taken is refused with a warning.
    """


@hookspec
def register_listings(register: ListingRegistrar) -> None:
    """Offer kinds of things for `figeval ls KIND`: `register(kind, rows, columns, summary='')`.

    `rows(harness)` yields a mapping for each thing, which has a `name`, its `owner` and the `columns` of the table; all
    of it is printed with `--json`. `harness` is a `figeval.Harness`, and `summary` is the line in `figeval ls`.
    """


@hookspec
def register_views(register: ViewRegistrar) -> None:
    """Offer descriptions for `figeval show NAME`: `register(kind, names, view)`.

    `names(harness)` yields the names of the things of this kind, and `view(harness, name)` describes one of them as a
    `figeval.Result`. Runs, trainings, tasks and suites come first.
    """


@hookspec
def register_run_views(register: RunViewRegistrar) -> None:
    """Offer views of runs for `figeval show RUN --NAME`: `register(name, view, summary)`.

    `view(run)` takes a `figeval.Run`, with only one task if the user asked for it (`--task`), and returns a
    `figeval.Result`. `summary` is the help of the flag.
    """


@hookspec
def run_started(run: RunRecord) -> None:
    """Called as `run_started(run)` when a run begins; `run` is a copy of its record so far."""


@hookspec
def task_finished(task: TaskRecord, rows: Iterator[dict[str, Any]]) -> None:
    """Called as `task_finished(task, rows)` when a task is complete.

    `task` is a copy of its record; `rows` are the lines of its predictions file, read lazily.
    """


@hookspec
def run_finished(run: RunRecord) -> None:
    """Called as `run_finished(run)` when a run ends; `run` is a copy of its record as written to `run.json`."""


HOOKS = frozenset(name for name, value in list(globals().items()) if hasattr(value, "figeval_spec"))
