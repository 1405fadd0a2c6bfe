"""Worker processes (--processes) that share the examples of a run, each with its own copy of the model.

    DIR/shards/<k>-of-<N>/   a run folder: the record of one worker, and its rows until they are merged
    DIR/logs/<k>-of-<N>.log  the output of a worker that died

The rows of a task are merged as soon as every worker has finished it, in the order of the examples and each id once;
only then are the rows of the shards deleted. If a process is killed at any moment, `resume` still finds every row.

A worker receives its `Assignment` through stdin, which then stays open. When stdin ends, because the parent is gone or
stops the worker, the worker ends, too. It stores rows but computes no scores.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import FigevalError, ModelError
from figeval.evaluation.evaluate import (
    CachedModel,
    Executor,
    InProcess,
    has_no_reply,
    missing_examples,
    recorded_failure,
)
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import Plan, prepare
from figeval.evaluation.resume import LOGS, SHARDS, begin, merge, merge_shards
from figeval.frontend import end_quickly
from figeval.models.model import Model
from figeval.records import provenance
from figeval.records.rows_file import is_own
from figeval.records.run_folder import RunFolder, own_folder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.storage import cure
from figeval.text import one_line
from figeval.types import Example

PROGRAM = "from figeval.evaluation.parallel import main; main()"
TICK = 0.1  # seconds between two polls of the workers' rows
GRACE = 10.0  # seconds that a process has to stop before it is killed
SIGNALS = {known.value: known.name for known in signal.Signals}


# ---- in the parent ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Worker:
    """A worker process from its parent's point of view."""

    name: str  # 1-of-2
    process: subprocess.Popen[bytes]
    shard: RunFolder
    log: Path
    record: RunRecord | None = None  # last record that was read
    _seen: tuple[int, int] = (0, 0)  # modification time and size of its file
    _counted: dict[str, int] = field(default_factory=dict)  # task → number of bytes whose rows were counted

    def finished_task(self, task: str) -> TaskRecord | None:
        """Return the worker's record of a task, or None if it has not finished the task."""
        if self.shard.run_file.exists():
            state = self.shard.run_file.stat()
            written = state.st_mtime_ns, state.st_size
            if written != self._seen:
                self.record, self._seen = self.shard.read(), written
        known = self.record.tasks if self.record is not None else ()
        return next((one for one in known if one.task == task), None)

    def is_through(self, task: str) -> bool:
        """Return whether the worker will write no more rows of a task."""
        return self.process.poll() is not None or self.finished_task(task) is not None

    def new_rows(self, task: str) -> int:
        """Return the number of rows of a task that the worker has written since the last call."""
        file = self.shard.predictions_file(task)
        if not file.exists():
            return 0
        with file.open("rb") as stream:
            stream.seek(self._counted.get(task, 0))
            new = stream.read()
            self._counted[task] = stream.tell()
        return new.count(b"\n")

    def ending(self) -> str:
        """Return how the worker ended, with the last line of its log: `ended with exit code 2 (no space left …)`."""
        code = self.process.returncode
        how = f"was killed by {SIGNALS.get(-code, f'signal {-code}')}" if code < 0 else f"ended with exit code {code}"
        printed = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(printed) if line.strip()), "")
        hint = "memory may have run out" if code == -signal.SIGKILL else ""
        why = "; ".join(filter(None, (hint, last.removeprefix("figeval: ")[:300])))
        return f"{how} ({why})" if why else how

    def request_stop(self) -> None:
        """Close the worker's stdin, which makes it stop."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self) -> None:
        """Wait until the worker has stopped; kill it if it does not stop in time."""
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class WorkerPool:
    """The workers of a run, whose rows are merged task by task.

    Attributes:
        folder: run folder.
        workers: workers in the order of their shards.
        parent: executor of this process, which describes the model if no worker does.
        dead: workers that ended before they had finished.
    """

    folder: RunFolder
    workers: list[Worker]
    parent: Executor
    dead: dict[str, Worker] = field(default_factory=dict)

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Wait until every worker has finished the task and merge their rows; yield the number of new rows.

        Raises:
            FigevalError: rows are missing because a worker died, or the task failed in a worker.
        """
        while True:
            through = all(worker.is_through(plan.name) for worker in self.workers)
            if rows := sum(worker.new_rows(plan.name) for worker in self.workers):
                yield rows
            if through:
                break
            time.sleep(TICK)
        merged = merge(self.folder, plan, [worker.shard for worker in self.workers])
        records = [one for worker in self.workers if (one := worker.finished_task(plan.name)) is not None]
        task.seconds += max((one.seconds for one in records), default=0.0)
        task.peak_memory_mb = max(task.peak_memory_mb, *(one.peak_memory_mb for one in records), 0.0)
        errors = [one.error for one in records if one.error is not None]
        if errors or merged < plan.n:
            self._explain(plan, errors)

    def _explain(self, plan: Plan, errors: Sequence[str]) -> None:
        """Raise an error that says why a task failed or why rows of it are missing."""
        dead = [worker for worker in self.workers if worker.finished_task(plan.name) is None]
        self.dead |= {worker.name: worker for worker in dead}
        if errors:
            raise FigevalError(errors[0])
        if dead:
            raise FigevalError(self.failure_report())
        raise RuntimeError(f"rows of {plan.name} are missing, although every process reports that it has finished")

    def failure_report(self) -> str:
        """Return a message about the workers that died, which groups those that ended in the same way."""
        ends: dict[str, list[str]] = {}
        for worker in self.dead.values():
            ends.setdefault(worker.ending(), []).append(worker.name.replace("-", " "))
        died = "; ".join(f"process {' and '.join(names)} {how}" for how, names in ends.items())
        return f"{died}; see {self.folder.path / LOGS}; results so far are kept; run the same command again to continue"

    def description(self) -> dict[str, Any]:
        """Return the workers' most detailed description of the model, since not every worker had to load it."""
        known = [worker.record.model.description for worker in self.workers if worker.record is not None]
        return max(known, key=lambda one: len(one), default=self.parent.description())

    def stop(self) -> None:
        """Stop all workers, and keep the logs of those that died."""
        for worker in self.workers:
            worker.request_stop()
        for worker in self.workers:
            worker.wait()
            if worker.name not in self.dead:
                worker.log.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            (self.folder.path / LOGS).rmdir()


