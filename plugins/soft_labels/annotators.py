"""`figeval annotators`: how often each annotator gave another label than the answer, computed from stored runs.

Rows of a run keep the column `annotators`, so that neither the model nor the data is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from figeval.records.predictions import PredictionRow
    from figeval.records.schema import TaskRecord
    from figeval.types import Prediction, Score


@click.command(short_help="Print the error of the answers for every annotator.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--task", metavar="NAME", help="Only this task.  [default: every task of the run with annotators]")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def annotators(run: Path, task: str | None, as_json: bool) -> None:
    """Print, for every annotator, the share of answers that differ from the annotator's own labels, with a 95 %
    interval that takes clusters into account. On scales it is the mean distance, as a share of the scale's width.

    \b
    figeval annotators results/runs/minilm
    figeval annotators results/runs/minilm --task perceived_irony --json
    """
    from rich.console import Console

    from figeval.cli.shared import echo_json
    from figeval.errors import RecordError
    from figeval.io.text import near
    from figeval.records.run_folder import RunFolder, find_record, read_run

    record, _ = read_run(run)
    folder = RunFolder(find_record(run).parent)
    names = [task_record.task for task_record in record.tasks]
    if task is not None and task not in names:
        raise RecordError(f"{run} has no task {task!r}{near(task, names)}; it has {', '.join(names)}")
    lines_by_task = {
        task_record.task: _lines(scores)
        for task_record in record.tasks
        if task in (None, task_record.task)
        and (scores := _scores(task_record, folder.rows(task_record.task), int(record.config.get("seed", 0))))
    }
    if not lines_by_task:
        raise RecordError(f"{run} has no answers beside labels of annotators; the column `annotators` of meta has them")
    if as_json:
        echo_json(lines_by_task)
        return
    for name, lines in lines_by_task.items():
        _grid(f"{name}, {record.model.name}", lines).print(Console())


def _scores(task: TaskRecord, rows: Iterable[PredictionRow], seed: int) -> dict[str, Score]:
    """Return the error by annotator, in the order in which they occur; empty for tasks without annotators.

    Raises:
        DataError: the column of a row cannot be read.
    """
    from figeval.metrics.aggregation import MetricAggregator
    from figeval.metrics.statistic import mean_of
    from figeval.types import Example

    from .soft_metrics import ERRORS_BY_TYPE, error_of
    from .votes import labels_by_annotator

    if task.task_type not in ERRORS_BY_TYPE:
        return {}
    labels = tuple(task.settings.get("labels", ()))
    statistic = mean_of(lambda _example, _prediction: None)
    sums: dict[str, MetricAggregator] = {}
    for row in rows:
        if row["status"] == "ok" and isinstance(row["pred"], str | int):
            prediction = _prediction(row, labels)
            for annotator, label in labels_by_annotator(Example(id=row["id"], meta=row["meta"]), labels).items():
                error = error_of(ERRORS_BY_TYPE[task.task_type], labels, prediction, label)
                sums.setdefault(annotator, MetricAggregator("error", statistic, False)).add(
                    row["cluster"], (error, 1.0)
                )
    return {annotator: aggregator.score(seed) for annotator, aggregator in sums.items()}


def _prediction(row: PredictionRow, labels: tuple[str, ...]) -> Prediction:
    """Return the answer of a row, with the scores that show which labels tie for it."""
    from figeval.types import Prediction

    scores = tuple(math.nan if score is None else float(score) for score in row.get("scores", ()))
    return Prediction(example_id=row["id"], value=row["pred"], scores=scores, labels=labels, tied=row["tied"])


def _lines(scores: dict[str, Score]) -> list[dict[str, Any]]:
    return [
        {"annotator": name, "n": score.n, "error": score.value, "low": score.low, "high": score.high}
        for name, score in scores.items()
    ]


def _grid(title: str, lines: Sequence[dict[str, Any]]) -> Any:
    from figeval.io.text import one_line
    from figeval.reporting.grid import Grid, format_interval, format_number

    head = ("annotator", "n", "error", "95 % interval")
    cells = [
        (
            one_line(line["annotator"], 40),
            str(line["n"]),
            format_number(line["error"]),
            format_interval(line["low"], line["high"]),
        )
        for line in lines
    ]
    return Grid(head, cells, title=title, right=set(head[1:]))
