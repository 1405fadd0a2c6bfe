"""Batching of inputs of different lengths.

Inputs are sorted by length, so that there is hardly any padding. Each batch holds as many rows as a token budget
allows, and the budget is halved when memory runs out. Results come back in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from figeval.errors import ModelError
from figeval.io.observer import report_share
from figeval.models.devices import attempt as attempt
from figeval.models.devices import release_memory as release_memory
from figeval.types import JSON

T = TypeVar("T")

# Smallest budgets that keep the arithmetic units busy. On a CPU, a larger one only evicts activations from the caches.
MAX_TOKENS = {"cpu": 1_024}
MAX_TOKENS_ON_ACCELERATOR = 32_768
# Budgets for writing, in tokens whose keys and values are kept (prompt and text): a step computes one token per row.
MAX_KEPT_TOKENS = {"cpu": 16_384}
MAX_KEPT_TOKENS_ON_ACCELERATOR = 131_072
MEMORY_DIVISOR = 4  # activations may use one part in this many of the free memory


@dataclass(slots=True)
class TokenBudget:
    """Size of a batch: at most `tokens` after padding (longest input x rows), or exactly `rows` rows."""

    tokens: int
    rows: int | None = None
    halved: int = 0

    @classmethod
    def on(cls, device: str, rows: int | None = None) -> TokenBudget:
        """Start from the usual budget for a kind of device."""
        return cls(MAX_TOKENS.get(device, MAX_TOKENS_ON_ACCELERATOR), rows)

    @classmethod
    def for_writing(cls, device: str, rows: int | None = None) -> TokenBudget:
        """Return the initial budget for generating texts on a kind of device."""
        return cls(MAX_KEPT_TOKENS.get(device, MAX_KEPT_TOKENS_ON_ACCELERATOR), rows)

    def limit(self, memory: int, per_token: int) -> None:
        """Lower the budget so that a batch fits into a share of the free memory (in bytes)."""
        self.tokens = max(1, min(self.tokens, memory // MEMORY_DIVISOR // per_token))

    def fitting(self, length: int) -> int:
        """Return the number of rows of this length that go into one batch; at least 1."""
        return self.rows or max(1, self.tokens // max(1, length))

    def halve(self, rows: int, length: int) -> None:
        """Set the budget to half of the batch that did not fit.

        Raises:
            ModelError: the number of rows was set by the user, or a single row does not fit.
        """
        if self.rows is not None and rows > 1:
            raise ModelError(f"batch_size={self.rows} does not fit into memory; use --batch_size auto or a smaller one")
        if rows == 1:
            raise ModelError(f"one input of {length} tokens does not fit into memory; set max_length or another device")
        self.tokens = rows * length // 2
        self.halved += 1

    def describe(self) -> JSON:
        """Return the final batch size or token budget."""
        if self.rows is not None:
            return {"batch_size": self.rows}
        return {"batch_size": "auto", "tokens_per_batch": self.tokens, "halved": self.halved}


def run_batches(
    lengths: Sequence[int],
    forward: Callable[[list[int]], Iterable[T]],
    budget: TokenBudget,
    report: Callable[[float], None] | None = report_share,
) -> list[T]:
    """Run `forward` on batches of inputs and return one result per input, in the order of the inputs.

    `forward(rows)` gets indexes of inputs of similar length and returns as many results in their order; it must be safe
    to call again with the same rows. The longest inputs come first, so that running out of memory shows at once.
    `report` receives the share of all tokens that a batch had; by default, this is the progress of the model's call.

    Raises:
        ModelError: memory runs out and the budget cannot be halved.
    """
    results: list[T | None] = [None] * len(lengths)
    all_tokens = max(1, sum(lengths))
    for rows, outputs in finished_batches(lengths, forward, budget):
        for index, output in zip(rows, outputs, strict=True):
            results[index] = output
        if report is not None:
            report(sum(lengths[row] for row in rows) / all_tokens)
    return cast("list[T]", results)  # every place is filled by now


def finished_batches(
    lengths: Sequence[int],
    forward: Callable[[list[int]], Iterable[T]],
    budget: TokenBudget,
) -> Iterator[tuple[list[int], Iterable[T]]]:
    """Run `forward` like `run_batches`, and yield each batch with its results as soon as it is computed.

    Raises:
        ModelError: memory runs out and the budget cannot be halved.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        rows = order[start : start + budget.fitting(longest)]
        outputs = attempt(forward, rows)
        if outputs is None:
            budget.halve(len(rows), longest)
            continue
        start += len(rows)
        yield rows, outputs


def free_memory(device: str) -> int:
    """Return the free memory of a device in bytes; for devices that do not report it, that of the machine."""
    import psutil
    import torch

    kind = torch.device(device)
    if kind.type == "cuda":
        return int(torch.cuda.mem_get_info(kind)[0])
    return int(psutil.virtual_memory().available)