@contextmanager
def worker_pool(config: RunConfig, folder: RunFolder, plans: Sequence[Plan], parent: Executor) -> Iterator[WorkerPool]:
    """Start --processes workers, or fewer if there are fewer examples; on exit, stop them and merge all their rows.

    Raises:
        ModelError: a worker died; by then, the other workers have ended and all rows have been merged.
    """
    pool = WorkerPool(folder, [], parent)
    try:
        for assignment, environment in assignments(config, folder, plans):
            pool.workers.append(started(assignment, environment, folder.path / LOGS))
        yield pool
    finally:
        pool.stop()
        merge_shards(folder, plans)
    if pool.dead:
        raise ModelError(pool.failure_report())


def assignments(
    config: RunConfig, folder: RunFolder, plans: Sequence[Plan]
) -> Iterator[tuple[Assignment, dict[str, str]]]:
    """Yield the assignment and the environment of each worker."""
    missing = (plan.n - sum(not has_no_reply(row) for row in folder.rows(plan.name)) for plan in plans)
    n = min(config.processes, max(missing))
    given = replace(config, output_path=folder.path, fresh=False)
    places = devices(config) if n > 1 else []
    for part in range(n):
        shard = folder.path / SHARDS / f"{part + 1}-of-{n}"
        environment = {**os.environ, **environment_of_worker(n)}
        if len(places) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = places[part % len(places)]
        yield Assignment(given, folder.path, shard, part, n), environment


