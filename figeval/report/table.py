"""The table of a run: every score with its interval and the trivial baselines beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord

HEAD = ("task", "route", "metric", "value", "95 % interval", "n", "clusters", "baselines")
RIGHT = {"value", "95 % interval", "n", "clusters"}


def number(value: float | None) -> str:
    """Four digits behind the point; an en dash where there is none."""
    return "–" if value is None else f"{value:.4f}"


def interval(score: ScoreRecord) -> str:
    """`.3012–.3987`, an en dash where no honest interval exists."""
    return "–" if score.low is None or score.high is None else f"{score.low:.3f} to {score.high:.3f}"


def baselines(task: TaskRecord, metric: str) -> str:
    """`chance .200 · overlap .312` for one metric."""
    found = []
    for baseline in task.baselines:
        value = next((score.value for score in baseline.scores if score.metric == metric), None)
        if value is not None:
            found.append(f"{baseline.baseline} {value:.3f}")
    return " · ".join(found)


def rows(record: RunRecord) -> Iterable[tuple[str, ...]]:
    """The cells of the table, HEAD's columns; a task's name stands in its first row only."""
    for task in record.tasks:
        if task.status == "failed":
            yield (task.task, task.route, "failed", "–", "–", "–", "–", "")
        for index, score in enumerate(task.scores):
            yield (
                task.task if index == 0 else "",
                task.route if index == 0 else "",
                score.metric,
                number(score.value),
                interval(score),
                str(score.n),
                str(score.clusters),
                baselines(task, score.metric),
            )
    for macro in record.macro:
        yield (f"{macro.suite}: macro mean of {macro.tasks}", "", macro.metric, number(macro.value), "", "", "", "")


def notes(record: RunRecord) -> Iterable[str]:
    """What stands under the table: answers that were none, ties, inputs cut short, warnings."""
    names = {"nan": "NaN scores", "ties": "ties", "truncated_inputs": "inputs cut to the model's length"}
    for task in record.tasks:
        odd = [f"{count} {names.get(kind, kind)}" for kind, count in task.counts.items() if kind != "ok" and count]
        if odd:
            yield f"{task.task}: {', '.join(odd)}"
        yield from (f"{task.task}: {warning}" for warning in task.warnings)
        if task.error:
            yield f"{task.task} failed: {task.error.strip().splitlines()[-1]}"


def show(record: RunRecord, console: Any) -> None:
    """Print the table on a rich console."""
    from rich.table import Table

    title = f"{record.model.name} ({record.model.backend})"
    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in HEAD:
        table.add_column(column, justify="right" if column in RIGHT else "left", no_wrap=column != "baselines")
    for row in rows(record):
        table.add_row(*row)
    console.print(table)
    for note in notes(record):
        console.print(f"  {note}", style="dim", markup=False, highlight=False)


def show_breakdowns(record: RunRecord, console: Any, most: int = 20) -> None:
    """Print scores per idiom, proverb or corpus, the most frequent first."""
    from rich.table import Table

    for task in record.tasks:
        for breakdown in task.breakdowns:
            table = Table(title=f"{task.task} by {breakdown.by}", title_justify="left", box=None, pad_edge=False)
            for column in (breakdown.by, "metric", "value", "95 % interval", "n"):
                table.add_column(column)
            for group in breakdown.groups[:most]:
                first = group.scores[0]
                table.add_row(group.value, first.metric, number(first.value), interval(first), str(first.n))
            console.print(table)
            hidden = len(breakdown.groups) - most
            if hidden > 0:
                console.print(f"  … and {hidden} more in run.json", style="dim")
