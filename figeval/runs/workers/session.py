"""The end of a worker: opens the model, answers units, and sends rows instead of storing them.

A worker first compares weights, data and prompts with the record of the run, so that no row comes from anything else.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import FigevalError, ModelError
from figeval.io.observer import Observer, listening
from figeval.models.model import Model
from figeval.records import provenance
from figeval.records.predictions import check_row
from figeval.records.schema import RunRecord, TaskRecord
from figeval.runs.evaluate import CachedModel, Recorder, recorded_failure
from figeval.runs.harness import Harness
from figeval.runs.plan import Plan, prepare
from figeval.runs.resume import check_unchanged
from figeval.runs.workers.protocol import Order, Unit
from figeval.types import Example, KeptReply

Say = Callable[..., None]  # takes the name of a method of `Receiver` and its arguments
PAUSE = 0.5  # seconds between two messages about the requests of one call


@dataclass(slots=True)
class Outbox:
    """Store of rows that sends them to the run (`figeval.runs.evaluate.RowStore`)."""

    say: Say
    earlier_replies: dict[str, dict[str, KeptReply]] = field(default_factory=dict)  # task → replies of earlier sessions

    @contextmanager
    def appending(self, _task: str) -> Iterator[Outbox]:
        yield self

    def write(self, row: Mapping[str, Any]) -> None:
        """Send a row. Raises `PluginError` if it could not be read back."""
        self.say("row", row["id"], check_row(row))

    def replies(self, task: str) -> dict[str, KeptReply]:
        """Return the replies of earlier sessions that came with the units of a task."""
        return self.earlier_replies.get(task, {})

    def keep_replies(self, _task: str, replies: Mapping[str, KeptReply]) -> None:
        """Send replies that did not become rows."""
        if replies:
            self.say("replies", dict(replies))


@dataclass(slots=True)
class Reader:
    """Finds examples of a plan by position without keeping any: it reads on, or starts again for an earlier one."""

    plan: Plan
    _examples: Iterator[tuple[int, Example]] = field(default_factory=lambda: iter(()))
    _next: int | None = None  # position of the next example; None before the first

    def at(self, positions: Mapping[str, int]) -> Iterator[Example]:
        """Yield the examples at ascending positions.

        Raises:
            ModelError: there is no such example, or it has another id.
        """
        for name, position in positions.items():
            if self._next is None or position < self._next:
                self._examples = enumerate(self.plan.examples())
            self._next = position + 1
            example = next((example for number, example in self._examples if number == position), None)
            if example is None or example.id != name:
                raise ModelError(f"{self.plan.name} has no example {name!r:.80} at position {position:,} here")
            yield example


@dataclass(slots=True)
class Session(Observer):
    """The work of a worker, unit by unit.

    Attributes:
        order: what to begin with.
        send: function that sends a message to the run.
        machine: name of the machine, if it is not the one of the run.
    """

    order: Order
    send: Say
    machine: str = ""
    _opened: _Opened | None = None
    _last_report: float = 0.0

    def answer(self, unit: Unit) -> None:
        """Answer a unit; every outcome is a message."""
        with listening(self):
            try:
                if self._opened is None:
                    self._opened = _Opened.by(self.order, self.send)
                self._opened.answer(unit)
            except FigevalError as error:
                prefix = f"on the machine {self.machine}: " if self.machine else ""
                self.send("unusable", f"{prefix}{error}")
            except BaseException:  # a library's sys.exit() included
                self.send("broken", traceback.format_exc())

    def close(self) -> None:
        """Release the model's resources."""
        if self._opened is not None:
            self._opened.recorder.model.model.close()

    def wait(self, activity: str, *, later: bool = False) -> None:
        """Report that a model is being loaded; only models behind an API wait for more, and they have no workers."""
        if not later:
            self.send("wait", activity)

    def count_requests(self, answered: int, requests: int) -> None:
        """Report the progress of a call, but not too often."""
        moment = time.monotonic()
        if moment - self._last_report >= PAUSE:
            self._last_report = moment
            self.send("count_requests", answered, requests)


@dataclass(slots=True)
class _Opened:
    """A model and the plans, which agree with the record of the run."""

    recorder: Recorder
    outbox: Outbox
    readers: Mapping[str, Reader]
    tasks: Mapping[str, TaskRecord]

    @classmethod
    def by(cls, order: Order, say: Say) -> _Opened:
        """Open what an order names.

        Raises:
            FigevalError: a task or the model cannot be opened here, or differs from those of the run.
        """
        if order.version != (local_version := version("figeval")):
            raise ModelError(
                f"figeval is {local_version} here, not {order.version}; install the same version everywhere"
            )
        model, plans = _prepare_and_compare(order.config, order.record)
        outbox = Outbox(say)
        recorder = Recorder(CachedModel(model), outbox, order.config.log_samples)
        tasks = {task.task: task for task in order.record.tasks}
        return cls(recorder, outbox, {plan.name: Reader(plan) for plan in plans}, tasks)

    def answer(self, unit: Unit) -> None:
        if unit.replies:
            self.outbox.earlier_replies[unit.task] = dict(unit.replies)
        reader, task = self.readers[unit.task], self.tasks[unit.task].model_copy(update={"error": None})
        with recorded_failure(task):
            for _ in self.recorder.record(reader.plan, reader.at(unit.places)):
                pass
        memory = provenance.peak_memory_mb()
        self.outbox.say("ended", task.error, memory, self.recorder.model.model.description())


def _prepare_and_compare(config: RunConfig, record: RunRecord) -> tuple[Model, list[Plan]]:
    """Return the model and the plans of a run. Raises `FigevalError` if they differ from its record."""
    model, plans, _ = prepare(config, Harness(include=config.include_path))
    check_unchanged(config.output_path or Path(), record, config, model, plans)
    return model, plans
