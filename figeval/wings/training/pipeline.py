"""A complete training: train the model and its floor, then evaluate the trained model like any other model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from figeval.config import RunConfig
from figeval.errors import TrainError
from figeval.frontend import notice
from figeval.io.json_files import read_json
from figeval.records.floor import floor_in
from figeval.records.run_folder import read_run
from figeval.records.schema import RunRecord
from figeval.records.seen import DECLARED, FILE, about_in, weights_in
from figeval.reporting.progress import RunProgress, display_on
from figeval.runs.harness import Harness
from figeval.runs.run import run
from figeval.types import JSON
from figeval.wings.training.config import TrainConfig, floor_config
from figeval.wings.training.launcher import launch, needs_launcher
from figeval.wings.training.learners import load_learners
from figeval.wings.training.loop import TrainingObserver
from figeval.wings.training.selection import LOSS
from figeval.wings.training.task_training import catch_up, train_here
from figeval.wings.training.train_folder import TrainFolder, write_json


def complete(config: TrainConfig, observer: TrainingObserver) -> RunRecord | None:
    """Train the model and, if `floor` asks for it, its floor; then run the tasks of `evaluate`.

    Only the first of several machines evaluates.

    Returns:
        The record of the evaluation run, or None if there are no tasks to evaluate or this is not the first machine.

    Raises:
        FigevalError: An error that the user can correct.
    """
    harness = Harness(include=config.include_path)
    harness.catalogue.expand(config.evaluate or ())  # a misspelt name must not wait for the end of the training
    floor = floor_config(config, probe_of_floor(config, harness)) if config.floor else None
    if config.node_rank == 0:  # check both folders before the first step, since the floor begins hours later
        for one in filter(None, (config, floor)):
            TrainFolder(one.output).check(one)
    trained(config, harness, observer)
    if floor is not None:
        if TrainFolder(floor.output).finished(floor) is None:
            notice(f"training the floor in {floor.output}: the same settings with --probe {floor.probe}")
        trained(floor, harness, observer)
    if config.node_rank > 0:
        return None
    record = evaluated(config, harness, observer)
    store_held_out(config, record)
    return record


def probe_of_floor(config: TrainConfig, harness: Harness) -> str:
    """Return the probe on which the floor of a training is trained.

    Raises:
        TrainError: The task has no floor, or the head learns from plain texts and answers no questions.
    """
    task = harness.catalogue.tasks.get(config.task)
    if config.head is not None and load_learners(harness.manager).reads_plain_texts(task.type, config.head):
        raise TrainError(
            f"--floor: --head {config.head} learns from plain texts and cannot answer {task.name}, so there "
            "is no floor to train; leave out --floor"
        )
    if task.floor is None:
        probes = ", ".join(task.task_type.probes)
        cure = f"write `floor:` in its file ({probes})" if probes else "leave out --floor"
        raise TrainError(f"--floor: {task.name} has no floor; {cure}")
    return task.floor


def trained(config: TrainConfig, harness: Harness, observer: TrainingObserver) -> None:
    """Train the model, in separate processes if the config asks for them; say so if it is trained already."""
    done = TrainFolder(config.output).finished(config) if config.node_rank == 0 else None
    if done is not None:
        notice(f"{config.output} has already been trained: {done.step} steps, {done.why}")
    if needs_launcher(config):
        launch(config, observer)
    else:
        train_here(config, harness, observer)
    if config.node_rank == 0:
        catch_up(config, harness)


def evaluated(config: TrainConfig, harness: Harness, observer: TrainingObserver) -> RunRecord | None:
    """Run the tasks of `evaluate` (by default the task that the model was trained on), augmented as in training."""
    asked = evaluation_of(config, harness)
    if asked is None:
        return None
    observer.preparing(f"running {', '.join(asked.tasks)} with the trained model")
    record, _ = run(asked, harness, RunProgress(display_on(None)))
    return record


def evaluation_of(config: TrainConfig, harness: Harness) -> RunConfig | None:
    """Return the config of the run that ends a training, or None if there are no tasks to evaluate."""
    tasks = (config.task,) if config.evaluate is None else config.evaluate
    if not tasks:
        return None
    return RunConfig(
        tasks=tasks,
        model=harness.backends.folder_name(config.output),
        augment=config.augment,
        device=config.device,
        include_path=config.include_path,
        output_path=evaluation_folder(config.output, tasks),
    )


def stored_evaluation(config: TrainConfig) -> RunRecord | None:
    """Return the run of a finished training as it is stored, or None if there is anything left to do.

    The data of the tasks are not read. A model with a floor always has something to do, because the floor may be new.

    Raises:
        RecordError: the predictions of the run have been changed.
    """
    output = config.output
    asked = evaluation_of(config, Harness(include=config.include_path))
    done = TrainFolder(output).finished(config) is not None and (output / FILE).is_file()
    if not done or config.floor or floor_in(output) is not None or asked is None or asked.output_path is None:
        return None
    as_trained = TrainFolder(output).record().weights_sha256 == weights_in(output)
    if not as_trained or not (asked.output_path / "run.json").is_file():
        return None
    record, folder = read_run(asked.output_path)
    whole = record.status == "complete" and all(folder.has_predictions(task.task) for task in record.tasks)
    return record if whole and record.identity == asked.identity() else None


def store_held_out(config: TrainConfig, record: RunRecord | None) -> None:
    """Write the model's score on examples that it was not trained on into its figeval.json (`about.held_out`).

    This is the first score of its task in the final run, on the examples that the model was neither trained nor chosen
    on. Without such a run, or such examples, it is the score on dev, which has no interval because the checkpoint was
    chosen there.
    """
    found = held_out_in(record, config.task) or held_out_on_dev(config)
    about = about_in(config.output)
    if found and about.get("held_out") != found:
        declared = read_json(config.output / DECLARED, TrainError)
        write_json(config.output / DECLARED, {**declared, "about": {**about, "held_out": found}})


def held_out_in(record: RunRecord | None, name: str) -> JSON:
    """Return the first score of a task in a run, on unseen examples, as stored in figeval.json; empty if none."""
    task = next((one for one in record.tasks if one.task == name), None) if record is not None else None
    if task is None:
        return {}
    unseen = task.overlap.scores if task.overlap is not None else []
    score = next((one for one in unseen or task.scores if one.value is not None and one.seen is None), None)
    if score is None:
        return {}
    keys = ("metric", "value", "low", "high", "n", "clusters")
    return {"task": name, "split": "test", **{key: getattr(score, key) for key in keys}}


def held_out_on_dev(config: TrainConfig) -> JSON:
    """Return the first score of the chosen checkpoint on dev, as stored in figeval.json; empty if there is none."""
    told = TrainFolder(config.output).record()
    scores = next((one.scores for one in told.evaluations if one.step == told.best), {})
    known = ((name, value) for name, value in scores.items() if value is not None and name != LOSS)
    metric, value = next(known, ("", None))
    if value is None or config.select_on != "dev":
        return {}
    about = {"task": config.task, "split": "dev", "metric": metric, "value": value, "low": None, "high": None}
    return {**about, "n": told.dev.n, "clusters": None}


def evaluation_folder(output: Path, tasks: Sequence[str]) -> Path:
    """Return the folder of the run that evaluates these tasks at the end of a training."""
    return output / "runs" / "-".join(tasks)
