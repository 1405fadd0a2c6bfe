"""Command `figeval new`, which writes a first task or plugin that passes `figeval validate` and its own test."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from shlex import join, quote
from string import Template
from typing import TYPE_CHECKING, Any, cast

import click

from figeval.cli.schema import schema_text
from figeval.cli.shared import own_data
from figeval.errors import PluginError, TaskError
from figeval.io.text import clean

if TYPE_CHECKING:
    from figeval.task_types.base import TaskType

NAME = re.compile(r"[a-z][a-z0-9_]*")
TASK_FILE = ".task.yaml"
SCHEMA = Path(".figeval/task.schema.json")  # in the folder of the task or plugin
PURPOSES = {
    TASK_FILE: "how a row becomes an example, and how it is scored",
    ".jsonl": "the rows, one JSON object per line; replace them with your own",
    ".jinja": "the prompt: what a language model reads",
    SCHEMA.name: "the keys of the task file, which editors complete and check; `figeval schema task` prints it again",
}
SCAFFOLD = files("figeval.cli") / "scaffold"
directory = click.option(
    "--directory", "-d", type=click.Path(path_type=Path), help="Folder for the files; by default ./NAME."
)


@click.group()
def new() -> None:
    """Create a task or a plugin."""


@new.command()
@click.argument("name")
@click.option("--type", "kind", help="Task type; see `figeval ls types`. By default choice, or what --from recognises.")
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="Rows to make the task of: a file, or an address such as hub:OWNER/NAME or parquet:FILE.",
)
@click.option(
    "--columns",
    default="",
    metavar="FIELD=NAME,...",
    help="With --from: columns of fields, if they are not recognised, as in text=tweet,label=sarcastic; several as in "
    "options=A+B+C.",
)
@directory
@own_data
def task(name: str, kind: str | None, source: str | None, columns: str, directory: Path | None) -> None:
    """Create a task: a task file, three rows, a prompt, a README and a test.

    With --from, write only a task file, for data that you have. Task type, labels and splits are inferred from the
    columns, and every row is checked. If a data set on the hub has an `eval.yaml`, the tasks listed there are created.

    \b
    figeval new task proverbs
    figeval new task sarcasm --from tweets.csv
    figeval new task figs --from hub:OWNER/NAME#test
    """
    root = directory or Path(name)
    refuse_bad_name(name)
    refuse_taken_task(name)
    if source is not None:
        write_drafts(name, source, kind or "", columns, root)
        return
    if columns:
        raise click.UsageError("--columns needs --from, the rows whose columns it names")
    task_type = task_type_of(kind or "choice")
    schema = root / SCHEMA
    texts = naming_schema(drafts(scaffold_of(task_type), root, name), schema)
    task_file = next((path for path in texts if path.name.endswith(TASK_FILE)), None)
    if task_file is not None:  # README and test describe it
        variables = {"task_file": task_file.name, "model": next(iter(task_type.default_baselines), "overlap")}
        variables["files"] = "\n".join(f"| `{path.relative_to(root)}` | {purpose(path)} |" for path in [*texts, schema])
        texts |= drafts(SCAFFOLD / "common", root, name, **variables)
    write(texts, {schema: schema_text("task") + "\n"} if task_file is not None else {})
    if task_file is not None:
        click.echo(f"next: figeval validate {quote(str(task_file))}")


@new.command()
@click.argument("name")
@click.option(
    "--type", "kind", help="Type of its task; see `figeval ls types`. A terminal is asked; the default is pairs."
)
@directory
def plugin(name: str, kind: str | None, directory: Path | None) -> None:
    """Create a plugin: a distribution with a task and a model, ready for pip install -e."""
    root = directory or Path(name)
    refuse_bad_name(name)
    refuse_taken_module(name)
    task_type = task_type_of(kind or asked_type("pairs"))
    task_name = f"{name}_{task_type.name}"
    refuse_taken_task(task_name)
    schema = root / SCHEMA
    tasks = naming_schema(drafts(scaffold_of(task_type), root / name / "tasks", task_name), schema)
    model = (
        "score_pairs"
        if any(route.of or tuple(route.needs) == ("score_pairs",) for route in task_type.routes)
        else "generate"
    )
    variables = {"task": task_name}
    write(
        drafts(SCAFFOLD / "plugin", root, name, **variables)
        | drafts(SCAFFOLD / "models" / model, root, name, **variables)
        | tasks,
        {schema: schema_text("task") + "\n"},
    )
    click.echo(f"next: pip install -e {quote(str(root))}")
    click.echo(f"      figeval validate {task_name}")
    click.echo(f"      figeval run --tasks {task_name} --model {name}")


def write_drafts(name: str, source: str, kind: str, columns: str, root: Path) -> None:
    """Write the task files that the rows at `source` are recognised as, and copy the rows beside them."""
    from figeval.cli.drafting.from_data import draft_tasks
    from figeval.io.frontend import warn

    tasks = draft_tasks(name, source, kind, columns, warn)
    schema = root / SCHEMA
    texts = naming_schema({root / f"{task.name}{TASK_FILE}": task.text for task in tasks}, schema)
    for task in tasks:
        refuse_taken_task(task.name)
    data = {root / file.name: file for task in tasks for file in task.files if file.parent.resolve() != root.resolve()}
    for copy in data:
        refuse_existing(copy)
    write(texts, {schema: schema_text("task") + "\n"})
    for copy, file in data.items():
        copy_rows(file, copy)
    for task in tasks:
        for fact in task.facts:
            click.echo(f"{task.name}: {clean(fact)}")
    click.echo(f"next: figeval validate {join(map(str, texts))}")


def copy_rows(file: Path, copy: Path) -> None:
    """Copy a file or folder with rows. Raises `TaskError` if it cannot be written."""
    try:
        if file.is_dir():
            shutil.copytree(file, copy)
        else:
            shutil.copyfile(file, copy)
    except OSError as error:
        raise TaskError(f"cannot write {copy} ({error.strerror or error}); choose another --directory") from error
    click.echo(copy)


def asked_type(default: str) -> str:
    """Ask for a task type and return its name; without a terminal, return the default."""
    if not sys.stdin.isatty():
        return default
    from figeval import plugins
    from figeval.runs.harness import Harness

    types = [entry.load() for entry in Harness(plugins.plugin_manager()).task_types]
    names = [task_type.name for task_type in types if task_type.scaffold.is_dir()]
    return str(click.prompt("Type of the task", type=click.Choice(names), default=default))


def purpose(file: Path) -> str:
    """Return the purpose of a task's file for its README."""
    return next((text for ending, text in PURPOSES.items() if file.name.endswith(ending)), "")


