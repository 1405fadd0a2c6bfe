"""An encoder's throughput as a share of the device's rate, and its memory when batches are halved."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from figeval.errors import ModelError

from .machine import Machine
from .shapes import ROBERTA, multiply_adds, texts, write_roberta

NUMBER = {"cuda": 4_096, "cpu": 64}  # texts
WORDS = 100
HALVINGS = 3
TIGHT = 0.6  # share of the memory of a batch's activations that is left to the process
SLACK = 64 << 20  # bytes for small tensors, in case loading the model has left large blocks that are free only in part


def measure(machine: Machine, shape: str) -> dict[str, Any]:
    """Return throughput and memory for a shape of `ROBERTA`."""
    from figeval.builtin.plugins.encoders.encoder import PromptedSettings, open_encoder

    with tempfile.TemporaryDirectory() as folder:
        model = str(write_roberta(Path(folder), shape))
        dtype = str(machine.dtype).removeprefix("torch.")
        encoder = open_encoder(PromptedSettings(model=model, device=machine.device, dtype=dtype, pooling="mean"))
        asked = texts(NUMBER[machine.kind], WORDS, ROBERTA[shape]["vocab_size"])
        encoder.pooled(asked[:64])
        return {"throughput": throughput(machine, encoder, asked), "memory": memory(machine, encoder, asked)}


def throughput(machine: Machine, encoder: Any, asked: list[str]) -> dict[str, float]:
    """Return texts and tokens per second, and the share of the rate at which the device multiplies matrices.

    The share counts operations on real tokens, in the matrices of the layers only: padding, attention and tokenization
    lower it.
    """
    tokens = sum(len(text.split()) + 1 for text in asked)
    seconds = min(machine.seconds(lambda: encoder.pooled(asked)) for _ in range(2))
    operations = 2 * multiply_adds(encoder.network.model) * tokens
    return {
        "texts_per_second": len(asked) / seconds,
        "tokens_per_second": tokens / seconds,
        "share_of_rate": operations / seconds / machine.multiplications(),
    }


def memory(machine: Machine, encoder: Any, asked: list[str]) -> dict[str, Any]:
    """Return the peak memory in MiB by tokens per batch, and what happens if memory runs out."""
    whole = encoder.budget.tokens
    found: dict[str, Any] = {"mib_by_tokens": {}}
    for halvings in range(HALVINGS + 1):
        encoder.budget.tokens = whole >> halvings
        found["mib_by_tokens"][str(whole >> halvings)] = machine.peak_memory(lambda: encoder.pooled(asked))
    encoder.budget.tokens = whole
    if machine.kind == "cuda":
        found["exhausted"] = exhausted(encoder, asked, max(found["mib_by_tokens"].values()))
    return found


def exhausted(encoder: Any, asked: list[str], needed: float) -> dict[str, Any]:
    """Return how often batches are halved in too little memory, and how far vectors are from those in enough."""
    import torch

    wanted = encoder.pooled(asked).values
    torch.cuda.empty_cache()
    tight = torch.cuda.memory_allocated() + TIGHT * needed * 2**20
    room = max(tight, torch.cuda.memory_reserved() + SLACK)
    torch.cuda.set_per_process_memory_fraction(room / torch.cuda.get_device_properties(0).total_memory)
    try:
        got = encoder.pooled(asked).values
    except ModelError as error:  # the throughput is not lost by it
        return {"failed": str(error)}
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return {"halved": encoder.budget.halved, "apart": float(np.abs(got - wanted).max())}
