"""Command `figeval export`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option(
    "--to", "form", required=True, help="Output format: csv, json, latex, markdown, or one that a plugin adds."
)
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="File to write instead of stdout."
)
def export(runs: tuple[Path, ...], form: str, output: Path | None) -> None:
    """Export runs as one table: CSV, LaTeX, Markdown or JSON. No model is needed.

    For a folder with several seeds, the table has their means.

    \b
    figeval export results/runs/* --to csv --output all.csv
    figeval export models/five-seeds --to latex
    figeval export results/runs/minilm results/runs/tfidf --to latex
    """
    from figeval import plugins
    from figeval.records.sweep import run_or_mean
    from figeval.report.exporters import load_exporters
    from figeval.storage import cure, replace_text
    from figeval.text import clean

    exporter = load_exporters(plugins.plugin_manager()).get(form)
    text = exporter([run_or_mean(run) for run in runs])
    if output is None:
        click.echo(clean(text), nl=False)
        return
    with cure(output, "--output"):
        if output.exists() and not output.is_file():  # /dev/stdout, a pipe
            output.write_text(text, encoding="utf-8")
        else:
            replace_text(output.resolve(), text)
