"""The launcher of a training in several processes: starts them with torchrun, listens to them, stops them.

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
from importlib.util import find_spec
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory

from figeval.errors import TrainError
from figeval.evaluation.parallel import GRACE, environment_of_worker
from figeval.evaluation.training.train import finished
from figeval.jsonfile import JSONValue, parse_json
from figeval.training.config import TrainConfig
from figeval.training.distributed import device_of
from figeval.training.folder import TrainFolder
from figeval.training.loop import TrainingObserver

LAUNCHER = "figeval.evaluation.training.torchrun"
WORKER = "figeval.evaluation.training.worker"
PORT = "29500"  # torchrun's own default, where --master names none
# How gloo and NCCL say that a process, maybe on another machine, is gone.
LOST = ("Connection closed by peer", "Connection reset by peer", "remote process exited")


def launch(config: TrainConfig, observer: TrainingObserver) -> None:
    """Train to the end in processes of their own; for a training that is complete none is started.

    Raises:
        TrainError: A process reported an error of the user's, or was killed.
        RuntimeError: A process failed; the message has its traceback.
    """
    device = device_of(config.device)
    check_resources(config, device, gpus(device))
    folder = TrainFolder(config.output)
    with folder.locked() if config.node_rank == 0 else nullcontext():  # and leave it to the processes
        if finished(config, folder) is not None:
            return
    folder.traces.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **environment_of_worker(config.processes), **environment_of(config, device)}
    with TemporaryDirectory(prefix="figeval-") as room:
        order = Path(room) / "config.json"
        order.write_text(config.model_dump_json(), encoding="utf-8")
        arguments = torchrun_arguments(config, Path(room), WORKER, str(order))
        log = folder.traces / log_name(config)
        ending = Ending(folder, log)
        with running(arguments, environment, log) as process:
            for line in process.stdout or ():
                with suppress(ValueError):  # a line that is no message of ours
                    said: dict[str, list[JSONValue]] = parse_json(line)
                    for what, values in said.items():
                        getattr(observer if hasattr(observer, what) else ending, what)(*values)
    ending.judge(process.returncode)


def log_name(config: TrainConfig) -> str:
    """Return the name of the log of this machine, which differs between machines that share a disk."""
    return "processes.log" if config.nodes == 1 else f"processes-{config.node_rank}.log"


def gpus(device: str) -> int:
    """Return the number of GPUs to train on."""
    if device != "cuda":
        return 0
    from torch.cuda import device_count

    return int(device_count())


# ---- how torchrun is called ------------------------------------------------------------------------------------------


def needs_launcher(config: TrainConfig) -> bool:
    """Return whether a launcher has to start the processes that train; otherwise the calling process trains."""
    return config.processes > 1 or config.nodes > 1 or bool(config.deepspeed) or config.fsdp


def check_resources(config: TrainConfig, device: str, cards: int) -> None:
    """Check that this machine, its GPUs and its libraries can do what the config asks for.

    Args:
        config: The training.
        device: The kind of device to train on.
        cards: The number of GPUs of this machine.

    Raises:
        TrainError: They cannot.
    """
    if device == "mps":
        raise TrainError("mps is one device for one process; leave --processes, --deepspeed and --fsdp out")
    if device == "cuda" and config.processes > cards:
        raise TrainError(
            f"--processes {config.processes}, but there are {cards} GPUs here; use --processes {cards}, "
            "and --nodes for more machines"
        )
    if config.deepspeed and find_spec("deepspeed") is None:
        raise TrainError("--deepspeed needs the library deepspeed; pip install 'figeval[deepspeed]'")
    if config.optimizer == "adafactor" and (config.deepspeed or config.fsdp):
        raise TrainError("adafactor keeps sums over whole matrices, which are cut here; use --optimizer adamw")
    if config.fsdp and config.mixed_precision == "fp16":
        raise TrainError("--fsdp goes with --mixed_precision bf16, whose gradients need no scaling, or no")
    if config.deepspeed:
        from figeval.training.zero import configuration

        configuration(config)


def torchrun_arguments(config: TrainConfig, room: Path, module: str, *arguments: str) -> list[str]:
    """Return the arguments of torchrun: the number of processes, their rendezvous, and the module that each runs.

    Args:
        config: The training.
        room: A folder for the files of torchrun itself.
        module: The module to run.
        arguments: Its arguments.

    Raises:
        TrainError: --master is not an address.
    """
    return [f"--nproc_per_node={config.processes}", *rendezvous(config), f"--log_dir={room}", "-m", module, *arguments]


def rendezvous(config: TrainConfig) -> list[str]:
    """Return where the processes find each other: a free port of this machine, or --master."""
    if config.nodes == 1:
        return ["--standalone", "--local_addr=127.0.0.1"]
    host, colon, port = (config.master or "").rpartition(":")
    host, port = (host, port) if colon else (port, PORT)
    if not host or not port.isdecimal():
        raise TrainError(f"--master {config.master} is no address; say host:port of machine 0")
    return [
        f"--nnodes={config.nodes}",
        f"--node_rank={config.node_rank}",
        f"--master_addr={host.strip('[]')}",
        f"--master_port={port}",
    ]


def environment_of(config: TrainConfig, device: str) -> dict[str, str]:
    """Return the environment variables of the processes, for Python and for the libraries.

    PYTHONSAFEPATH keeps them from importing modules of the current folder that this process would not import.
    """
    safe = {"PYTHONSAFEPATH": "1"}
    if device != "cpu":
        return safe
    if config.deepspeed:  # which is not asked if accelerate is told to use a CPU, so it must find no GPU
        return safe | {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return safe | {"ACCELERATE_USE_CPU": "true"}


# ---- the processes ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Ending:
    """How the processes ended, as they and torchrun report it."""

    folder: TrainFolder
    log: Path
    complaints: list[str] = field(default_factory=list)  # errors of the user's
    bugs: list[tuple[int, str]] = field(default_factory=list)  # process, traceback
    codes: dict[str, int] = field(default_factory=dict)  # process → exit code, negative for a signal

    def mend(self, complaint: str) -> None:
        """Note an error of the user's; the other processes report the same one, or wait."""
        self.complaints.append(complaint)

    def bug(self, process: int, trace: str) -> None:
        """Note that a process has failed; the first one to report it is why the others fail."""
        self.bugs.append((process, trace))

    def ended(self, codes: dict[str, int]) -> None:
        """Note the exit codes that torchrun reports of the processes that failed."""
        self.codes = codes

    def judge(self, code: int) -> None:
        """Raise the error that the processes ended with, if any; `code` is torchrun's own exit code.

        A process that was killed makes the others fail, so it comes before their tracebacks; but torchrun itself
        terminates the others of one that has failed.
        """
        if code == 0:
            return
        if self.complaints:
            raise TrainError(self.complaints[0])
        self._raise_for_killed(
            {f"process {process}": ended for process, ended in self.codes.items() if ended != -SIGTERM}
        )
        for process, trace in self.bugs:
            if any(sign in trace for sign in LOST):
                raise TrainError(f"process {process} lost the others; {self._standing()}; log: {self.log}")
            raise RuntimeError(f"process {process} failed; log: {self.log}\n{trace}")
        self._raise_for_killed(
            {f"process {process}": ended for process, ended in self.codes.items()} | {"torchrun": code}
        )
        raise TrainError(f"the processes could not be started, or were stopped from outside; log: {self.log}")

    def _raise_for_killed(self, ended: Mapping[str, int]) -> None:
        """Raise `TrainError` if one of them was killed by a signal."""
        for who, code in ended.items():
            if code < 0:
                raise TrainError(f"{who} was killed (signal {-code}); {self._standing()}; log: {self.log}")

    def _standing(self) -> str:
        if not self.folder.progress_file.exists():
            return "there is no checkpoint yet; the same command begins anew"
        return f"the last checkpoint is step {self.folder.read().step}; the same command goes on"


@contextmanager
def running(arguments: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run torchrun and the processes that it starts; all of them have ended in the end, also after Ctrl-C."""
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

    def close_stdin() -> None:  # whatever processes torchrun has left end with their stdin
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    threading.Thread(target=close_stdin, daemon=True).start()
    try:
        yield process
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Wait until all have stopped; torchrun is killed if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
