"""Command `figeval audit`."""

from __future__ import annotations

from pathlib import Path

import click

from figeval import print_result
from figeval.cli.shared import include_path, split_names


@click.command()
@click.argument("tasks", nargs=-1, required=True, callback=split_names, metavar="TASK|SUITE|FILE...")
@click.option("--seed", default=0, show_default=True, help="Random seed for dividing the items into halves.")
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Stored run whose scores of the options count as one more rule; may be repeated.",
)
@include_path
def audit(tasks: tuple[str, ...], seed: int, runs: tuple[Path, ...], include_path: tuple[Path, ...]) -> None:
    """Measure what the options of a multiple-choice task give away without understanding.

    Prints the accuracy of rules that read only the options (position, length, likeness, how often an option is
    offered, a regression), and of rules that take the option most or least like the question, with clustered 95 %
    intervals. A rule whose interval does not contain chance is marked with an asterisk.

    \b
    figeval audit epic_mcq
    figeval audit epic_mcq --run runs/minilm --run runs/glove
    """
    from figeval import Harness, load
    from figeval.api.runs import read_task_files
    from figeval.wings.audit.audit import audit as audit_task

    names, files = read_task_files(tasks)
    harness = Harness(include=(*include_path, *files))
    for task in harness.catalogue.expand(names):
        print_result(audit_task(task, harness, seed, list(map(load, runs))))
