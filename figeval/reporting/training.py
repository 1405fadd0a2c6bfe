"""Tables of trainings: the dev scores of one training, and the combinations of a grid."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from figeval.records.sweep import GridRecord
from figeval.reporting.grid import Grid, say
from figeval.reporting.table import MARKS, NOTHING, number

if TYPE_CHECKING:
    from rich.console import Console

    from figeval.records.training import TrainingRecord


def show_training(record: TrainingRecord, console: Console, floor: str = "") -> None:
    """Print the table of a training and the notes under it.

    Args:
        record: record of the training.
        console: console to print on.
        floor: probe on which the model's floor was trained; empty without a floor.
    """
    dev_scores(record).print(console)
    for note in notes(record, floor):
        say(console, f"  {note}")


def dev_scores(record: TrainingRecord) -> Grid:
    """Return the dev scores of every evaluation; step 0 is the model before training."""
    evaluations = list(record.scored_steps())
    names = list(dict.fromkeys(name for evaluation in evaluations for name in evaluation.scores))
    rows = [
        (
            str(evaluation.step),
            *(number(evaluation.scores.get(name)) for name in names),
            chosen(evaluation.step, record),
        )
        for evaluation in evaluations
    ]
    title = f"{record.config.model} on {record.task} with {record.head.name}, seed {record.config.seed}"
    return Grid(("step", *names, ""), rows, title, {"step", *names})


def notes(record: TrainingRecord, floor: str = "") -> Iterator[str]:
    """Yield notes on the training data, the choice of the checkpoint, the cost, and the model's floor."""
    took = timedelta(seconds=round(record.seconds))
    by = f"chosen by {', '.join(record.select_by)} on {record.dev.source}"
    yield f"trained on {record.train.n} examples for {record.steps} steps ({record.why})"
    yield by if record.evaluations else "last checkpoint; no examples were held out"
    if gained := gain(record):
        yield gained
    yield f"{took} and {record.tokens:,} tokens, peak memory {record.peak_memory_mb:,.0f} MB"
    if passes := record.passes:
        yield f"{passes.per_step:g} passes per step"
    if sizes := record.parameters:
        yield f"{sizes.trainable:,} of {sizes.total:,} parameters trained"
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
    pairs = ((name, number(before.get(name)), number(after.scores.get(name))) for name in record.select_by)
    listed = ", ".join(f"{name} {first} → {last}" for name, first, last in pairs)
    split = "test" if record.config.select_on == "test" else "dev"
    doubt = "" if record.improved else "; no checkpoint was better than the model before training"
    return f"on {split}, before training → step {after.step}: {listed}{doubt}"


def chosen(step: int, record: TrainingRecord) -> str:
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
