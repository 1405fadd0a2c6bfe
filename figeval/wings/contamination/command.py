"""Command `figeval contamination`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from figeval import print_result, shared_options
from figeval.cli.shared import as_latex, include_path, some, split_names


@click.command()
@click.option("--tasks", required=True, multiple=True, callback=some, help="Tasks or suites, separated by commas.")
@click.option("--model", "-m", required=True, help="Name, folder or hub id of a language model.")
@shared_options("model_args")
@click.option("--limit", "-L", type=click.IntRange(min=1), help="Use only the first N examples of each task.")
@click.option(
    "--measures",
    multiple=True,
    callback=split_names,
    metavar="recall,rewrites,order,min_k",
    help="What to measure; by default all of these.",
)
@click.option(
    "--shards",
    type=click.IntRange(min=2),
    help="Parts of the file for the order test; by default of five clusters each.",
)
@click.option(
    "--permutations",
    type=click.IntRange(min=1),
    default=9_999,
    show_default=True,
    help="Random orders of the order test; they cost no further request.",
)
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    help="Folder of a run of the same model and tasks: compare its scores on recalled and other texts.",
)
@click.option("--device", help="Device of the model: cpu, cuda, cuda:1, mps.")
@shared_options("seed")
@click.option(
    "--output_path",
    "-o",
    type=click.Path(path_type=Path),
    help="Folder for the record; by default one in results/contamination, named after the model.",
)
@include_path
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
@as_latex
def contamination(*, tasks: tuple[str, ...], model: str, as_json: bool, as_latex: bool, **options: Any) -> None:
    """Measure what a language model may remember of a benchmark. Every number is evidence, not proof.

    Recall of the last words of proverbs and idioms, likelihood compared with rewrites, a test of the file's order by
    clusters, and Min-K% and Min-K%++. Before a measure begins, its cost is printed on stderr.

    \b
    figeval contamination --tasks epic_mcq --model smollm2 --limit 50 --measures recall,rewrites
    figeval contamination --tasks mini_proverbs --model models/mine --run results/runs/mine
    """
    from figeval.wings.contamination.api import contamination as measure_contamination

    arguments = {name: value for name, value in options.items() if value not in (None, ())}
    measurement = measure_contamination(tasks, model, progress=True, **arguments)
    print_result(measurement, as_json=as_json, as_latex=as_latex)
