"""Functions that the heads of language models share: rows of tokens and labels, and the cross-entropy of the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from torch.nn import functional

from ..causal.engine.encoder_decoder import IGNORED
from ..encoders.masked import masked_logits
from ..torch_models.tokens import IDS, pad
from .inputs import BatchLosses

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from figeval.models.learner import Batch

LABELS = "labels"  # the token to be predicted at a position, or IGNORED
DECODER_IDS = "decoder_input_ids"

Row = Mapping[str, Sequence[int]]  # IDS, LABELS, and WRITTEN if there is a decoder


def batch_of(rows: Sequence[Row], padding: int) -> Batch:
    """Return rows as tensors (rows, longest) with labels padded with IGNORED, and the attention mask of the inputs."""
    batch = {}
    for name in rows[0]:
        batch[name], mask = pad([row[name] for row in rows], IGNORED if name == LABELS else padding, "cpu")
        if name == IDS:
            batch["attention_mask"] = mask
    return batch


def length(row: Row) -> int:
    """Return the number of tokens that go through the network."""
    return len(row[IDS]) + len(row.get(DECODER_IDS, ()))


def weight(row: Row) -> float:
    """Return the number of targets of a row: the loss is the mean over targets."""
    return float(sum(label != IGNORED for label in row[LABELS]))


def encoder_decoder_row(read: Sequence[int], target: Sequence[int], start: int) -> Row:
    """Return the row of an encoder-decoder; in training, a token is predicted from the right ones before it."""
    return {IDS: read, DECODER_IDS: [start, *target[:-1]], LABELS: target}


class LanguageNetwork(BatchLosses):
    """Network that computes -Σ log P(label) over the labels of a row, in float32.

    With `sparse`, the model's head runs only at positions with labels. `options` are passed to the model.
    """

    def __init__(self, model: PreTrainedModel, *, sparse: bool = False, **options: bool) -> None:
        super().__init__(model)
        self.sparse = sparse
        self.options = options

    def losses(self, batch: Batch) -> Tensor:
        """Return losses (rows,) of one batch."""
        labels = batch[LABELS]
        rows, columns = (labels != IGNORED).nonzero(as_tuple=True)
        inputs: dict[str, Tensor | bool] = {name: tensor for name, tensor in batch.items() if name != LABELS}
        logits = masked_logits(self.model, inputs | self.options, rows, columns, sparse=self.sparse)
        losses = functional.cross_entropy(logits.float(), labels[rows, columns], reduction="none")
        return losses.new_zeros(labels.shape).index_put((rows, columns), losses).sum(1)
