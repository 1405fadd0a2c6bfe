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

from figeval import FigevalError, FolderInUse, Observer, RunRecord, TrainError
from figeval.runs.workers.cluster import Shape, cluster_connection, passed_on, resources, runtime_environment
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.sweep import CompleteTraining

MARK_FILE = "seeds.shared"  # file in the folder of a sweep by which a machine recognises it
MAX_LOST_MACHINES = 3  # machines that a training may lose
MAX_LOCK_SECONDS = 60.0  # seconds that a lost machine may take to give up its lock on a training


@dataclass(frozen=True, slots=True)
class TrainingOrder:
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
class TrainingOutcome:
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
class ClusterTrainings:
    """The trainings of a sweep on the cluster, as many at a time as there are workers."""

    shape: Shape
    observer: Observer
    mark: str
    _queue: deque[TrainConfig] = field(default_factory=deque)
    _running: dict[Any, TrainConfig] = field(default_factory=dict)  # Ray's reference → config
    _finished: dict[Path, Any] = field(default_factory=dict)  # folder → Ray's reference

    def start(self, configs: Sequence[TrainConfig]) -> CompleteTraining:
        """Begin trainings; return the function that waits for one of them."""
        self._queue.extend(configs)
        if configs:
            write_mark(configs[0].output.parent, self.mark)
        self._start_queued()
        return self.wait

    def wait(self, config: TrainConfig) -> RunRecord | None:
        """Wait until a training is complete, and begin others meanwhile; return the record of its run.

        Raises:
            FolderInUse: another process is training it.
            TrainError: it cannot be trained.
            RuntimeError: there is a bug; the message has its traceback.
        """
        import ray

        trainings = [*self._queue, *self._running.values()]
        if config.output not in self._finished and config not in trainings:
            self._queue.append(config)  # again, since another process was training it
        while config.output not in self._finished:
            self._start_queued()
            names = ", ".join(training.output.name for training in self._running.values())
            self.observer.wait(f"training on the cluster: {names}")
            (reference, *_), _ = ray.wait(list(self._running), num_returns=1)
            self._finished[self._running.pop(reference).output] = reference
        self._start_queued()
        try:
            outcome: TrainingOutcome = ray.get(self._finished.pop(config.output))
        except ray.exceptions.RayError as error:
            raise TrainError(
                f"{config.output}: its worker was lost {MAX_LOST_MACHINES + 1} times; memory may have run out"
            ) from error
        return outcome.result()

    def _start_queued(self) -> None:
        """Begin trainings until all workers have one."""
        import ray

        remote = ray.remote(execute).options(
            num_cpus=self.shape.cpus,
            num_gpus=self.shape.gpus,
            max_retries=MAX_LOST_MACHINES,
            scheduling_strategy="SPREAD",
            runtime_env=runtime_environment(),
        )
        while self._queue and len(self._running) < self.shape.workers:
            config = self._queue.popleft()
            order = TrainingOrder(config, str(Path.cwd()), passed_on(), self.mark)
            self._running[remote.remote(order)] = config


@contextmanager
def connect_cluster(
    config: TrainConfig, address: str, workers: int | None, gpus: float | None, observer: Observer
) -> Iterator[ClusterTrainings]:
    """Connect to a cluster for the trainings of a sweep; on exit, those that are going on end.

    Raises:
        FigevalError: no cluster answers, or it has no room for the workers.
    """
    with cluster_connection(address):
        shape = Shape.of(resources(), workers, gpus, cpu=config.device == "cpu")
        try:
            yield ClusterTrainings(shape, observer, secrets.token_hex(8))
        finally:
            with suppress(OSError):
                (config.output / MARK_FILE).unlink()


def write_mark(folder: Path, mark: str) -> None:
    """Write the file by which other machines recognise the folder. Raises `TrainError` if it cannot be written."""
    try:
        (folder / MARK_FILE).write_text(mark, encoding="utf-8")
    except OSError as error:
        raise TrainError(f"{folder} cannot be written ({error.strerror}); choose another --output") from error


# ---- on a machine of the cluster -------------------------------------------------------------------------------------


def execute(order: TrainingOrder) -> TrainingOutcome:
    """Complete a training; every outcome is a value, since Ray would wrap an exception."""
    os.environ.update(order.environment)
    try:
        with suppress(OSError):
            os.chdir(order.folder)
        _check_shared(order)
        return TrainingOutcome(_complete_when_released(order.config))
    except FolderInUse as error:
        return TrainingOutcome(error=str(error), in_use=True)
    except FigevalError as error:
        return TrainingOutcome(error=f"on the machine {socket.gethostname()}: {error}")
    except BaseException:  # a library's sys.exit() included
        return TrainingOutcome(error=traceback.format_exc(), is_bug=True)


def _check_shared(order: TrainingOrder) -> None:
    """Raise `TrainError` if the folder of the sweep is not the one that the command writes to."""
    folder = order.config.output.parent
    try:
        mark = (folder / MARK_FILE).read_text(encoding="utf-8")
    except OSError:
        mark = ""
    if mark != order.mark:
        raise TrainError(
            f"{folder} is not the folder of the command that began this; --output must be on a shared disk"
        )


def _complete_when_released(config: TrainConfig) -> RunRecord | None:
    """Complete a training, once a lost machine has given it up. Raises what `complete_training` raises."""
    from figeval.wings.training.pipeline import complete_training

    deadline = time.monotonic() + MAX_LOCK_SECONDS
    while True:
        try:
            return complete_training(config, Observer())
        except FolderInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)