def environment_of_worker(n: int) -> dict[str, str]:
    """Return the environment variables of one of n workers: its share of the cores, and its parent's module path."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, allowed // n)))
    return {"OMP_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(part or str(Path.cwd()) for part in sys.path)}


def devices(config: RunConfig) -> list[str]:
    """Return the CUDA devices to share, as named in CUDA_VISIBLE_DEVICES; empty if the user chose a device."""
    torch = sys.modules.get("torch")  # a model that uses a device has imported torch when it was opened
    if torch is None or config.model_args.get("device", config.device) not in (None, "", "auto", "cuda"):
        return []
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return visible.split(",")[:count]


def started(assignment: Assignment, environment: dict[str, str], logs: Path) -> Worker:
    """Start a worker. Raises `RecordError` if its log cannot be written."""
    name = assignment.shard.name
    log = logs / f"{name}.log"
    with cure(log):
        own_folder(logs).mkdir(exist_ok=True)
        is_own(log)
        output = log.open("wb")
    with output:
        # -P: do not import modules of the current folder that this process would not import
        command = [sys.executable, "-P", "-c", PROGRAM]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # the worker is already dead, which is noticed later
        process.stdin.write(pickle.dumps(assignment))
        process.stdin.flush()
    return Worker(name, process, RunFolder(assignment.shard), log)


# ---- in a worker -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assignment:
    """The share of one worker: every `of`-th of the examples that have no row in the run folder.

    Attributes:
        config: config of the run.
        run: run folder.
        shard: folder for the rows of the worker.
        part: index of its first example, 0 ≤ part < of.
        of: number of workers.
    """

    config: RunConfig
    run: Path
    shard: Path
    part: int
    of: int

    def examples(self, plan: Plan) -> Iterator[Example]:
        """Return the worker's examples of a task.

        All workers see the same missing examples, since the rows of a task are merged only when all have finished it.
        """
        return islice(missing_examples(plan, RunFolder(self.run)), self.part, None, self.of)

    def carry_out(self) -> None:
        """Answer one task after the other, and write the shard's `run.json` after each.

        Raises:
            FigevalError: the data or weights differ from those of the run, or another failure affects all tasks.
        """
        model, plans, _ = prepare(self.config, Harness(include=self.config.include_path))
        shard = RunFolder(self.shard)
        with shard.locked():
            self._answer(shard, model, plans)
        model.close()

    def _answer(self, shard: RunFolder, model: Model, plans: list[Plan]) -> None:
        record = begin(RunFolder(self.run), self.config, model, plans)
        tasks, record.tasks = record.tasks, []
        executor = InProcess(CachedModel(model), shard, self.config.log_samples, earlier=RunFolder(self.run))
        for plan, task in zip(plans, tasks, strict=True):
            began = time.monotonic()
            task.status = "running"
            with recorded_failure(task):
                examples = self.examples(plan)
                for first in islice(examples, 1):  # load no weights if there are no examples
                    for _ in executor.store(plan, chain([first], examples)):
                        pass
                task.status = "done"
            task.seconds = round(time.monotonic() - began, 3)
            task.peak_memory_mb = provenance.peak_memory_mb()
            record.tasks.append(task)
            record.model.description = executor.description()
            shard.write(record)


def end_with_stdin() -> None:
    """Exit at once when stdin ends; no row is lost, since all have been passed to the operating system."""
    while os.read(0, 4096):
        pass
    os._exit(130)


def main() -> None:
    """Carry out the assignment from stdin; print an error that a user can fix as one line, and exit with code 2."""
    end_quickly()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the parent decides
    assignment = pickle.load(sys.stdin.buffer)
    threading.Thread(target=end_with_stdin, daemon=True).start()
    try:
        assignment.carry_out()
    except FigevalError as error:
        print(f"figeval: {one_line(str(error))}", file=sys.stderr)
        sys.exit(2)
