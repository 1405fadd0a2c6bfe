"""Encoder and temperature as one network. Imported where it is used: it is a subclass of torch's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch  # noqa: TID253
from torch.nn import Module, Parameter, functional  # noqa: TID253
from torch.utils.checkpoint import checkpoint  # noqa: TID253

from .._networks import COSINE, POOLINGS
from .._tokens import IDS
from ._candidates import ranking_losses
from ._inputs import inputs_of

if TYPE_CHECKING:
    from figeval.training.contract import Batch

    from .biencoder import BiencoderOptions

SHARE = 2  # of all memory, one part may be taken by activations of candidates


class BiencoderNetwork(Module):  # type: ignore[misc]
    """Losses of queries among candidates; similarities and the loss are computed in float32."""

    def __init__(self, encoder: Any, pooling: str, options: BiencoderOptions) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = POOLINGS[pooling]
        self.cosine = options.similarity == COSINE
        self.caching = options.caching
        degree = torch.tensor([options.degree]).log()  # (1,): a scalar cannot be sharded
        self.log_temperature = Parameter(degree, requires_grad=options.learn_temperature)

    def forward(self, batches: Sequence[Batch], beside: Sequence[Batch]) -> Any:
        """Losses (rows,) of the rows of all batches."""
        with self.economical(self.vectors, batches, beside) as encode:
            queries = torch.cat([encode(batch) for batch in batches])
            candidates = torch.cat([encode(batch) for batch in beside])
        return self.ranked(queries, candidates, batches, beside)

    def ranked(self, queries: Any, candidates: Any, batches: Sequence[Batch], beside: Sequence[Batch]) -> Any:
        """Losses (rows,) from the vectors of all queries and candidates, (rows, d) and (candidates, d)."""
        with torch.autocast(queries.device.type, enabled=False):
            logits = queries @ candidates.T / self.log_temperature.exp()
            return ranking_losses(logits, torch.cat([batch["columns"] for batch in beside]), filled(batches))

    def vectors(self, batch: Batch) -> Any:
        """Vectors (rows, d) in float32, of length 1 for cosines."""
        return self.scaled(self.pooled(inputs_of(batch)))

    def pooled(self, batch: dict[str, Any]) -> Any:
        """What comes out of the encoder, pooled."""
        output = self.encoder(**batch, return_dict=True)
        return self.pooling(output.last_hidden_state, batch["attention_mask"], output)

    def scaled(self, vectors: Any) -> Any:
        """In float32, of length 1 for cosines."""
        found = vectors.float()
        return functional.normalize(found, dim=-1) if self.cosine else found

    @contextmanager
    def economical(
        self, compute: Callable[[Batch], Any], batches: Sequence[Batch], beside: Sequence[Batch]
    ) -> Iterator[Callable[[Batch], Any]]:
        """The same function, for use in this context.

        Where activations would not fit, they are computed again, with the same random numbers, when gradients come
        back. So only one batch's are in memory at a time, however many candidates there are (Gao et al. 2021).
        """
        if self.crowded(beside):
            yield partial(checkpoint, compute, use_reentrant=False)
        else:
            with looked_up_once(self.encoder.get_input_embeddings(), [*batches, *beside]):
                yield compute

    def crowded(self, beside: Sequence[Batch]) -> bool:
        """Whether activations of all candidates would not fit: alike in all processes, which wait for each other."""
        if self.caching != "auto":
            return self.caching == "on"
        tokens = sum(batch["input_ids"].numel() for batch in beside)
        return bool(tokens * self.bytes_per_token() > memory_of(self.log_temperature.device) // SHARE)

    def bytes_per_token(self) -> int:
        """About what a layer keeps for its gradient (Korthikanti et al. 2022, eq. 1, without attention maps)."""
        config = self.encoder.config
        return 4 * 17 * int(config.hidden_size) * int(config.num_hidden_layers)


def memory_of(device: Any) -> int:
    """Bytes that a process may call its own on a device, used or not."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    import psutil

    return int(psutil.virtual_memory().total) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


@contextmanager
def looked_up_once(embeddings: Any, batches: Sequence[Batch]) -> Iterator[None]:
    """Let all batches take their word vectors from one lookup of the words among them.

    The gradient of a lookup is as large as the vocabulary; one for every batch costs as much as a layer does.
    """
    if hasattr(embeddings.weight, "full_tensor"):  # a part of it: FSDP has the whole only while its layer is at work
        yield
        return
    ids = torch.cat([tensor.flatten() for batch in batches for name, tensor in batch.items() if name.endswith(IDS)])
    words = ids.unique()
    table = embeddings(words)

    def from_table(_module: Any, inputs: Any, _output: Any) -> Any:
        return table[torch.searchsorted(words, inputs[0])]

    hook = embeddings.register_forward_hook(from_table)
    try:
        yield
    finally:
        hook.remove()


def filled(batches: Sequence[Batch]) -> Any:
    """The right candidates of all rows (rows, k), filled up with -1."""
    golds = [batch["golds"] for batch in batches]
    most = max(rows.shape[1] for rows in golds)
    return torch.cat([functional.pad(rows, (0, most - rows.shape[1]), value=-1) for rows in golds])
