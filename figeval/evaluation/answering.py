"""Who answers the examples that have no answer yet: the model in this process, or several processes (`processes`)."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from figeval.errors import FigevalError, ModelError, RecordError
from figeval.evaluation.plan import Plan
from figeval.evaluation.scoring import Interview, Measures, Respondent
from figeval.records.folder import RunFolder
from figeval.records.schema import TaskRecord
from figeval.types import JSON, Example


class Answering(Protocol):
    """Answers what is missing of a task, and says by whom that was done."""

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Store a row for every example that has none, in the order of the examples; how many came each time.

        What it took is added to the record of the task.
        """

    def description(self) -> dict[str, Any]:
        """Return the model's description of itself."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The model in this process; its rows go into `folder`, with texts and all scores if `samples`."""

    respondent: Respondent
    folder: RunFolder
    samples: bool

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """One row after the other."""
        began = time.monotonic()
        yield from self.store(plan, unanswered(plan, self.folder))
        self.folder.arrange(plan.name, (example.id for example in plan.examples()))
        task.seconds += round(time.monotonic() - began, 3)

    def store(self, plan: Plan, examples: Iterable[Example]) -> Iterator[int]:
        """Append a row for each of these examples."""
        self.respondent.learn(plan)
        measures = Measures(plan.metrics, plan.task.labels)
        interview = Interview(plan, self.respondent, plan.route, plan.context, measures, self.samples)
        with self.folder.appending(plan.name) as writer:
            for row in interview.rows(examples):
                writer.write(row)
                yield 1

    def description(self) -> dict[str, Any]:
        """Return the description of the backend."""
        return self.respondent.model.description()


def failed(row: JSON) -> bool:
    """Whether a stored prediction says that there was no reply."""
    return bool(row["status"] == "error")


def unanswered(plan: Plan, folder: RunFolder) -> Iterator[Example]:
    """The examples that have no row in the folder, or one that says that there was no reply."""
    answered = {row["id"] for row in folder.rows(plan.name) if not failed(row)}
    return (example for example in plan.examples() if example.id not in answered)


@contextmanager
def noted(task: TaskRecord) -> Iterator[None]:
    """Write a failure into the record of the task: it does not stop the others. What is the same for all of them does.

    Everything but an interrupt is a failure of the task, `SystemExit` from a backend or a library included.

    Raises:
        RecordError, ModelError: no room left, a budget that is exhausted, weights that cannot be used.
        KeyboardInterrupt: the run is to end.
    """
    try:
        yield
    except (RecordError, ModelError):
        raise
    except FigevalError as error:
        task.status, task.error = "failed", str(error)
    except KeyboardInterrupt:
        raise
    except BaseException:  # a bug must not cost the other tasks, nor a library's sys.exit() pass for success
        task.status, task.error = "failed", traceback.format_exc()
