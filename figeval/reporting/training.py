"""Tables of trainings: the dev scores of one, the combinations of a grid, and the mean scores of several seeds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from figeval.records.notes import missing
from figeval.records.schema import SEEN_NOTES
from figeval.records.sweep import GridRecord, SeedScore, SeedsRecord
from figeval.reporting.grid import Column, Grid, Table, format_cell, format_number, print_grids
from figeval.reporting.table import MARKS, MEAN, REST_LABEL, format_marked, interval

if TYPE_CHECKING:
    from rich.console import Console

    from figeval.records.training import DevScores, TrainingRecord


def show_training(record: TrainingRecord, console: Console, floor: str = "") -> None:
    """Print the table of a training and the notes under it.

    Args:
        record: record of the training.
        console: console to print on.
        floor: probe on which the model's floor was trained; empty without a floor.
    """
    print_grids(console, [dev_scores(record).grid], notes(record, floor))


def dev_scores(record: TrainingRecord) -> Table[DevScores]:
    """Return the dev scores of every evaluation; step 0 is the model before training, which is never chosen."""
    evaluations = list(record.scored_steps())
    metrics = dict.fromkeys(name for evaluation in evaluations for name in evaluation.scores)
    columns: list[Column[DevScores]] = [
        Column("step", "Int64", head="step"),
        *(Column(name, "float64", _score_by(name), name, format_number) for name in metrics),
        Column("best", "bool", lambda evaluation: evaluation.step == record.best),
        Column(value=lambda evaluation: checkpoint_mark(evaluation.step, record), head=""),
    ]
    return Table(
        columns,
        evaluations,
        f"{record.config.model} on {record.task} with {record.head.name}, seed {record.config.seed}",
    )


def _score_by(metric: str) -> Callable[[DevScores], float | None]:
    return lambda evaluation: evaluation.scores.get(metric)


def notes(record: TrainingRecord, floor: str = "") -> Iterator[str]:
    """Yield notes on the training data, the choice of the checkpoint, the cost, and the model's floor."""
    took = timedelta(seconds=round(record.seconds))
    by = f"chosen by {', '.join(record.select_by)} on {record.dev.source}"
    yield f"trained on {record.train.n} examples for {record.steps} steps ({record.why})"
    if record.train.skipped or record.dev.skipped:
        skipped = f"{record.train.skipped} training and {record.dev.skipped} dev examples"
        yield f"{skipped} that the model cannot read were left out (--skip_long)"
    yield by if record.evaluations else "last checkpoint; no examples were held out"
    if gained := gain(record):
        yield gained
    yield f"{took} and {record.tokens:,} tokens, peak memory {record.peak_memory_mb:,.0f} MB"
    if passes := record.passes:
        yield f"{passes.per_step:g} passes per step"
    if sizes := weights(record):
        yield sizes
    if probe := record.config.probe:
        yield f"trained on the probe {probe} of {record.task}"
    if floor:
        yield f"its floor, trained on the probe {floor}, is in the folder `floor`"


def gain(record: TrainingRecord) -> str:
    """Return the scores that chose the checkpoint, before and after training; empty if unknown, as in older records."""
    before = record.before or {}
    after = next((evaluation for evaluation in record.evaluations if evaluation.step == record.best), None)
    if after is None or not before:
        return ""
    pairs = (
        (name, format_number(before.get(name)), format_number(after.scores.get(name))) for name in record.select_by
    )
    listed = ", ".join(f"{name} {first} → {last}" for name, first, last in pairs)
    split = "test" if record.config.select_on == "test" else "dev"
    doubt = "" if record.improved else "; no checkpoint was better than the model before training"
    return f"on {split}, before training → step {after.step}: {listed}{doubt}"


def weights(record: TrainingRecord) -> str:
    """Return the numbers of trained parameters, of all, and of those in the head; empty if unknown."""
    if (sizes := record.parameters) is None:
        return ""
    head = "" if sizes.head is None else f"; the head has {sizes.head:,}"
    return f"{sizes.trainable:,} of {sizes.total:,} parameters trained{head}"


def checkpoint_mark(step: int, record: TrainingRecord) -> str:
    """Return the mark of the selected checkpoint or of the model before training, or nothing for another."""
    if step != record.best:
        return "" if step else "before training"
    return f"best {MARKS['chosen']}" if record.config.select_on == "test" else "best"


def show_grid(record: GridRecord, console: Console) -> None:
    """Print every combination with its dev scores and a mark at the best one."""
    fields = tuple(dict.fromkeys(name for point in record.points for name in point.values))
    rows = [
        (
            *(str(point.values[name]) for name in fields),
            *(format_number(point.scores.get(metric)) for metric in record.metrics),
            format_cell(point.step),
            "best" if point.folder == record.best else "",
        )
        for point in record.points
    ]
    numbers = {*fields, *record.metrics, "step"}
    grid = Grid((*fields, *record.metrics, "step", ""), rows, f"{record.model} on {record.task}", numbers)
    errors = (f"{point.folder}: {point.error}" for point in record.points if point.error)
    print_grids(console, [grid], (f"compared on dev: {record.dev}", *errors))


# ---- several seeds ---------------------------------------------------------------------------------------------------

OVER_SEEDS = ("task", "metric", "mean", "sd", "95 % interval", "seeds", "n", "lowest", "highest")


def show_seeds(record: SeedsRecord, console: Console) -> None:
    """Print mean, spread and interval of every score."""
    title = f"{record.model} on {record.task}, {len(record.seeds)} seeds"
    multilingual_tasks = {score.task for score in record.scores if score.language}
    rows = [_seed_cells(score, multilingual_tasks) for score in record.scores]
    seen = {score.seen for score in record.scores}
    grid = Grid(OVER_SEEDS, rows, title, frozenset(OVER_SEEDS[2:]), ("lowest", "highest", "n"))
    signs = (f"{MARKS[role]} {text}" for role, text in SEEN_NOTES.items() if role in seen)
    gaps = missing((score.task, score) for score in record.scores if not score.language)
    print_grids(console, [grid], (*signs, *gaps, *record.warnings))


def _seed_cells(score: SeedScore, multilingual_tasks: Collection[str]) -> tuple[str, ...]:
    """Return one row of the table; `multilingual_tasks` are the tasks with several languages."""
    values = [value for value in score.values.values() if value is not None]
    mean = MEAN if score.task in multilingual_tasks else ""
    task = (
        REST_LABEL if score.unseen_only else f"{score.task}  {score.language}" if score.language else score.task + mean
    )
    return (
        *(task, score.metric, format_marked(score), format_number(score.sd), interval(score)),
        *(str(len(score.values)), str(score.n)),
        *(format_number(edge(values, default=None)) for edge in (min, max)),
    )
