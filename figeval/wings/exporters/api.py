"""`figeval.export`, which does what the command `export` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from figeval import plugins
from figeval.api.runs import Folders, Run, Runs, paths_in, run_paths, several_runs
from figeval.io.validation import checked_arguments
from figeval.reporting.exporters import load_exporters
from figeval.runs.outputs import save
from figeval.runs.stored_run import stored_runs
from figeval.wings.exporters.contract import chosen, exported, text_of


@checked_arguments
def export(  # noqa: PLR0913 - one argument per option of the command
    runs: Runs,
    *,
    to: str,
    output: str | Path | None = None,
    include_text: bool = False,
    allow_noncommercial: bool = False,
    format_args: Mapping[str, Any] | None = None,
    layout: str = "",
    tasks: str | Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    against: int | None = None,
    intervals: bool = False,
    examples: bool = False,
    measured: str | Path | Sequence[str | Path] = (),
    include_path: Folders = (),
) -> str | None:
    """Export runs as one table, or in the format of another tool.

    Args:
        runs: runs, or their folders; of a `Run`, its record is exported, with the breakdowns of `Run.by`.
        to: a format of `figeval export`, e.g. csv, latex, lm_eval or inspect.
        output: file to write, or folder for formats of several files.
        include_text: also export the texts of the examples, read from your own copy of the data.
        allow_noncommercial: include texts whose licence restricts commercial use.
        format_args: arguments of the format, e.g. `{"dataset_id": "acme/figures"}`.
        layout: for latex: `comparison`, or a table of a paper (`figeval ls layouts`), which needs no runs.
        tasks: tasks of the layout `comparison`; by default all.
        metrics: metrics of the layout `comparison`; by default the first one of each task.
        against: place of the run whose differences to others are marked in `comparison`; by default the best.
        intervals: whether a layout has 95 % intervals.
        examples: whether a layout has numbers of examples.
        measured: files or folders with numbers that no run holds (`figeval analyze epic`, `figeval annotate import`).
        include_path: further folders with task files.

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
    exporter, places = load_exporters(plugins.plugin_manager()).get(to), run_paths(runs)
    stored = stored_runs(places, paths_in(include_path), texts=include_text, noncommercial=allow_noncommercial)
    given = zip(stored, several_runs(runs), strict=True)
    stored = [replace(run, record=one.record) if isinstance(one, Run) else run for run, one in given]
    numbers = paths_in(measured, "measured")
    choices = {"layout": layout, "tasks": tasks, "metrics": metrics, "against": against, "measured": numbers}
    choices = chosen(**choices, intervals=intervals, examples=examples)
    made = exported(exporter, stored, {**(format_args or {}), **choices})
    if output is None:
        return text_of(made, to)
    save(made, Path(output), [*places, *numbers])
    return None
