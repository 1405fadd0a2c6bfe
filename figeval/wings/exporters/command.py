"""Command `figeval export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from figeval.cli.shared import include_path, settings, split_names


@click.command()
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
@click.option(
    "--to",
    "form",
    required=True,
    help="Output format: csv, json, latex, markdown, parquet, published; eval_results, every_eval_ever, inspect, "
    "lm_eval, model_index; or one that a plugin adds.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="File to write instead of stdout, or folder for formats that consist of several files.",
)
@click.option(
    "--include_text", is_flag=True, help="Also export the texts of the examples, from your own copy of the data."
)
@click.option(
    "--allow_noncommercial",
    is_flag=True,
    help="Include texts whose licence restricts commercial use.",
)
@click.option("--format_args", callback=settings, help="Arguments of the format, as key=value,… or a JSON object.")
@click.option("--layout", help="For latex: comparison, or a table of a paper; see `figeval ls layouts`.")
@click.option(
    "--tasks",
    multiple=True,
    callback=split_names,
    help="For --layout comparison and eval_results: tasks, separated by commas; by default all.",
)
@click.option(
    "--metrics",
    multiple=True,
    callback=split_names,
    help="For --layout comparison: metrics, separated by commas; by default the first one of each task.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="For --layout comparison: mark differences to this one of the runs instead of the best.",
)
@click.option("--intervals", is_flag=True, help="For --layout: print 95 % intervals.")
@click.option("--examples", is_flag=True, help="For --layout: print numbers of examples.")
@click.option(
    "--measured",
    multiple=True,
    type=click.Path(path_type=Path),
    help="For --layout: file or folder with numbers that no run holds (`figeval benchmark analyze`, `figeval annotate "
    "import`); may be repeated.",
)
@include_path
def export(  # noqa: PLR0913, PLR0917 - one argument per option
    runs: tuple[Path, ...],
    form: str,
    output: Path | None,
    include_text: bool,
    allow_noncommercial: bool,
    format_args: dict[str, Any],
    layout: str | None,
    tasks: tuple[str, ...],
    metrics: tuple[str, ...],
    against: Path | None,
    intervals: bool,
    examples: bool,
    measured: tuple[Path, ...],
    include_path: tuple[Path, ...],
) -> None:
    """Export runs as one table, or in the format of another tool. No model is needed.

    For a folder with several seeds, the table has their means.

    \b
    figeval export results/runs/* --to csv --output all.csv
    figeval export models/five-seeds --to latex
    figeval export results/runs/minilm --to lm_eval --output lm_eval_results
    figeval export results/runs/* --to latex --layout epic_table_7 --intervals
    figeval export --to latex --layout storal_table_8 --measured items
    figeval export A B C --to latex --layout comparison --metrics acc,mrr --against A
    """
    from figeval.io.text import clean
    from figeval.wings.exporters.api import export as export_runs

    if against is not None and against not in runs:
        raise click.BadParameter(f"{against} is none of the runs; list it among them", param_hint="'--against'")
    if not runs and not layout:
        raise click.UsageError("Missing argument 'RUN...'.")
    text = export_runs(
        runs,
        to=form,
        output=output,
        include_text=include_text,
        allow_noncommercial=allow_noncommercial,
        format_args=format_args,
        layout=layout or "",
        tasks=tasks,
        metrics=metrics,
        against=None if against is None else runs.index(against),
        intervals=intervals,
        examples=examples,
        measured=measured,
        include_path=include_path,
    )
    if text is not None:
        click.echo(clean(text), nl=False)
