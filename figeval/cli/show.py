"""Command `figeval show`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.shared import echo, echo_json, echo_json_text, include_path, print_result
from figeval.cli.views import run_views, views_by_name
from figeval.registry import Entry

if TYPE_CHECKING:
    from figeval.api.runs import Run
    from figeval.data.sources import Sources
    from figeval.reporting.grid import Result
    from figeval.runs.harness import Harness
    from figeval.runs.task_info import TaskInfo
    from figeval.spec import TaskSpec
    from figeval.types import JSON

ABOUT = (
    "description",
    "type",
    "language",
    "segmenter",
    "version",
    "labels",
    "metrics",
    "baselines",
    "cluster",
    "group",
)


class ShowCommand(click.Command):
    """A command with a flag for each view of runs that a plugin offers."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with the flags of views before `--json` and `--help`."""
        params = super().get_params(ctx)
        return [*params[:-2], *view_flags(params), *params[-2:]]


def view_flags(params: Sequence[click.Parameter]) -> list[click.Option]:
    """Return a flag for each view of runs."""
    from figeval.plugins import plugin_manager

    return [
        click.Option(
            [f"--{view.name}"],
            is_flag=True,
            expose_value=False,
            callback=partial(choose_view, view),
            help=f"For a run: {view.summary}",
        )
        for view in run_views(plugin_manager(), params)
    ]


def choose_view(
    view: Entry[Callable[[Run], Result]], context: click.Context, _parameter: click.Parameter, is_given: bool
) -> None:
    """Pass the view of a flag to the command as `view`. Raises `UsageError` if another one is given as well."""
    if not is_given:
        return
    if "view" in context.params:
        raise click.UsageError("each view of a run has a command of its own; give one of these flags only")
    context.params["view"] = view


@click.command(cls=ShowCommand)
@click.argument("run_or_task", metavar="RUN_OR_NAME")
@click.option("--task", help="For a run: this task only.")
@click.option(
    "--by", metavar="KEY", help="For a run: scores per idiom, proverb, corpus …, from the stored predictions."
)
@include_path
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def show(
    run_or_task: str,
    task: str | None,
    by: str | None,
    include_path: tuple[Path, ...],
    as_json: bool,
    view: Entry[Callable[[Run], Result]] | None = None,
) -> None:
    """Show the table of a run or a training, or describe a task, suite, model, preset or anything else with a name.

    The run need not be finished. The folder of a training may hold several seeds, or a grid.

    \b
    figeval show results/runs/demo --by idiom
    figeval show models/proverbs
    figeval show epic_retrieval_seen
    figeval show encoder
    figeval show paper:table7-roberta
    """
    from figeval.io.files import YAML_SUFFIXES
    from figeval.records.run_folder import find_record

    path = Path(run_or_task)
    of_runs = {"--by": by, "--task": task, "this view": view}
    flags = [flag for flag, value in of_runs.items() if value is not None]
    training = record_in(path) if not flags else None
    if training is not None:
        show_training_record(training, as_json)
    elif not run_or_task.endswith(YAML_SUFFIXES) and find_record(path).is_file():
        show_run(path, task, by, view, as_json)
    elif flags:
        raise click.BadParameter(f"no run was found in {run_or_task!r}, and {flags[0]} is for a run")
    else:
        show_named(run_or_task, include_path, as_json)


# ---- runs -----------------------------------------------------------------------------------------------------------


def show_run(
    path: Path, task: str | None, by: str | None, view: Entry[Callable[[Run], Result]] | None, as_json: bool
) -> None:
    """Print the table of a run, with its status and progress if it is not complete, or a view of it."""
    from figeval.api.runs import load

    if by is not None and view is not None:
        raise click.UsageError("--by is for the scores of a run; leave it out with another view")
    run = load(path) if by is None else load(path).by(by)
    if task is not None:
        run = select_task(run, task)
    if view is not None:
        print_result(view.load()(run), as_json=as_json)
        return
    if as_json:
        echo_json_text(run.record.model_dump_json(indent=1))
        return
    from rich.console import Console

    from figeval.reporting import table
    from figeval.reporting.grid import say

    console = Console()
    table.show(run.record, console)
    for note in run.progress():
        say(console, f"  {note}")
    table.show_breakdowns(run.record, console, most=None if by else 20)


