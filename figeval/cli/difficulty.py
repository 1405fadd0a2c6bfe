"""Command `figeval difficulty`."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

import click

from figeval.cli.output import echo_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from figeval.evaluation.difficulty import TaskDifficulty

HEAD = ("task", "n", "models", "nobody", "expected", "everybody", "expected", "candidates")
LISTED = 10  # candidates that are listed for each task
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
    from figeval.evaluation.difficulty import difficulty as difficulty_of
    from figeval.evaluation.export import save
    from figeval.text import csv_cell

    if len(runs) < PAIR:
        raise click.UsageError("give at least two runs")
    found = difficulty_of(runs, metric)
    if output is not None:
        lines = io.StringIO()
        writer = csv.writer(lines)
        writer.writerow(("task", "id", "cluster", "difficulty", "answered", "right", "gold", "common_error"))
        for one in found:
            for item in one.items:
                answers = ("" if value is None else shown(value) for value in (item.gold, item.common_error))
                numbers = (item.difficulty, item.answered, item.right)
                writer.writerow(
                    (*map(csv_cell, (one.task, item.id, item.cluster or "")), *numbers, *map(csv_cell, answers))
                )
        save(lines.getvalue(), output, runs)
    if as_json:
        echo_json([asdict(one) for one in found])
        return
    from rich.console import Console

    from figeval.reporting.grid import Grid, say

    rows = [
        (
            one.task,
            str(len(one.items)),
            str(len(one.models)),
            str(one.nobody),
            f"{one.nobody_expected:.1f}",
            str(one.everybody),
            f"{one.everybody_expected:.1f}",
            str(len(one.candidates)),
        )
        for one in found
    ]
    console = Console()
    Grid(HEAD, rows, f"{metric}: examples by difficulty", right=HEAD[1:]).print(console)
    for one in found:
        for note in notes(one):
            say(console, f"  {one.task}{note}")


def notes(found: TaskDifficulty) -> Iterator[str]:
    """Yield the lines below the table, without the task at their beginning: the candidates, and what was left out."""
    from figeval.text import one_line

    for item in found.candidates[:LISTED]:
        said, gold = shown(item.common_error), shown(item.gold)
        yield f" {item.id}: all {item.answered} models answer {said}, gold is {gold}"
    if (more := len(found.candidates) - LISTED) > 0:
        yield f": {more} more; --output lists all"
    if items := (found.candidates or [item for item in found.items if not item.right])[:LISTED]:
        ids = (part for item in items for part in ("--id", one_line(item.id)))
        which = "these" if found.candidates else "the hardest"
        yield f": to look at {which}, run figeval preview {join((found.of, *ids))}"
    if found.unanswered:
        yield f": {found.unanswered} examples without an answer of some model"
    if found.uninformed:
        names = ", ".join(map(one_line, found.uninformed))
        yield f": not better than the most common right answer, so they do not make candidates: {names}"


def shown(answer: object) -> str:
    """Return an answer as JSON in one line."""
    from figeval.text import shown_json

    return shown_json(json.dumps(answer, ensure_ascii=False))
