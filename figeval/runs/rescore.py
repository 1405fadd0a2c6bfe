"""Rescoring of a run without its model: the current extractor reads the stored replies again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import RecordError
from figeval.io.text import one_line
from figeval.prompts import PromptContext, Shots
from figeval.records.answer_rows import AnswerRow, SampleRow
from figeval.records.predictions import PredictionRow, answers_of, check_row, sample_rows
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import RunRecord, TaskRecord
from figeval.runs.contrasts import Discrimination, contrasts_of
from figeval.runs.evaluate import check_value
from figeval.runs.harness import Harness
from figeval.runs.plan import context_of
from figeval.runs.score import MetricSet, TaskScorer
from figeval.runs.selection_bias import with_role, withhold_intervals
from figeval.runs.stored import recorded_variant
from figeval.runs.summary import summarize
from figeval.runs.task_metrics import descriptions, metrics_of
from figeval.runs.variants import Variant
from figeval.spec import TaskSpec
from figeval.task_types.debiasing import from_orders, in_orders
from figeval.task_types.routes import ReplyReader, Route
from figeval.task_types.sampling import combine_samples
from figeval.types import Example, Prediction, Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """Statuses and accuracy of one task before and after rescoring.

    Attributes:
        changed: number of answers whose status or value changed.
        missing: number of examples of an unfinished task without an answer.
    """

    task: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    changed: int
    acc_before: float | None
    acc_after: float | None
    missing: int = 0

    @property
    def answers(self) -> int:
        """Number of answers that were read."""
        return sum(self.after.values())


def rescore(path: Path, harness: Harness) -> list[Reread]:
    """Read every answer of a run again and replace its predictions and scores.

    Raises:
        RecordError: there is no run, it has no answers in words, or a task, its examples or its metrics changed since.
        UnknownName: a task of the run is not installed.
    """
    record, folder = read_run(path)
    if not any(reader_of(task, harness) for task in record.tasks):
        names = ", ".join(dict.fromkeys(route.name for route in harness.routes if route.reader is not None))
        raise RecordError(f"{path} has no answers in words; only the routes {names} store replies to read again")
    with folder.locked():
        record, _ = read_run(path)  # read again, now that no other process can write
        flags = {key: record.config.get(key, "") for key in ("protocol", "split")}
        config = RunConfig(tasks=tuple(record.config.get("tasks", ())), model="", **flags)
        discrimination = Discrimination(contrasts_of(config, harness))
        rereads = []
        for task in record.tasks:
            if reader_of(task, harness):
                rereads.append(_reread(task, record, folder, harness))
                record.contrasts = list(discrimination.records(record, folder.rows))
                withhold_intervals(record, harness)
                summarize(record, record.config.get("tasks", ()), harness, folder.rows)
                folder.write(record)  # after each task: its rows, scores and version of the reader belong together
    return rereads


def _reread(task: TaskRecord, record: RunRecord, folder: RunFolder, harness: Harness) -> Reread:
    seed = int(record.config.get("seed", 0))
    variant = recorded_variant(task, seed, harness)
    reading, version = reading_of(task, record, variant, harness)
    metrics = reading.metrics
    old_rows = list(folder.rows(task.task))
    new_rows = metrics.related(list(reading.rows(old_rows, variant.examples())), task.settings)
    before, acc_before = _statuses(old_rows), _accuracy(task)
    changed = [
        (old["status"], old["pred"]) != (new["status"], new["pred"])
        for old_row, new_row in zip(old_rows, new_rows, strict=True)
        for old, new in zip(answers_of(old_row), answers_of(new_row), strict=True)
    ]
    for row in new_rows:
        check_row(row)  # before anything stored is touched
    sealed, task.predictions_sha256 = task.predictions_sha256, None
    if sealed is not None:
        folder.write(record)  # if killed before the rows are replaced, no outdated digest may remain
    folder.replace(task.task, new_rows)
    by = [breakdown.by for breakdown in task.breakdowns]
    scorer = TaskScorer(metrics=metrics, strict=variant.task.group is not None, seed=seed, settings=task.settings)
    scorer.sum_up(task, partial(folder.rows, task.task), by)
    task.extractor = version
    if task.status == "done":
        folder.seal(task)
    return Reread(
        task=task.task,
        before=before,
        after=_statuses(new_rows),
        changed=sum(changed),
        acc_before=acc_before,
        acc_after=_accuracy(task),
        missing=task.n - len(old_rows),
    )


def reading_of(task: TaskRecord, record: RunRecord, variant: Variant, harness: Harness) -> tuple[AnswerReader, str]:
    """Return what makes new rows of a task with answers in words from stored ones, and the version of its reader.

    Raises:
        RecordError: the argument of a metric has changed.
        UnknownName: a metric is not installed.
    """
    seed, orders = int(record.config.get("seed", 0)), str(task.settings.get("orders", ""))
    asked_for = tuple(record.config.get("metrics", ()))  # in addition to those of the task
    samples = task.settings.get("samples", 1)
    config = RunConfig(tasks=(task.task,), model="", seed=seed, orders=orders, samples=samples, metrics=asked_for)
    route, reader = recorded_route(task, harness), reader_of(task, harness)
    assert route is not None
    assert reader is not None
    if orders:
        route = in_orders(route, orders, seed)
    applied = metrics_of(variant.task, route, config, harness)
    _check_arguments(task, descriptions(applied))
    metrics = MetricSet(applied, variant.task.labels, variant.task.with_language)
    return AnswerReader(
        variant.task, route, reader.read, _context(task, variant, route, config), metrics
    ), reader.version


def recorded_route(task: TaskRecord, harness: Harness) -> Route | None:
    """Return the route that a task took, or None if no plugin provides it any more."""
    routes = harness.routes.of(task.task_type)
    return next((route for route in routes if route.name == task.route), None)


def reader_of(task: TaskRecord, harness: Harness) -> ReplyReader | None:
    """Return the reply reader of a task, or None if its answers are not in words."""
    route = recorded_route(task, harness)
    return route.reader if route is not None else None


def _check_arguments(task: TaskRecord, arguments: Mapping[str, Any]) -> None:
    """Raise `RecordError` if the argument of a metric has changed since the run was scored."""
    stored: Mapping[str, Any] = task.settings.get("metric_arguments", {})
    changed = [name for name, argument in arguments.items() if json.dumps(argument) != json.dumps(stored.get(name))]
    if changed:
        raise RecordError(
            f"what {changed[0]} of {task.task} is made from ({arguments[changed[0]]['argument']}) changed since this "
            "run was made; restore it, or run the task again"
        )


def _context(task: TaskRecord, variant: Variant, route: Route, config: RunConfig) -> PromptContext:
    """Return the context with the words of labels and the settings of the run."""
    context = context_of(variant.task, route, None, Shots((), 0, 0), config)
    words = {label: tuple(words) for label, words in task.settings.get("verbalizer", {}).items()}
    settings = {name: task.settings.get(name, value) for name, value in context.settings.items()}
    return replace(context, verbalizer=words, settings=settings)


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Makes new rows from stored ones."""

    task: TaskSpec
    route: Route
    read: Callable[[Any, PromptContext, Reply], Prediction]
    context: PromptContext
    metrics: MetricSet

    def rows(self, stored: Iterable[PredictionRow], examples: Iterable[Example]) -> Iterator[PredictionRow]:
        """Yield a new row for each stored one, in the same order."""
        read = list(self._read(stored, examples))
        measured = self.metrics.measured([(example, prediction) for _, example, prediction in read])
        for (row, example, prediction), measurements in zip(read, measured, strict=True):
            new_row = self.metrics.row(
                self.task.task_type,
                example,
                prediction,
                measurements,
                texts="texts" in row,
                retrieved=row.get("retrieved", ()),
            )
            yield with_role(new_row, row.get("seen"))

    def _read(
        self, stored: Iterable[PredictionRow], examples: Iterable[Example]
    ) -> Iterator[tuple[PredictionRow, Example, Prediction]]:
        ids = {row["id"] for row in stored}
        examples_by_id = {example.id: example for example in examples if example.id in ids}
        for row in stored:
            if row["id"] not in examples_by_id:
                raise RecordError(f"there is no example {one_line(row['id'], 80)!r}; run the task again")
            example = replace(
                examples_by_id[row["id"]], group=row["group"]
            )  # None for a minimal pair that --limit cut in two
            prediction = replace(
                self._prediction(row, example.for_prompt()),
                truncated=row["truncated"],
                straddling=row.get("straddling", False),
                dropped_shots=row.get("dropped_shots", 0),
            )
            for answer in prediction.samples or (prediction,):
                check_value(self.task, self.route, example, answer)
            yield row, example, prediction

    def _prediction(self, row: PredictionRow, example: Example) -> Prediction:
        if row.get("samples"):
            return combine_samples([self._prediction(sample, example) for sample in sample_rows(row)])
        if not row.get("answers"):
            return self._heard(row, example)
        orders = [tuple(answer["order"]) for answer in row["answers"]]
        return from_orders(example, orders, [partial(self._heard, answer) for answer in row["answers"]])

    def _heard(self, stored: AnswerRow | PredictionRow, example: Example) -> Prediction:
        if stored["status"] == "unasked":
            return Prediction(example_id=example.id, value=None, status="unasked", error=stored.get("error", ""))
        return self.read(example, self.context, reply_of(stored))


def reply_of(stored: AnswerRow | SampleRow | PredictionRow) -> Reply:
    """Return the reply of the model behind a stored answer; its reasoning is not stored."""
    return Reply(
        text=stored.get("raw") or "",
        finish=stored.get("finish") or "stop",
        error=stored.get("error", ""),
        answer_tokens=stored.get("answer_tokens"),
        reasoning_tokens=stored.get("reasoning_tokens"),
    )


def _statuses(rows: Iterable[PredictionRow]) -> dict[str, int]:
    """Return the number of answers by status, the most frequent first."""
    return dict(Counter(answer["status"] for row in rows for answer in answers_of(row)).most_common())


def _accuracy(task: TaskRecord) -> float | None:
    return next((score.value for score in task.scores if score.metric == "acc"), None)
