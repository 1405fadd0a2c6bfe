"""Contract of exporters: what they are called with, and what they may return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import figeval
from figeval import plugins
from figeval.errors import OptionError, PluginError, RecordError
from figeval.io.text import one_line
from figeval.runs.outputs import Files
from figeval.runs.stored_run import StoredRun
from figeval.wings.exporters.layouts import load_layouts

if TYPE_CHECKING:
    from figeval.wings.comparison.family import RunComparisons

PROVIDED = {"stored", "layouts", "compare"}  # arguments that figeval gives to exporters


def exported(
    export: Callable[..., Any], runs: Sequence[StoredRun], arguments: Mapping[str, Any] | None = None
) -> str | bytes | Files:
    """Return what an exporter makes of these runs.

    Args:
        export: the exporter; its keyword-only arguments can be set by users.
        runs: the runs.
        arguments: values of such arguments.

    Raises:
        OptionError: the exporter has no such argument, or needs one that is not given.
        PluginError: it returned neither a text, bytes nor files, or a file would be outside the folder.
    """
    parameters = _parameters(export)
    given = dict(arguments or {})
    _check_arguments(parameters, given)
    provided: Mapping[str, Callable[[], Any]] = {
        "stored": lambda: runs,
        "layouts": lambda: load_layouts(plugins.plugin_manager()),
        "compare": lambda: partial(_compare, runs),
    }
    own = {name: make() for name, make in provided.items() if name in parameters}
    if runs and "tasks" in given:
        names = given["tasks"].split(",") if isinstance(given["tasks"], str) else given["tasks"]
        given["tasks"] = list(_with_suites(names, runs))
    made = export([run.record for run in runs], **own, **given)
    if isinstance(made, str | bytes):
        return made
    if not isinstance(made, Mapping):
        raise PluginError(f"an exporter returns a text, bytes or a mapping from file names to them, not {made!r:.80}")
    for name, content in made.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\\" in name or one_line(name) != name:
            raise PluginError(f"an exporter named a file {one_line(name, 80)!r}; names are paths within the folder")
        if not isinstance(content, str | bytes):
            raise PluginError(f"an exporter made {content!r:.80} for the file {name}; return a text or bytes")
    return made


def _compare(
    runs: Sequence[StoredRun], metric: str, tasks: Iterable[str], against: int | None = None
) -> RunComparisons:
    """Return the comparisons of the runs by one metric on some tasks: of all pairs, or with the run at one place."""
    if "compare" not in dir(figeval):
        raise RecordError("figeval/wings/comparison is not installed")
    from figeval.wings.comparison.family import ComparisonDesign, compare_all

    design = ComparisonDesign(against=against, tasks=frozenset(tasks))
    return compare_all([one.folder.path for one in runs], metric, design=design)


def _with_suites(names: Iterable[str], runs: Sequence[StoredRun]) -> Iterator[str]:
    """Yield names of tasks, for a suite those of its tasks that the runs have."""
    has = {task.task for run in runs for task in run.record.tasks}
    catalogue = runs[0].harness.catalogue
    for name in names:
        if name in has or name not in catalogue.suites:
            yield name
        else:
            yield from (task.name for task in catalogue.expand([name]) if task.name in has)


def chosen(**choices: Any) -> dict[str, Any]:
    """Return the arguments of a format that the user chose: those that are not empty, false or None."""
    return {name: value for name, value in choices.items() if value or (value == 0 and value is not False)}


def _parameters(export: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(export).parameters
    except (TypeError, ValueError):  # a function that is not written in Python
        return {}


def _check_arguments(parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]) -> None:
    """Raise `OptionError` if an exporter has no argument of a given name, or needs one that is not given."""
    settable = {name: one for name, one in parameters.items() if one.kind is one.KEYWORD_ONLY and name not in PROVIDED}
    for name in given:
        if name not in settable:
            has = f"it has {', '.join(settable)}" if settable else "it has none"
            raise OptionError(f"this format has no argument {name!r}; {has}")
    for name, one in settable.items():
        if one.default is one.empty and name not in given:
            raise OptionError(f"this format needs {name}; add --format_args {name}=…")


def text_of(made: str | bytes | Files, form: str) -> str:
    """Return the text that an exporter made. Raises `OptionError` if it made something else, which needs a place."""
    if isinstance(made, str):
        return made
    what = "is a binary format; name a file" if isinstance(made, bytes) else "consists of several files; name a folder"
    raise OptionError(f"{form} {what} with --output")
