"""Command `figeval difficulty`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.output import echo_json, echo_result

PAIR = 2


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN RUN...")
@click.option("--metric", default="acc", show_default=True, help="A mean over examples with values from 0 to 1.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="CSV file with a line for each example."
)
@click.option("--json", "as_json", is_flag=True, help="Print all examples as a JSON list.")
def difficulty(runs: tuple[Path, ...], metric: str, output: Path | None, as_json: bool) -> None:
    """Say how difficult the examples of a task are for several models, and which labels may be wrong.

    "nobody" and "everybody" count the examples that no model and that every model got right, next to the numbers for
    models of the same accuracy that err independently. A candidate is an example to which all models gave the same
    wrong answer, at least two of which are better than the most common right answer: look at its label.

    \b
    figeval difficulty results/runs/minilm results/runs/tfidf results/runs/smollm2
    figeval difficulty A B C --output items.csv
    """
    from figeval.runs.outputs import save
    from figeval.wings.comparison.difficulty_api import difficulty as difficulty_of

    if len(runs) < PAIR:
        raise click.UsageError("give at least two runs")
    found = difficulty_of(runs, metric=metric)
    if output is not None:
        save(found.to_csv(), output, runs)
    if as_json:
        echo_json(found.to_dict())
    else:
        echo_result(found.grids, found.notes())
