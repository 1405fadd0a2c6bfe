"""Functions that the heads on encoders share: batches without context, gold answers, and the ranking loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch.nn import Module

from figeval.errors import TrainError

from ..torch_models.tokens import IDS, TYPES

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from figeval.models.learner import Batch
    from figeval.task_types.choice import ChoiceExample
    from figeval.task_types.pairs import PairExample

    from ..classification.classification import ClassificationExample

INPUT_NAMES = (IDS, TYPES, "attention_mask")


class IndependentFeatures:
    """Base class of features whose examples are read independently and weigh the same."""

    lengths: Sequence[int]

    @cached_property
    def weights(self) -> list[float]:
        """Weight 1 for every row."""
        return [1.0] * len(self.lengths)

    def beside(self, rows: Sequence[int]) -> list[Batch]:  # noqa: ARG002
        return []


class BatchLosses(Module, ABC):  # type: ignore[misc]
    """Base class of networks that compute losses batch by batch."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    @abstractmethod
    def losses(self, batch: Batch) -> Tensor:
        """Return losses (rows,) of one batch."""

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Tensor:  # noqa: ARG002 - there is nothing
        """Return losses (rows,) of the rows of all batches."""
        return torch.cat([self.losses(batch) for batch in batches])


def inputs_of(batch: Batch, prefix: str = "") -> dict[str, Tensor]:
    """Return the model's inputs in a batch; a second set of inputs has names with a prefix."""
    return {name: batch[prefix + name] for name in INPUT_NAMES if prefix + name in batch}


def gold_of(example: ChoiceExample) -> int:
    """Return the right option. Raises `TrainError` if it is hidden."""
    if example.gold is None:
        raise TrainError(f"{example.id} has no right option to learn from; leave it out of the train split")
    return example.gold


def class_of(example: PairExample | ClassificationExample, behind: Mapping[str, Sequence[int]]) -> int:
    """Return the first class of an example's label. Raises `TrainError` if the label is hidden."""
    if example.label is None:
        raise TrainError(f"{example.id} has no label to learn from; leave it out of the train split")
    return behind[example.label][0]


def rectangle(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return numbers as a tensor (rows, longest), padded with -1."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[-1] * (width - len(row))] for row in rows])


def ranking_losses(logits: Tensor, columns: Tensor, golds: Tensor) -> Tensor:
    """Return -log P(right candidates) per row (rows,), from logits (rows, columns).

    `columns` are the numbers of the candidates, `golds` (rows, k) those of the right ones, padded with -1.
    """
    right = (golds.unsqueeze(-1) == columns).any(dim=1)
    return logits.logsumexp(dim=-1) - logits.masked_fill(~right, float("-inf")).logsumexp(dim=-1)
