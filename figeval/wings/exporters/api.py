"""`figeval.export`, which does what the command `export` does, and the contract of exporters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from figeval import Harness, OptionError, PluginError, Run, StoredRun, write_output
from figeval.api.runs import Runs, given_options, run_paths, settings_in, several_runs
from figeval.config import Folders, Settings
from figeval.io.text import one_line
from figeval.io.validation import checked_arguments, first_problem, paths_in
from figeval.runs.stored import load_exporters, stored_runs
from figeval.wings.exporters.layouts import load_layouts

if TYPE_CHECKING:
    from typing import Unpack

    from figeval.wings.comparison.family import RunComparisons

PROVIDED = {"stored", "layouts", "compare"}  # arguments that figeval gives to exporters


Exported: TypeAlias = str | bytes | Mapping[str, str | bytes]  # a text, a binary file, or files by their names


class TableChoices(TypedDict, total=False):
    """Choices of `figeval.export` for tables in LaTeX; `figeval export --help` describes each.

    Attributes:
        layout: `comparison`, or a table of a paper (`figeval ls layouts`), which needs no runs.
        tasks: tasks of the layout `comparison`; by default all.
        metrics: metrics of the layout `comparison`; by default the first one of each task.
        against: place of the run whose differences to others are marked in `comparison`; by default the best.
        intervals: whether a layout has 95 % intervals.
        examples: whether a layout has numbers of examples.
        measured: files or folders of `figeval benchmark analyze` or `figeval annotate import`: numbers of no run.
        label: label of the table, without `tab:`.
        caption: its caption, in LaTeX.
        names: what to print for names of models, trivial models, tasks and metrics, e.g. `{"tfidf": "TF-IDF"}`.
        wide: whether it spans both columns of a page (`table*`).
        width: width of a line of text, e.g. "16cm"; by default 345pt, or 455pt if `wide`. Wider tables are split or
            turned.
    """

    layout: str
    tasks: str | Sequence[str]
    metrics: str | Sequence[str]
    against: int | None
    intervals: bool
    examples: bool
    measured: str | Path | Sequence[str | Path]
    label: str
    caption: str
    names: Mapping[str, str]
    wide: bool
    width: str


@checked_arguments
def export(  # noqa: PLR0913 - one argument per option
    runs: Runs,
    *,
    to: str,
    output: str | Path | None = None,
    include_text: bool = False,
    allow_noncommercial: bool = False,
    format_args: Settings | None = None,
    include_path: Folders = (),
    **choices: Unpack[TableChoices],
) -> str | None:
    """Export runs as one table, or in the format of another tool.

    Args:
        runs: runs, or their folders; of a `Run`, its record is exported, with the breakdowns of `Run.by`.
        to: a format of `figeval export`, e.g. csv, latex, lm_eval or inspect.
        output: file to write, or folder for formats of several files.
        include_text: also export the texts of the examples, read from your own copy of the data.
        allow_noncommercial: include texts whose licence restricts commercial use.
        format_args: arguments of the format, e.g. `{"dataset_id": "acme/figures"}` or `"dataset_id=acme/figures"`.
        include_path: further folders with task files.
        choices: for latex: `layout`, `tasks`, `metrics`, `against`, `intervals`, `examples`, `measured`, `label`,
            `caption`, `names`, `wide`, `width`, as `figeval export --help` describes them.

    Returns:
        The text, or None if it was written to `output`.

    Raises:
        OptionError: the format needs an `output`, or an argument has an invalid value.
        UnknownName: there is no such format or layout.
        FigevalError: there is no run, or texts are not available or not for every use.

    Example:
        ```python
        figeval.export("results/runs/demo", to="latex", layout="epic_table_10", intervals=True)
        ```
    """
    arguments = _check_choices(given_options("figeval.export", choices, TableChoices.__annotations__))
    exporter, paths = load_exporters(Harness().manager).get(to), run_paths(runs)
    stored = stored_runs(paths, paths_in(include_path), texts=include_text, noncommercial=allow_noncommercial)
    pairs = zip(stored, several_runs(runs), strict=True)
    stored = [replace(run, record=source.record) if isinstance(source, Run) else run for run, source in pairs]
    if "measured" in arguments:
        arguments["measured"] = paths_in(arguments["measured"], "measured")
    content = call_exporter(exporter, stored, {**settings_in("format_args", format_args), **_without_empty(arguments)})
    if output is None:
        return _require_text(content, to)
    write_output(content, Path(output), [*paths, *arguments.get("measured", ())])
    return None


def _check_choices(choices: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(TypeAdapter(TableChoices).validate_python(choices))
    except ValidationError as error:
        raise OptionError(first_problem(error)) from error


def _without_empty(choices: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in choices.items() if value or (value == 0 and value is not False)}


def _require_text(content: Exported, form: str) -> str:
    if isinstance(content, str):
        return content
    reason = (
        "is a binary format; name a file" if isinstance(content, bytes) else "consists of several files; name a folder"
    )
    raise OptionError(f"{form} {reason} with --output")


# ---- what exporters are called with, and what they may return --------------------------------------------------------


def call_exporter(
    exporter: Callable[..., Any], runs: Sequence[StoredRun], arguments: Mapping[str, Any] | None = None
) -> Exported:
    """Return what an exporter makes of these runs.

    Args:
        exporter: the exporter; its keyword-only arguments can be set by users.
        runs: the runs.
        arguments: values of such arguments.

    Raises:
        OptionError: the exporter has no such argument, or needs one that is not given.
        PluginError: it returned neither a text, bytes nor files, or a file would be outside the folder.
    """
    parameters, options = _parameters(exporter), dict(arguments or {})
    _check_arguments(parameters, options)
    sources: Mapping[str, Callable[[], Any]] = {
        "stored": lambda: runs,
        "layouts": lambda: load_layouts(Harness().manager),
        "compare": lambda: partial(_compare, runs),
    }
    provided = {name: source() for name, source in sources.items() if name in parameters}
    if runs and "tasks" in options:
        names = options["tasks"].split(",") if isinstance(options["tasks"], str) else options["tasks"]
        options["tasks"] = list(_expand_suites(names, runs))
    return _check_content(exporter([run.record for run in runs], **provided, **options))


def _compare(
    runs: Sequence[StoredRun], metric: str, tasks: Iterable[str], against: int | None = None
) -> RunComparisons:
    """Return the comparisons of the runs by one metric on some tasks: of all pairs, or with the run at one place."""
    try:
        from figeval.wings.comparison.family import ComparisonDesign, compare_all
    except ModuleNotFoundError as error:  # the only format that needs it
        raise OptionError("the layout comparison needs the folder figeval/wings/comparison; restore it") from error
    design = ComparisonDesign(against=against, tasks=frozenset(tasks))
    return compare_all([run.folder.path for run in runs], metric, design=design)


def _expand_suites(names: Iterable[str], runs: Sequence[StoredRun]) -> Iterator[str]:
    """Yield names of tasks, for a suite those of its tasks that the runs have."""
    tasks = {task.task for run in runs for task in run.record.tasks}
    catalogue = runs[0].harness.catalogue
    for name in names:
        if name in tasks or name not in catalogue.suites:
            yield name
        else:
            yield from (task.name for task in catalogue.expand([name]) if task.name in tasks)


def _parameters(exporter: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(exporter).parameters
    except (TypeError, ValueError):  # a function that is not written in Python
        return {}


def _check_arguments(parameters: Mapping[str, inspect.Parameter], options: Mapping[str, Any]) -> None:
    settable = {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in PROVIDED
    }
    for name in options:
        if name not in settable:
            alternatives = f"it has {', '.join(settable)}" if settable else "it has none"
            raise OptionError(f"this format has no argument {name!r}; {alternatives}")
    for name, parameter in settable.items():
        if parameter.default is parameter.empty and name not in options:
            raise OptionError(f"this format needs {name}; add --format_args {name}=…")


def _check_content(content: Any) -> Exported:
    if isinstance(content, str | bytes):
        return content
    if not isinstance(content, Mapping):
        raise PluginError(
            f"an exporter returns a text, bytes or a mapping from file names to them, not {content!r:.80}"
        )
    for name, part in content.items():
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\\" in name or one_line(name) != name:
            raise PluginError(f"an exporter named a file {one_line(name, 80)!r}; names are paths within the folder")
        if not isinstance(part, str | bytes):
            raise PluginError(f"an exporter made {part!r:.80} for the file {name}; return a text or bytes")
    return content
