"""A training in processes of its own, seen from the one that was asked for it: started, listened to, stopped.

this process ──stdin──▶ torchrun and the processes: when it ends, so do they
             ◀─stdout── their wire: progress, and how they ended
DIR/training/processes.log ◀─stderr── all that libraries print
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory

from figeval.errors import TrainError
from figeval.evaluation.parallel import GRACE, environment_of_worker
from figeval.evaluation.training.train import finished
from figeval.jsonfile import JSONValue, parse_json
from figeval.training.config import TrainConfig
from figeval.training.crew import device_of
from figeval.training.folder import TrainFolder
from figeval.training.launch import check, log_name, surroundings, torchrun
from figeval.training.loop import Observer

LAUNCHER = "figeval.evaluation.training.torchrun"
WORKER = "figeval.evaluation.training.worker"
# How gloo and NCCL say that a process, maybe on another machine, is gone.
LOST = ("Connection closed by peer", "Connection reset by peer", "remote process exited")


def train_apart(config: TrainConfig, observer: Observer) -> None:
    """Train to the end; nothing is started for a training that is complete.

    Raises:
        TrainError: what a process said that the user can mend, or that one was killed.
        RuntimeError: a bug in a process, with its traceback.
    """
    device = device_of(config.device)
    check(config, device, cards(device))
    folder = TrainFolder(config.output)
    with folder.locked() if config.node_rank == 0 else nullcontext():  # and leave it to the processes
        if finished(config, folder) is not None:
            return
    folder.traces.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **environment_of_worker(config.processes), **surroundings(config, device)}
    with TemporaryDirectory(prefix="figeval-") as room:
        order = Path(room) / "config.json"
        order.write_text(config.model_dump_json(), encoding="utf-8")
        arguments = torchrun(config, Path(room), WORKER, str(order))
        log = folder.traces / log_name(config)
        ending = Ending(folder, log)
        with running(arguments, environment, log) as process:
            for line in process.stdout or ():
                heard(line, observer, ending)
    ending.judge(process.returncode)


def cards(device: str) -> int:
    """How many GPUs there are to train on."""
    if device != "cuda":
        return 0
    from torch.cuda import device_count

    return int(device_count())


@dataclass(slots=True)
class Ending:
    """How the processes ended, as they and torchrun said it."""

    folder: TrainFolder
    log: Path
    complaints: list[str] = field(default_factory=list)  # that the user can mend
    bugs: list[tuple[int, str]] = field(default_factory=list)  # process, traceback
    codes: dict[str, int] = field(default_factory=dict)  # process → exit code, negative for a signal

    def mend(self, complaint: str) -> None:
        """A process met something that the user can mend; the others say the same, or wait."""
        self.complaints.append(complaint)

    def bug(self, process: int, trace: str) -> None:
        """A process has failed; the first one to say so is why the others do."""
        self.bugs.append((process, trace))

    def ended(self, codes: dict[str, int]) -> None:
        """What torchrun says of those that failed."""
        self.codes = codes

    def judge(self, code: int) -> None:
        """Raise what was the matter, if anything; `code` is torchrun's own.

        A process that was killed makes the others fail, so it comes before their tracebacks; but torchrun itself
        terminates the others of one that has failed.
        """
        if code == 0:
            return
        if self.complaints:
            raise TrainError(self.complaints[0])
        self._mourn({f"process {process}": ended for process, ended in self.codes.items() if ended != -SIGTERM})
        for process, trace in self.bugs:
            if any(sign in trace for sign in LOST):
                raise TrainError(f"process {process} lost the others; {self._standing()}; log: {self.log}")
            raise RuntimeError(f"process {process} failed; log: {self.log}\n{trace}")
        self._mourn({f"process {process}": ended for process, ended in self.codes.items()} | {"torchrun": code})
        raise TrainError(f"the processes could not be started, or were stopped from outside; log: {self.log}")

    def _mourn(self, ended: Mapping[str, int]) -> None:
        """Raise `TrainError` if one of them was killed."""
        for who, code in ended.items():
            if code < 0:
                raise TrainError(f"{who} was killed (signal {-code}); {self._standing()}; log: {self.log}")

    def _standing(self) -> str:
        if not self.folder.progress_file.exists():
            return "there is no checkpoint yet; the same command begins anew"
        return f"the last checkpoint is step {self.folder.read().step}; the same command goes on"


def heard(line: bytes, observer: Observer, ending: Ending) -> None:
    """Pass a line of the wire on to whom it concerns; what something else has printed is none of ours."""
    with suppress(ValueError):
        said: dict[str, list[JSONValue]] = parse_json(line)
        for what, values in said.items():
            getattr(observer if hasattr(observer, what) else ending, what)(*values)


@contextmanager
def running(arguments: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher and what it starts, all of which is gone in the end, also after Ctrl-C."""
    command = [sys.executable, "-m", LAUNCHER, *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    threading.Thread(target=dismiss, args=(process,), daemon=True).start()
    try:
        yield process
    finally:
        stop(process)


def dismiss(process: subprocess.Popen[bytes]) -> None:
    """Once torchrun is gone, so is whatever it left: the processes end with their stdin."""
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Until all have stopped; torchrun is killed if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