def task_type_of(kind: str) -> TaskType[Any]:
    """Return the task type of this name. Raises `UnknownName`."""
    from figeval import plugins
    from figeval.runs.harness import Harness

    return cast("TaskType[Any]", Harness(plugins.plugin_manager()).task_types.get(kind))


def scaffold_of(task_type: TaskType[Any]) -> Traversable:
    """Return the scaffold of a task type. Raises `TaskError` if its plugin has none."""
    folder = task_type.scaffold
    if not folder.is_dir():
        raise TaskError(f"the task type {task_type.name!r} has no scaffold; copy a task of this type")
    return folder


def refuse_bad_name(name: str) -> None:
    """Raise `TaskError` for a name that cannot be both a Python module and a task name."""
    if not NAME.fullmatch(name):
        cure = "use lower-case letters, digits and underscores, beginning with a letter"
        raise TaskError(f"{name!r} is not a valid name; {cure}")


def refuse_taken_task(name: str) -> None:
    """Raise `TaskError` for the name of an existing task or suite, as loading a second one would fail."""
    from figeval import plugins
    from figeval.runs.harness import Harness

    catalogue = Harness(plugins.plugin_manager()).catalogue
    for registry in (catalogue.tasks, catalogue.suites):
        if name in registry:
            raise TaskError(f"{name!r} is a {registry.kind} of {registry.entry(name).owner}; choose another name")


def refuse_taken_module(name: str) -> None:
    """Raise `TaskError` for the name of an existing module, which a distribution must not hide."""
    from importlib.util import find_spec
    from keyword import iskeyword

    spec = find_spec(name)
    if iskeyword(name) or (spec and spec.origin):  # without an origin, it is only a folder of that name
        raise TaskError(f"there is a Python module or keyword {name!r} already; choose another name")


def drafts(folder: Traversable, root: Path, name: str, **details: str) -> dict[Path, str]:
    """Return the texts of a scaffold by file, with NAME, $name and `details` filled in.

    Raises:
        PluginError: a `$` precedes anything else.
    """
    variables, texts = {"name": name, **details}, {}
    for path, text in scaffold(folder, PurePath()):
        try:
            filled = Template(text).substitute(variables)
        except (KeyError, ValueError) as error:
            problem = f"there is no ${error.args[0]}" if isinstance(error, KeyError) else error
            raise PluginError(f"{folder / str(path)}: {problem}; write $$ for a dollar sign") from error
        texts[root / str(path).replace("NAME", name).removesuffix(".in")] = filled
    return texts


def scaffold(folder: Traversable, below: PurePath) -> Iterator[tuple[PurePath, str]]:
    """Yield (relative path, text) of every file of a scaffold, in a stable order."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from scaffold(entry, below / entry.name)
        elif entry.name.endswith(".in"):
            yield below / entry.name, entry.read_text(encoding="utf-8")


def naming_schema(texts: Mapping[Path, str], schema: Path) -> dict[Path, str]:
    """Return the texts with the file of the JSON Schema, as a relative path, in the first line of the task files.

    The line has the form that the YAML language server reads, and with it most editors.
    """

    def add_schema(path: Path, text: str) -> str:
        schema_path = Path(os.path.relpath(schema, path.parent)).as_posix()
        return f"# yaml-language-server: $schema={schema_path}\n{text}"

    return {path: add_schema(path, text) if path.name.endswith(TASK_FILE) else text for path, text in texts.items()}


def refuse_existing(path: Path) -> None:
    """Raise `TaskError` for a file that exists, before anything is written."""
    if path.exists():
        raise TaskError(f"{path} exists already and nothing was written; remove it or choose another --directory")


def write(texts: Mapping[Path, str], generated: Mapping[Path, str]) -> None:
    """Write all files, or none if one of `texts` exists; generated files are replaced. Raises `TaskError`."""
    for path in texts:
        refuse_existing(path)
    try:
        for path, text in {**texts, **generated}.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(path)
    except OSError as error:
        raise TaskError(f"cannot write {path} ({error.strerror or error}); choose another --directory") from error
