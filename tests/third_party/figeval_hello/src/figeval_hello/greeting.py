"""What `figeval_hello.hello` returns, computed from the rows that a run has stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import figeval
from figeval_hello.languages import greeting_in


@dataclass(frozen=True)
class TaskGreeting:
    """The most frequent answer to a task, and its share of all answers; there may be none."""

    task: str
    examples: int
    answered: int
    answer: str | None
    share: float | None


COLUMNS: tuple[figeval.Column[TaskGreeting], ...] = (
    figeval.Column("task", head="task"),
    figeval.Column("examples", "Int64", head="examples"),
    figeval.Column("answered", "Int64", head="answered"),
    figeval.Column("answer", head="most frequent answer", text=lambda answer: answer or ""),
    figeval.Column("share", "float64", head="share", text=lambda share: "" if share is None else f"{share:.2f}"),
)


@dataclass(frozen=True)
class Greeting(figeval.Result):
    """A greeting. `print` shows its table, a notebook shows it as HTML, and `to_frame` returns a data frame."""

    greeting: str
    model: str
    tasks: tuple[TaskGreeting, ...]

    @property
    def tables(self) -> Sequence[figeval.Table[TaskGreeting]]:
        """A table with a row per task."""
        return [figeval.Table(COLUMNS, self.tasks, f"{self.greeting}, {self.model}!")]

    def notes(self) -> Iterable[str]:
        """A line below the table, where some examples have no answer."""
        missing = sum(task.examples - task.answered for task in self.tasks)
        return [f"{missing} examples without an answer"] if missing else []

    def to_dict(self) -> dict[str, Any]:
        """Return everything as `figeval hello --json` prints it."""
        return asdict(self)


def greet(run: figeval.Run | str | Path, language: str) -> Greeting:
    """Read a run and count its answers."""
    greeting = greeting_in(language)
    stored = figeval.load(run)
    return Greeting(greeting, stored.record.model.name, tuple(_task(stored, task) for task in stored.tasks))


def _task(run: figeval.Run, task: str) -> TaskGreeting:
    rows = list(run.rows(task))
    answers = Counter(str(row["pred"]) for row in rows if row["pred"] is not None)
    answer, count = next(iter(answers.most_common(1)), (None, 0))
    share = count / answers.total() if answers else None
    return TaskGreeting(task, len(rows), answers.total(), answer, share)
