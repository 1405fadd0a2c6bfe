"""The sign test of win rates, over morals instead of questions: questions with the same moral are not independent.

The test uses, for each cluster, the sign of the mean of (win − 1/2), or of the mean difference; clusters without a sign
are left out and counted. The difference is also compared with that without the story, or
with another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from figeval.errors import RecordError
from figeval.metrics.differences import SignTest, sign_test
from figeval.metrics.paired import compare_paired
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import CHOSEN_ON_TEST, RunRecord, ScoreRecord, TaskRecord
from figeval.types import Interval, Score

DIFFERENCE = "win_difference"
NO_PREFERENCE = {"win_antonym": 0.5, "win_synonym": 0.5, "win_synonym_antonym": 0.5, DIFFERENCE: 0.0}  # by metric
NO_QUERY = "no_query"  # the probe without the story, with which a run without a floor is compared
NO_FLOOR = "the run has no answers without the story; run it without --no_baselines, or with --probes"
ALL_SEEN = "the model was trained or chosen on these examples, so no valid test exists"


@dataclass(frozen=True, slots=True)
class Preference:
    """One metric of one task of a run.

    The score is that of the record, on the examples that the model has not seen. `unknown` of these have no value, and
    `seen` further examples are left out. If there is no test, `why` gives the reason.

    If `minus` names a probe, the values are those of the task minus those of the probe, question by question. The
    interval of their mean is that of `figeval compare`, and `note` has its caveats.
    """

    model: str
    task: str
    metric: str
    score: ScoreRecord
    test: SignTest | None
    unknown: int
    seen: int
    why: str = ""
    minus: str = ""
    note: str = ""


def preferences(path: Path) -> list[Preference]:
    """Return the win rates of all tasks of a run that have them, with their tests.

    Raises:
        RecordError: there is no run, none of its tasks has win rates, or a task that has them is not finished.
    """
    record, folder = read_run(path)
    win_rates: list[Preference] = []
    for task in record.tasks:
        if any(score.metric in NO_PREFERENCE for score in task.scores):
            rows = list(folder.rows(task.task))
            win_rates += _of_task(record, task, rows)
            if task.kind == "task" and any(score.metric == DIFFERENCE for score in task.scores):
                win_rates.append(_difference_to_floor(record, task, rows, folder))
    if not win_rates:
        has = ", ".join(task.task for task in record.tasks) or "no task"
        raise RecordError(
            f"{path} has no win rates: it has {has}; run storal_preference_en, or a choice task whose option_meta says "
            "which version of a moral an option is"
        )
    return win_rates


def _of_task(record: RunRecord, task: TaskRecord, rows: list[PredictionRow]) -> Iterator[Preference]:
    unseen = [row for row in rows if not row.get("seen")]
    part = bool(task.overlap and task.overlap.scores)
    for score in task.overlap.scores if part and task.overlap else task.scores:
        if score.metric not in NO_PREFERENCE:
            continue
        row_values = ((_value(row, score.metric), row["cluster"]) for row in unseen)
        values = [(value, cluster) for value, cluster in row_values if value is not None]
        reason = ""
        if not unseen or score.interval.reason == CHOSEN_ON_TEST:
            reason = ALL_SEEN
        elif not values:
            reason = score.interval.reason
        test = None if reason else sign_test(values, NO_PREFERENCE[score.metric])
        unknown, seen = len(unseen) - len(values), len(rows) - len(unseen)
        yield Preference(record.model.name, task.task, score.metric, score, test, unknown, seen, reason)


def _difference_to_floor(
    record: RunRecord, task: TaskRecord, rows: list[PredictionRow], folder: RunFolder
) -> Preference:
    """Return the difference with the story minus that of the floor, for the same questions.

    The floor has no story, or another one if the model ties wherever there is none.
    """
    probes = [probe for probe in record.tasks if probe.of == task.task]
    floor = next((probe.variant for probe in probes if probe.is_floor), None) or NO_QUERY
    floors = [probe for probe in probes if probe.variant == floor and probe.status == "done"]
    floor_values = {row["id"]: _value(row, DIFFERENCE) for probe in floors for row in folder.rows(probe.task)}
    unseen = [row for row in rows if not row.get("seen")]
    reason = "" if floors else NO_FLOOR
    if floors and (not unseen or any(score.interval.reason == CHOSEN_ON_TEST for score in task.scores)):
        reason = ALL_SEEN
    questions = (
        [] if reason else [(_value(row, DIFFERENCE), floor_values.get(row["id"]), row["cluster"]) for row in unseen]
    )
    comparison = compare_paired(
        [value for value, _, _ in questions],
        [value for _, value, _ in questions],
        [cluster for _, _, cluster in questions],
        bounds=(-1.0, 1.0),
    )
    if not reason and not comparison.n:
        reason = "no question has a value both with the story and without it"
    method = "clustered t" if comparison.clusters < comparison.n else "t"
    interval = Interval(method, comparison.low, comparison.high, comparison.stderr)
    if comparison.low is None:
        interval = Interval(stderr=comparison.stderr, reason=reason or comparison.note.removeprefix("no interval: "))
    score = Score(
        metric=DIFFERENCE,
        value=comparison.difference,
        interval=interval,
        n=comparison.n,
        clusters=comparison.clusters,
        effective_clusters=comparison.effective_clusters,
    )
    values = [
        (value - other, cluster) for value, other, cluster in questions if value is not None and other is not None
    ]
    return Preference(
        record.model.name,
        task.task,
        DIFFERENCE,
        ScoreRecord.of(score),
        test=None if reason else sign_test(values, NO_PREFERENCE[DIFFERENCE]),
        unknown=len(unseen) - comparison.n,
        seen=len(rows) - len(unseen),
        why=reason,
        minus=floor,
        note="" if reason else comparison.note,
    )


def _value(row: PredictionRow, metric: str) -> float | None:
    """Return the value of a metric in a row, or None if the row has no number."""
    value = row["metrics"].get(metric)
    return float(value) if isinstance(value, float | int) else None
