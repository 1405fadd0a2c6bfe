"""An encoder's throughput as a share of the device's rate, and its memory when batches are halved.

The same texts are read as figeval reads them, without its means one by one (padded, steps one after the other, one
thread of the tokenizer), by bare forward passes on batches that lie ready on the device, and by the `encode` of
sentence-transformers, whose fastest size of a batch counts.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from figeval.errors import ModelError

from .machine import Machine
from .shapes import ROBERTA, multiply_adds, texts, write_roberta

TEXTS = {"cuda": 4_096, "cpu": 64}  # number of texts
WORDS = 100
REPEATS = 2
BATCH_SIZES = {"cuda": (64, 128, 256), "cpu": (32,)}  # of sentence-transformers
HALVINGS = 3
TIGHT_SHARE = 0.6  # share of the memory of a batch's activations that is left to the process
SLACK_BYTES = 64 << 20  # for small tensors, in case loading the model has left large blocks that are free only in part
PARALLELISM = "TOKENIZERS_PARALLELISM"


def measure(machine: Machine, shape: str) -> dict[str, Any]:
    """Return throughput and memory for a shape of `ROBERTA`."""
    from figeval.builtin.plugins.encoders.encoder import PromptedSettings, open_encoder

    with tempfile.TemporaryDirectory() as folder:
        model = str(write_roberta(Path(folder), shape))
        dtype = str(machine.dtype).removeprefix("torch.")
        encoder = open_encoder(PromptedSettings(model=model, device=machine.device, dtype=dtype, pooling="mean"))
        inputs = texts(TEXTS[machine.kind], WORDS, ROBERTA[shape]["vocab_size"])
        vectors = encoder.pool_texts(inputs[:64]).values
        rates = Rates(machine, inputs, multiply_adds(encoder.network.model))
        return {
            "throughput": rates.of(lambda: encoder.pool_texts(inputs)),
            "padding": encoder.describe().get("padding"),
            "ways": ways(rates, encoder),
            "sentence_transformers": peer(rates, model, vectors),
            "memory": memory(machine, encoder, inputs),
        }


class Rates:
    """Rates at which some texts are read.

    The share of the device's rate counts operations on real tokens, in the matrices of the layers only: padding,
    attention and tokenization lower it.
    """

    def __init__(self, machine: Machine, inputs: list[str], operations: int) -> None:
        self.machine, self.inputs, self.operations = machine, inputs, 2 * operations
        self.tokens = sum(len(text.split()) + 1 for text in inputs)

    def of(self, read: Callable[[], object]) -> dict[str, float]:
        """Return texts and tokens per second, and the share of the rate at which the device multiplies matrices."""
        seconds = min(self.machine.seconds(read) for _ in range(REPEATS))
        return {
            "texts_per_second": len(self.inputs) / seconds,
            "tokens_per_second": self.tokens / seconds,
            "share_of_rate": self.operations * self.tokens / seconds / self.machine.multiplications(),
        }


def ways(rates: Rates, encoder: Any) -> dict[str, dict[str, float]]:
    """Return the rates of reading without one of the means that make it fast, and of forward passes alone."""

    def read() -> object:
        return encoder.pool_texts(rates.inputs)

    forward = forward_passes(encoder, rates.inputs)
    figures = {"forward_passes": rates.of(forward)}
    with padded(encoder.network.model):
        figures |= {"padded": rates.of(read), "forward_passes, padded": rates.of(forward)}
    encoder.overlap, before = False, encoder.overlap
    figures["one step after the other"] = rates.of(read)
    encoder.overlap = before
    with one_tokenizer_thread():
        figures["one tokenizer thread"] = rates.of(read)
    return figures


def forward_passes(encoder: Any, inputs: list[str]) -> Callable[[], None]:
    """Return what reads all texts in figeval's batches, which lie ready on the device."""
    from figeval.builtin.plugins.torch_models.batching import finished_batches
    from figeval.builtin.plugins.torch_models.overlapping import copy_batch
    from figeval.builtin.plugins.torch_models.tokens import tokenize

    network, device = encoder.network, encoder.setup.device
    tokens = tokenize(network.tokenizer, inputs, network.limit)
    ready: list[dict[str, Any]] = []

    def keep(rows: list[int]) -> list[int]:
        ready.append(copy_batch(tokens.on_host(rows), device))
        return rows

    list(finished_batches(tokens.lengths, keep, encoder.budget))

    def read() -> None:
        with torch.inference_mode():
            for batch in ready:
                network.vectors(batch)

    return read


@contextmanager
def padded(model: Any) -> Iterator[None]:
    """Let a model read padded rows in this context."""
    from figeval.builtin.plugins.torch_models.unpadded import READER

    reader = getattr(model, READER, None)
    before = getattr(reader, "kernels", {})
    if before:
        reader.kernels = {}
    try:
        yield
    finally:
        if before:
            reader.kernels = before


@contextmanager
def one_tokenizer_thread() -> Iterator[None]:
    before = os.environ.get(PARALLELISM)
    os.environ[PARALLELISM] = "false"
    try:
        yield
    finally:
        del os.environ[PARALLELISM]
        if before is not None:
            os.environ[PARALLELISM] = before


def peer(rates: Rates, model: str, vectors: Any) -> dict[str, Any]:
    """Return the rates of sentence-transformers, and how far its vectors are from the given first ones."""
    from sentence_transformers import SentenceTransformer

    machine = rates.machine
    theirs = SentenceTransformer(model, device=machine.device, model_kwargs={"dtype": machine.dtype})

    def encode(inputs: list[str], size: int) -> Any:
        return theirs.encode(inputs, batch_size=size, show_progress_bar=False)

    difference = float(np.abs(encode(rates.inputs[: len(vectors)], len(vectors)) - vectors).max())
    by_size = {size: rates.of(lambda size=size: encode(rates.inputs, size)) for size in BATCH_SIZES[machine.kind]}
    best = max(by_size, key=lambda size: by_size[size]["texts_per_second"])
    return {**by_size[best], "batch_size": best, "apart": difference}


def memory(machine: Machine, encoder: Any, inputs: list[str]) -> dict[str, Any]:
    """Return the peak memory in MiB by tokens per batch, and what happens if memory runs out."""
    batch_tokens = encoder.budget.tokens
    figures: dict[str, Any] = {"mib_by_tokens": {}}
    for halvings in range(HALVINGS + 1):
        encoder.budget.tokens = batch_tokens >> halvings
        figures["mib_by_tokens"][str(batch_tokens >> halvings)] = machine.peak_memory(
            lambda: encoder.pool_texts(inputs)
        )
    encoder.budget.tokens = batch_tokens
    if machine.kind == "cuda":
        figures["exhausted"] = exhausted(encoder, inputs, max(figures["mib_by_tokens"].values()))
    return figures


def exhausted(encoder: Any, inputs: list[str], needed: float) -> dict[str, Any]:
    """Return how often batches are halved in too little memory, and how far vectors are from those in enough."""
    import torch

    expected = encoder.pool_texts(inputs).values
    torch.cuda.empty_cache()
    tight = torch.cuda.memory_allocated() + TIGHT_SHARE * needed * 2**20
    room = max(tight, torch.cuda.memory_reserved() + SLACK_BYTES)
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        vectors = encoder.pool_texts(inputs).values
    except ModelError as error:  # the throughput is not lost by it
        return {"failed": str(error)}
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return {"halved": encoder.budget.halved, "apart": float(np.abs(vectors - expected).max())}
