"""A complete training: train the model and its floor, then evaluate the trained model like any other model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from figeval import JSON, FigevalError, Harness, Observer, RunConfig, RunRecord, TrainError
from figeval.io.frontend import notice
from figeval.io.json_files import read_json
from figeval.records.run_folder import read_run
from figeval.records.seen import FILE, MODEL_FILE, about_in, weights_in
from figeval.records.training import floor_in
from figeval.runs.run import run
from figeval.wings.training.config import TrainConfig, floor_config
from figeval.wings.training.launcher import launch, needs_launcher
from figeval.wings.training.learners import load_learners
from figeval.wings.training.selection import LOSS
from figeval.wings.training.task_training import train_in_process, write_missing_lineage
from figeval.wings.training.train_folder import TrainFolder, write_json


def complete_training(config: TrainConfig, observer: Observer) -> RunRecord | None:
    """Train the model and, if `floor` asks for it, its floor; then run the tasks of `evaluate`.

    Only the first of several machines evaluates.

    Returns:
        The record of the evaluation run, or None if there are no tasks to evaluate or this is not the first machine.

    Raises:
        FigevalError: An error that the user can correct.
    """
    harness = Harness(include=config.include_path)
    harness.catalogue.expand(config.evaluate or ())  # a misspelt name must not wait for the end of the training
    floor = floor_config(config, floor_probe(config, harness)) if config.floor else None
    if config.node_rank == 0:  # check both folders before the first step, since the floor begins hours later
        for training in filter(None, (config, floor)):
            TrainFolder(training.output).check(training)
    _train_model(config, harness, observer)
    if floor is not None:
        if TrainFolder(floor.output).finished_progress(floor) is None:
            notice(f"training the floor in {floor.output}: the same settings with --probe {floor.probe}")
        _train_model(floor, harness, observer)
    if config.node_rank > 0:
        return None
    record = _evaluate_model(config, harness, observer)
    _store_held_out(config, record)
    return record


def floor_probe(config: TrainConfig, harness: Harness) -> str:
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


def _train_model(config: TrainConfig, harness: Harness, observer: Observer) -> None:
    """Train the model, in separate processes if the config asks for them; say so if it is trained already."""
    progress = TrainFolder(config.output).finished_progress(config) if config.node_rank == 0 else None
    if progress is not None:
        notice(f"{config.output} has already been trained: {progress.step} steps, {progress.end_reason}")
    try:
        if needs_launcher(config):
            launch(config, observer)
        else:
            train_in_process(config, harness, observer)
    except FigevalError:
        observer.end("FAILED")
        raise
    if config.node_rank == 0:
        write_missing_lineage(config, harness)


def _evaluate_model(config: TrainConfig, harness: Harness, observer: Observer) -> RunRecord | None:
    """Run the tasks of `evaluate` (by default the task that the model was trained on), augmented as in training."""
    run_config = _evaluation_config(config, harness)
    if run_config is None:
        return None
    observer.wait(f"running {', '.join(run_config.tasks)} with the trained model")
    record, _ = run(run_config, harness, Observer())
    return record


def _evaluation_config(config: TrainConfig, harness: Harness) -> RunConfig | None:
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
    run_config = _evaluation_config(config, Harness(include=config.include_path))
    is_trained = TrainFolder(output).finished_progress(config) is not None and (output / FILE).is_file()
    has_floor = config.floor or floor_in(output) is not None
    if not is_trained or has_floor or run_config is None or run_config.output_path is None:
        return None
    is_unchanged = TrainFolder(output).read_record().weights_sha256 == weights_in(output)
    if not is_unchanged or not (run_config.output_path / "run.json").is_file():
        return None
    record, folder = read_run(run_config.output_path)
    is_complete = record.status == "complete" and all(folder.has_predictions(task.task) for task in record.tasks)
    return record if is_complete and record.identity == run_config.identity() else None


def _store_held_out(config: TrainConfig, record: RunRecord | None) -> None:
    """Write the model's score on examples that it was not trained on into its figeval.json (`about.held_out`).

    This is the first score of its task in the final run, on the examples that the model was neither trained nor chosen
    on. Without such a run, or such examples, it is the score on dev, which has no interval because the checkpoint was
    chosen there.
    """
    score = held_out_score(record, config.task) or _held_out_dev_score(config)
    about = about_in(config.output)
    if score and about.get("held_out") != score:
        declaration = read_json(config.output / MODEL_FILE, TrainError)
        write_json(config.output / MODEL_FILE, {**declaration, "about": {**about, "held_out": score}})


def held_out_score(record: RunRecord | None, name: str) -> JSON:
    """Return the first score of a task in a run, on unseen examples, as stored in figeval.json; empty if none."""
    task = next((task for task in record.tasks if task.task == name), None) if record is not None else None
    if task is None:
        return {}
    scores = (task.overlap.scores if task.overlap is not None else []) or task.scores
    score = next((score for score in scores if score.value is not None and score.seen is None), None)
    if score is None:
        return {}
    keys = ("metric", "value", "low", "high", "n", "clusters")
    return {"task": name, "split": "test", **{key: getattr(score, key) for key in keys}}


def _held_out_dev_score(config: TrainConfig) -> JSON:
    """Return the first score of the chosen checkpoint on dev, as stored in figeval.json; empty if there is none."""
    record = TrainFolder(config.output).read_record()
    scores = next((evaluation.scores for evaluation in record.evaluations if evaluation.step == record.best), {})
    metrics = ((name, value) for name, value in scores.items() if value is not None and name != LOSS)
    metric, value = next(metrics, ("", None))
    if value is None or config.select_on != "dev":
        return {}
    about = {"task": config.task, "split": "dev", "metric": metric, "value": value, "low": None, "high": None}
    return {**about, "n": record.dev.n, "clusters": None}


def evaluation_folder(output: Path, tasks: Sequence[str]) -> Path:
    """Return the folder of the run that evaluates these tasks at the end of a training."""
    return output / "runs" / "-".join(tasks)
