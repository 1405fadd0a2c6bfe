"""The record of a finished training, `training/record.json` in the folder of the model, and the floor of its model.

The floor is a second model, trained with the same settings on a probe of the task. A model that was trained with the
query (the story, the premise) sees unfamiliar inputs when it is evaluated without; only a model that was trained on the
options alone shows how much they give away. The floor is stored in the folder `floor` of its model; one that was
trained by hand (`figeval train --probe`) may be moved there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from figeval.errors import FigevalError, TrainError
from figeval.io.json_files import read_json
from figeval.io.text import clean_json
from figeval.io.validation import validate
from figeval.records.schema import Stored
from figeval.records.seen import RESTORE, about_in, weights_in

MAX_SECONDS = 1e10  # a record with more is no record
RECORD = "record.json"
REMOVED_OPTIONS = frozenset(("compile",))  # settings of an older figeval; its config files have them still
# Settings that change how fast or where a model is trained, but not the result.
OPERATIONAL_OPTIONS = frozenset(
    (
        *("output", "device", "processes", "nodes", "node_rank", "master", "deepspeed", "fsdp", *REMOVED_OPTIONS),
        *("tokens_per_batch", "checkpoint_every", "trackers", "evaluate", "include_path", "floor"),
    )
)


class DevScores(Stored):
    """The scores of one checkpoint on the examples that were held out."""

    step: int
    scores: dict[str, float | None]


class TrainingConfig(Stored):
    """The resolved configuration; tables read the fields named here, and there are others."""

    model_config = ConfigDict(extra="allow")

    model: str
    seed: int
    select_on: str = "dev"
    probe: str | None = None


class Head(Stored):
    """The head that was trained on top of the model; its settings differ from head to head."""

    model_config = ConfigDict(extra="allow")

    name: str


class TrainExamples(Stored):
    """The examples of the training."""

    n: int
    sha256: str = ""
    skipped: int = Field(default=0, description="further examples, which the model cannot read (--skip_long)")


class DevExamples(TrainExamples):
    """The examples that the checkpoint was chosen on."""

    source: str = Field(default="", description="the split, or the share of the training examples")


class Parameters(Stored):
    """Numbers of parameters."""

    total: int
    trainable: int
    head: int | None = Field(default=None, description="on top of the pretrained model, if it has a head")


class Passes(Stored):
    """Division of a step's rows into passes through the network."""

    per_step: float = Field(ge=0, description="mean number of passes of each process")
    tokens: int | None = Field(default=None, description="tokens of a pass that fit in memory, if it was measured")
    seconds_per_pass: float | None = Field(default=None, description="what a pass costs, if it was measured")
    seconds_per_token: float | None = Field(default=None, description="what a token of it costs, padding included")
    padding: bool | None = Field(default=None, description="whether rows were read with padding, if it was measured")


class Origin(Stored):
    """Versions, hardware and commit."""

    model_config = ConfigDict(extra="allow")

    hardware: dict[str, Any] | None = None


class TrainingRecord(Stored):
    """Everything about a finished training: data, configuration, evaluations, cost and versions."""

    identity: str = ""
    config: TrainingConfig
    head: Head
    task: str
    augment: dict[str, Any] | None = Field(default=None, description="what was retrieved and added to the examples")
    train: TrainExamples
    dev: DevExamples
    truncated: int = Field(default=0, description="training examples that were cut")
    select_by: list[str] = Field(description="metrics to choose a checkpoint by; later ones break ties")
    before: dict[str, float | None] | None = Field(default=None, description="dev scores before training, if known")
    improved: bool | None = Field(default=None, description="whether the best checkpoint is better than before")
    best: int | None = Field(default=None, description="step of the chosen checkpoint")
    weights_sha256: str | None = None
    steps: int
    why: str = Field(description="reason for the end")
    evaluations: list[DevScores]
    seconds: float = Field(ge=0, le=MAX_SECONDS)
    tokens: int
    parameters: Parameters | None = None
    passes: Passes | None = Field(default=None, description="missing in records of an older figeval")
    peak_memory_mb: float = Field(ge=0, allow_inf_nan=False)
    provenance: Origin = Origin()
    preset: dict[str, Any] | None = Field(default=None, description="the published row behind the configuration")

    def scored_steps(self) -> Iterator[DevScores]:
        """Yield the scores of every evaluation, the first of them of the model before training (step 0)."""
        if self.before:
            yield DevScores(step=0, scores=self.before)
        yield from self.evaluations


def record_file(folder: Path) -> Path:
    """Return the file of the record in the folder of a trained model."""
    return folder / "training" / RECORD


def read_training(
    file: Path, failure: type[FigevalError], *, cure: str = "it was not written by this version of figeval"
) -> TrainingRecord:
    """Read a record. Raises `failure`, which ends with the cure, if the file is missing or no record."""
    return validate(clean_json(read_json(file, failure, cure=cure)), str(file), TrainingRecord, failure, cure=cure)


FOLDER = "floor"
MAY_DIFFER = OPERATIONAL_OPTIONS | {"probe"}  # settings of a model and its floor


def name_of(probe: str) -> str:
    """Return the name of a floor among the baselines of a task, e.g. `no_query_trained`."""
    return f"{probe}_trained"


@dataclass(frozen=True)
class Floor:
    """The floor in the folder of a trained model.

    Attributes:
        model: folder of the model.
        task: the task that both were trained on.
        probe: the probe of that task that the floor was trained on.
    """

    model: Path
    task: str
    probe: str

    @property
    def folder(self) -> Path:
        return self.model / FOLDER

    @property
    def name(self) -> str:
        """Name among the baselines of a task."""
        return name_of(self.probe)

    @cached_property
    def weights(self) -> str:
        """Digest of the floor's weights, which reads all of them."""
        return weights_in(self.folder)

    def check_weights(self) -> None:
        """Check that the weights are those that the training recorded; older records have none.

        Raises:
            TrainError: the weights were changed, so that their score would be that of another model.
        """
        if _record(self.folder).get("weights_sha256", self.weights) != self.weights:
            raise TrainError(f"the weights in {self.folder} are not those that were trained there; {RESTORE}")

    @property
    def differences(self) -> list[str]:
        """Settings that differ between the trainings of floor and model; empty if either is not recorded."""
        model_config, floor_config = (_config(folder) for folder in (self.model, self.folder))
        if not model_config or not floor_config:
            return []
        return [
            name
            for name in model_config
            if name not in MAY_DIFFER and name in floor_config and model_config[name] != floor_config[name]
        ]


def floor_in(model: Path) -> Floor | None:
    """Return the floor in the folder of a model, or None if there is none or its training is not complete.

    Raises:
        TrainError: a file in the folder of the floor is damaged.
    """
    about = about_in(model / FOLDER)
    # Before `figeval train --floor`, only the record of a training named its probe.
    probe = about.get("probe") or _config(model / FOLDER).get("probe")
    return Floor(model, str(about.get("task")), str(probe)) if about and probe else None


def _config(folder: Path) -> dict[str, Any]:
    """Return the settings of a finished training, empty if they are not recorded."""
    config: dict[str, Any] = _record(folder).get("config", {})
    return config


def _record(folder: Path) -> dict[str, Any]:
    """Return the record of a finished training, empty if there is none.

    Raises:
        TrainError: the record is damaged.
    """
    file = record_file(folder)
    if not file.is_file():
        return {}
    record = read_json(file, TrainError, cure=RESTORE)
    if not isinstance(record, dict) or not isinstance(record.get("config", {}), dict):
        raise TrainError(f"{file} is not the record of a training; {RESTORE}")
    return record