def select_task(run: Run, task: str) -> Run:
    """Return a run with one of its tasks only. Raises `RecordError` if it has no such task."""
    from figeval.api.runs import Run
    from figeval.errors import RecordError
    from figeval.io.text import near

    if task not in run.tasks:
        raise RecordError(f"{run.path} has no task {task!r}{near(task, run.tasks)}; it has {', '.join(run.tasks)}")
    tasks = [record for record in run.record.tasks if record.task == task]
    variances = [record for record in run.record.variances if record.task == task]
    parts = {"tasks": tasks, "variances": variances, "macro": [], "contrasts": [], "spreads": []}
    return Run(run.record.model_copy(update=parts), run.path)


# ---- trainings ------------------------------------------------------------------------------------------------------


def record_in(path: Path) -> Path | None:
    """Return the record at a path or in its folder: that of the seeds, else of the grid, else of the training."""
    from figeval.records.sweep import GRID, SEEDS
    from figeval.records.training import RECORD, record_file

    if path.is_file():
        return path if path.name in (SEEDS, GRID, RECORD) else None
    files = (path / SEEDS, path / GRID, record_file(path))
    return next((file for file in files if file.is_file()), None)


def show_training_record(file: Path, as_json: bool) -> None:
    """Print the tables of the seeds, the grid or the training in a file. Raises `RecordError` if it has none."""
    from rich.console import Console

    from figeval.errors import RecordError
    from figeval.records.sweep import GRID, SEEDS, GridRecord, SeedsRecord, read
    from figeval.records.training import floor_in, read_training
    from figeval.reporting.training import show_grid, show_seeds, show_training

    if as_json:
        echo_json_text(file.read_text(encoding="utf-8").rstrip("\n"))
        return
    if file.name == SEEDS:
        show_seeds(read(SeedsRecord, file), Console())
    elif file.name == GRID:
        show_grid(read(GridRecord, file), Console())
    else:
        floor = floor_in(file.parent.parent)  # the folder that contains `training`
        show_training(read_training(file, RecordError), Console(), floor.probe if floor else "")


# ---- tasks and suites -----------------------------------------------------------------------------------------------


def show_named(name: str, include: tuple[Path, ...], as_json: bool) -> None:
    """Print the description of a task, a suite, or a thing of a plugin. Raises `UnknownName` with similar names."""
    from figeval import plugins
    from figeval.errors import UnknownName
    from figeval.records.run_folder import find_record, read_record
    from figeval.runs.harness import Harness
    from figeval.runs.task_info import task_info
    from figeval.spec.loader import read_task_files

    (name,), files = read_task_files([name])
    manager = plugins.plugin_manager()
    harness = Harness(manager, (*include, *files))
    catalogue = harness.catalogue
    if name in catalogue.suites:
        suite, tasks = catalogue.suites.get(name), [task.name for task in catalogue.expand([name])]
        contrasts = {key: contrast.model_dump() for key, contrast in suite.contrasts.items()}
        if as_json:
            about = {"name": name, "description": suite.description, "owner": suite.owner}
            echo_json({**about, "tasks": tasks, "contrasts": contrasts})
        else:
            echo("\n".join([f"{name}: {suite.description}", *(f"  {task}" for task in tasks)]))
            for key, contrast in contrasts.items():
                within = f", within {contrast['within']}" if contrast["within"] else ""
                echo(f"contrast {key}{within}: {' '.join(contrast['tasks'])}")
    elif name in catalogue.tasks:
        show_task(task_info(catalogue.tasks.get(name), manager), as_json)
    elif (kind := kind_of_model(harness, name)) is not None:
        print_result(model_card(harness, name, kind), as_json=as_json)
    else:
        if Path(name).exists():
            read_record(find_record(Path(name)))  # its error says that it is no run
        views = views_by_name(harness)
        if name not in views:
            names = [*(registration.name for registration in (*catalogue.tasks, *catalogue.suites)), *views]
            raise UnknownName("run or task", name, names, see="figeval ls tasks")
        print_result(views[name](), as_json=as_json)


def kind_of_model(harness: Harness, name: str) -> str | None:
    """Return the registered model that opens `MODEL`, `MODEL:NAME` or a folder, or None if none does."""
    from figeval.errors import FigevalError

    backends = harness.backends
    if name in backends.registry or name.partition(":")[0] in backends.registry or backends.folder(name):
        with suppress(FigevalError):  # the folder is none of a model
            return backends.locate(name, {})[0]
    return None


