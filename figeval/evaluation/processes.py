"""Several processes answer the examples of a run together, each with the model and into a folder of its own.

    DIR/shards/<k>-of-<N>/   a run folder: the rows of one process until they are merged, and what it says of itself
    DIR/logs/<k>-of-<N>.log  what a process that died has printed

A task is merged as soon as every process is through with it: in the order of the examples, each id once, and only then
are the rows of the shards deleted. So a kill at any moment leaves every row somewhere, and `take_in` finds it.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import FigevalError, ModelError
from figeval.evaluation.answering import Answering, failed
from figeval.evaluation.plan import Plan
from figeval.evaluation.worker import Order
from figeval.records.cures import cure
from figeval.records.folder import RunFolder, own_folder
from figeval.records.predictions import is_own
from figeval.records.schema import RunRecord, TaskRecord

SHARDS, LOGS = "shards", "logs"
PROGRAM = "from figeval.evaluation.worker import main; main()"
TICK = 0.1  # seconds between two looks at what the processes have written
GRACE = 10.0  # seconds in which a process that is to stop should have stopped
SIGNALS = {known.value: known.name for known in signal.Signals}


@dataclass(slots=True)
class Worker:
    """One process, seen from the run that started it."""

    name: str  # 1-of-2
    process: subprocess.Popen[bytes]
    shard: RunFolder
    log: Path
    record: RunRecord | None = None  # as it was when last looked at
    _seen: tuple[int, int] = (0, 0)  # when that was written, and how long it was
    _read: dict[str, int] = field(default_factory=dict)  # task → bytes of its rows that were counted

    def told(self, task: str) -> TaskRecord | None:
        """What it says of a task that it is through with."""
        if self.shard.run_file.exists():
            state = self.shard.run_file.stat()
            written = state.st_mtime_ns, state.st_size
            if written != self._seen:
                self.record, self._seen = self.shard.read(), written
        known = self.record.tasks if self.record is not None else ()
        return next((one for one in known if one.task == task), None)

    def settled(self, task: str) -> bool:
        """Whether it will write no more rows of a task."""
        return self.process.poll() is not None or self.told(task) is not None

    def more(self, task: str) -> int:
        """How many rows it has written since this was last asked."""
        file = self.shard.predictions_file(task)
        if not file.exists():
            return 0
        with file.open("rb") as stream:
            stream.seek(self._read.get(task, 0))
            new = stream.read()
            self._read[task] = stream.tell()
        return new.count(b"\n")

    def ending(self) -> str:
        """How it ended, with the last line that it has printed: `ended with exit code 2 (no room left …)`."""
        code = self.process.returncode
        how = f"was killed by {SIGNALS.get(-code, f'signal {-code}')}" if code < 0 else f"ended with exit code {code}"
        printed = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line.strip() for line in reversed(printed) if line.strip()), "")
        hint = "memory may have run out" if code == -signal.SIGKILL else ""
        why = "; ".join(filter(None, (hint, last.removeprefix("figeval: ")[:300])))
        return f"{how} ({why})" if why else how

    def dismiss(self) -> None:
        """Close its stdin: it stops when that ends."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self) -> None:
        """Until it has stopped; it is killed if it does not."""
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(slots=True)
class Team:
    """The processes of a run, whose rows are merged task by task."""

    folder: RunFolder
    workers: list[Worker]
    alone: Answering
    dead: dict[str, Worker] = field(default_factory=dict)  # those that ended before they were through

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Wait until every process is through with the task, and merge what they wrote.

        Raises:
            FigevalError: a process has died, so that rows are missing; or the task failed in one.
        """
        while True:
            settled = all(worker.settled(plan.name) for worker in self.workers)
            if rows := sum(worker.more(plan.name) for worker in self.workers):
                yield rows
            if settled:
                break
            time.sleep(TICK)
        merged = merge(self.folder, plan, [worker.shard for worker in self.workers])
        told = [one for worker in self.workers if (one := worker.told(plan.name)) is not None]
        task.seconds += max((one.seconds for one in told), default=0.0)
        task.peak_memory_mb = max((one.peak_memory_mb for one in told), default=0.0)
        if merged < plan.n:
            self._explain(plan, [one.error for one in told if one.error is not None])

    def _explain(self, plan: Plan, errors: Sequence[str]) -> None:
        """Raise what is the matter with a task of which rows are missing."""
        silent = [worker for worker in self.workers if worker.told(plan.name) is None]
        self.dead |= {worker.name: worker for worker in silent}
        if errors:
            raise FigevalError(errors[0])
        if silent:
            raise FigevalError(self.obituary())
        raise RuntimeError(f"rows of {plan.name} are missing, although every process says that it is through")

    def obituary(self) -> str:
        """A sentence about the processes that died; those that ended alike share theirs."""
        ends: dict[str, list[str]] = {}
        for worker in self.dead.values():
            ends.setdefault(worker.ending(), []).append(worker.name.replace("-", " "))
        told = "; ".join(f"process {' and '.join(names)} {how}" for how, names in ends.items())
        return f"{told}; see {self.folder.path / LOGS}; what was computed is kept: the same command goes on"

    def description(self) -> dict[str, Any]:
        """What the process says of its model that knows most of it: not every one had to load it."""
        known = [worker.record.model.description for worker in self.workers if worker.record is not None]
        return max(known, key=lambda one: len(one), default=self.alone.description())

    def stop(self) -> None:
        """Stop all processes, and keep the logs of those that died."""
        for worker in self.workers:
            worker.dismiss()
        for worker in self.workers:
            worker.wait()
            if worker.name not in self.dead:
                worker.log.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            (self.folder.path / LOGS).rmdir()


@contextmanager
def several(config: RunConfig, folder: RunFolder, plans: Sequence[Plan], alone: Answering) -> Iterator[Team]:
    """As many processes as the run is to have and has examples for, stopped at the end; none of their rows is lost.

    Raises:
        ModelError: a process died; by then the others are through, and everything is merged.
    """
    team = Team(folder, [], alone)
    try:
        for order, environment in orders(config, folder, plans):
            team.workers.append(started(order, environment, folder.path / LOGS))
        yield team
    finally:
        team.stop()
        gather(folder, plans)
    if team.dead:
        raise ModelError(team.obituary())


def orders(config: RunConfig, folder: RunFolder, plans: Sequence[Plan]) -> Iterator[tuple[Order, dict[str, str]]]:
    """What each process is to do, and its environment."""
    missing = (plan.n - sum(not failed(row) for row in folder.rows(plan.name)) for plan in plans)
    n = min(config.processes, max(missing))
    given = replace(config, output_path=folder.path, fresh=False)
    places = devices(config) if n > 1 else []
    for part in range(n):
        shard = folder.path / SHARDS / f"{part + 1}-of-{n}"
        environment = {**os.environ, **surroundings(n)}
        if len(places) > 1:
            environment["CUDA_VISIBLE_DEVICES"] = places[part % len(places)]
        yield Order(given, folder.path, shard, part, n), environment


def surroundings(n: int) -> dict[str, str]:
    """What one of n processes finds in its environment: a share of the cores, and the modules that this one finds."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, allowed // n)))
    return {"OMP_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(part or str(Path.cwd()) for part in sys.path)}


def devices(config: RunConfig) -> list[str]:
    """The CUDA devices to be shared out, as CUDA_VISIBLE_DEVICES names them; none where the user chose one device."""
    torch = sys.modules.get("torch")  # a model that computes on a device has asked for it when it was opened
    if torch is None or config.model_args.get("device", config.device) not in (None, "", "auto", "cuda"):
        return []
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return visible.split(",")[:count]


def started(order: Order, environment: dict[str, str], logs: Path) -> Worker:
    """A process that carries out an order. Raises `RecordError` if its log cannot be written."""
    name = order.shard.name
    log = logs / f"{name}.log"
    with cure(log):
        own_folder(logs).mkdir(exist_ok=True)
        is_own(log)
        output = log.open("wb")
    with output:
        # -P: no module of the current folder gets in that this process would not import
        command = [sys.executable, "-P", "-c", PROGRAM]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has died already, which is noticed later
        process.stdin.write(pickle.dumps(order))
        process.stdin.flush()
    return Worker(name, process, RunFolder(order.shard), log)


def take_in(folder: RunFolder, plans: Sequence[Plan]) -> None:
    """Merge what the processes of an earlier session have left behind, and forget how they ended.

    Raises:
        RecordError: one of them still writes.
    """
    gather(folder, plans)
    shutil.rmtree(folder.path / LOGS, ignore_errors=True)


def gather(folder: RunFolder, plans: Sequence[Plan]) -> None:
    """Merge all rows of all processes, however they ended, and remove their folders.

    Raises:
        RecordError: one of them still writes.
    """
    found = [RunFolder(own_folder(path)) for path in sorted(own_folder(folder.path / SHARDS).glob("*-of-*"))]
    with ExitStack() as locks:
        for shard in found:
            locks.enter_context(shard.locked())
        for plan in plans:
            if any(shard.predictions_file(plan.name).exists() for shard in found):
                merge(folder, plan, found)
    for shard in found:
        if not any(shard.predictions_file("x").parent.iterdir()):
            shutil.rmtree(shard.path)
    with suppress(OSError):  # not there, or not empty
        (folder.path / SHARDS).rmdir()


def merge(folder: RunFolder, plan: Plan, shards: Sequence[RunFolder]) -> int:
    """Take the rows of a task out of the shards into the run's own; how many it has then."""
    folder.drop(plan.name, failed)
    rows = folder.arrange(plan.name, (example.id for example in plan.examples()), shards)
    for shard in shards:
        shard.predictions_file(plan.name).unlink(missing_ok=True)
    return rows
