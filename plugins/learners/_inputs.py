"""Batches as learners make them: what a model reads, among what its losses need; numbers in rows of one length."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._tokens import IDS, TYPES

if TYPE_CHECKING:
    from figeval.training.contract import Batch

READ = (IDS, TYPES, "attention_mask")


class Alone:
    """Features of examples that are read beside nothing, each of which counts alike."""

    lengths: Sequence[int]

    @cached_property
    def weights(self) -> list[float]:
        """1 for every row."""
        return [1.0] * len(self.lengths)

    def beside(self, rows: Sequence[int]) -> list[Batch]:  # noqa: ARG002
        """Nothing."""
        return []


def inputs_of(batch: Batch, prefix: str = "") -> dict[str, Any]:
    """What the model reads of a batch; a second kind of inputs stands under names with a prefix."""
    return {name: batch[prefix + name] for name in READ if prefix + name in batch}


def rectangle(rows: Sequence[Sequence[int]]) -> Any:
    """Numbers as a tensor (rows, longest), filled up with -1."""
    import torch

    most = max(map(len, rows))
    return torch.tensor([[*row, *[-1] * (most - len(row))] for row in rows])
