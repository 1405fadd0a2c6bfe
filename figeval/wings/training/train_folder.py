"""The folder of a training: the model at the top, everything about how it was trained in `training/`.

DIR/config.json, model.safetensors, figeval.json …   the chosen checkpoint, once the training is complete
DIR/seen.txt                  digests of the examples that the model was trained on and chosen on (`seen`)
DIR/training/config.yaml      the resolved config
DIR/training/progress.json    the progress; replaced atomically, and it names all other files that count
DIR/training/history.jsonl    loss, learning rate and speed of every step, scores of every evaluation
DIR/training/step-000400/     a checkpoint: the best so far, the last one, or both; `state/` is for
                                resuming, and gone once the training is complete
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from figeval import JSON, FolderInUse, TrainError
from figeval.io.files import cure, locked, replace_text
from figeval.io.json_files import parse_json, read_model
from figeval.io.text import clean
from figeval.io.yaml_files import yaml_text
from figeval.records.seen import MODEL_FILE, RESTORE
from figeval.records.training import TrainingRecord, read_training, record_file
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.pass_cost import PassCost
from figeval.wings.training.selection import Evaluation

STATE = "state"
MOVE_AWAY = "move it away or choose another --output"


class Progress(BaseModel):
    """Progress of a training, as stored in `progress.json`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    identity: str
    data: str = ""  # digest of the examples for training and selection
    prompts: dict[str, str] = {}  # read before texts, by role
    step: int = 0  # steps done, which also names the last checkpoint
    best: int | None = None
    before: dict[str, float | None] | None = None  # scores of the model before its first step; None if unknown
    evaluations: list[Evaluation] = []
    seconds: float = 0.0  # training time over all sessions
    tokens: int = 0
    passes: int = 0  # of each process through the network
    cost: PassCost | None = None  # of a pass; None on a CPU, and in folders of an older figeval
    parameters: dict[str, int] | None = None  # `total`, `trainable`, `head`; None in folders of an older figeval
    complete: bool = False
    end_reason: str = Field(default="", alias="why")


