"""A whole training: train, then evaluate the trained model like any other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from figeval.config import RunConfig
from figeval.evaluation.harness import Harness
from figeval.evaluation.run import run
from figeval.evaluation.training.launcher import launch, needs_launcher
from figeval.evaluation.training.train import catch_up, train_here
from figeval.records.schema import RunRecord, TaskRecord
from figeval.training.config import TrainConfig
from figeval.training.loop import TrainingObserver


def complete(config: TrainConfig, observer: TrainingObserver) -> RunRecord | None:
    """Train, run the tasks of `evaluate`, and return the record of that run; None if there are no such tasks.

    Of several machines only the first one evaluates.

    Raises:
        FigevalError: An error that the user can correct.
    """
    harness = Harness(include=config.include_path)
    if needs_launcher(config):
        launch(config, observer)
    else:
        train_here(config, harness, observer)
    if config.node_rank > 0:
        return None
    catch_up(config, harness)
    return evaluated(config, harness)


def evaluated(config: TrainConfig, harness: Harness) -> RunRecord | None:
    """Run the tasks of `evaluate`, by default the task that the model was trained on, augmented as in training."""
    tasks = (config.task,) if config.evaluate is None else config.evaluate
    if not tasks:
        return None
    asked = RunConfig(
        tasks=tasks,
        model=str(config.output),
        augment=config.augment,
        device=config.device,
        include_path=config.include_path,
        output_path=evaluation_folder(config.output, tasks),
    )
    record, _ = run(asked, harness, Unheard())
    return record


def evaluation_folder(output: Path, tasks: Sequence[str]) -> Path:
    """Return the folder of the run of these tasks at the end of a training."""
    return output / "runs" / "-".join(tasks)


class Unheard:
    """An observer that ignores every event."""

    def resumed(self, folder: Path, kept: int, n: int) -> None:
        """Nothing."""

    def task_started(self, task: str, n: int, done: int) -> None:
        """Nothing."""

    def advanced(self, rows: int) -> None:
        """Nothing."""

    def scoring(self, what: str) -> None:
        """Nothing."""

    def task_ended(self, task: TaskRecord) -> None:
        """Nothing."""
