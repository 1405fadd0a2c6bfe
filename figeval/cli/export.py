"""Command `figeval export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from figeval.cli.options import include_path, settings


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
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
@include_path
def export(  # noqa: PLR0913, PLR0917 - one argument per option
    runs: tuple[Path, ...],
    form: str,
    output: Path | None,
    include_text: bool,
    allow_noncommercial: bool,
    format_args: dict[str, Any],
    include_path: tuple[Path, ...],
) -> None:
    """Export runs as one table, or in the format of another tool. No model is needed.

    For a folder with several seeds, the table has their means.

    \b
    figeval export results/runs/* --to csv --output all.csv
    figeval export models/five-seeds --to latex
    figeval export results/runs/minilm --to lm_eval --output lm_eval_results
    """
    from figeval import plugins
    from figeval.evaluation.export import exported, save, stored_runs, text_of
    from figeval.report.exporters import load_exporters
    from figeval.text import clean

    exporter = load_exporters(plugins.plugin_manager()).get(form)
    stored = stored_runs(runs, include_path, texts=include_text, noncommercial=allow_noncommercial)
    made = exported(exporter, stored, format_args)
    if output is None:
        click.echo(clean(text_of(made, form)), nl=False)
    else:
        save(made, output, runs)
