"""What a run makes of what its workers send, here from workers in this process that are not as they should be."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from figeval import Harness, RunConfig, RunRecord
from figeval.io.observer import listening
from figeval.runs.plan import prepare
from figeval.runs.run import carry_out
from figeval.runs.workers.protocol import Hire, Message, Order, Unit, WorkerLost
from figeval.runs.workers.session import Session
from tests.runs.conftest import Heard, write_task

N = 40
Change = Callable[[list[Message]], Iterator[Message]]


@dataclass
class Strange:
    """A worker in this process; `change` makes other messages of those about a unit."""

    order: Order
    change: Change

    def ready(self) -> None:
        """It is."""

    def answer(self, unit: Unit) -> Iterator[Message]:
        """Yield messages that were changed."""
        messages: list[Message] = []
        session = Session(self.order, lambda *message: messages.append(message))
        session.answer(unit)
        session.close()
        yield from self.change(messages)

    def stop(self) -> None:
        """Nothing goes on."""

    close = stop


@dataclass(frozen=True)
class Staff:
    """Two of them."""

    change: Change
    workers: int = 2

    def hiring(self, order: Order, _folder: Path, _workers: int) -> Hire:
        """Return the function that makes one."""
        return lambda _number: Strange(order, self.change)


class Watcher(Heard):
    """An observer that also hears about requests."""

    def count_requests(self, answered: int, requests: int) -> None:
        """Take note of them."""
        self.events.append(("asked", answered, requests))


@dataclass
class Office:
    """A folder with a task."""

    path: Path
    watcher: Watcher = field(default_factory=Watcher)

    def run(self, name: str, change: Change | None = None, **settings: Any) -> RunRecord:
        """Run the task, with workers if their messages are changed."""
        harness = Harness(include=(self.path,))
        options: dict[str, Any] = {"tasks": ("t",), "model": "overlap", **settings}
        config = RunConfig(include_path=(self.path,), output_path=self.path / name, **options)
        staff = None if change is None else Staff(change)
        with listening(self.watcher):
            return carry_out(config, harness, self.watcher, prepare(config, harness), staff)[0]

    def predictions(self, name: str) -> str:
        """Return the rows on disk."""
        return (self.path / name / "predictions" / "t.jsonl").read_text(encoding="utf-8")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    write_task(tmp_path, "t", N)
    return Office(tmp_path)


def test_rows_that_come_twice_or_are_of_other_examples_count_once(office: Office) -> None:
    def twice(messages: list[Message]) -> Iterator[Message]:
        *before, end = messages
        yield from before
        for name in [message[1] for message in before if message[0] == "row"]:
            yield "row", name, b"{}"
            yield "row", "t39" if name != "t39" else "t0", b"{}"  # another unit's
            yield "row", "nobody", b"{}"
        yield end

    office.run("one")
    office.watcher.events.clear()
    record = office.run("two", twice)
    assert [task.status for task in record.tasks] == ["done"]
    assert office.predictions("two") == office.predictions("one")
    assert [event[1] for event in office.watcher.events if event[0] == "reach"][-1] == N


def test_rows_that_never_come_fail_the_task_and_the_next_run_computes_them(office: Office) -> None:
    record = office.run("two", lambda messages: (message for message in messages if message[1:2] != ("t7",)))
    (task,) = record.tasks
    assert task.status == "failed"
    assert task.error is not None
    assert "1 rows of t are missing, although all were computed" in task.error
    office.run("one")
    assert office.run("two", iter).status == "complete"
    assert office.predictions("two") == office.predictions("one")


def test_requests_of_a_lost_worker_are_not_counted_any_more(office: Office) -> None:
    lost = threading.Event()

    def loses(messages: list[Message]) -> Iterator[Message]:
        if threading.current_thread().name == "worker 1":
            yield "count_requests", 100, 10_000
            lost.set()
            raise WorkerLost("was lost")
        lost.wait(10)
        time.sleep(0.05)
        yield "count_requests", 1, 2
        yield from (message for message in messages if message[0] != "count_requests")

    office.run("two", loses, baselines=False)
    heard = office.watcher.events
    assert ("asked", 100, 10_000) in heard
    assert ("asked", 1, 2) in heard


def test_the_row_of_an_example_that_killed_its_workers_has_its_texts_too(office: Office) -> None:
    def deadly(messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            if message[1:2] == ("t7",):
                raise WorkerLost("was lost")
            yield message

    assert office.run("two", deadly, log_samples=True).status == "incomplete"
    rows = {row["id"]: row for row in map(json.loads, office.predictions("two").splitlines())}
    assert rows["t7"]["status"] == "error"
    assert rows["t7"]["texts"][0] == rows["t8"]["texts"][0].replace("8", "7")
    office.run("one", log_samples=True)
    office.run("two", iter, log_samples=True)
    assert office.predictions("two") == office.predictions("one")


def test_the_record_describes_the_model_as_it_was_at_the_last_task(office: Office) -> None:
    write_task(office.path, "u", 5)  # fewer words
    first, second = (
        office.run(name, change, tasks=("t", "u"), model="tfidf") for name, change in (("1", None), ("2", iter))
    )
    assert first.model.description["vocabulary"] == second.model.description["vocabulary"] < N
