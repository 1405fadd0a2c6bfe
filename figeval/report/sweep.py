"""The tables of several trainings: a grid, compared on dev, and seeds, with mean and spread."""

from __future__ import annotations

from typing import Any

from figeval.records.schema import SEEN_NOTES
from figeval.records.sweep import GridRecord, SeedScore, SeedsRecord
from figeval.report.grid import Grid, say
from figeval.report.table import MARKS, NOTHING, REST, interval, marked, missing, number

OVER_SEEDS = ("task", "metric", "mean", "sd", "95 % interval", "seeds", "n", "lowest", "highest")


def show_grid(record: GridRecord, console: Any) -> None:
    """Every combination with its scores on dev, the best one marked."""
    fields = tuple(dict.fromkeys(name for point in record.points for name in point.values))
    rows = [
        (
            *(str(point.values[name]) for name in fields),
            *(number(point.scores.get(metric)) for metric in record.metrics),
            NOTHING if point.step is None else str(point.step),
            "best" if point.folder == record.best else "",
        )
        for point in record.points
    ]
    numbers = {*fields, *record.metrics, "step"}
    Grid((*fields, *record.metrics, "step", ""), rows, f"{record.model} on {record.task}", numbers).print(console)
    say(console, f"  compared on dev: {record.dev}")
    for point in record.points:
        if point.error:
            say(console, f"  {point.folder}: {point.error}")


def show_seeds(record: SeedsRecord, console: Any) -> None:
    """Mean, spread and interval of every score."""
    title = f"{record.model} on {record.task}, {len(record.seeds)} seeds"
    rows = [cells(score) for score in record.scores]
    seen = {score.seen for score in record.scores}
    Grid(OVER_SEEDS, rows, title, frozenset(OVER_SEEDS[2:]), ("lowest", "highest", "n")).print(console)
    for role, text in SEEN_NOTES.items():
        if role in seen:
            say(console, f"  {MARKS[role]} {text}")
    for note in missing((score.task, score) for score in record.scores):
        say(console, f"  {note}")
    for warning in record.warnings:
        say(console, f"  {warning}")


def cells(score: SeedScore) -> tuple[str, ...]:
    """One line of the table."""
    known = [value for value in score.values.values() if value is not None]
    task = REST if score.unseen_only else score.task
    return (
        *(task, score.metric, marked(score), number(score.sd), interval(score)),
        *(str(len(score.values)), str(score.n)),
        *(number(edge(known)) if known else NOTHING for edge in (min, max)),
    )