def model_card(harness: Harness, name: str, kind: str) -> Result:
    """Return the description of a model: its options."""
    from figeval.cli.ls import model_details
    from figeval.cli.model_card import ModelCard

    entry = harness.backends.registry.entry(kind)
    summary = entry.summary if name == kind else f"opened as {kind}: {entry.summary}"
    return ModelCard(name, summary, entry.owner, model_details(harness, kind)["options"])


def show_task(facts: TaskInfo, as_json: bool) -> None:
    """Print everything about one task."""
    if as_json:
        echo_json(task_json(facts))
        return
    from rich.console import Console

    from figeval.reporting.grid import Grid

    console = Console()
    lines = list(about(facts))
    width = max(len(key) for key, _ in lines)
    echo("\n".join([facts.task.name, *(f"  {key:<{width}}  {text}" for key, text in lines)]))
    echo()
    splits = [(one.name, one.source, "–" if one.n is None else str(one.n), one.problem) for one in facts.splits]
    Grid(("split", "data", "rows", ""), splits, right=("rows",)).print(console)
    echo()
    Grid(("route", "needs"), [(route.name, ", ".join(route.requirements)) for route in facts.routes]).print(console)
    if facts.published:
        numbers = [(one.model, one.metric, f"{one.value:g}", one.source, one.note) for one in facts.published]
        echo("\npublished")
        Grid(("model", "metric", "value", "source", "note"), numbers, right=("value",)).print(console)


def about(facts: TaskInfo) -> Iterator[tuple[str, str]]:
    """Yield key and text of each property that takes one line."""
    task = facts.task
    for key in ABOUT:
        value: str | tuple[str, ...] | None = getattr(task, key)
        if value:
            yield key, ", ".join(value) if isinstance(value, tuple) else str(value)
    yield from shown_as(task)
    defaults = {name: value for route in facts.routes for name, value in route.settings.items()}
    if settings := {**defaults, **task.settings}:
        yield "--set", ", ".join(f"{name}={value}" for name, value in settings.items())
    yield from alternatives(task)
    if task.built_with:
        yield "built with", f"{', '.join(task.built_with)}: at a disadvantage, as are models trained from them"
    for benchmark, sources in facts.sources.items():
        yield from origin(benchmark, sources)
    if task.citation and not (facts.sources and isinstance(task.citation, str)):
        yield "citation", str(task.citation)
    yield "plugin", task.owner
    if facts.readme is not None:
        yield "read", f"{facts.readme} for splits and known errors"


def shown_as(task: TaskSpec) -> Iterator[tuple[str, str]]:
    """Yield how examples are shown to a model."""
    if task.shuffle_options is not None:
        yield "options", f"shuffled, seed {task.shuffle_options.seed}"
    if task.template:
        yield "template", task.template
    if task.prompts:
        yield "prompts", ", ".join(task.prompts)
    if task.prompt_fields:
        yield "in prompts", f"{', '.join(task.prompt_fields)}: texts given by prompt_fields in the task file"


def alternatives(task: TaskSpec) -> Iterator[tuple[str, str]]:
    """Yield the tasks that flags run instead of this one."""
    for flag, alternatives_by_name in (("--protocol", task.protocols), ("--split", task.splits)):
        yield from ((f"{flag} {name}", f"runs {other} instead") for name, other in alternatives_by_name.items())


def origin(benchmark: str, sources: Sources) -> Iterator[tuple[str, str]]:
    """Yield the origin and the licence of the data."""
    yield "licence", f"{sources.licence} ({benchmark})"
    yield "homepage", sources.homepage
    yield "citation", str(sources.citation)
    if sources.note:
        yield "note", sources.note


def task_json(facts: TaskInfo) -> JSON:
    """Return everything about one task for `--json`."""
    return {
        **facts.task.model_dump(mode="json"),
        "owner": facts.task.owner,
        "readme": str(facts.readme) if facts.readme is not None else None,
        "splits": [asdict(split) for split in facts.splits],
        "sources": {name: sources.model_dump(mode="json") for name, sources in facts.sources.items()},
        "routes": [
            {"name": route.name, "needs": list(route.requirements), "owner": route.owner} for route in facts.routes
        ],
        "published": [score.model_dump() for score in facts.published],
    }
