"""`figeval show RUN --labels`: precision, recall and F1 of every label, computed from stored runs.

The rows of a run hold the counts behind macro-F1: per label the true positives, the predictions and the gold labels. So
no model is needed, and the table agrees with the run's macro-F1 to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from figeval import Column, RecordError, Result, Table, load

if TYPE_CHECKING:
    from figeval import Run
    from figeval.records.schema import TaskRecord
    from figeval.types import JSON, Score

FEATURES = "macro_f1"
TRUE, PREDICTED, GOLD = range(3)
MEASURES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # of sums (3, …): numerator, denominator
    "precision": (lambda sums: sums[TRUE], lambda sums: sums[PREDICTED]),
    "recall": (lambda sums: sums[TRUE], lambda sums: sums[GOLD]),
    "f1": (lambda sums: 2 * sums[TRUE], lambda sums: sums[PREDICTED] + sums[GOLD]),
}


class LabelScores(Result):
    """Counts, precision, recall and F1 of each label, per task of a run."""

    def __init__(self, run: Run) -> None:
        """Compute the scores. Raises `RecordError` if no task of the run has labels."""
        tasks = _labelled_tasks(run)
        if not tasks:
            metric = f"the metric {FEATURES}, whose counts the table needs"
            if names := [task.task for task in _labelled_tasks(load(run.path))]:
                raise RecordError(f"{', '.join(run.tasks)}: not scored by {metric}; choose {' or '.join(names)}")
            raise RecordError(f"{run.path} has no task with {metric}; add it to --metrics")
        seed = int(run.record.config["seed"])
        self.model = run.record.model.name
        self.lines_by_task = {task.task: list(_of_task(task, run.rows(task.task), seed)) for task in tasks}

    @property
    def tables(self) -> Sequence[Table[JSON]]:
        """A table per task with a row per label."""
        columns = list(_columns())
        return [Table(columns, lines, f"{task}, {self.model}") for task, lines in self.lines_by_task.items()]

    def notes(self) -> Sequence[str]:
        """Return what a dash means."""
        return ["A dash: no text has the label, or it was never predicted, so the number is undefined."]

    def to_dict(self) -> JSON:
        """Return the lines of each table, by task."""
        return self.lines_by_task


def _labelled_tasks(run: Run) -> list[TaskRecord]:
    return [task for task in run.record.tasks if FEATURES in {score.metric for score in task.scores}]


def _columns() -> Iterator[Column[JSON]]:
    from figeval.reporting.grid import format_interval, format_number

    def format_range(score: JSON) -> str:
        return format_interval(score["low"], score["high"])

    yield Column("label", head="label")
    yield Column("gold", "float64", head="gold", text="{:g}".format)
    yield Column("predicted", "float64", head="predicted", text="{:.6g}".format)
    for measure in MEASURES:
        score = itemgetter(measure)
        yield Column(measure, "float64", lambda line, score=score: score(line)["value"], measure, format_number)  # type: ignore[misc]
        yield Column("", "float64", score, "95 % interval", format_range)


def _of_task(task: TaskRecord, rows: Any, seed: int) -> Iterator[dict[str, Any]]:
    """Yield one line of the table per label: its counts, and a score for each measure."""
    import numpy as np

    pairs = [(row["cluster"], row["metrics"].get(FEATURES)) for row in rows]
    counted = [(cluster, features) for cluster, features in pairs if isinstance(features, list)]
    names = task.settings["labels"]
    for index, label in enumerate(names):
        counts = [(cluster, tuple(features[index :: len(names)])) for cluster, features in counted]
        total = np.sum([label_counts for _, label_counts in counts], axis=0) if counts else np.zeros(3)
        scores = {name: _score(name, counts, seed) for name in MEASURES}
        yield {
            "label": label,
            "gold": float(total[GOLD]),
            "predicted": float(total[PREDICTED]),
            **{name: {"value": score.value, "low": score.low, "high": score.high} for name, score in scores.items()},
        }


def _score(measure: str, counts: Sequence[tuple[str | None, tuple[float, ...]]], seed: int) -> Score:
    import numpy as np

    from figeval.metrics.aggregation import MetricAggregator
    from figeval.metrics.statistic import Statistic, ratio

    upper, lower = MEASURES[measure]

    def combine(sums: Any) -> Any:
        by_count = np.moveaxis(sums, -1, 0)
        return ratio(np.stack((upper(by_count), lower(by_count)), axis=-1))

    aggregator = MetricAggregator(measure, Statistic(lambda _example, _prediction: None, combine))
    for cluster, label_counts in counts:
        aggregator.add(cluster, label_counts)
    return aggregator.score(seed)
