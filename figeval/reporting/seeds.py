"""The table of several seeds: mean, spread and interval of every score."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from figeval.records.notes import missing
from figeval.records.schema import SEEN_NOTES
from figeval.records.sweep import SeedScore, SeedsRecord
from figeval.reporting.grid import Grid, say
from figeval.reporting.table import MARKS, MEAN, NOTHING, REST, interval, marked, number

if TYPE_CHECKING:
    from rich.console import Console

OVER_SEEDS = ("task", "metric", "mean", "sd", "95 % interval", "seeds", "n", "lowest", "highest")


def show_seeds(record: SeedsRecord, console: Console) -> None:
    """Print mean, spread and interval of every score."""
    title = f"{record.model} on {record.task}, {len(record.seeds)} seeds"
    multilingual_tasks = {score.task for score in record.scores if score.language}
    rows = [_seed_cells(score, multilingual_tasks) for score in record.scores]
    seen = {score.seen for score in record.scores}
    Grid(OVER_SEEDS, rows, title, frozenset(OVER_SEEDS[2:]), ("lowest", "highest", "n")).print(console)
    for role, text in SEEN_NOTES.items():
        if role in seen:
            say(console, f"  {MARKS[role]} {text}")
    for note in missing((score.task, score) for score in record.scores if not score.language):
        say(console, f"  {note}")
    for warning in record.warnings:
        say(console, f"  {warning}")


def _seed_cells(score: SeedScore, multilingual_tasks: Collection[str]) -> tuple[str, ...]:
    """Return one row of the table; `multilingual_tasks` are the tasks with several languages."""
    values = [value for value in score.values.values() if value is not None]
    mean = MEAN if score.task in multilingual_tasks else ""
    task = REST if score.unseen_only else f"{score.task}  {score.language}" if score.language else score.task + mean
    return (
        *(task, score.metric, marked(score), number(score.sd), interval(score)),
        *(str(len(score.values)), str(score.n)),
        *(number(edge(values)) if values else NOTHING for edge in (min, max)),
    )
