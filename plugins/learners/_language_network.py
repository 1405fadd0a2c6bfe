"""What language models are trained by: the cross-entropy of the tokens that are to be predicted.

Imported where a network is made: a module of torch is a subclass of torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch  # noqa: TID253
from torch.nn import Module, functional  # noqa: TID253

from .._encdec import IGNORED
from ..masked import masked_logits
from ._language import LABELS

if TYPE_CHECKING:
    from figeval.training.contract import Batch


class LanguageNetwork(Module):  # type: ignore[misc]
    """-Σ log P(label) over the labels of a row, in float32.

    `sparse`: the head of the model is run where there are labels, and nowhere else. `options` are the model's.
    """

    def __init__(self, model: Any, *, sparse: bool = False, **options: Any) -> None:
        super().__init__()
        self.model = model
        self.sparse = sparse
        self.options = options

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Any:  # noqa: ARG002
        """Losses (rows,) of the rows of all batches."""
        return torch.cat([self.losses(batch) for batch in batches])

    def losses(self, batch: Batch) -> Any:
        """Losses (rows,) of one batch."""
        labels = batch[LABELS]
        rows, columns = (labels != IGNORED).nonzero(as_tuple=True)
        inputs = {name: tensor for name, tensor in batch.items() if name != LABELS}
        logits = masked_logits(self.model, inputs | self.options, rows, columns, sparse=self.sparse)
        losses = functional.cross_entropy(logits.float(), labels[rows, columns], reduction="none")
        return losses.new_zeros(labels.shape).index_put((rows, columns), losses).sum(1)
