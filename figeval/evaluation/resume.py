"""Goes on with a run that was cut short or that somebody wants more of: what is kept of its predictions, checked.

The predictions of a finished task are compared with the digest in its record. Those of an unfinished one are checked
row by row: of two rows for one example the first is kept, rows for examples that the task does not have are dropped
with a warning, and so are rows that say that there was no reply, whose examples are asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from figeval.evaluation.answering import failed
from figeval.evaluation.plan import Plan
from figeval.evaluation.processes import take_in
from figeval.records.folder import RunFolder
from figeval.records.predictions import is_own
from figeval.records.schema import RunRecord, TaskRecord
from figeval.text import one_line
from figeval.types import JSON


@dataclass(frozen=True, slots=True)
class Kept:
    """How many of the examples of a run have an answer from earlier sessions."""

    rows: int
    examples: int


def resume(folder: RunFolder, record: RunRecord, plans: Sequence[Plan]) -> Kept:
    """Take in what earlier sessions have left behind.

    Tasks whose predictions are about to change are unfinished from here on, also on disk.

    Raises:
        RecordError: the predictions of a finished task have been changed, a row is damaged, or a process of an earlier
            session still writes.
    """
    tasks = {task.task: task for task in record.tasks}
    again = [plan for plan in plans if not finished(folder, tasks[plan.name])]
    if any(tasks[plan.name].predictions_sha256 is not None for plan in again):
        for plan in again:
            tasks[plan.name].status, tasks[plan.name].predictions_sha256 = "running", None
        folder.write(record)
    take_in(folder, plans)
    rows = sum(plan.n for plan in plans if plan not in again)
    rows += sum(kept(folder, plan, tasks[plan.name]) for plan in again)
    return Kept(rows, sum(plan.n for plan in plans))


def finished(folder: RunFolder, task: TaskRecord) -> bool:
    """Whether nothing is to be asked again. Raises `RecordError` if its predictions have been changed."""
    folder.check(task)
    known = task.status == "done" and task.predictions_sha256 is not None
    return known and not task.counts.get("error") and is_own(folder.predictions_file(task.task))


def kept(folder: RunFolder, plan: Plan, task: TaskRecord) -> int:
    """How many rows of an unfinished task are kept; the others are dropped."""
    if not is_own(folder.predictions_file(plan.name)):
        return 0
    sieve = Sieve(frozenset(example.id for example in plan.examples()))
    folder.drop(plan.name, sieve)
    if sieve.strange:
        first = one_line(sieve.strange[0], 80)
        count = "1 row" if len(sieve.strange) == 1 else f"{len(sieve.strange)} rows"
        task.warnings.append(f"{count} for examples that the task does not have were dropped (first: {first!r})")
    return len(sieve.seen)


@dataclass(slots=True)
class Sieve:
    """Tells which rows of an unfinished task to drop; a row that is kept is about one of `wanted` and the first."""

    wanted: frozenset[str]
    seen: set[str] = field(default_factory=set)
    strange: list[str] = field(default_factory=list)

    def __call__(self, row: JSON) -> bool:
        """Whether to drop the row."""
        name = row["id"]
        if name not in self.wanted:
            self.strange.append(name)
        elif not failed(row) and name not in self.seen:
            self.seen.add(name)
            return False
        return True
