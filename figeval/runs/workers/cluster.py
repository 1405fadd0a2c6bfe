"""Workers on a Ray cluster (--ray): one actor per worker, placed by Ray on machines with free cores and GPUs.

this process ──units──▶ actor: `Session`, in a thread of its own
             ◀─ lists of messages, from a streaming generator; small objects go straight to this process

Tasks, models and data must be on every machine, at the same paths; the run folder need not. Ray restarts nothing: the
pool replaces a lost worker, as it does with local ones, so that there is one rule for both.
"""

from __future__ import annotations

import logging
import os
import queue
import re
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import FigevalError, OptionError
from figeval.extras import require
from figeval.io.frontend import module_path, notice
from figeval.io.text import one_line, pluralize
from figeval.runs.workers.protocol import FINAL_MESSAGES, Hire, Message, Order, Unit, WorkerLost

PATIENCE = 5.0  # seconds until an address must accept a connection
CONNECTING = 20.0  # seconds until Ray must have connected
QUICK = 1.0  # seconds of connecting that need no explanation
SKIPPED = "RAY_DEDUP_LOGS_SKIP_REGEX"  # lines that Ray does not print
REASONS = (
    # what follows lists causes of all kinds
    r"because (its worker process has died)\. Worker exit type: SYSTEM_ERROR .*End of file",
    r"The actor (?:is dead|died) because(.*)",
    r"RPC error: (.*?) rpc_code",
    r"Worker exit detail:(.*)",
    r"Error: (.*)",
)
# Variables of this process that its actors also get: no secrets, and nothing about one machine only.
PASSED_ON = re.compile(r"(FIGEVAL|HF|NLTK|OMP|TOKENIZERS|TRANSFORMERS)_(?!.*(TOKEN|KEY|HOME|CACHE)).*")


# ---- the cluster -----------------------------------------------------------------------------------------------------


@contextmanager
def cluster_connection(address: str) -> Iterator[None]:
    """Connect this process to a cluster; on exit, leave it, which ends its actors there.

    A program that has already connected itself stays connected, whatever the address.

    Raises:
        MissingPackage: Ray is not installed.
        FigevalError: no cluster of its version answers.
    """
    require("ray", "--ray")
    with _quiet():
        import ray
    is_new = not ray.is_initialized()
    if is_new:
        _connect(address)
        _handle_sigterm_again()
    try:
        yield
    finally:
        if is_new:
            ray.shutdown()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Ray from printing the last lines of a dead machine's log, which `log_to_driver=False` does not.

    Ray reads the variable when it is imported.
    """
    pattern = os.environ.get(SKIPPED)
    os.environ.setdefault(SKIPPED, ".*")
    try:
        yield
    finally:
        if pattern is None:
            del os.environ[SKIPPED]


def _handle_sigterm_again() -> None:
    """Install this process's handler of SIGTERM again, which Ray has replaced by one that prints the stack first."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _connect(address: str) -> None:
    """Connect to a cluster. Raises `FigevalError` if there is none, in seconds instead of Ray's minutes."""
    option = f"--ray {one_line(address, 80)}"
    cure = "start a cluster with `ray start --head`, or give the address that it printed"
    if address != "auto":
        host, colon, port = address.rpartition(":")
        if not host or not colon or not port.isdecimal() or "/" in host:
            raise OptionError(f"{option}: give auto, or the address of the head node as host:port")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise FigevalError(f"{option}: nothing answers there ({error}); {cure}") from error
    errors: list[BaseException] = []

    def connect() -> None:  # not in the main thread, where Ray would replace the handler of SIGTERM
        import ray

        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(QUICK)
    if thread.is_alive():
        notice("connecting to the Ray cluster …")
    thread.join(CONNECTING)
    if thread.is_alive():
        raise FigevalError(f"{option}: no Ray cluster answers there within {CONNECTING:.0f} s; {cure}")
    if errors:
        is_missing = address == "auto" and isinstance(errors[0], ConnectionError)
        cause = "no cluster runs on this machine" if is_missing else one_line(str(errors[0]), 300).rstrip(".")
        raise FigevalError(f"{option}: {cause}; {cure}") from errors[0]


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a cluster's workers: their number, and the resources of each.

    Attributes:
        workers: number of workers.
        cpus: cores of each.
        gpus: GPUs of each; a fraction if several share one.
    """

    workers: int
    cpus: int
    gpus: float

    @classmethod
    def of(cls, nodes: Sequence[Mapping[str, float]], workers: int | None, gpus: float | None, *, cpu: bool) -> Shape:
        """Return the shape with the most cores per worker.

        Args:
            nodes: resources of each machine, by Ray's names.
            workers: number of workers; by default one per `gpus` GPUs, or per machine without GPUs.
            gpus: GPUs of each worker; by default 1 if there are any.
            cpu: True if the workers compute on CPUs anyway.

        Raises:
            OptionError: there is no room for so many workers.
        """
        gpus = gpus if gpus is not None else float(not cpu and any(node.get("GPU") for node in nodes))
        if gpus > 1 and gpus != int(gpus):
            raise OptionError(f"--gpus_per_worker {gpus:g}: give a whole number, or a fraction of one GPU")

        def room(cpus: int) -> int:
            by_cpu = [int(node.get("CPU", 0)) // cpus for node in nodes]
            return sum(
                min(n, int(node.get("GPU", 0) / gpus)) if gpus else n for n, node in zip(by_cpu, nodes, strict=True)
            )

        count = workers or (room(1) if gpus else sum(1 for node in nodes if node.get("CPU")))
        if not 0 < count <= room(1):
            all_gpus = sum(node.get("GPU", 0) for node in nodes)
            has = f"{sum(node.get('CPU', 0) for node in nodes):g} CPUs and {all_gpus:g} GPUs"
            each = f"{gpus:g} GPU{'s' if gpus > 1 else ''} and a core each" if gpus else "a core each"
            if room(1):
                cure = f"use --workers {room(1)}"
            elif gpus and not all_gpus:
                cure = "leave out --gpus_per_worker to compute on CPUs, or use a cluster with GPUs"
            else:
                cure = "use a larger cluster, or a lower --gpus_per_worker" if gpus else "use a larger cluster"
            flag = f"--workers {workers}" if workers else f"--gpus_per_worker {gpus:g}" if gpus else "--ray"
            raise OptionError(
                f"{flag}: the cluster ({has} on {pluralize(len(nodes), 'machine')}) has room for "
                f"{pluralize(room(1), 'worker')} with {each}; {cure}"
            )
        max_cpus = max(int(node.get("CPU", 0)) for node in nodes)
        return cls(count, next(cpus for cpus in range(max_cpus, 0, -1) if room(cpus) >= count), gpus)


@dataclass(frozen=True, slots=True)
class RayCluster:
    """The staff of --ray (`figeval.runs.workers.protocol.Staff`)."""

    shape: Shape

    @classmethod
    def of(cls, config: RunConfig) -> RayCluster:
        """Return the workers that the cluster has for a run. Raises `OptionError` if there is no room for them."""
        device = str(config.model_args.get("device", config.device) or "auto")
        return cls(Shape.of(resources(), config.workers, config.gpus_per_worker, cpu=device == "cpu"))

    @property
    def workers(self) -> int:
        """Largest number of workers."""
        return self.shape.workers

    def hiring(self, order: Order, _folder: Path, _workers: int) -> Hire:
        """Return the function that starts an actor."""
        import ray

        placed = ray.remote(Actor).options(
            num_cpus=self.shape.cpus,
            num_gpus=self.shape.gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
            runtime_env=runtime_environment(),
        )
        sent = replace(order, environment=passed_on())
        return lambda _index: RayWorker(placed.remote(sent))


def resources() -> list[Mapping[str, float]]:
    """Return the resources of each machine of the cluster, by Ray's names."""
    import ray

    nodes: Any = ray.nodes  # not typed
    return [node["Resources"] for node in nodes() if node["Alive"]]