class TrainFolder:
    """Reader and writer of one training folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.traces = path / "training"
        self.progress_file = self.traces / "progress.json"
        self.history_file = self.traces / "history.jsonl"
        self.record_file = record_file(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder and lock it for this training. Raises `TrainError` if another one writes it."""
        try:
            self.traces.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainError(f"{self.path} cannot be written ({error.strerror}); choose another --output") from error
        refusal = FolderInUse(f"{self.path}: another training is writing to this folder; wait for it")
        with locked(self.traces / ".lock", refusal):
            yield

    def check(self, config: TrainConfig) -> Progress | None:
        """Return the progress of this training, or None before its first checkpoint. Nothing is written.

        Raises:
            TrainError: the folder holds another training or files of other origin, or cannot be written.
        """
        if not self.path.is_dir():
            if self.path.exists() or self.path.is_symlink():
                raise TrainError(f"{self.path} is not a folder; {MOVE_AWAY}")
            return None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise TrainError(f"{self.path} cannot be written; choose another --output")
        if not self.progress_file.exists():
            unknown_names = [file.name for file in sorted(self.path.iterdir()) if file != self.traces]
            if unknown_names:
                raise TrainError(f"{self.path} contains {unknown_names[0]!r} but no training; {MOVE_AWAY}")
            return None
        progress = self.read_progress()
        if progress.step == 0 and progress.identity != config.identity():
            return None  # nothing was trained yet
        if progress.identity != config.identity():
            raise TrainError(f"{self.path} contains another training ({self.traces / 'config.yaml'}); {MOVE_AWAY}")
        return progress

    def begin(self, config: TrainConfig, data: str = "", prompts: Mapping[str, str] | None = None) -> Progress:
        """Return the progress to resume from, which is empty in a new folder.

        Args:
            config: the settings.
            data: digest of the examples.
            prompts: what the model reads before texts, by role.

        Raises:
            TrainError: the folder holds another training, one on other examples or with other prompts, or files of
                other origin.
        """
        progress, prompts = self.check(config), dict(prompts or {})
        if progress is None or (progress.step == 0 and (progress.data, progress.prompts) != (data, prompts)):
            self.write_config(config)
            return Progress(identity=config.identity(), data=data, prompts=prompts)
        if progress.data != data:
            raise TrainError(
                f"{self.path} was started on other examples (the data or the held-out dev split has changed since); "
                "choose another --output"
            )
        if progress.prompts != prompts:
            before, current = (_format_prompts(values) for values in (progress.prompts, prompts))
            raise TrainError(
                f"{self.path} was started {before}, and the same command now reads texts {current}; "
                "choose another --output"
            )
        return progress

    def read_progress(self) -> Progress:
        """Read the progress. Raises `TrainError` if the file is not a record of progress."""
        return read_model(self.progress_file, Progress, TrainError, cure="choose another --output")

    def finished_progress(self, config: TrainConfig) -> Progress | None:
        """Return the progress of a training that is complete and recorded, else None, without opening its model."""
        if not (self.progress_file.exists() and self.record_file.exists()):
            return None
        progress = self.read_progress()
        return progress if progress.complete and progress.identity == config.identity() else None

    def read_record(self) -> TrainingRecord:
        """Read the record of a finished training. Raises `TrainError` if it is damaged."""
        return read_training(self.record_file, TrainError, cure=RESTORE)

    def write_config(self, config: TrainConfig) -> None:
        """Write the resolved config in the form that `--config` reads."""
        values = config.model_dump(mode="json", exclude={"output"})
        with cure(self.path, "--output"):
            (self.traces / "config.yaml").write_text(yaml_text(values), encoding="utf-8")

    def checkpoint_folder(self, step: int) -> Path:
        return self.traces / f"step-{step:06d}"

    def write_checkpoint(
        self, step: int, model: Callable[[Path], JSON] | None, state: Callable[[Path], None] | None
    ) -> None:
        """Write a checkpoint to a draft folder and rename it, so that nobody finds half of one.

        `model` writes the model and returns the content of figeval.json; `state` writes the state for resuming, which
        the last checkpoint of a training does not need.

        Raises:
            RecordError: the disk is full, or the folder cannot be written; the previous checkpoint still exists.
        """
        folder = self.checkpoint_folder(step)
        draft = folder.with_suffix(".part")
        shutil.rmtree(draft, ignore_errors=True)
        with cure(self.path, "--output"), _as_system_errors():
            try:
                draft.mkdir(parents=True)
                if state is not None:
                    (draft / STATE).mkdir()
                    state(draft / STATE)
                if model is not None:
                    write_json(draft / MODEL_FILE, model(draft))
                shutil.rmtree(folder, ignore_errors=True)
                draft.rename(folder)
            except BaseException:  # a half-written checkpoint would waste space on a full disk
                shutil.rmtree(draft, ignore_errors=True)
                raise

    def commit(self, progress: Progress) -> None:
        """Store the progress, then remove checkpoints that are neither the last nor the best."""
        with cure(self.path, "--output"):
            replace_text(self.progress_file, progress.model_dump_json(indent=1, by_alias=True) + "\n")
        current = {self.checkpoint_folder(step) for step in (progress.step, progress.best) if step is not None}
        for folder in self.traces.glob("step-*"):
            if folder not in current:
                shutil.rmtree(folder)
        if progress.best is not None and progress.best != progress.step:
            shutil.rmtree(self.checkpoint_folder(progress.best) / STATE, ignore_errors=True)

    def publish(self, step: int) -> None:
        """Put the model of a checkpoint at the top of the folder, as hard links if the file system supports them."""
        with cure(self.path, "--output"):
            for file in sorted(self.checkpoint_folder(step).iterdir()):
                if file.is_file():
                    _link_or_copy(file, self.path / file.name)

    def truncate_history(self, until: int) -> None:
        """Drop the history after a step, because an interrupted session resumes from there."""
        if not self.history_file.exists():
            return
        lines = self.history_file.read_bytes().splitlines(keepends=True)
        try:
            earlier = [line.decode() for line in lines if line.endswith(b"\n") and parse_json(line)["step"] <= until]
        except (ValueError, TypeError, LookupError) as error:
            raise TrainError(f"{self.history_file} is damaged ({error}); delete it and run the same command") from error
        with cure(self.path, "--output"):
            replace_text(self.history_file, "".join(earlier))

    def append_history(self, **values: object) -> None:
        with cure(self.path, "--output"), self.history_file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(values) + "\n")


def _format_prompts(prompts: Mapping[str, str]) -> str:
    """Return prompts in words, such as `with the prompts 'query: ' (query)`."""
    texts = ", ".join(f"{clean(prompt)!r:.80} ({role})" for role, prompt in prompts.items() if prompt)
    return f"with the prompts {texts}" if texts else "without prompts"


@contextmanager
def _as_system_errors() -> Iterator[None]:
    """Convert a `SafetensorError` that has an operating system error number in its text into an `OSError`."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error


def write_json(file: Path, value: JSON) -> None:
    """Write a JSON file for people to read. Raises `RecordError` if it cannot be written."""
    with cure(file, "--output"):
        replace_text(file, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _link_or_copy(file: Path, target: Path) -> None:
    """Hard-link a file to another place, or copy it if the file system has no links."""
    target.unlink(missing_ok=True)
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)
