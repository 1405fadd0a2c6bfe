"""Command `figeval compare`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval.cli.options import listed
from figeval.cli.output import echo_json

PAIR = 2


@click.command()
@click.argument("run_a", type=click.Path(path_type=Path))
@click.argument("run_b", type=click.Path(path_type=Path))
@click.option("--metric", default="acc", show_default=True, help="Metric to compare; it must be a mean over examples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed for the sign-flip test.")
@click.option(
    "--prompts", callback=listed, help="Prompts to compare, one of run A and one of run B, e.g. default,lower."
)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as one JSON object.")
def compare(run_a: Path, run_b: Path, metric: str, seed: int, prompts: tuple[str, ...], as_json: bool) -> None:
    """Compare two runs example by example, task by task.

    p comes from flipping the signs of the clusters' summed differences (for independent 0/1 rows, this is the exact
    McNemar test). The interval of the difference is a t interval with a clustered standard error. Whether the intervals
    of two runs overlap says little, because both models are asked the same hard examples.

    \b
    figeval compare results/runs/minilm results/runs/tfidf
    figeval compare A B --metric mrr
    figeval compare A A --prompts default,lower
    """
    from figeval.api.comparisons import compare as compare_runs

    if prompts and len(prompts) != PAIR:
        raise click.BadParameter("give two prompts separated by a comma, first that of run A", param_hint="'--prompts'")
    pair = (prompts[0], prompts[1]) if prompts else None
    found = compare_runs(run_a, run_b, metric=metric, seed=seed, prompts=pair)
    if as_json:
        echo_json(found.to_dict())
        return
    from rich.console import Console

    from figeval.report.grid import say

    console = Console()
    found.grid.print(console)
    for note in found.notes():
        say(console, f"  {note}")
