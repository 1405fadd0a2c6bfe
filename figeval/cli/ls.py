"""Command `figeval ls`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from figeval.cli.shared import echo, echo_json, include_path
from figeval.errors import DuplicateName
from figeval.registry import Registry, fill, resolve

if TYPE_CHECKING:
    from figeval.plugins import PluginManager
    from figeval.runs.harness import Harness
    from figeval.types import JSON

BUILT_IN = "figeval.builtin."


def tasks(harness: Harness) -> Iterator[JSON]:
    """Yield one row per task; `availability` says whether its data are on this machine, without using the network."""
    from importlib.resources import files

    from figeval.data.readers import availability

    for _, task in harness.catalogue.tasks.usable(harness.manager):
        keys = ("name", "type", "metrics", "description", "owner", "version", "language", "labels", "cluster")
        details = {
            "data": dict(task.data),
            "availability": (
                "here"
                if task.examples is not None
                else availability(task.data["test"], task.folder or files("figeval"), harness.readers)
            ),
            "splits": ["test", *task.splits],  # values of run --split
            "baselines": task.baselines,
            "prompts": list(task.prompts),
        }
        yield {**{key: getattr(task, key) for key in keys}, **details}


def suites(harness: Harness) -> Iterator[JSON]:
    """Yield one row per suite."""
    for entry in harness.catalogue.suites:
        suite = entry.load()
        yield {key: getattr(suite, key) for key in ("name", "tasks", "description", "owner")}


def models(harness: Harness) -> Iterator[JSON]:
    """Yield one row per registered backend; folders and hub ids are also models, but cannot be listed."""
    from figeval.models.model import Backends

    for entry in Backends(harness.manager).registry:
        yield {"name": entry.name, "summary": entry.summary, "owner": entry.owner}


def templates(harness: Harness) -> Iterator[JSON]:
    """Yield one row per prompt template that has a name everywhere: the built-in ones, and those of task types."""
    from figeval.io.files import MAX_BYTES, read_template
    from figeval.prompts import builtin_templates

    kinds = (kind for _, kind in harness.task_types.usable(harness.manager))
    of_types = {kind.template for kind in kinds if read_template(kind.template, kind.folder, MAX_BYTES) is not None}
    tasks_by_template: dict[str, list[str]] = {name: [] for name in sorted({*builtin_templates(), *of_types})}
    for _, task in harness.catalogue.tasks.usable(harness.manager):
        prompts = {f"{task.name}@{prompt}": wording.template for prompt, wording in task.prompts.items()}
        for name, template in {task.name: task.template or task.task_type.template, **prompts}.items():
            if template in tasks_by_template:
                tasks_by_template[template].append(name)
    yield from ({"name": name, "tasks": names} for name, names in tasks_by_template.items())


def model_details(harness: Harness, name: str) -> JSON:
    """Return the options of a model; None if it cannot be loaded, which is then a problem of its plugin."""
    from figeval.models.options import model_options
    from figeval.plugins import describe

    entry = harness.backends.registry.entry(name)
    try:
        return {"options": [asdict(option) for option in model_options(entry.load())]}
    except Exception as error:  # importing a plugin's module may raise anything
        harness.manager.problem(entry.owner, describe(error))
        return {"options": None}


def types(harness: Harness) -> Iterator[JSON]:
    """Yield one row per task type."""
    for entry, kind in harness.task_types.usable(harness.manager):
        fields = kind.json_schema()["properties"]
        yield {
            "name": kind.name,
            "fields": [name for name in fields if name not in ("id", "meta", "language")],
            "owner": entry.owner,
            "description": kind.summary,
            "schema": kind.json_schema(),
            "metrics": [metric.name for metric in kind.metrics],
            "default_metrics": kind.default_metrics,
        }


def metrics(harness: Harness) -> Iterator[JSON]:
    """Yield one row per metric."""
    for metric in harness.metrics:
        limits = {"types": sorted(metric.task_types), "routes": sorted(metric.routes)}
        better = {"higher_is_better": metric.higher_is_better, "owner": metric.owner}
        yield {"name": metric.name, **limits, **better, "argument": metric.argument}


def routes(harness: Harness) -> Iterator[JSON]:
    """Yield one row per route, best first within a task type."""
    for route in harness.routes:
        needs = list(route.requirements)
        yield {"name": route.name, "type": route.task_type, "needs": needs, "owner": route.owner}


def plugins(harness: Harness) -> Iterator[JSON]:
    """Yield one row per plugin, after loading everything that it offers, because some problems appear only then."""
    from figeval.cli.main import cli
    from figeval.cli.views import run_views, views_by_name
    from figeval.data.readers import load_readers
    from figeval.data.sources import load_catalogue as load_sources

    manager = harness.manager
    cli.extend()
    for kind, listing in listings(manager).items():
        if kind != "plugins":
            list(listing.rows(harness))
    load_readers(manager)
    load_sources(manager)
    views_by_name(harness)
    context = click.Context(cli)
    if show := cli.get_command(context, "show"):
        list(run_views(manager, click.Command.get_params(show, context)).usable(manager))
    for name, plugin in manager.plugins.items():
        offers = [hook.removeprefix("register_") for hook in manager.hooks_of(name)]
        yield {"name": name, "origin": plugin.origin, "offers": offers, "problems": plugin.problems}


@dataclass(frozen=True, slots=True)
class Listing:
    """Kind of thing that can be listed: a function for its rows, the columns of its table, and a summary."""

    rows: Callable[[Harness], Iterable[Mapping[str, Any]]]
    columns: Sequence[str]
    summary: str
    details: Callable[[Harness, str], JSON] | None = None  # what else `--json` says of a thing, by its name


OF_THE_CORE = {
    "tasks": Listing(
        tasks, ("name", "type", "splits", "availability", "metrics", "owner", "description"), "for run --tasks"
    ),
    "templates": Listing(templates, ("name", "tasks"), "for run --template, besides your own file"),
    "types": Listing(types, ("name", "fields", "owner", "description"), "kinds of tasks, for `type:` of a task file"),
    "suites": Listing(suites, ("name", "owner", "description", "tasks"), "several tasks under one name"),
    "models": Listing(
        models, ("name", "owner", "summary"), "for run --model, besides folders and hub ids", model_details
    ),
    "metrics": Listing(metrics, ("name", "types", "routes", "higher_is_better", "owner"), "for task files"),
    "routes": Listing(routes, ("name", "type", "needs", "owner"), "for run --route, preferred ones first"),
    "plugins": Listing(plugins, ("name", "origin", "offers", "problems"), "what was loaded and what is wrong with it"),
}


def listings(manager: PluginManager) -> dict[str, Listing]:
    """Return the kinds of things that can be listed, by name: those of the core, and those of plugins before the last.

    A kind of a plugin whose code cannot be loaded is left out, as a problem of the plugin.
    """
    registry = Registry[Listing]("kind", "figeval ls")

    def add(kind: str, rows: Any, columns: Sequence[str], summary: str, *, owner: str) -> None:
        if kind in OF_THE_CORE:
            raise DuplicateName(f"kind {kind!r} of {owner} is already registered by figeval; rename it")
        registry.add(kind, Listing(lambda harness: resolve(rows)(harness), tuple(columns), summary), owner, summary)

    fill(manager, "register_listings", add)
    *core, last = OF_THE_CORE.items()
    return dict([*core, *((registration.name, registration.load()) for registration in registry), last])


@click.command()
@click.argument("kind", required=False, metavar="[KIND]")
@click.argument("pattern", required=False, metavar="[PATTERN]")
@include_path
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with more fields than the table has.")
def ls(kind: str | None, pattern: str | None, include_path: tuple[Path, ...], as_json: bool) -> None:
    """List tasks, task types, suites, models, metrics, routes and more.

    Without KIND, list what can be listed. PATTERN is part of a name, or a glob.

    \b
    figeval ls tasks
    figeval ls tasks 'impli_*_gold_*' --json
    figeval ls tasks --include_path my_tasks
    """
    from figeval.errors import UnknownName
    from figeval.plugins import plugin_manager

    kinds = listings(plugin_manager())
    if kind is None:
        rows: list[JSON] = [{"name": name, "what": listing.summary} for name, listing in kinds.items()]
        _print(rows, ("name", "what"), as_json)
        return
    if kind not in kinds:
        raise UnknownName("kind", kind, kinds, see="figeval ls")
    from figeval.runs.harness import Harness

    listing = kinds[kind]
    harness = Harness(include=include_path)
    rows = [dict(row) for row in listing.rows(harness)]
    if include_path:
        harness.catalogue.warn_of_broken()
    rows = matching(kind, rows, pattern)
    if as_json and listing.details is not None:
        rows = [{**row, **listing.details(harness, row["name"])} for row in rows]
    _print(rows, listing.columns, as_json)


def matching(kind: str, rows: list[JSON], pattern: str | None) -> list[JSON]:
    """Return the rows whose name contains the pattern or matches the glob. Raises `UnknownName` if there are none."""
    from fnmatch import fnmatchcase

    from figeval.errors import UnknownName

    if pattern is None:
        return rows
    glob = pattern if set(pattern) & set("*?[") else f"*{pattern}*"
    matches = [row for row in rows if fnmatchcase(row["name"].lower(), glob.lower())]
    if not matches:
        raise UnknownName(kind.removesuffix("s"), pattern, [row["name"] for row in rows], see=f"figeval ls {kind}")
    return matches


def _print(rows: list[JSON], columns: Sequence[str], as_json: bool) -> None:
    if as_json:
        echo_json(rows)
        return
    from figeval.reporting.grid import Grid

    grid = Grid(tuple(columns), [tuple(cell(row[column]) for column in columns) for row in rows], spare=("owner",))
    if sys.stdout.isatty():
        from rich.console import Console

        grid.print(Console())
    else:
        echo("\n".join(grid.lines()))


def cell(value: object) -> str:
    """Return a value as text: lists joined by blanks, booleans as yes and no, names without the built-in prefix."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value).removeprefix(BUILT_IN)
