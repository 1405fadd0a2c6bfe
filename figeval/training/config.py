"""The configuration of a training: the flags of `figeval train` and a config file as one validated value."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from figeval.config import Augment

Share = Annotated[float, Field(ge=0, lt=1)]

# Settings that change how fast or where a model is trained, but not the result.
ELSEWHERE = frozenset(
    (
        *("output", "device", "processes", "nodes", "node_rank", "master", "deepspeed", "fsdp", "compile"),
        *("tokens_per_batch", "checkpoint_every", "trackers", "evaluate", "include_path", "floor"),
    )
)


class TrainConfig(BaseModel):
    """Configuration of one training. Unknown keys are refused; the descriptions are those of `figeval train --help`."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    task: str = Field(description="A task with a train split; see `figeval ls tasks`.")
    model: str = Field(description="What to begin with: a folder, a hub id, minilm or smollm2.")
    output: Path = Field(description="The folder of the trained model; the same command goes on there.")
    head: str | None = Field(None, description="What is trained on it, where a task type has several: see `ls heads`.")
    head_args: dict[str, Any] = Field({}, description="Options of the head: pooling=mean,similarity=cosine …")
    preset: str | None = Field(None, description="Hyper-parameters by name: paper, or paper:ROW.")
    augment: Augment = Field({}, description="Added to every example: add=concepts|neighbours|outline,k=N …")
    seed: int = Field(0, ge=0, description="Random seed.")
    include_path: tuple[Path, ...] = Field((), description="Folders with further task files.")

    probe: str | None = Field(
        None, description="Train and select on a probe of the task, e.g. no_query: a model that never reads the query."
    )
    floor: bool = Field(
        False, description="Then train the floor, too: a second model with these settings, on the task's floor probe."
    )
    holdout: Share = Field(0.1, description="Share of train that is held out as dev, where the task has no such split.")
    holdout_by: Literal["auto", "cluster", "within", "row"] = Field(
        "auto", description="Held out are whole clusters, some rows of each, or rows; auto: as test differs from train."
    )
    limit: PositiveInt | None = Field(None, description="Only the first so many examples of train.")
    max_length: PositiveInt | None = Field(None, description="Longest input in tokens; what is longer is cut.")
    shuffle: Literal["epochs", "once"] = Field("epochs", description="Another order in every epoch, or one for all.")

    epochs: PositiveInt = Field(10, description="How often the examples are seen.")
    max_steps: PositiveInt | None = Field(None, description="Stop after so many steps.")
    batch_size: PositiveInt = Field(16, description="Examples of a step, of all processes together.")
    lr: PositiveFloat | None = Field(2e-5, description="The highest learning rate; none: Adafactor's own steps.")
    optimizer: Literal["adamw", "adafactor"] = Field("adamw", description="What follows the gradient.")
    betas: tuple[Share, Share] = Field((0.9, 0.999), description="Of AdamW.")
    eps: PositiveFloat = Field(1e-8, description="Of AdamW.")
    bias_correction: bool = Field(True, description="Of AdamW's moments; off as in BERT's own code.")
    weight_decay: float = Field(0.01, ge=0, description="Of weights, not of biases and norms.")
    schedule: Literal["linear", "cosine", "constant"] = Field("linear", description="How the rate falls.")
    warmup: float = Field(0.06, ge=0, description="Steps until the rate is reached; below 1 a share of all steps.")
    clip: PositiveFloat | None = Field(1.0, description="Largest norm of the gradient.")

    dropout: Share | None = Field(None, description="Everywhere in the model; by default as it was trained.")

    select_on: Literal["dev", "test", "none"] = Field(
        "dev", description="Where the best checkpoint is chosen. test, as the papers did, is said in every report."
    )
    select_by: str | None = Field(None, description="By which metric of the task, or loss.")
    evaluate_every: PositiveFloat = Field(1.0, description="Epochs between evaluations.")
    patience: PositiveInt | None = Field(3, description="Stop after so many evaluations without a better one.")
    evaluate: tuple[str, ...] | None = Field(None, description="Tasks to run in the end; by default the task itself.")

    device: str | None = Field(None, description="cpu, cuda, mps; by default the fastest there is.")
    mixed_precision: Literal["no", "bf16", "fp16"] = Field("no", description="Of the forward pass, on GPUs only.")
    compile: bool = Field(False, description="Compile the network; pays on large models and long trainings.")
    gradient_checkpointing: bool = Field(False, description="Compute activations again instead of keeping them.")
    tokens_per_batch: PositiveInt | None = Field(
        None, description="Tokens that go through the network at once; a step is gathered from as many as it takes."
    )
    lora: PositiveInt | None = Field(None, description="Train adapters of this rank instead of all weights.")
    lora_alpha: PositiveFloat | None = Field(None, description="Their scale; by default twice the rank.")
    lora_targets: tuple[str, ...] = Field((), description="Modules that get one; by default those peft knows.")
    allow_pickle: bool = Field(False, description="Also begin with weights that are no safetensors.")

    processes: PositiveInt = Field(1, description="Processes on this machine.")
    deepspeed: str | None = Field(None, description="zero2, zero3, or a configuration file of DeepSpeed.")
    fsdp: bool = Field(False, description="Shard weights with PyTorch's FSDP.")
    nodes: PositiveInt = Field(1, description="Machines.")
    node_rank: int = Field(0, ge=0, description="Which of them this is, from 0.")
    master: str | None = Field(None, description="host:port of machine 0.")
    checkpoint_every: PositiveInt | None = Field(None, description="Steps between checkpoints, beside evaluations.")
    trackers: tuple[str, ...] = Field((), description="wandb, tensorboard, mlflow … as accelerate knows them.")

    @model_validator(mode="after")
    def _consistent(self) -> TrainConfig:
        if self.lr is None and self.optimizer != "adafactor":
            raise ValueError("only adafactor sets its own steps; give --lr")
        if self.deepspeed and self.fsdp:
            raise ValueError("deepspeed and fsdp both shard the weights; choose one")
        if self.nodes > 1 and not self.master:
            raise ValueError("several nodes need --master host:port of the first")
        if self.node_rank >= self.nodes:
            raise ValueError(f"node_rank {self.node_rank} of {self.nodes} nodes; the first is 0")
        if self.floor and self.probe:
            raise ValueError("what is trained on a probe is a floor itself; leave out floor or probe")
        if self.select_on == "dev" and self.holdout == 0:
            raise ValueError("without a holdout nothing can be chosen on dev; use --select_on none")
        return self

    def identity(self) -> str:
        """Return eight hex digits over the settings that can change the weights."""
        # Keys that were added later count only if they are set, so that trainings of an earlier figeval can resume.
        late = {name for name in ("probe", "augment") if not getattr(self, name)}
        values = self.model_dump(mode="json", exclude={*ELSEWHERE, *late})
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
