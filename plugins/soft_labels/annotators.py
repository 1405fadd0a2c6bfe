"""`figeval show RUN --annotators`: how often each annotator gave another label than the answer, from stored runs.

Rows of a run keep the column `annotators`, so that neither the model nor the data is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from figeval import Column, RecordError, Result, Table
from figeval.io.text import one_line

if TYPE_CHECKING:
    from figeval import Run
    from figeval.records.predictions import PredictionRow
    from figeval.records.schema import TaskRecord
    from figeval.types import JSON, Prediction, Score


class AnnotatorErrors(Result):
    """The share of answers that differ from the labels of each annotator, per task of a run.

    On scales it is the mean distance, as a share of the scale's width.
    """

    def __init__(self, run: Run) -> None:
        """Compute the errors.

        Raises:
            RecordError: no task of the run has labels of annotators.
            DataError: the column of a row cannot be read.
        """
        seed = int(run.record.config.get("seed", 0))
        self.model = run.record.model.name
        self.lines_by_task = {
            task.task: _lines(scores)
            for task in run.record.tasks
            if (scores := _scores(task, run.rows(task.task), seed))
        }
        if not self.lines_by_task:
            cure = "the column `annotators` of meta has them"
            raise RecordError(f"{run.path} has no answers beside labels of annotators; {cure}")

    @property
    def tables(self) -> Sequence[Table[JSON]]:
        """A table per task with a row per annotator."""
        columns = list(_columns())
        return [Table(columns, lines, f"{task}, {self.model}") for task, lines in self.lines_by_task.items()]

    def to_dict(self) -> JSON:
        """Return the lines of each table, by task."""
        return self.lines_by_task


def _columns() -> Iterator[Column[JSON]]:
    from figeval.reporting.grid import format_interval, format_number

    yield Column("annotator", head="annotator", text=lambda name: one_line(name, 40))
    yield Column("n", "Int64", head="n")
    yield Column("error", "float64", head="error", text=format_number)
    yield Column("", "float64", itemgetter("low", "high"), "95 % interval", lambda ends: format_interval(*ends))


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
