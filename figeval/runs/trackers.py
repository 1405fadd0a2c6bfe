"""Scores of a run for experiment trackers (MLflow, Weights & Biases, TensorBoard …), by accelerate's adapters.

A tracker is a copy for other tools: what it cannot store, or a server that is gone, is reported and costs nothing of
the run, whose results are in its folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from figeval.config import RunConfig
from figeval.errors import TrainError
from figeval.io.frontend import warn
from figeval.io.text import near, one_line
from figeval.records.schema import RunRecord, TaskRecord

UNNAMED = re.compile(r"[^\w./ :-]")  # what MLflow does not allow in the name of a metric
Log: TypeAlias = Callable[[TaskRecord], None]


def check_trackers(names: Sequence[str]) -> None:
    """Raise `TrainError` for a tracker that accelerate does not know, or that is not installed."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

    tracker_names, installed = list(LOGGER_TYPE_TO_CLASS), {tracker.value for tracker in get_available_trackers()}
    for name in names:
        if name not in tracker_names:
            raise TrainError(
                f"--trackers {name}: accelerate knows {', '.join(tracker_names)}{near(name, tracker_names)}"
            )
        if name not in installed:
            raise TrainError(f"--trackers {name} needs its library; pip install {name}")


@contextmanager
def tracking(config: RunConfig, record: RunRecord, folder: Path) -> Iterator[Log]:
    """Context manager that starts the trackers of a run and returns a function that logs a finished task."""
    from accelerate import Accelerator

    accelerator = Accelerator(log_with=list(config.trackers), project_dir=str(folder / "trackers"))
    about = {**record.config, "fingerprint": record.model.fingerprint, "identity": record.identity}
    flat = {key: value if isinstance(value, bool | int | float) else str(value) for key, value in about.items()}
    name = f"{record.model.name} {record.identity}"
    logged = 0

    def attempt(action: str, send: Callable[[], object]) -> bool:
        try:
            send()
        except Exception as error:  # a server or a library of others; the run itself is complete without it
            warn(f"--trackers {','.join(config.trackers)}: {action} failed ({one_line(str(error), 200)})")
            return False
        return True

    def log(task: TaskRecord) -> None:
        nonlocal logged
        values = {
            f"{task.task}/{UNNAMED.sub('_', score.metric)}{ending}": number
            for score in task.scores
            for ending, number in (("", score.value), ("_low", score.low), ("_high", score.high))
            if number is not None
        }
        logged += 1
        if values and begun:
            attempt(task.task, lambda: accelerator.log(values, step=logged))

    options = {"wandb": {"name": name}, "mlflow": {"run_name": name}}
    begun = attempt("the start", lambda: accelerator.init_trackers("figeval", config=flat, init_kwargs=options))
    try:
        yield log
    finally:
        if begun:
            attempt("the end", accelerator.end_training)
