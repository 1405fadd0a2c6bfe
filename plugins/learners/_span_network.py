"""A question-answering model as one network. Imported where it is used: it is a subclass of torch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch  # noqa: TID253
from torch.nn import Module  # noqa: TID253

from ._inputs import inputs_of
from ._span_targets import span_losses

if TYPE_CHECKING:
    from figeval.training.contract import Batch


class SpanNetwork(Module):  # type: ignore[misc]
    """Losses of start and end, added up."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Any:  # noqa: ARG002 - there is nothing
        """Losses (rows,) of the rows of all batches."""
        return torch.cat([self.losses(batch) for batch in batches])

    def losses(self, batch: Batch) -> Any:
        """Those of one batch."""
        output = self.model(**inputs_of(batch))
        logits = torch.stack((output.start_logits, output.end_logits), dim=-1)
        return span_losses(logits, batch["searched"], batch["answers"]).sum(-1)
