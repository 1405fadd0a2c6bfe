"""What a learner is: the one thing that differs between tasks, seen from the loop.

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

Batch: TypeAlias = "dict[str, Tensor]"  # the first axis are rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a learner is made from: the model to begin with, and what of the config concerns it.

    `labels` are those of a pairs task. `device` is where the network will be; the learner leaves it on the CPU.
    """

    model: str
    options: Mapping[str, object] = field(default_factory=dict)  # --head_args
    labels: tuple[str, ...] = ()
    max_length: int | None = None
    tokens_per_batch: int | None = None
    gradient_checkpointing: bool = False
    dropout: float | None = None  # None: as the model's configuration has it
    allow_pickle: bool = False
    seed: int = 0
    device: str = "cpu"


class Features(Protocol):
    """The examples of one split, tokenised once. Row i is example i.

    `lengths[i]` are its tokens: rows of like length go through the network together. `weights[i]` is what its loss is
    divided by: 1, or its target tokens where the mean is over tokens. Where rows are not examples (pieces of texts),
    they bring names for messages, `ids`.
    """

    lengths: Sequence[int]
    weights: Sequence[float]
    truncated: int  # inputs that were longer than the model reads

    def batch(self, rows: Sequence[int], draw: int) -> Batch:
        """The rows as tensors on the CPU. What is drawn (masks) depends on `draw` and the row alone."""
        ...

    def beside(self, rows: Sequence[int]) -> list[Batch]:
        """What all rows of a step are read beside (its candidates), in batches of like length; mostly nothing.

        Where there is something, all batches of a step go through the network in one call.
        """
        ...


class Learner(Protocol):
    """A head on a model, and how it learns. Made by a factory that was registered for a task type.

    `select_by` is "loss" where a score on dev is dear or there is none, else None: the task's metrics. A learner whose
    features do not come from the examples has `held_out(examples)`, the features of dev. One that reads plain texts has
    `texts(examples)`, all that it reads: whoever asks about one of them later asks about something that was seen.
    """

    select_by: str | None

    def network(self) -> Module:
        """A fresh `torch.nn.Module` with weights on the CPU, in float32, in training mode.

        `network(batches, beside)` gives the losses (rows,) of the rows of all batches, in float32, summed over what
        `Features.weights` counts. Its random numbers are torch's, so that a step can be repeated. Where a child of a
        pretrained model is new, an attribute `fresh` of the network has its name: adapters leave it alone.
        """
        ...

    def features(self, examples: Sequence[Example]) -> Features:
        """The examples, tokenised. Raises `FigevalError` for one that cannot be learnt from."""
        ...

    def backend(self, network: Module) -> object:
        """The network as a model with capabilities (`figeval.models.capabilities`), no weights copied."""
        ...

    def save(self, network: Module, weights: Mapping[str, Tensor], folder: Path) -> JSON:
        """Write what `figeval run --model FOLDER` reads, in safetensors; return what figeval.json is to declare.

        `weights` is the whole state dict of the network, on the CPU, whatever shards it was gathered from.
        """
        ...

    def describe(self) -> JSON:
        """What the record says of it: head, pooling, similarity, what was cut …"""
        ...
