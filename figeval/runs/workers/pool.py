"""The workers of a run, which answer its examples together; only this process stores rows.

One thread per worker hands it unit after unit and stores the rows as they arrive, also those of later tasks while this
process computes the scores of an earlier one. A worker that is lost costs only the rows that had not arrived: another
one takes its place, and its unit is handed out again. If an example loses `TRIES` workers, it has no answer, and its
row says why.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import FigevalError, ModelError
from figeval.io import observer as progress
from figeval.io.frontend import notice
from figeval.io.text import pluralize
from figeval.records.ids import digests_of
from figeval.records.predictions import PredictionWriter, check_row, prediction_row
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.runs.evaluate import Executor
from figeval.runs.plan import Plan
from figeval.runs.score import MetricSet
from figeval.runs.workers.protocol import Hire, Order, Staff, Unit, Worker, WorkerLost
from figeval.runs.workers.schedule import TRIES, Job, Rate, Schedule
from figeval.types import KeptReply, Prediction

MAX_BARREN_WORKERS = 4  # workers that one place may lose in a row without a single row
TICK = 0.5  # seconds between two looks at what has changed
PATIENCE = 15.0  # seconds that a worker may take to start before a line says so, and to end when it is stopped


@dataclass(slots=True)
class WorkerPool:
    """The workers of a run (`figeval.runs.evaluate.Executor`).

    Attributes:
        folder: run folder.
        schedule: examples to answer.
        hire: function that starts a worker.
        parent: executor of this process, which describes the model if no worker does.
    """

    folder: RunFolder
    schedule: Schedule
    hire: Hire
    parent: Executor
    _workers: dict[int, Worker] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _writers: dict[str, PredictionWriter] = field(default_factory=dict)
    _files: ExitStack = field(default_factory=ExitStack)
    _stored: dict[str, int] = field(default_factory=dict)  # task → rows that `answer` has not told of
    _news: deque[Callable[[], None]] = field(default_factory=deque)  # for the thread that shows progress
    _activities: set[str] = field(default_factory=set)  # models whose loading was shown
    _request_counts: dict[int, tuple[int, int]] = field(default_factory=dict)  # index → requests answered, and all
    _has_begun: bool = False  # whether a task was begun
    _fatal: BaseException | None = None
    _ends: dict[int, str] = field(default_factory=dict)  # places that were given up → how their last worker ended
    _description: dict[str, Any] = field(default_factory=dict)

    # ---- in the thread of the run -----------------------------------------------------------------------------------

    def start(self) -> None:
        for index in range(self.schedule.workers):
            thread = threading.Thread(target=self._work, args=(index,), name=f"worker {index + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Wait for the rows of a task, and sort them; yield the number of new rows.

        A reserve (`Plan.is_reserve`) is answered by this process, since workers would begin it before it is needed.

        Raises:
            FigevalError: the task failed in a worker, all workers were lost, or no row can be stored.
            RuntimeError: there is a bug in what a worker runs.
        """
        if plan.is_reserve:
            yield from self.parent.answer(plan, task)
            return
        job, changed = self.schedule.jobs[plan.name], self.schedule.changed
        if not self._has_begun:
            self._has_begun = True
            starting = f"starting {pluralize(self.schedule.workers, 'worker')}"
            progress.report_waiting(starting)
        while True:
            with changed:
                changed.wait_for(lambda: job.over or self._fatal or self._news or self._stored.get(plan.name), TICK)
                over, fatal, rows = job.over, self._fatal, self._stored.pop(plan.name, 0)
            while self._news:
                self._news.popleft()()
            if rows:
                yield rows
            if fatal is not None and not over:
                raise fatal
            if over:
                break
        task.seconds += round(job.seconds, 3)
        task.peak_memory_mb = max(task.peak_memory_mb, job.peak_memory_mb)
        stored = self.folder.arrange(plan.name, digests_of(example.id for example in plan.examples()))
        if job.failure:
            raise FigevalError(job.failure)
        if stored < plan.n:
            raise RuntimeError(f"{plan.n - stored} rows of {plan.name} are missing, although all were computed")

    def description(self) -> dict[str, Any]:
        """Return the workers' most detailed description of the model, since not every worker had to load it."""
        return self._description or self.parent.description()

    def stop(self) -> None:
        """End all workers, and store what they have sent."""
        self.schedule.close()
        for worker in list(self._workers.values()):
            worker.stop()
        ends = time.monotonic() + PATIENCE
        for index, thread in enumerate(self._threads):
            thread.join(max(0.0, ends - time.monotonic()))
            if thread.is_alive() and index in self._workers:
                self._workers[index].close()
        with self.schedule.changed:
            self._files.close()
            self._writers.clear()

    # ---- in the thread of a worker ----------------------------------------------------------------------------------

    def _work(self, index: int) -> None:
        """Hand out units to the workers of a place, until there are none or the place is given up."""
        barren, rate = 0, Rate()
        try:
            while barren < MAX_BARREN_WORKERS:
                rows = _Inbox(self, index)
                try:
                    self._serve(index, rows, rate)
                    return
                except WorkerLost as lost:
                    if self.schedule.closed:
                        return
                    barren = 0 if rows.stored else barren + 1
                    self._tell_of(index, str(lost), last=barren == MAX_BARREN_WORKERS)
        except BaseException as error:  # whatever it is, the thread of the run raises it
            self._fail(error)

    def _serve(self, index: int, inbox: _Inbox, rate: Rate) -> None:
        """Let one worker answer unit after unit. Raises `WorkerLost`."""
        worker = self.hire(index)
        with self.schedule.changed:
            self._workers[index] = worker
        try:
            if self.schedule.closed:
                return
            waiting = threading.Timer(PATIENCE, self._tell, [f"{self._who(index)} waits for free cores or GPUs"])
            waiting.start()
            try:
                worker.ready()
            finally:
                waiting.cancel()
            sent_tasks: set[str] = set()
            while unit := self.schedule.take(rate.size):
                began = time.monotonic()
                with inbox.unit(unit, fresh=unit.task not in sent_tasks) as sent:
                    for name, *arguments in worker.answer(sent):
                        getattr(inbox, name)(*arguments)
                sent_tasks.add(unit.task)
                rate.adapt(len(unit.places), time.monotonic() - began)
        finally:
            worker.close()

    def _who(self, index: int) -> str:
        return f"worker {index + 1} of {self.schedule.workers}"

    def _tell(self, text: str) -> None:
        """Let the thread of the run print a line."""
        with self.schedule.changed:
            self._news.append(lambda: notice(text))
            self.schedule.changed.notify_all()

    def _tell_of(self, index: int, ending: str, *, last: bool) -> None:
        """Report that a worker was lost; once all places are given up, the run ends."""
        if not last:
            self._tell(f"{self._who(index)} {ending}; another one takes its place")
        with self.schedule.changed:
            if last:
                self._ends[index] = ending
            gone = len(self._ends) == self.schedule.workers
        if gone:
            ends: dict[str, list[str]] = {}
            for number, end in sorted(self._ends.items()):
                ends.setdefault(end, []).append(str(number + 1))
            died = "; ".join(
                f"{'worker' if len(numbers) == 1 else 'each of the workers'} {' and '.join(numbers)} {end}"
                for end, numbers in ends.items()
            )
            hint = "results so far are kept; run the same command again to continue"
            self._fail(ModelError(f"no worker is left: {died}; {hint}"))

    def _fail(self, error: BaseException) -> None:
        """Let the thread of the run raise an error."""
        with self.schedule.changed:
            self._fatal = self._fatal or error
        self.schedule.close()

    def _write(self, task: str, line: bytes) -> None:
        """Append a line to the predictions of a task. Raises `RecordError` if there is no space."""
        with self.schedule.changed:
            if task not in self._writers:
                self._writers[task] = self._files.enter_context(self.folder.appending(task))
            self._writers[task].write_line(line)
            self._stored[task] = self._stored.get(task, 0) + 1
            self.schedule.jobs[task].left -= 1
            self.schedule.changed.notify_all()


