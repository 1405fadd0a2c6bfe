"""Command `figeval export`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from figeval.cli.shared import HeadedCommand, include_path, option_under, settings, split_names

output_option, text_option = option_under("Output"), option_under("Texts of the examples")
table_option, latex_option = option_under("Tables of papers and of comparisons"), option_under("LaTeX")
PAIR_COMMA = re.compile(r",(?=[^,=]+=)")  # a comma before another NAME=


def pairs(_context: click.Context, parameter: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Read e.g. `a=A, b=B` and repeated flags into {"a": "A", "b": "B"}; a text may contain commas."""
    texts = [part for text in value for part in PAIR_COMMA.split(text)]
    for text in texts:
        if not all(part.strip() for part in text.partition("=")):
            raise click.BadParameter(f"{text!r} is not NAME=TEXT", param=parameter)
    return {name.strip(): label.strip() for name, _, label in (text.partition("=") for text in texts)}


@click.command(cls=HeadedCommand)
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path), metavar="[RUN]...")
@output_option(
    "--to",
    "form",
    required=True,
    help="Output format: csv, json, latex, bibtex, markdown, parquet, published; eval_results, every_eval_ever, "
    "inspect, lm_eval, model_index; or one that a plugin adds.",
)
@output_option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="File to write instead of stdout, or folder for formats that consist of several files.",
)
@text_option(
    "--include_text", is_flag=True, help="Also export the texts of the examples, from your own copy of the data."
)
@text_option(
    "--allow_noncommercial",
    is_flag=True,
    help="Include texts whose licence restricts commercial use.",
)
@output_option("--format_args", callback=settings, help="Arguments of the format, as key=value,… or a JSON object.")
@table_option(
    "--layout", default="", help="For latex and bibtex: comparison, or a table of a paper; see `figeval ls layouts`."
)
@table_option(
    "--tasks",
    multiple=True,
    callback=split_names,
    help="For --layout comparison and eval_results: tasks, separated by commas; by default all.",
)
@table_option(
    "--metrics",
    multiple=True,
    callback=split_names,
    help="For --layout comparison: metrics, separated by commas; by default the first one of each task.",
)
@table_option(
    "--against",
    type=click.Path(path_type=Path),
    help="For --layout comparison: mark differences to this one of the runs instead of the best.",
)
@table_option("--intervals", is_flag=True, help="For --layout: print 95 % intervals.")
@table_option("--examples", is_flag=True, help="For --layout: print numbers of examples.")
@table_option(
    "--measured",
    multiple=True,
    type=click.Path(path_type=Path),
    help="For --layout: file or folder with numbers that no run holds (`figeval benchmark analyze`, `figeval annotate "
    "import`); may be repeated.",
)
@latex_option("--label", default="", help="Label of the table, without the prefix `tab:`.")
@latex_option("--caption", default="", help="Caption of the table, in LaTeX.")
@latex_option(
    "--names",
    multiple=True,
    callback=pairs,
    metavar="NAME=TEXT",
    help='What to print for a model, trivial model, task or metric, e.g. tfidf="TF-IDF"; may be repeated.',
)
@latex_option("--wide", is_flag=True, help="Span both columns of a page (table*).")
@latex_option(
    "--width",
    default="",
    help="Width of a line of text, e.g. 16cm. Wider tables are split or turned.  [default: 345pt, with --wide 455pt]",
)
@include_path
def export(runs: tuple[Path, ...], form: str, against: Path | None, layout: str, **choices: Any) -> None:
    """Export runs as one table, or in the format of another tool. No model is needed.

    For a folder with several seeds, the table has their means. `--to published` is a Markdown table of the runs beside
    published numbers.

    \b
    figeval export results/runs/* --to csv --output all.csv
    figeval export models/five-seeds --to latex
    figeval export results/runs/minilm --to lm_eval --output lm_eval_results
    figeval export results/runs/* --to latex --layout epic_table_7 --intervals
    figeval export --to latex --layout storal_table_8 --measured items
    figeval export A B C --to latex --layout comparison --metrics acc,mrr --against A
    figeval export A B C --to bibtex --output benchmarks.bib
    figeval export A B C --to latex --wide --label main --names tfidf="TF-IDF"
    """
    from figeval.io.text import clean
    from figeval.wings.exporters.api import export as export_runs

    if against is not None and against not in runs:
        raise click.BadParameter(f"{against} is none of the runs; list it among them", param_hint="'--against'")
    if not runs and not layout:
        raise click.UsageError("Missing argument 'RUN...'.")
    position = None if against is None else runs.index(against)
    text = export_runs(runs, to=form, layout=layout, against=position, **choices)
    if text is not None:
        click.echo(clean(text), nl=False)
