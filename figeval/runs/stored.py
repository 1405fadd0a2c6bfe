"""Queries on the stored predictions of a run, which need neither its model nor its data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

from figeval.errors import FigevalError, RecordError, near
from figeval.metrics.catalogue import Metrics, statistic_of
from figeval.metrics.intervals import Bounds
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import CHOSEN_ON_TEST, BreakdownRecord, RunRecord, TaskRecord
from figeval.runs.score import MetricSet, TaskScorer
from figeval.runs.selection_bias import without_intervals
from figeval.types import WITHOUT_REPLY

Features: TypeAlias = "list[float] | None"
OF_ALL = "_of_all"  # ends the names of metrics in which no answer is a wrong one
Values: TypeAlias = Mapping[str, tuple[float | None, str | None]]  # example id → (value, cluster)


def stored_metrics(folder: RunFolder, task: str) -> dict[str, bool]:
    """Return metric → whether it is a mean over examples, for the metrics stored in the rows of a task."""
    is_mean: dict[str, bool] = {}
    for row in folder.rows(task):
        for name, value in row["metrics"].items():
            is_mean[name] = not isinstance(value, list)
    return is_mean


def stored_values(folder: RunFolder, task: str, metric: str, unseen_only: bool = False) -> Values:
    """Return the value of a metric for every example, which is None if the model gave no valid answer.

    `unseen_only` leaves out the examples that the model was trained or chosen on. The result is empty if no example has
    the metric, or if it is not a mean over examples (e.g. macro-F1).

    Only answers in words have a metric `acc_of_all`, in which no answer is a wrong one. For other runs, it is made from
    `acc`, so that both can be compared.
    """
    values: dict[str, tuple[float | None, str | None]] = {}
    plain = metric.removesuffix(OF_ALL)
    is_derived = plain != metric and not any(metric in row["metrics"] for row in folder.rows(task))
    is_derived = is_derived and any(plain in row["metrics"] for row in folder.rows(task))
    for row in folder.rows(task):
        value = row["metrics"].get(plain if is_derived else metric)
        if isinstance(value, list):
            return {}
        if is_derived and row["status"] not in ("ok", *WITHOUT_REPLY) and row["gold"] is not None:
            value = 0.0
        if unseen_only and row.get("seen"):
            continue
        values[row["id"]] = (value, row["cluster"])
    return values if any(value is not None for value, _ in values.values()) else {}


def stored_features(folder: RunFolder, task: str, metric: str) -> Mapping[str, tuple[Features, str | None]]:
    """Return the numbers of a metric for every example, whose sums give the score, and the example's cluster.

    They are None if the metric does not apply to the model's answer. The result is empty if no example has the metric,
    or if it is a mean, for which there is `stored_values`.
    """
    features: dict[str, tuple[Features, str | None]] = {}
    for row in folder.rows(task):
        value = row["metrics"].get(metric)
        if value is not None and not isinstance(value, list):
            return {}
        features[row["id"]] = (value, row["cluster"])
    return features if any(value is not None for value, _ in features.values()) else {}


def declared_bounds(task: TaskRecord, metric: str, metrics: Metrics) -> Bounds:
    """Return the bounds that a metric declares for its values; 0 and 1, as of a share, if it is not installed."""
    try:
        declared = metrics.get(metric, task.task_type)
        return statistic_of(declared, tuple(task.settings.get("labels", ()))).bounds
    except FigevalError:
        return (0.0, 1.0)


def stored_languages(folder: RunFolder, task: TaskRecord) -> dict[str, dict[str, None]]:
    """Return the ids of a multilingual task's examples by language; empty for other tasks.

    Raises:
        RecordError: a row is in none of the languages that the record lists.
    """
    ids: dict[str, dict[str, None]] = {language: {} for language in task.settings.get("languages", ())}
    for row in folder.rows(task.task) if ids else ():
        language = row.get("language")
        if language not in ids:
            problem = f"is in {language!r}" if language else "has no language"
            raise RecordError(
                f"{folder.path}: example {row['id']!r} of {task.task} {problem}, and `languages` in run.json lists "
                f"{', '.join(ids)}; restore run.json, or run the task again"
            )
        ids[language][row["id"]] = None
    return ids


def seen_ids(folder: RunFolder, task: str) -> set[str]:
    """Return the ids of the examples of a task that the model was trained or chosen on."""
    return {row["id"] for row in folder.rows(task) if row.get("seen")}


def with_breakdown(path: Path, key: str, metrics: Metrics) -> RunRecord:
    """Return the record of a run with scores per value of a meta column, computed from the stored predictions.

    Raises:
        RecordError: there is no run, or none of its tasks has the column.
        UnknownName: a metric that the run was scored with is not installed.
    """
    record, folder = read_run(path)
    seed = int(record.config.get("seed", 0))
    for task in record.tasks:
        breakdown = break_down(task, partial(folder.rows, task.task), key, metrics, seed)
        task.breakdowns = [breakdown] if breakdown.groups else []
    record.digests = {}  # those of the stored record, which this one no longer is
    if not any(task.breakdowns for task in record.tasks):
        columns = {name for task in record.tasks for row in folder.rows(task.task) for name in row["meta"]}
        has = ", ".join(sorted(columns)) or "no meta columns"
        raise RecordError(f"--by {key}: no prediction of {path} has it{near(key, columns)}; they have {has}")
    return record


def break_down(
    task: TaskRecord, rows: Callable[[], Iterable[PredictionRow]], key: str, metrics: Metrics, seed: int
) -> BreakdownRecord:
    """Return the scores of a task per value of a meta column of its rows, which `rows` returns each time.

    They have no intervals where the model was chosen on the test split.

    Raises:
        UnknownName: a metric that the run was scored with is not installed.
    """
    scorer = TaskScorer(metrics=metrics_in(task, rows(), metrics), strict=False, seed=seed, settings=task.settings)
    breakdown = scorer.breakdown(key, rows)
    if any(score.interval.reason == CHOSEN_ON_TEST for score in task.scores):
        without_intervals(task.model_copy(update={"breakdowns": [breakdown]}))
    return breakdown


def metrics_in(task: TaskRecord, rows: Iterable[PredictionRow], metrics: Metrics) -> MetricSet:
    """Return the metrics that the record of a task and its rows name. Raises `UnknownName` if one is not installed."""
    scored = [score.metric for score in task.scores if score.metric in metrics]
    names = dict.fromkeys((*scored, *(name for row in rows for name in row["metrics"])))
    return MetricSet([metrics.get(name, task.task_type) for name in names], tuple(task.settings.get("labels", ())))