@dataclass(slots=True)
class _Inbox:
    """Receives the messages of one worker (`figeval.runs.workers.protocol.Receiver`)."""

    pool: WorkerPool
    index: int
    stored: int = 0
    _task: str = ""
    _left: dict[str, int] = field(default_factory=dict)  # examples of the unit without a row
    _has_ended: bool = False

    @contextmanager
    def unit(self, unit: Unit, *, fresh: bool) -> Iterator[Unit]:
        """Yield a unit as it is sent to the worker, and give back to the schedule what is left of it in the end."""
        self._task, self._left, self._has_ended = unit.task, dict(unit.places), False
        schedule = self.pool.schedule
        try:
            yield unit if fresh else Unit(unit.task, unit.places, unit.lost)
        finally:
            self.pool._request_counts.pop(self.index, None)
            with schedule.changed:
                job = schedule.jobs[unit.task]
                culprit = job.close(unit, self._left, lost=not self._has_ended)
                if culprit is not None:
                    self._give_up(job, culprit)
                schedule.changed.notify_all()

    def _give_up(self, job: Job, unit: Unit) -> None:
        """Store a row without an answer for an example with which `TRIES` workers were lost."""
        ((name, position),) = unit.places.items()
        example = next(example for number, example in enumerate(job.plan.examples()) if number == position)
        reason = f"{TRIES} workers were lost while they answered it; memory may have run out"
        prediction = Prediction(example_id=name, value=None, status="error", finish="error", error=reason)
        features = MetricSet(job.plan.metrics, job.plan.task.labels, job.plan.task.with_language).features(
            example, prediction
        )
        row = prediction_row(
            job.plan.task.task_type, example, prediction, features, samples=job.plan.config.log_samples
        )
        self.pool._write(job.plan.name, check_row(row))

    def row(self, example: str, line: bytes) -> None:
        """Store the line of an example, unless it already has one or is none of the unit's."""
        if example in self._left:
            self.pool._write(self._task, line)
            del self._left[example]
            self.stored += 1

    def replies(self, replies: Mapping[str, KeptReply]) -> None:
        """Keep replies that did not become rows."""
        with self.pool.schedule.changed:
            self.pool.folder.keep_replies(self._task, replies)

    def wait(self, activity: str) -> None:
        """Show that a model is being loaded, once for all workers."""
        if activity not in self.pool._activities:
            self.pool._activities.add(activity)
            self._show(lambda: progress.current_observer().wait(activity))

    def count_requests(self, answered: int, requests: int) -> None:
        """Show the requests of all workers together."""
        counts = self.pool._request_counts
        counts[self.index] = answered, requests
        totals = [sum(numbers) for numbers in zip(*list(counts.values()), strict=True)]
        self._show(lambda: progress.current_observer().count_requests(*totals))

    def _show(self, report: Callable[[], None]) -> None:
        """Let the thread of the run tell its observer, which no other thread knows."""
        with self.pool.schedule.changed:
            self.pool._news.append(report)
            self.pool.schedule.changed.notify_all()

    def ended(self, failure: str | None, peak_memory_mb: float, description: dict[str, Any]) -> None:
        """Take note of the end of the unit."""
        self._has_ended = True
        pool = self.pool
        with pool.schedule.changed:
            job = pool.schedule.jobs[self._task]
            job.failure = job.failure or failure or ""
            job.peak_memory_mb = max(job.peak_memory_mb, peak_memory_mb)
            pool._description = max(description, pool._description, key=len)  # of equals the latest, as in one process

    def unusable(self, problem: str) -> None:
        """Raise the error, which ends the run."""
        self._has_ended = True
        raise ModelError(problem)

    def broken(self, trace: str) -> None:
        """Raise the bug, which ends the run."""
        self._has_ended = True
        raise RuntimeError(f"worker {self.index + 1} failed\n{trace}")


@contextmanager
def worker_pool(
    staff: Staff, config: RunConfig, folder: RunFolder, record: RunRecord, plans: Sequence[Plan], parent: Executor
) -> Iterator[WorkerPool]:
    """Start workers, fewer than there may be if there are fewer examples; on exit, end them and store what they sent.

    Args:
        staff: the workers that there may be.
        config: config of the run.
        folder: run folder.
        record: record of the run.
        plans: plans of the run.
        parent: executor of this process.
    """
    schedule = Schedule.of([plan for plan in plans if not plan.is_reserve], folder, staff.workers)
    schedule.workers = min(staff.workers, max(job.left for job in schedule.jobs.values()))
    order = Order(replace(config, output_path=folder.path, fresh=False), record, str(Path.cwd()))
    pool = WorkerPool(folder, schedule, staff.hiring(order, folder.path, schedule.workers), parent)
    pool._activities.add(loading := f"loading model {config.model}")
    progress.current_observer().wait(loading)
    try:
        pool.start()
        yield pool
    finally:
        pool.stop()
