"""What a report has to say of a model because of how it was trained.

A checkpoint that was chosen on test has there the highest score of many: no interval around a maximum is honest
(docs/statistics.md). What chose it stands in its figeval.json, and so in the description of the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from figeval.pipeline.harness import Harness
from figeval.records.schema import CHOSEN_ON_TEST, RunRecord, ScoreRecord, TaskRecord

TEST = "test"


def own_up(record: RunRecord, harness: Harness) -> None:
    """Take intervals away from scores on examples that the model was chosen on, and say why. Doing it twice is once."""
    about = record.model.description.get("about") or {}
    if about.get("selected_on") != TEST:
        return
    note(record.warnings, f"{record.model.name} was {sentence(about)}")
    for task in record.tasks:
        if task.scores and concerned(task, str(about.get("task")), harness):
            without_intervals(task)
            note(task.warnings, sentence(about))


def sentence(about: dict[str, Any]) -> str:
    """`chosen on the test split of epic_retrieval_seen: its score there is a maximum over 25 evaluations`."""
    evaluations = about.get("evaluations")
    most = f"a maximum over {evaluations} evaluations" if evaluations else "a maximum over evaluations"
    return f"chosen on the test split of {about.get('task')}: its score there is {most}"


def concerned(task: TaskRecord, chosen_on: str, harness: Harness) -> bool:
    """Whether these are the examples that the model was chosen on: the task's own, or another's from the same data."""
    name = task.of or task.task
    if name == chosen_on:
        return True
    tasks = harness.catalogue.tasks
    if name not in tasks or chosen_on not in tasks:
        return False
    one, other = tasks.get(name), tasks.get(chosen_on)
    return one.owner == other.owner and one.data.get(TEST) is not None and one.data.get(TEST) == other.data.get(TEST)


def without_intervals(task: TaskRecord) -> None:
    """No interval for the scores of a task and of its breakdowns; baselines were not chosen and keep theirs."""
    for scores in (task.scores, *(group.scores for one in task.breakdowns for group in one.groups)):
        drop(scores)


def drop(scores: Iterable[ScoreRecord]) -> None:
    """Take the intervals away."""
    for score in scores:
        score.low = score.high = score.stderr = None
        score.interval = CHOSEN_ON_TEST


def note(warnings: list[str], text: str) -> None:
    """Add a warning that is not there yet."""
    if text not in warnings:
        warnings.append(text)
