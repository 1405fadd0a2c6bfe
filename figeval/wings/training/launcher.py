"""The launcher of a training in several processes: starts them with torchrun, reads their messages, stops them.

this process ──stdin──▶ torchrun and its processes: they end when stdin ends
             ◀─stdout── messages of the processes: progress, and how they ended
DIR/training/processes.log ◀─stderr── everything that libraries print
"""

from __future__ import annotations

import json
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

from figeval import Observer, TrainError
from figeval.io.frontend import MAX_STOP_SECONDS, end_quickly, environment_of_worker
from figeval.io.json_files import parse_json
from figeval.io.text import pluralize
from figeval.io.validation import require
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.distributed import choose_device
from figeval.wings.training.train_folder import TrainFolder

PROGRAM = "from figeval.wings.training.launcher import torchrun; torchrun()"
WORKER = "figeval.wings.training.worker"
PORT = "29500"  # torchrun's own default, used if --master names no port
# Messages of gloo and NCCL when another process, possibly on another machine, is gone.
CONNECTION_LOST = ("Connection closed by peer", "Connection reset by peer", "remote process exited")


def launch(config: TrainConfig, observer: Observer) -> None:
    """Train to the end in separate processes; none are started if the training is already complete.

    Raises:
        TrainError: A process reported an error that the user can correct, or was killed.
        RuntimeError: A process failed; the message contains its traceback.
    """
    observer.wait(f"loading model {config.model}")
    device = choose_device(config.device)
    check_resources(config, device, _count_gpus(device))
    folder = TrainFolder(config.output)
    with folder.locked() if config.node_rank == 0 else nullcontext():  # released again, since process 0 locks it
        if folder.finished_progress(config) is not None:
            return
    folder.traces.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **environment_of_worker(config.processes), **process_environment(config, device)}
    with TemporaryDirectory(prefix="figeval-") as temporary:
        config_file = Path(temporary) / "config.json"
        config_file.write_text(config.model_dump_json(), encoding="utf-8")
        arguments = torchrun_arguments(config, Path(temporary), WORKER, str(config_file))
        log = folder.traces / log_name(config)
        outcome = ProcessOutcome(folder, log)
        with _running_torchrun(arguments, environment, log) as process:
            for line in process.stdout or ():
                with suppress(ValueError):  # a library may print other lines
                    for event, (values, options) in parse_json(line).items():
                        getattr(observer if hasattr(observer, event) else outcome, event)(*values, **options)
    outcome.raise_failure(process.returncode)


def log_name(config: TrainConfig) -> str:
    """Return the name of this machine's log; machines that share a disk have different names."""
    return "processes.log" if config.nodes == 1 else f"processes-{config.node_rank}.log"


def _count_gpus(device: str) -> int:
    """Return the number of GPUs of this machine that can be used; 0 unless the device is cuda."""
    if device != "cuda":
        return 0
    from torch.cuda import device_count

    return int(device_count())


# ---- torchrun's command line -----------------------------------------------------------------------------------------
def needs_launcher(config: TrainConfig) -> bool:
    """Return whether a launcher must start training processes; otherwise the calling process trains."""
    return config.processes > 1 or config.nodes > 1 or bool(config.deepspeed) or config.fsdp


def check_resources(config: TrainConfig, device: str, gpus: int) -> None:
    """Check that this machine, its GPUs and its libraries can do what the config asks for.

    Args:
        config: The config of the training.
        device: The type of device to train on.
        gpus: The number of GPUs of this machine.

    Raises:
        TrainError: They cannot, or two options are incompatible.
        MissingPackage: DeepSpeed is not installed.
    """
    if device == "mps":
        raise TrainError("mps is a single device for a single process; leave out --processes, --deepspeed and --fsdp")
    if device == "cuda" and config.processes > gpus:
        raise TrainError(
            f"--processes {config.processes}, but this machine has {pluralize(gpus, 'GPU')}; use --processes {gpus}, "
            "and --nodes for more machines"
        )
    if config.deepspeed:
        require("deepspeed", "--deepspeed")
    if config.optimizer == "adafactor" and (config.deepspeed or config.fsdp):
        raise TrainError("adafactor needs whole matrices, but --deepspeed and --fsdp shard them; use --optimizer adamw")
    if config.fsdp and config.mixed_precision == "fp16":
        raise TrainError("--fsdp cannot scale the gradients of fp16; use --mixed_precision bf16 or no")
    if config.deepspeed:
        from figeval.wings.training.sharding import zero_configuration

        zero_configuration(config)


def torchrun_arguments(config: TrainConfig, logs: Path, module: str, *arguments: str) -> list[str]:
    """Return the arguments of torchrun: the number of processes, their rendezvous, and the module that each runs.

    Args:
        config: The config of the training.
        logs: A folder for torchrun's own files.
        module: The module to run.
        arguments: Its arguments.

    Raises:
        TrainError: --master is not an address.
    """
    return [
        f"--nproc_per_node={config.processes}",
        *rendezvous_arguments(config),
        f"--log_dir={logs}",
        "-m",
        module,
        *arguments,
    ]


