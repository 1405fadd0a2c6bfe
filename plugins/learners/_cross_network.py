"""A classifier on pairs of texts as one network. Imported where it is used: it is a subclass of torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch  # noqa: TID253
from torch.nn import Module, functional  # noqa: TID253

from ._candidates import ranking_losses
from ._inputs import inputs_of

if TYPE_CHECKING:
    from figeval.training.contract import Batch


class CrossNetwork(Module):  # type: ignore[misc]
    """Losses of what a classifier says of pairs; `losses(logits, batch)` is in float32."""

    def __init__(self, model: Any, losses: Callable[[Any, Batch], Any]) -> None:
        super().__init__()
        self.model = model
        self.losses = losses

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Any:  # noqa: ARG002 - there is nothing
        """Losses (rows,) of the rows of all batches."""
        return torch.cat([self.losses(self.model(**inputs_of(batch)).logits.float(), batch) for batch in batches])


def class_losses(logits: Any, batch: Batch) -> Any:
    """-log of the probability of the right class (rows,), from logits (rows, classes)."""
    return functional.cross_entropy(logits, batch["classes"], reduction="none")


def option_losses(logits: Any, batch: Batch) -> Any:
    """-log of the probability of the right option among those of its example (rows,), from logits (pairs, 1).

    `pairs` (rows, k) are the pairs of every example and `golds` the places of the right ones, filled up with -1.
    """
    nothing = logits.new_full((1,), float("-inf"))  # the last: where -1 points to
    scores = torch.cat((logits[:, 0], nothing))[batch["pairs"]]
    return ranking_losses(scores, torch.arange(scores.shape[1], device=scores.device), batch["golds"])
