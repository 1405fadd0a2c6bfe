"""Encoder, temperature and span branch as one network. Imported where it is used: it is a subclass of torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch  # noqa: TID253

from .._span_branch import branch_logits
from ._biencoder_network import BiencoderNetwork
from ._inputs import inputs_of
from ._span_targets import span_losses

if TYPE_CHECKING:
    from figeval.training.contract import Batch

    from .joint import JointOptions

GIVEN = "given."  # before the names of what the given spans are read from


class JointNetwork(BiencoderNetwork):
    """Losses of queries among candidates, and of the spans in them."""

    def __init__(self, encoder: Any, branch: Any, pooling: str, options: JointOptions) -> None:
        super().__init__(encoder, pooling, options)
        self.branch = branch
        self.activation = options.activation
        self.shares = options.shares

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Any:
        """Losses (rows,) of the rows of all batches: that of the candidate, and the mean of those of its spans."""
        with self.economical(self.read, batches, beside) as read:
            queries, spans = zip(*map(read, batches), strict=True)
        with self.economical(self.vectors, [], beside) as encode:
            candidates = torch.cat([encode(batch) for batch in beside])
        ranked = self.ranked(torch.cat(queries), candidates, batches, beside)
        return self.shares[0] * ranked + torch.cat(spans)

    def read(self, batch: Batch) -> tuple[Any, Any]:
        """Vectors of the queries (rows, d), to be ranked by, and the losses of their spans (rows,)."""
        inputs, owners = inputs_of(batch), batch["owners"]
        output = self.encoder(**inputs, return_dict=True)
        states = output.last_hidden_state
        vectors = self.scaled(self.pooling(states, inputs["attention_mask"], output))
        given = self.pooled(inputs_of(batch, GIVEN)).to(states.dtype)
        logits = branch_logits(self.branch, states[owners], given, self.activation)
        losses = span_losses(logits, batch["searched"][owners], batch["answers"])
        weighed = (self.shares[1] * losses[:, 0] + self.shares[2] * losses[:, 1]) * batch["weights"]
        return vectors, weighed.new_zeros(len(states)).index_add(0, owners, weighed)
