"""The protocol between a run and its workers, whether a worker is a process of this machine or a Ray actor.

A worker gets an `Order` when it begins, and then one `Unit` at a time: examples of one task. While it answers a unit,
it sends messages, each the name of a method of `Receiver` with arguments. The last one is one of `FINAL_MESSAGES`,
unless the worker is lost before. Messages are pickled on the way, so the arguments are plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from figeval.config import RunConfig
from figeval.records.schema import RunRecord
from figeval.types import KeptReply

Message: TypeAlias = tuple[Any, ...]  # name of a method of `Receiver`, then its arguments
FINAL_MESSAGES = frozenset(("ended", "unusable", "broken"))  # messages after which nothing is said about a unit


@dataclass(frozen=True, slots=True)
class Order:
    """Order to a worker: everything that it needs to begin.

    Attributes:
        config: config of the run.
        record: record of the run, with which the worker compares its own data, prompts and weights.
        folder: working folder of the run, to which relative paths refer.
        environment: environment variables to set before libraries are imported.
        version: version of figeval, which must be the same on all machines.
    """

    config: RunConfig
    record: RunRecord
    folder: str
    environment: Mapping[str, str] = field(default_factory=dict)
    version: str = field(default_factory=lambda: version("figeval"))


@dataclass(frozen=True, slots=True)
class Unit:
    """Examples of a task that one worker answers at a time.

    Attributes:
        task: name of the plan.
        places: position of each example in `Plan.examples()` by id, ascending.
        lost: number of workers that were lost while they answered these examples.
        replies: replies of earlier sessions, by the digest of their request.
    """

    task: str
    places: Mapping[str, int]
    lost: int = 0
    replies: Mapping[str, KeptReply] = field(default_factory=dict)

    def retry(self, left: Mapping[str, int]) -> Unit:
        """Return the unit with those of its examples that are left after a worker was lost."""
        return replace(self, places=dict(left), lost=self.lost + 1)


class WorkerLost(Exception):
    """A worker ended, or is out of reach, before it had answered its unit; the message says how."""


class Worker(Protocol):
    """A worker from the point of view of its run. Any thread may call `stop` and `close`."""

    def ready(self) -> None:
        """Wait until the worker can take a unit. Raises `WorkerLost`."""

    def answer(self, unit: Unit) -> Iterator[Message]:
        """Yield the worker's messages about a unit as they arrive. Raises `WorkerLost`."""

    def stop(self) -> None:
        """Make the worker end at once, whatever it is doing; `answer` then yields what it has already sent."""

    def close(self) -> None:
        """Stop the worker and wait until it has ended."""


Hire: TypeAlias = Callable[[int], Worker]  # starts the worker of a place, 0 ≤ place < workers


class Staff(Protocol):
    """The workers that a run may have: processes of this machine, or actors on a cluster."""

    @property
    def workers(self) -> int:
        """Largest number of workers."""

    def hiring(self, order: Order, folder: Path, workers: int) -> Hire:
        """Return the function that starts each of so many workers; `folder` is the run's."""


class Receiver(Protocol):
    """The end of a run that receives the messages of a worker."""

    def row(self, example: str, line: bytes) -> None:
        """Store the line of an example."""

    def replies(self, replies: Mapping[str, KeptReply]) -> None:
        """Keep replies that did not become rows, so that nobody asks for them again."""

    def wait(self, activity: str) -> None:
        """Take note of what the worker does before it can answer: it loads a model."""

    def count_requests(self, answered: int, requests: int) -> None:
        """Take note of the number of requests that a model was sent, and of those that it has answered so far."""

    def ended(self, failure: str | None, peak_memory_mb: float, description: dict[str, Any]) -> None:
        """Take note that the unit has ended; `failure` says why the task failed, if it did."""

    def unusable(self, problem: str) -> None:
        """Take note of an error that the user can fix and that affects every task."""

    def broken(self, trace: str) -> None:
        """Take note of a bug that affects every task."""