def rendezvous_arguments(config: TrainConfig) -> list[str]:
    """Return the torchrun arguments for the processes' rendezvous: a free port of this machine, or --master.

    Raises:
        TrainError: --master is not an address.
    """
    if config.nodes == 1:
        return ["--standalone", "--local_addr=127.0.0.1"]
    host, colon, port = (config.master or "").rpartition(":")
    host, port = (host, port) if colon else (port, PORT)
    if not host or not port.isdecimal():
        raise TrainError(f"--master {config.master} is not an address; write the address of machine 0 as host:port")
    return [
        f"--nnodes={config.nodes}",
        f"--node_rank={config.node_rank}",
        f"--master_addr={host.strip('[]')}",
        f"--master_port={port}",
    ]


def process_environment(config: TrainConfig, device: str) -> dict[str, str]:
    """Return the environment variables of the processes, for Python and for the libraries.

    PYTHONSAFEPATH keeps them from importing modules of the current folder that this process would not import.
    """
    safe = {"PYTHONSAFEPATH": "1"}
    if device != "cpu":
        return safe
    if config.deepspeed:  # accelerate skips DeepSpeed if ACCELERATE_USE_CPU is set, so hide the GPUs instead
        return safe | {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return safe | {"ACCELERATE_USE_CPU": "true"}


# ---- the processes ---------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class ProcessOutcome:
    """The outcome of the processes, as reported by them and by torchrun."""

    folder: TrainFolder
    log: Path
    errors: list[str] = field(default_factory=list)  # errors that the user can correct
    crashes: list[tuple[int, str]] = field(default_factory=list)  # process, traceback
    codes: dict[str, int] = field(default_factory=dict)  # process → exit code, negative for a signal

    def report_error(self, message: str) -> None:
        """Record an error that the user can correct; the other processes report the same one, or wait."""
        self.errors.append(message)

    def report_crash(self, process: int, trace: str) -> None:
        """Record that a process has failed; the first one to report it is the cause of the other failures."""
        self.crashes.append((process, trace))

    def report_exit_codes(self, codes: dict[str, int]) -> None:
        """Record the exit codes that torchrun reports for the failed processes."""
        self.codes = codes

    def raise_failure(self, code: int) -> None:
        """Raise the error with which the processes ended, if any; `code` is torchrun's own exit code.

        A process that was killed makes the others fail, so it is reported before their tracebacks. Processes ended by
        SIGTERM come last, since torchrun terminates the remaining processes after a failure.
        """
        if code == 0:
            return
        if self.errors:
            raise TrainError(self.errors[0])
        codes = {f"process {process}": exit_code for process, exit_code in self.codes.items()}
        self._raise_for_killed({name: exit_code for name, exit_code in codes.items() if exit_code != -SIGTERM})
        for process, trace in self.crashes:
            if any(sign in trace for sign in CONNECTION_LOST):
                cause = f"process {process} lost its connection to the others"
                raise TrainError(f"{cause}; {self._resume_note()}; log: {self.log}")
            raise RuntimeError(f"process {process} failed; log: {self.log}\n{trace}")
        self._raise_for_killed(codes | {"torchrun": code})
        raise TrainError(f"the processes could not be started, or were stopped from outside; log: {self.log}")

    def _raise_for_killed(self, codes: Mapping[str, int]) -> None:
        """Raise `TrainError` if one of the processes was killed by a signal."""
        for name, code in codes.items():
            if code < 0:
                raise TrainError(f"{name} was killed (signal {-code}); {self._resume_note()}; log: {self.log}")

    def _resume_note(self) -> str:
        step = self.folder.read_progress().step if self.folder.progress_file.exists() else 0
        if step == 0:
            return "there is no checkpoint yet; the same command starts over"
        return f"the last checkpoint is at step {step}; the same command resumes from it"


@contextmanager
def _running_torchrun(
    arguments: list[str], environment: dict[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run torchrun and the processes that it starts; all of them have ended on exit, even after Ctrl-C."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=environment,
            start_new_session=True,
        )

    def close_stdin() -> None:  # processes that outlive torchrun end when their stdin ends
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    threading.Thread(target=close_stdin, daemon=True).start()
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop torchrun and its processes, and wait; kill torchrun if it does not end in time."""
    if process.stdin is not None:
        process.stdin.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(MAX_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ---- torchrun --------------------------------------------------------------------------------------------------------


def torchrun() -> None:
    """Run `torchrun ARGUMENTS …` and report failed processes as JSON, since its own report is meant for people."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args, run

    end_quickly()
    try:
        run(parse_args(sys.argv[1:]))
    except ChildFailedError as error:
        codes = {process: failure.exitcode for process, failure in error.failures.items()}
        print(json.dumps({"report_exit_codes": [[codes], {}]}), flush=True)
        sys.exit(1)
