"""The interface of a learner, the only part of a training that differs between task types.

examples ──features──▶ token ids ──batch──▶ tensors ──network──▶ a loss per example
                                                        │
                         checkpoint ◀──save──────────── ┴ ──backend──▶ capabilities, for scores on dev
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from figeval.types import JSON, Example

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

WITHOUT_PADDING = "reads_without_padding"  # attribute of a network's module (see `Learner.network`)
Batch: TypeAlias = "dict[str, Tensor]"
"""Tensors by name; the first axis of each is the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Arguments of a learner's factory: the model to start from, and the settings for the learner.

    `labels` are those of a pairs task. `device` is where the network will run; the learner leaves it on the CPU.
    """

    model: str
    options: Mapping[str, object] = field(default_factory=dict)  # --head_args
    labels: tuple[str, ...] = ()
    max_length: int | None = None
    tokens_per_batch: int | None = None
    gradient_checkpointing: bool = False
    dropout: float | None = None  # None: as in the model's configuration
    allow_pickle: bool = False
    seed: int = 0
    device: str = "cpu"


class Features(Protocol):
    """The examples of one split, tokenised once. Row i is example i.

    `lengths[i]` is its number of tokens: rows of similar length go through the network together. `weights[i]` is the
    divisor of its loss: 1, or its number of target tokens if the mean is over tokens. If rows are pieces of texts and
    not examples, an attribute `ids` has their names, for messages. If `beside` returns batches, an attribute `plan`
    (`figeval.wings.training.batch_plans.BatchPlan`) divides them; the loop sets it.
    """

    lengths: Sequence[int]
    weights: Sequence[float]
    truncated: int  # inputs that were longer than the model reads

    def batch(self, rows: Sequence[int], draw: int) -> Batch:
        """Return the rows as tensors on the CPU. Random choices (masks) depend on `draw` and the row alone."""
        ...

    def beside(self, rows: Sequence[int]) -> list[Batch]:
        """Return the inputs that all rows of a step share (its candidates), in batches of similar length; usually none.

        If there are any, all batches of a step go through the network in one call.
        """
        ...


class Learner(Protocol):
    """A head on a model, with its loss. It is made by a factory that is registered for a task type.

    `select_by` is "loss" if scores on dev are expensive or do not exist, and None for the task's metrics. A learner
    whose features do not come from the examples has a method `held_out(examples)`, which returns the features of dev.
    A learner of plain texts has a method `texts(examples)`, which returns all of them for the record of what the model
    has seen. An attribute `warnings` has lines to be printed before the first step; `prompts_by_role` is what the model
    reads before texts, which must be the same when a training is resumed.

    An attribute `offers` has the capabilities of the trained model, so that a task of `--evaluate` which it cannot
    answer is refused before the training. A learner whose model cannot read some examples, because a part that may not
    be cut fills its input, has a method `overlong(examples)`: it returns, by the index of each, why.
    """

    select_by: str | None

    def network(self) -> Module:
        """Return a fresh `torch.nn.Module` with weights on the CPU, in float32, in training mode.

        `network(batches, beside)` returns the losses (rows,) of all batches in float32, each summed over the units
        that `Features.weights` counts. It draws random numbers from torch, so that a step can be repeated. An
        attribute `fresh` of the network lists the new children of a pretrained model, which get no adapters; a true
        attribute `reads_without_padding` of one of its modules says, once a batch was read, that padding takes no time.
        """
        ...

    def features(self, examples: Sequence[Example]) -> Features:
        """Tokenise the examples.

        Raises:
            FigevalError: an example cannot be learnt from.
        """
        ...

    def backend(self, network: Module) -> object:
        """Return the network as a model with capabilities (`figeval.models.capabilities`), without copying weights."""
        ...

    def save(self, network: Module, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Write the files for `figeval run --model FOLDER`, in safetensors; return what figeval.json declares.

        `weights` is the full state dict of the network, on the CPU, gathered from all shards.
        """
        ...

    def describe(self) -> JSON:
        """Return the learner's entries in the record: head, pooling, similarity, truncation …"""
        ...
