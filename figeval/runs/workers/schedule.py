"""The order in which workers answer examples: units of a task one after the other, and lost ones once more at its end.

A unit is what a worker answers in about `SECONDS`, less towards the end of a task, so that no slow worker holds it up.
Neighbouring examples of one cluster stay together, because their prompts often begin alike.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from figeval.records.ids import Ids
from figeval.records.run_folder import RunFolder
from figeval.runs.plan import Plan
from figeval.runs.workers.protocol import Unit
from figeval.types import Example, KeptReply

FIRST_SIZE = 64  # examples of a worker's first unit, before its speed is known
LEAST, MOST = 4, 4096  # examples of a unit
SECONDS = 15.0  # that a worker needs for a unit
TRIES = 3  # workers that may be lost with an example before it counts as the cause


@dataclass(slots=True)
class Job:
    """The examples of a task that have no row yet.

    Attributes:
        plan: plan of the task.
        left: number of examples without a row.
        replies: replies of earlier sessions.
        failure: why the task failed; empty if it did not.
        peak_memory_mb: most memory that a worker used.
    """

    plan: Plan
    left: int
    replies: Mapping[str, KeptReply]
    failure: str = ""
    peak_memory_mb: float = 0.0
    _examples: Iterator[tuple[int, Example]] = field(default_factory=lambda: iter(()))
    _retries: deque[Unit] = field(default_factory=deque)
    _fresh: int = 0  # examples that were not handed out
    _open: int = 0  # units that are being answered
    _began: float | None = None
    _ended: float = 0.0

    @classmethod
    def of(cls, plan: Plan, folder: RunFolder) -> Job:
        """Return the job for the examples that have no row in a folder."""
        answered_ids = Ids.of(row["id"] for row in folder.rows(plan.name))
        examples = (
            (position, example) for position, example in enumerate(plan.examples()) if example.id not in answered_ids
        )
        left = plan.n - len(answered_ids)
        return cls(plan, left, folder.replies(plan.name), _examples=examples, _fresh=left)

    @property
    def waiting(self) -> bool:
        """True if there are examples to hand out."""
        return not self.failure and (self._fresh > 0 or bool(self._retries))

    @property
    def over(self) -> bool:
        """True if nothing is handed out any more and nothing is being answered."""
        return not self.waiting and self._open == 0

    @property
    def seconds(self) -> float:
        """Seconds between the first unit that was handed out and the last that ended."""
        return 0.0 if self._began is None else max(0.0, self._ended - self._began)

    def take(self, size: int, workers: int) -> Unit:
        """Return the next unit, with about so many examples."""
        if self._began is None:
            self._began = time.monotonic()
        self._open += 1
        if not self._fresh:
            return self._retries.popleft()
        fair = math.ceil(self._fresh / (2 * workers))
        count = max(1, min(size, MOST, max(LEAST, fair)))
        positions = self._next(min(count, self._fresh))
        self._fresh = self._fresh - len(positions) if positions else 0  # a file that was cut short since has no more
        return Unit(self.plan.name, positions, replies=self.replies)

    def _next(self, count: int) -> dict[str, int]:
        """Return the positions of the next examples, with up to as many again that share the cluster of the last."""
        positions: dict[str, int] = {}
        cluster: str | None = None
        for position, example in self._examples:
            if len(positions) >= count and (
                cluster is None or example.cluster != cluster or len(positions) >= 2 * count
            ):
                self._examples = chain([(position, example)], self._examples)
                break
            positions[example.id], cluster = position, example.cluster
        return positions

    def close(self, unit: Unit, left: Mapping[str, int], *, lost: bool) -> Unit | None:
        """Take a unit back with the examples that have no row; return it if its one example lost too many workers."""
        self._open -= 1
        self._ended = time.monotonic()
        if not lost or not left:
            return None
        retry = unit.retry(left)
        if retry.lost < TRIES - 1:
            self._retries.append(retry)
        elif len(left) > 1 or retry.lost < TRIES:  # one by one, to find the example that is the cause
            self._retries.extend(
                replace(unit, places={name: position}, lost=TRIES - 1) for name, position in left.items()
            )
        else:
            return retry
        return None


@dataclass(slots=True)
class Schedule:
    """The jobs of a run in order. Any thread may use it.

    Attributes:
        jobs: jobs by task.
        workers: number of workers.
        changed: condition that is notified of every change; its lock guards the jobs.
    """

    jobs: Mapping[str, Job]
    workers: int
    changed: threading.Condition = field(default_factory=threading.Condition)
    closed: bool = False

    @classmethod
    def of(cls, plans: Sequence[Plan], folder: RunFolder, workers: int) -> Schedule:
        """Return a schedule of the examples that have no row in a folder."""
        return cls({plan.name: Job.of(plan, folder) for plan in plans}, workers)

    def take(self, size: int) -> Unit | None:
        """Return the next unit with about so many examples; wait if one may come back. None if there will be none."""
        with self.changed:
            while not self.closed:
                job = next((job for job in self.jobs.values() if job.waiting), None)
                if job is not None:
                    return job.take(size, self.workers)
                if all(job.over for job in self.jobs.values()):
                    break
                self.changed.wait()
        return None

    def close(self) -> None:
        """Hand out nothing any more."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()


@dataclass(slots=True)
class Rate:
    """Size of the units of one worker, from the time that the last one took."""

    size: int = FIRST_SIZE

    def adapt(self, answered: int, seconds: float) -> None:
        """Take note of a unit. The size grows at most fourfold at a time, since the first unit includes loading."""
        target = round(answered * SECONDS / max(seconds, 1e-3))
        self.size = max(LEAST, min(MOST, target, 4 * max(self.size, answered)))
