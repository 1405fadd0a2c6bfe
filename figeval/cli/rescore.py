"""Command `figeval rescore`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from figeval.cli.shared import echo_json, include_path
from figeval.io.frontend import notice

if TYPE_CHECKING:
    from figeval.runs.rescore import Reread

HEAD = ("task", "answers", "changed", "before", "after", "acc before", "acc after")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@include_path
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def rescore(run: Path, include_path: tuple[Path, ...], as_json: bool) -> None:
    """Extract the answers of a run again from its stored replies; predictions and scores are replaced.

    Only the routes by_letter, by_label_word, by_json and by_decoding have replies in words. The tasks' data are needed,
    but no model.

    \b
    figeval rescore results/runs/claude
    """
    from figeval.runs.harness import Harness
    from figeval.runs.rescore import rescore as read_again

    rereads = read_again(run, Harness(include=include_path))
    if as_json:
        echo_json([asdict(task) for task in rereads])
        return
    from rich.console import Console

    from figeval.reporting.grid import Grid

    Grid(HEAD, list(map(cells, rereads)), right=("answers", "changed", "acc before", "acc after")).print(Console())
    for task in rereads:
        if task.missing:
            notice(
                f"{task.task}: {task.missing} examples have no answer yet; repeat the `figeval run` command to ask them"
            )


def cells(reread: Reread) -> tuple[str, ...]:
    """Return one row of the table."""
    from figeval.reporting.grid import format_number

    counts = (str(reread.answers), str(reread.changed))
    return (
        reread.task,
        *counts,
        format_statuses(reread.before),
        format_statuses(reread.after),
        format_number(reread.acc_before),
        format_number(reread.acc_after),
    )


def format_statuses(statuses: Mapping[str, int]) -> str:
    """Return counts as text, e.g. `35 ok · 5 refusal`."""
    from figeval.reporting.grid import AND

    return AND.join(f"{count} {status}" for status, count in statuses.items())