def runtime_environment() -> dict[str, Any]:
    """Return the part of the environment that an actor needs before it can import figeval."""
    return {"env_vars": {"PYTHONPATH": module_path()}}


def passed_on() -> dict[str, str]:
    """Return the variables of this process that its actors also get."""
    return {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}


@dataclass(slots=True)
class RayWorker:
    """An actor from the point of view of its run (`figeval.runs.workers.protocol.Worker`)."""

    actor: Any

    def ready(self) -> None:
        """Wait until Ray has found a place for the actor and started it. Raises `WorkerLost`."""
        import ray

        with _lost():
            ray.get(self.actor.ready.remote())

    def answer(self, unit: Unit) -> Iterator[Message]:
        """Yield the messages about a unit. Raises `WorkerLost`."""
        import ray

        with _lost():
            for batch in self.actor.answer.options(num_returns="streaming").remote(unit):
                yield from ray.get(batch)

    def stop(self) -> None:
        """End the actor."""
        import ray

        with suppress(ray.exceptions.RayError, ValueError):  # it is already dead, or Ray is
            ray.kill(self.actor, no_restart=True)

    def close(self) -> None:
        """End the actor; Ray releases its resources."""
        self.stop()


@contextmanager
def _lost() -> Iterator[None]:
    """Turn Ray's errors about an actor into `WorkerLost`."""
    import ray

    try:
        yield
    except ray.exceptions.RayError as error:
        raise WorkerLost(f"was lost ({reason(str(error))})") from error


def reason(message: str) -> str:
    """Return the reason in one of Ray's messages about an actor, which have many lines of details before and after."""
    match = next((hit for pattern in REASONS if (hit := re.search(pattern, message, re.DOTALL))), None)
    return one_line(match[1] if match else message, 200).strip(" .")


# ---- in a worker -----------------------------------------------------------------------------------------------------


class Actor:
    """The end of a worker on the cluster."""

    def __init__(self, order: Order) -> None:
        os.environ.update(order.environment)
        with suppress(OSError):  # needed only for relative paths; whatever is missing then is an error of its own
            os.chdir(order.folder)
        from figeval.runs.workers.session import Session

        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._session = Session(order, lambda *message: self._messages.put(message), socket.gethostname())

    def ready(self) -> None:
        """Return as soon as the actor has been started."""

    def answer(self, unit: Unit) -> Iterator[list[Message]]:
        """Yield the messages about a unit, those together that have been waiting together."""
        threading.Thread(target=self._session.answer, args=(unit,), daemon=True).start()
        batch: list[Message] = []
        while not batch or batch[-1][0] not in FINAL_MESSAGES:
            batch = [self._messages.get()]
            while not self._messages.empty():
                batch.append(self._messages.get())
            yield batch
