"""Whole trainings on a Ray cluster (--seeds and --grid with --ray), each a task of Ray's.

A training needs the same folder that it would have here, so `--output` must be on a disk that all machines share, which
is checked before a training begins. If a machine is lost, Ray runs the task on another one, where the training resumes
from its last checkpoint.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figeval.errors import FigevalError, FolderInUse, TrainError
from figeval.records.schema import RunRecord
from figeval.reporting.progress import TrainingProgress, display_on
from figeval.runs.workers.cluster import Shape, connected, passed_on, resources, runtime_environment
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.loop import TrainingObserver
from figeval.wings.training.sweep import Complete

MARK = "seeds.shared"  # file in the folder of a sweep by which a machine recognises it
RETRIES = 3  # machines that a training may lose
RELEASE = 60.0  # seconds that a lost machine may take to give up its lock on a training


@dataclass(frozen=True, slots=True)
class Order:
    """Order to a machine: everything that it needs to complete a training.

    Attributes:
        config: config of the training.
        folder: working folder of the command, to which relative paths refer.
        environment: environment variables to set before libraries are imported.
        mark: content of the file `MARK` in the folder of the sweep.
    """

    config: TrainConfig
    folder: str
    environment: Mapping[str, str]
    mark: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a training: the record of its run, or an error.

    Attributes:
        record: record of the run that ends a training, if there is one.
        error: error that the user can fix, or the traceback of a bug; empty if there is none.
        in_use: True if another process is training it.
        is_bug: True if the error is a traceback.
    """

    record: RunRecord | None = None
    error: str = ""
    in_use: bool = False
    is_bug: bool = False

    def result(self) -> RunRecord | None:
        """Return the record. Raises the error if there is one."""
        if self.is_bug:
            raise RuntimeError(self.error)
        if self.error:
            raise (FolderInUse if self.in_use else TrainError)(self.error)
        return self.record


@dataclass(slots=True)
class Trainings:
    """The trainings of a sweep on the cluster, as many at a time as there are workers."""

    shape: Shape
    observer: TrainingObserver
    mark: str
    _waiting: deque[TrainConfig] = field(default_factory=deque)
    _going_on: dict[Any, TrainConfig] = field(default_factory=dict)  # Ray's reference → config
    _ended: dict[Path, Any] = field(default_factory=dict)  # folder → Ray's reference

    def start(self, configs: Sequence[TrainConfig]) -> Complete:
        """Begin trainings; return the function that waits for one of them."""
        self._waiting.extend(configs)
        if configs:
            write_mark(configs[0].output.parent, self.mark)
        self._fill()
        return self.wait

    def wait(self, config: TrainConfig) -> RunRecord | None:
        """Wait until a training is complete, and begin others meanwhile; return the record of its run.

        Raises:
            FolderInUse: another process is training it.
            TrainError: it cannot be trained.
            RuntimeError: there is a bug; the message has its traceback.
        """
        import ray

        known = [*self._waiting, *self._going_on.values()]
        if config.output not in self._ended and config not in known:  # again, since another process was training it
            self._waiting.append(config)
        while config.output not in self._ended:
            self._fill()
            names = ", ".join(one.output.name for one in self._going_on.values())
            self.observer.preparing(f"training on the cluster: {names}")
            (ended, *_), _ = ray.wait(list(self._going_on), num_returns=1)
            self._ended[self._going_on.pop(ended).output] = ended
        self._fill()
        try:
            outcome: Outcome = ray.get(self._ended.pop(config.output))
        except ray.exceptions.RayError as error:
            raise TrainError(
                f"{config.output}: its worker was lost {RETRIES + 1} times; memory may have run out"
            ) from error
        return outcome.result()

    def _fill(self) -> None:
        """Begin trainings until all workers have one."""
        import ray

        work = ray.remote(carry_out).options(
            num_cpus=self.shape.cpus,
            num_gpus=self.shape.gpus,
            max_retries=RETRIES,
            scheduling_strategy="SPREAD",
            runtime_env=runtime_environment(),
        )
        while self._waiting and len(self._going_on) < self.shape.workers:
            config = self._waiting.popleft()
            order = Order(config, str(Path.cwd()), passed_on(), self.mark)
            self._going_on[work.remote(order)] = config


@contextmanager
def on_cluster(
    config: TrainConfig, address: str, workers: int | None, gpus: float | None, observer: TrainingObserver
) -> Iterator[Trainings]:
    """Connect to a cluster for the trainings of a sweep; on exit, those that are going on end.

    Raises:
        FigevalError: no cluster answers, or it has no room for the workers.
    """
    with connected(address):
        shape = Shape.of(resources(), workers, gpus, cpu=config.device == "cpu")
        try:
            yield Trainings(shape, observer, secrets.token_hex(8))
        finally:
            with suppress(OSError):
                (config.output / MARK).unlink()


def write_mark(folder: Path, mark: str) -> None:
    """Write the file by which other machines recognise the folder. Raises `TrainError` if it cannot be written."""
    try:
        (folder / MARK).write_text(mark, encoding="utf-8")
    except OSError as error:
        raise TrainError(f"{folder} cannot be written ({error.strerror}); choose another --output") from error


# ---- on a machine of the cluster -------------------------------------------------------------------------------------


def carry_out(order: Order) -> Outcome:
    """Complete a training; every outcome is a value, since Ray would wrap an exception."""
    os.environ.update(order.environment)
    try:
        with suppress(OSError):
            os.chdir(order.folder)
        check_shared(order)
        return Outcome(completed(order.config))
    except FolderInUse as error:
        return Outcome(error=str(error), in_use=True)
    except FigevalError as error:
        return Outcome(error=f"on the machine {socket.gethostname()}: {error}")
    except BaseException:  # a library's sys.exit() included
        return Outcome(error=traceback.format_exc(), is_bug=True)


def check_shared(order: Order) -> None:
    """Raise `TrainError` if the folder of the sweep is not the one that the command writes to."""
    place = order.config.output.parent
    try:
        found = (place / MARK).read_text(encoding="utf-8")
    except OSError:
        found = ""
    if found != order.mark:
        raise TrainError(f"{place} is not the folder of the command that began this; --output must be on a shared disk")


def completed(config: TrainConfig) -> RunRecord | None:
    """Complete a training, once a lost machine has given it up. Raises what `complete` raises."""
    from figeval.wings.training.pipeline import complete

    ends = time.monotonic() + RELEASE
    while True:
        try:
            return complete(config, TrainingProgress(display_on(None)))
        except FolderInUse:
            if time.monotonic() > ends:
                raise
            time.sleep(1.0)
