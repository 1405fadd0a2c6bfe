"""Reader of stored predictions: the proverb that a model took for each narrative, as ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from figeval.data import DataContext
from figeval.data.cache import fetch
from figeval.errors import DataError, RecordError
from figeval.io.text import near
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder, find_record, read_run
from figeval.records.schema import RunRecord

from .. import epic_rows

ROWS = {  # task → name of its rows in epic_rows.py
    "epic_retrieval_all": "retrieval_all",
    "epic_retrieval_seen": "retrieval_seen_test",
    "epic_retrieval_unseen": "retrieval_unseen_test",
    "epic_mcq": "mcq",
    "epic_mcq_v2": "mcq_v2",
    "epic_mcq_random": "mcq_random",
}
ROWS_OF_VERSIONS = {("epic_mcq", 2): "mcq_v2"}  # (task, version) → rows of an earlier version


@dataclass(frozen=True, slots=True)
class ProverbQuestion:
    """One narrative: the proverbs to choose from, and the right one."""

    gold: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProverbAnswer:
    """A model's answer to one narrative.

    Attributes:
        gold: the right proverb.
        right: the stored accuracy, a fraction if several candidates tie.
        picks: the proverbs taken, with probabilities that add up to 1; tied proverbs share it equally. None if the
            stored row does not say which ones tie.
    """

    gold: str
    right: float
    picks: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class AnsweredRun:
    """The answers of one run to one task, by narrative.

    Attributes:
        model: name of the model.
        questions: question of each narrative.
        given: valid answers.
        unanswered: number of narratives without a valid answer.
        seen: number of narratives that the model was trained or selected on.
        proverbs: text of each proverb by its id, for the console.
    """

    model: str
    questions: Mapping[str, ProverbQuestion]
    answers: Mapping[str, ProverbAnswer]
    unanswered: int = 0
    seen: int = 0
    proverbs: Mapping[str, str] = field(default_factory=dict)


def known_tasks(record: RunRecord) -> list[str]:
    """Return the tasks of a run that can be diagnosed, including further prompts of such a task."""
    return [task.task for task in record.tasks if (task.of or task.task) in ROWS and task.kind != "probe"]


def open_run(path: Path) -> RunRecord:
    """Return the record of a run. Raises `RecordError` if there is none, or none of its tasks can be diagnosed."""
    record, _ = read_run(path)
    if not known_tasks(record):
        has = ", ".join(task.task for task in record.tasks) or "no task"
        raise RecordError(f"{path} has nothing to diagnose: it has {has}, not one of {', '.join(ROWS)}")
    return record


def read_answers(path: Path, record: RunRecord, task: str) -> AnsweredRun:
    """Return the answers of a run to one of its tasks.

    Raises:
        RecordError: the run has no such task, or it cannot be diagnosed.
        DataError: the run was made on rows that differ from those of this version of figeval.
    """
    data_tasks = {recorded.task: (recorded.of or recorded.task, recorded.version) for recorded in record.tasks}
    if task not in data_tasks or task not in known_tasks(record):
        can = known_tasks(record)
        raise RecordError(f"{path} has no {task!r} to diagnose{near(task, can)}; it has {', '.join(can)}")
    questions, texts = read_questions(*data_tasks[task])
    answers, unanswered, seen = {}, 0, 0
    for row in RunFolder(find_record(path).parent).rows(task):
        question = find_question(row, questions, task)
        seen += bool(row.get("seen"))
        accuracy = row["metrics"].get("acc")
        if row["status"] == "ok" and isinstance(accuracy, float | int):
            answers[row["id"]] = ProverbAnswer(question.gold, float(accuracy), picks(row, question.candidates))
        else:
            unanswered += 1
    return AnsweredRun(record.model.name, questions, answers, unanswered, seen, texts)


def read_questions(task: str, version: int) -> tuple[dict[str, ProverbQuestion], dict[str, str]]:
    """Return the questions by narrative id, and the proverbs' texts by proverb id.

    The candidates of a ranking are in order of first appearance.
    """
    context = DataContext(files(__package__.rpartition(".")[0]), fetch)
    rows = list(epic_rows.open(ROWS_OF_VERSIONS.get((task, version), ROWS[task]), context))
    texts = dict(epic_rows.read_corpus(context).proverbs)
    if "option_ids" in rows[0]:
        return {row["id"]: ProverbQuestion(row["proverb_id"], tuple(row["option_ids"])) for row in rows}, texts
    proverb_ids = {row["relevant"]: row["proverb_id"] for row in rows}  # every candidate is some narrative's proverb
    candidates = tuple(proverb_ids[index] for index in range(len(rows[0]["candidates"])))
    return {row["id"]: ProverbQuestion(row["proverb_id"], candidates) for row in rows}, texts


def find_question(row: PredictionRow, questions: Mapping[str, ProverbQuestion], task: str) -> ProverbQuestion:
    """Return the question that a stored row answers. Raises `DataError` if the row does not fit the current data."""
    question = questions.get(row["id"])
    gold: Any = row["gold"][0] if isinstance(row["gold"], list) else row["gold"]
    if question is None or not 0 <= gold < len(question.candidates) or question.candidates[gold] != question.gold:
        raise DataError(
            f"{task}: the stored row {row['id']!r} does not fit the data of this version of figeval; run it again"
        )
    return question


def picks(row: PredictionRow, candidates: Sequence[str]) -> dict[str, float] | None:
    """Return the proverbs that share the best score, with equal probabilities, or None if the row does not say."""
    best = best_indices(row, len(candidates))
    return None if best is None else {candidates[index]: 1 / len(best) for index in best}


def best_indices(row: PredictionRow, n: int) -> list[int] | None:
    """Return the indices of the tied best among the first n candidates; background proverbs come after these.

    A ranking stores ten candidates. If more than ten tie, they are known only if all candidates tie or if
    --log_samples kept all scores.
    """
    if row["tied"] <= 1 and isinstance(row["pred"], int):
        return [row["pred"]]
    scores = row.get("scores") or row.get("all_scores")
    pairs = (
        list(enumerate(scores[:n])) if scores else [(index, score) for index, score in row.get("top", ()) if index < n]
    )
    values = [(index, float(score)) for index, score in pairs if score is not None]
    top = max((score for _, score in values), default=None)
    best = [index for index, score in values if score == top]
    if len(best) == row["tied"]:
        return best
    return list(range(n)) if row["tied"] == n else None
