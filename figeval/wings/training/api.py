"""`figeval.train`, and the `Training` that it returns.

It does what the command `train` does, without a terminal: it prints nothing unless asked to (`progress=True`), raises
`figeval.FigevalError` where the command line exits with code 2, and leaves the environment unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from figeval import (
    JSON,
    FigevalError,
    Observer,
    PluginManager,
    Result,
    Run,
    Table,
    TrainError,
    open_display,
    run,
)
from figeval.api.runs import Task, given_options, read_task_files
from figeval.config import Folders, Names, RunOptions, Settings
from figeval.io import frontend
from figeval.io.validation import checked_arguments
from figeval.io.yaml_files import read_mapping
from figeval.records.training import REMOVED_OPTIONS, TrainingRecord, floor_in
from figeval.reporting import training as training_table
from figeval.wings.training.config import TrainConfig, read_none, validate_config
from figeval.wings.training.pipeline import complete_training, evaluation_folder
from figeval.wings.training.presets import choose_row, describe_preset, merge_settings
from figeval.wings.training.train_folder import TrainFolder

if TYPE_CHECKING:
    from typing import Unpack

    import pandas

ACCELERATOR = "DS_ACCELERATOR"


class TrainOptions(TypedDict, total=False):
    """The flags of `figeval train` except task, model and output; `figeval train --help` describes each."""

    head: str | None
    head_args: Settings
    preset: str | None
    augment: Settings
    seed: int
    include_path: Folders
    probe: str | None
    floor: bool
    holdout: float
    holdout_by: Literal["auto", "cluster", "within", "row"]
    limit: int | float | None
    max_length: int | None
    skip_long: bool
    shuffle: Literal["epochs", "once"]
    epochs: int
    max_steps: int | None
    batch_size: int
    lr: float | None
    optimizer: Literal["adamw", "adafactor"]
    betas: tuple[float, float]
    eps: float
    bias_correction: bool
    weight_decay: float
    schedule: Literal["linear", "cosine", "constant"]
    warmup: float
    clip: float | None
    dropout: float | None
    select_on: Literal["dev", "test", "none"]
    select_by: str | None
    evaluate_every: float
    patience: int | None
    evaluate: Names | None
    device: str | None
    mixed_precision: Literal["no", "bf16", "fp16"]
    gradient_checkpointing: bool
    tokens_per_batch: int | None
    lora: int | None
    lora_alpha: float | None
    lora_targets: Names
    lora_unmerged: bool
    allow_pickle: bool
    processes: int
    deepspeed: str | None
    fsdp: bool
    nodes: int
    node_rank: int
    master: str | None
    checkpoint_every: int | None
    trackers: Names


@checked_arguments
def train(
    task: str,
    model: str | Path,
    output: str | Path,
    *,
    config: str | Path | None = None,
    progress: bool = False,
    **options: Unpack[TrainOptions],
) -> Training:
    """Fine-tune a model on a task, or resume a training that was interrupted, and run the trained model.

    Args:
        task: name of a task with a train split.
        model: model to start from: a folder, a hub id, `minilm` or `smollm2`.
        output: folder of the trained model; the same arguments resume the training there.
        config: YAML file with options; those given here take precedence.
        progress: print the progress of the training on stderr.
        options: the flags of `figeval train` under the same names.

    Returns:
        The training, with its scores on dev and the run of `evaluate` (by default of the task itself).

    Raises:
        TypeError: there is no such option.
        OptionError: an argument has another type; tasks and models are given by name.
        FigevalError: an unknown name, an invalid value, a folder with another training …

    Example:
        ```python
        trained = figeval.train("epic_retrieval_seen", "minilm", "models/proverbs", epochs=3)
        trained.scores, trained.run.scores
        ```
    """
    settings = _config_of_call(task, model, output, config, options)
    with frontend.python_program(watched=progress), _restored_environment():
        return train_and_evaluate(settings, show_progress(settings) if progress else Observer())


def show_progress(config: TrainConfig) -> Observer:
    """Return an observer that shows the progress on stderr, and print which row of a preset is used."""
    observer = open_display(progress=True)
    preset = describe_preset(config)
    if preset is not None:
        observer.say(preset)
    return observer


def train_and_evaluate(config: TrainConfig, observer: Observer) -> Training:
    """Train and evaluate as a checked configuration says; the command line calls this with its flags."""
    with observer.live():
        record = complete_training(config, observer)
    tasks = (config.task,) if config.evaluate is None else config.evaluate
    return Training(config.output, None if record is None else Run(record, evaluation_folder(config.output, tasks)))


class Training(Result):
    """A finished training, as `figeval.train` returns it; `Training(folder)` reads an earlier one.

    A notebook shows it as its table of scores on dev. The folder is a model like any other:
    `figeval.run(tasks, model=training.path)`.

    Attributes:
        path: folder of the trained model.
        run: run at the end of the training, of the tasks of `evaluate`, by default of the task itself. None if none
            was asked for, and for an earlier training; the method `evaluate` runs tasks now.
    """

    @checked_arguments
    def __init__(self, path: str | Path, run: Run | None = None) -> None:
        self.path = Path(path)
        self.run = run

    @cached_property
    def record(self) -> TrainingRecord:
        """Content of `training/record.json`: data, hyper-parameters, evaluations, cost, versions.

        Raises:
            TrainError: the folder holds no finished training.
        """
        try:
            return TrainFolder(self.path).read_record()
        except FigevalError as error:
            raise TrainError(f"{self.path} does not contain a finished training ({error})") from error

    @property
    def scores(self) -> pandas.DataFrame:
        """Scores on dev, one row per evaluation: `step`, a column per metric, and `best` for the chosen checkpoint.

        Step 0 is the model before training, which is never chosen.

        Raises:
            FigevalError: pandas is not installed.
        """
        return self.to_frame()

    @property
    def best(self) -> dict[str, float | None]:
        """Scores on dev of the chosen checkpoint, by metric; empty if nothing was held out."""
        scores = (evaluation.scores for evaluation in self.record.evaluations if evaluation.step == self.record.best)
        return next(scores, {})

    @property
    def floor(self) -> Training | None:
        """Training of the floor that `--floor` made, with the same settings on a probe; None if there is none."""
        floor = floor_in(self.path)
        return None if floor is None else Training(floor.folder)

    def evaluate(self, tasks: Task | Sequence[Task], *, progress: bool = False, **options: Unpack[RunOptions]) -> Run:
        """Run tasks with the trained model; arguments, errors and result are those of `figeval.run`."""
        return run(tasks, self.path, progress=progress, **options)

    def __repr__(self) -> str:
        return f"<figeval.Training in {str(self.path)!r}>"

    @property
    def tables(self) -> list[Table[Any]]:
        """Table of the scores on dev."""
        return [training_table.dev_scores(self.record)]

    def notes(self) -> Iterator[str]:
        """Yield notes on the data, the choice of the checkpoint, the cost, and the floor."""
        floor = floor_in(self.path)
        return training_table.notes(self.record, floor.probe if floor else "")

    def to_dict(self) -> JSON:
        """Return the record of the training."""
        return self.record.model_dump(mode="json", exclude_unset=True)


# ---- arguments and environment --------------------------------------------------------------------------------------


def _config_of_call(
    task: str, model: str | Path, output: str | Path, config: str | Path | None, options: TrainOptions
) -> TrainConfig:
    """Return preset, configuration file and options as a checked value; later ones take precedence.

    Raises:
        TypeError: there is no such option.
        TrainError: an option has an invalid value.
    """
    arguments = given_options("figeval.train", options, TrainOptions.__annotations__)
    file = None if config is None else Path(config)
    return resolve_config(file, {**arguments, "task": task, "model": str(model), "output": Path(output)})


def resolve_config(file: Path | None, flags: Mapping[str, object], manager: PluginManager | None = None) -> TrainConfig:
    """Return a config from defaults, preset, config file and flags; later ones take precedence.

    Its `preset` is the full name of the preset's row.

    Raises:
        TrainError: An unknown key, a value of the wrong type, or a preset without a row for this task and model.
        UnknownName: There is no such preset.
    """
    file_settings = {} if file is None else read_mapping(file, TrainError)
    for name in sorted(REMOVED_OPTIONS & file_settings.keys()):
        if file_settings[name]:
            frontend.warn(f"{file}: {name} no longer has any effect; remove it")
    settings = merge_settings(file_settings, {name: read_none(name, value) for name, value in flags.items()})
    if isinstance(settings.get("task"), str):
        (settings["task"],), files = read_task_files([settings["task"]])
        if files:
            settings["include_path"] = (*settings.get("include_path", ()), *files)
    if settings.get("preset") and settings.get("task") and settings.get("model"):
        row = choose_row(str(settings["preset"]), str(settings["task"]), str(settings["model"]), manager)
        settings = merge_settings(row.settings, settings, {"preset": row.full_name})
    return validate_config(settings, "" if file is None else f"{file}: ")


@contextmanager
def _restored_environment() -> Iterator[None]:
    """Restore the variable that a training sets for DeepSpeed; what libraries set on import is left alone."""
    original = os.environ.get(ACCELERATOR)
    try:
        yield
    finally:
        if original is None:
            os.environ.pop(ACCELERATOR, None)
