"""Worker processes of this machine (--processes), each with its own copy of the model.

this process ──stdin──▶ worker: the order, then units; it ends when stdin ends
             ◀─stdout── messages
DIR/logs/<k>-of-<N>.log ◀─stderr── everything that libraries print; kept if the worker was lost
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import IO

from figeval.config import RunConfig
from figeval.io.files import cure
from figeval.io.frontend import MAX_STOP_SECONDS, end_quickly, environment_of_worker, ignore_terminal
from figeval.io.text import one_line
from figeval.records.rows_file import is_own
from figeval.records.run_folder import own_folder
from figeval.runs.resume import LOGS
from figeval.runs.workers.protocol import FINAL_MESSAGES, Hire, Message, Order, Unit, WorkerLost

PROGRAM = "from figeval.runs.workers.local import main; main()"
TAIL = 65_536  # bytes at the end of a log in which its last line is looked for
SIGNALS = {member.value: member.name for member in signal.Signals}


# ---- in the parent ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class LocalWorker:
    """A worker process (`figeval.runs.workers.protocol.Worker`)."""

    process: subprocess.Popen[bytes]
    log: Path
    logging: threading.Lock  # held while files of the folder of logs come and go
    _stopped: bool = False
    _lost: bool = False

    def ready(self) -> None:
        """Return at once, since a pipe keeps what is sent too early."""

    def answer(self, unit: Unit) -> Iterator[Message]:
        """Yield the messages about a unit. Raises `WorkerLost`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            send(self.process.stdin, unit)
            while True:
                message: Message = pickle.load(self.process.stdout)
                yield message
                if message[0] in FINAL_MESSAGES:
                    return
        except (EOFError, OSError, ValueError, pickle.UnpicklingError) as error:  # ValueError: stdin is closed
            self._lost = not self._stopped
            raise WorkerLost(self._ending()) from error

    def _ending(self) -> str:
        """Return how the process ended, with the last line of its log: `ended with exit code 2 (no space left …)`."""
        self._wait()
        code = self.process.returncode
        ending = (
            f"was killed by {SIGNALS.get(-code, f'signal {-code}')}" if code < 0 else f"ended with exit code {code}"
        )
        with suppress(FileNotFoundError):
            last = last_line(self.log)
            hint = "memory may have run out" if code == -signal.SIGKILL else ""
            details = "; ".join(filter(None, (hint, one_line(last, 300))))
            return f"{ending} ({details})" if details else ending
        return ending

    def stop(self) -> None:
        """Close the worker's stdin, which makes it end."""
        assert self.process.stdin is not None
        self._stopped = True
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def close(self) -> None:
        """Stop the worker and wait; delete its log unless it was lost."""
        assert self.process.stdout is not None
        self.stop()
        self._wait()
        self.process.stdout.close()
        with self.logging:
            if not self._lost:
                self.log.unlink(missing_ok=True)
            with suppress(OSError):  # not empty, or already deleted
                self.log.parent.rmdir()

    def _wait(self) -> None:
        """Wait until the process has ended; kill it if it does not end in time."""
        try:
            self.process.wait(MAX_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty; of a progress bar, its last state."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - TAIL))
        printed = stream.read(TAIL).decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(printed) if line.strip()), "")


@dataclass(frozen=True, slots=True)
class Processes:
    """The staff of --processes (`figeval.runs.workers.protocol.Staff`)."""

    workers: int

    def hiring(self, order: Order, folder: Path, workers: int) -> Hire:
        """Return the function that starts a worker process."""
        return LocalWorkers(order, folder, workers).hire


@dataclass(frozen=True, slots=True)
class LocalWorkers:
    """Starts the worker processes of a run.

    Attributes:
        order: what each gets to begin with.
        folder: run folder, for their logs.
        workers: number of workers, which share the cores and GPUs of this machine.
    """

    order: Order
    folder: Path
    workers: int
    _logging: threading.Lock = field(default_factory=threading.Lock)

    def hire(self, index: int) -> LocalWorker:
        """Start a worker. Raises `RecordError` if its log cannot be written."""
        logs, name = self.folder / LOGS, f"{index + 1}-of-{self.workers}"
        with self._logging, cure(logs):
            own_folder(logs).mkdir(exist_ok=True)
            names = chain([name], (f"{name}-{number}" for number in count(2)))  # earlier ones are of lost workers
            log = next(file for stem in names if not is_own(file := logs / f"{stem}.log"))
            output = log.open("xb")
        with output:
            # -P: do not import modules of the current folder that this process would not import
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env=self.environment(index),
            )
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the worker is already dead, which is noticed later
            send(process.stdin, self.order)
        return LocalWorker(process, log, self._logging)

    def environment(self, index: int) -> dict[str, str]:
        """Return the environment variables of a worker, with the GPU that it is to use."""
        gpus = devices(self.order.config) if self.workers > 1 else []
        gpu_variables = {"CUDA_VISIBLE_DEVICES": gpus[index % len(gpus)]} if len(gpus) > 1 else {}
        return {**os.environ, **environment_of_worker(self.workers), **gpu_variables}


def devices(config: RunConfig) -> list[str]:
    """Return the CUDA devices to share, as named in CUDA_VISIBLE_DEVICES; empty if the user chose a device."""
    torch = sys.modules.get("torch")  # a model that uses a device has imported torch when it was opened
    if torch is None or config.model_args.get("device", config.device) not in (None, "", "auto", "cuda"):
        return []
    count = torch.cuda.device_count()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return visible.split(",")[:count]


def send(stream: IO[bytes], message: object) -> None:
    """Write an object into a pipe."""
    stream.write(pickle.dumps(message))
    stream.flush()


# ---- in a worker -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer the units that come through stdin, and send messages to what was stdout; prints go to stderr."""
    end_quickly()
    ignore_terminal()
    units, messages = own_pipes()
    from figeval.runs.workers.session import Session

    with suppress(EOFError):  # the parent is already gone
        session = Session(pickle.load(units), lambda *message: send(messages, message))
        for unit in Units(units).each():
            session.answer(unit)
        session.close()


def own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Return stdin and stdout as streams that neither models nor their processes can read, print on or keep open.

    Afterwards stdin is empty and stdout is stderr. In a forked process both streams are stderr: while it held the
    pipe, the parent would not notice that this process has ended.
    """
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("rb") as empty:
        os.dup2(empty.fileno(), 0)
    os.dup2(2, 1)

    def let_go() -> None:
        for pipe in pipes:
            os.dup2(2, pipe.fileno(), inheritable=False)

    os.register_at_fork(after_in_child=let_go)
    return pipes


class Units:
    """The units that arrive on a stream; when it ends while one is being answered, the process exits at once.

    No row is lost then, since all have been passed to the operating system.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._arrived: queue.Queue[Unit | None] = queue.Queue()

    def each(self) -> Iterator[Unit]:
        """Yield unit after unit until the stream ends."""
        threading.Thread(target=self._receive, daemon=True).start()
        while (unit := self._arrived.get()) is not None:
            yield unit
            self._arrived.task_done()

    def _receive(self) -> None:
        with suppress(EOFError, pickle.UnpicklingError):
            while True:
                self._arrived.put(pickle.load(self._stream))
        if self._arrived.unfinished_tasks:
            os._exit(130)
        self._arrived.put(None)
