"""The configuration of a training: the flags of `figeval train` and a config file as one validated value."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from figeval import TrainError
from figeval.config import Augment, Size
from figeval.io.validation import first_problem
from figeval.records.training import FOLDER, OPERATIONAL_OPTIONS, REMOVED_OPTIONS

Fraction = Annotated[float, Field(ge=0, lt=1)]


class TrainConfig(BaseModel):
    """Configuration of one training. Unknown keys are refused; the descriptions are those of `figeval train --help`."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    task: str = Field(description="Task with a train split; see `figeval ls tasks`.")
    model: str = Field(description="Model to start from: a folder, a hub id, minilm or smollm2.")
    output: Path = Field(description="Folder of the trained model; the same command resumes the training there.")
    head: str | None = Field(None, description="Head to train, if the task type has several; see `figeval ls heads`.")
    head_args: dict[str, Any] = Field({}, description="Options of the head: pooling=mean,similarity=cosine …")
    preset: str | None = Field(None, description="Hyper-parameter preset: paper, or paper:ROW.")
    augment: Augment = Field({}, description="Content to add to every example: add=concepts|neighbours|outline,k=N …")
    seed: int = Field(0, ge=0, description="Random seed.")
    include_path: tuple[Path, ...] = Field((), description="Folders with additional task files.")

    probe: str | None = Field(
        None, description="Train and select on a probe of the task, e.g. no_query: a model that never reads the query."
    )
    floor: bool = Field(
        False, description="Also train the floor: a second model with these settings, on the task's floor probe."
    )
    holdout: Fraction = Field(0.1, description="Share of train to hold out as dev, if the task has no such split.")
    holdout_by: Literal["auto", "cluster", "within", "row"] = Field(
        "auto",
        description="Hold out whole clusters, some rows of each, or rows; auto: as the test split differs.",
    )
    limit: Size | None = Field(None, description="Use only the first N examples of train, or a share, e.g. 0.1.")
    max_length: PositiveInt | None = Field(
        None, description="Maximum length of an input in tokens; longer ones are truncated."
    )
    skip_long: bool = Field(
        False, description="Leave out examples that the model cannot read, e.g. whose options fill its input."
    )
    shuffle: Literal["epochs", "once"] = Field("epochs", description="Shuffle in every epoch, or once for all epochs.")

    epochs: PositiveInt = Field(10, description="Number of passes over the examples.")
    max_steps: PositiveInt | None = Field(None, description="Stop after N steps.")
    batch_size: PositiveInt = Field(16, description="Examples per step, over all processes.")
    lr: PositiveFloat | None = Field(2e-5, description="Peak learning rate; none: Adafactor's relative steps.")
    optimizer: Literal["adamw", "adafactor"] = Field("adamw", description="Optimizer.")
    betas: tuple[Fraction, Fraction] = Field((0.9, 0.999), description="Betas of AdamW.")
    eps: PositiveFloat = Field(1e-8, description="Epsilon of AdamW.")
    bias_correction: bool = Field(True, description="Correct the bias of AdamW's moments; BERT's own code does not.")
    weight_decay: float = Field(0.01, ge=0, description="Weight decay, except for biases and norms.")
    schedule: Literal["linear", "cosine", "constant"] = Field("linear", description="Decay of the learning rate.")
    warmup: float = Field(0.06, ge=0, description="Steps to the peak learning rate; below 1, a share of all steps.")
    clip: PositiveFloat | None = Field(1.0, description="Maximum norm of the gradient (gradient clipping).")

    dropout: Fraction | None = Field(
        None, description="Dropout rate of the whole model; by default that of its configuration."
    )

    select_on: Literal["dev", "test", "none"] = Field(
        "dev",
        description="Split on which the best checkpoint is chosen. If test, as in the papers, every report says so.",
    )
    select_by: str | None = Field(None, description="Metric of the task, or loss, that selects the checkpoint.")
    evaluate_every: PositiveFloat = Field(1.0, description="Epochs between evaluations.")
    patience: PositiveInt | None = Field(3, description="Stop after N evaluations without improvement.")
    evaluate: tuple[str, ...] | None = Field(None, description="Tasks to run afterwards; by default the task itself.")

    device: str | None = Field(None, description="cpu, cuda, mps; by default the fastest available.")
    mixed_precision: Literal["no", "bf16", "fp16"] = Field(
        "no", description="Precision of the forward pass; on GPUs only."
    )
    gradient_checkpointing: bool = Field(False, description="Recompute activations instead of keeping them.")
    tokens_per_batch: PositiveInt | None = Field(
        None, description="Most tokens of a forward pass, with padding; a step takes several passes."
    )
    lora: PositiveInt | None = Field(None, description="Train adapters of this rank instead of all weights.")
    lora_alpha: PositiveFloat | None = Field(None, description="Scale of the adapters; by default twice the rank.")
    lora_targets: tuple[str, ...] = Field(
        (), description="Modules to which adapters are added; by default those that peft chooses."
    )
    lora_unmerged: bool = Field(
        False, description="Save the adapter alone, in peft's format, instead of the model with it merged in."
    )
    allow_pickle: bool = Field(False, description="Allow initial weights that are not safetensors.")

    processes: PositiveInt = Field(1, description="Number of processes on this machine.")
    deepspeed: str | None = Field(None, description="Use DeepSpeed: zero2, zero3 or a configuration file.")
    fsdp: bool = Field(False, description="Shard weights with PyTorch's FSDP.")
    nodes: PositiveInt = Field(1, description="Number of machines.")
    node_rank: int = Field(0, ge=0, description="Number of this machine, counted from 0.")
    master: str | None = Field(None, description="Address of machine 0, as host:port.")
    checkpoint_every: PositiveInt | None = Field(
        None, description="Also save a checkpoint every N steps, between evaluations."
    )
    trackers: tuple[str, ...] = Field((), description="Trackers of accelerate: wandb, tensorboard, mlflow …")

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values  # which pydantic refuses
        return {name: value for name, value in values.items() if name not in REMOVED_OPTIONS}

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if self.lr is None and self.optimizer != "adafactor":
            raise ValueError("only adafactor chooses its own learning rate; give --lr")
        if self.deepspeed and self.fsdp:
            raise ValueError("deepspeed and fsdp both shard the weights; choose one")
        if self.nodes > 1 and not self.master:
            raise ValueError("several nodes need --master host:port of the first")
        if self.node_rank >= self.nodes:
            raise ValueError(f"node_rank {self.node_rank} is out of range for {self.nodes} nodes; the first is 0")
        if self.lora_unmerged and self.lora is None:
            raise ValueError("lora_unmerged saves an adapter; give the rank of one, too: --lora 16")
        if self.floor and self.probe:
            raise ValueError("a model trained on a probe is itself a floor; leave out floor or probe")
        if self.select_on == "dev" and self.holdout == 0:
            raise ValueError("without a holdout nothing can be chosen on dev; use --select_on none")
        return self

    def learning_rate(self, step: int, total: int) -> float | None:
        """Return the learning rate at a step, counted from 0 of `total`; None if Adafactor chooses its own.

        It rises during the warm-up, then falls to 0 at step `total`, unless the schedule is constant.
        """
        if self.lr is None:
            return None
        warmup_steps = round(self.warmup * total) if self.warmup < 1 else int(self.warmup)
        if step < warmup_steps:
            return self.lr * ((step + 1) / (warmup_steps + 1))
        decayed = (step - warmup_steps) / max(1, total - warmup_steps)
        factors = {"linear": 1 - decayed, "cosine": (1 + math.cos(math.pi * decayed)) / 2, "constant": 1.0}
        return self.lr * factors[self.schedule]

    def identity(self) -> str:
        """Return eight hex digits over the settings that can change the weights."""
        # Keys that were added later count only if they are set, so that trainings of an earlier figeval can resume.
        late = {name for name in ("probe", "augment", "skip_long", "lora_unmerged") if not getattr(self, name)}
        values = self.model_dump(mode="json", exclude={*OPERATIONAL_OPTIONS, *late})
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def floor_config(config: TrainConfig, probe: str) -> TrainConfig:
    """Return the config of a training's floor. It is evaluated together with its model, not by itself."""
    changes = {"probe": probe, "floor": False, "evaluate": (), "output": config.output / FOLDER}
    return config.model_copy(update=changes)


def validate_config(fields: Mapping[str, object], prefix: str = "") -> TrainConfig:
    """Return a validated config with these fields.

    Raises:
        TrainError: A field is missing or invalid; the message begins with `prefix`.
    """
    try:
        return TrainConfig.model_validate(fields)
    except ValidationError as error:
        missing = [str(detail["loc"][0]) for detail in error.errors() if detail["type"] == "missing"]
        problem = f"--{missing[0]} is missing" if missing else first_problem(error, TrainConfig)
        raise TrainError(f"{prefix}{problem}") from error


def read_none(name: str, value: object) -> object:
    """Return None if an optional field is given the text `none`, as in `--patience none`, else the value itself."""
    field = TrainConfig.model_fields.get(name)
    is_none = value == "none" and field is not None and NoneType in get_args(field.annotation)
    return None if is_none else value
