"""Many inputs of many lengths through a model, a batch at a time.

Sorted by length, so that hardly anything is padding; as many rows at a time as a budget of tokens allows; the budget
halved when memory runs out. Results come back in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from figeval.errors import ModelError
from figeval.types import JSON

T = TypeVar("T")

# Smallest budgets that keep the arithmetic units busy. On a CPU more only pushes activations out of its caches.
TOKENS = {"cpu": 1_024}
TOKENS_ON_ACCELERATOR = 32_768
SHARE = 4  # of free memory, one part is for activations
EXHAUSTED = ("out of memory", "not enough memory", "can't allocate memory", "cannot allocate memory")


@dataclass(slots=True)
class TokenBudget:
    """How much goes through a model at once: `tokens` after padding (longest x rows), or exactly `rows` rows."""

    tokens: int
    rows: int | None = None
    halved: int = 0

    @classmethod
    def on(cls, device: str, rows: int | None = None) -> TokenBudget:
        """The budget to begin with on a kind of device."""
        return cls(TOKENS.get(device, TOKENS_ON_ACCELERATOR), rows)

    def limit(self, memory: int, per_token: int) -> None:
        """No more tokens than take a share of free memory (bytes), whatever was fastest."""
        self.tokens = max(1, min(self.tokens, memory // SHARE // per_token))

    def fitting(self, length: int) -> int:
        """How many rows of this length go together; at least one."""
        return self.rows or max(1, self.tokens // max(1, length))

    def halve(self, rows: int, length: int) -> None:
        """Half of what was just too much.

        Raises:
            ModelError: the number of rows was prescribed, or one row alone is too much.
        """
        if self.rows is not None and rows > 1:
            raise ModelError(f"batch_size={self.rows} does not fit into memory; use --batch_size auto or a smaller one")
        if rows == 1:
            raise ModelError(f"one input of {length} tokens does not fit into memory; set max_length or another device")
        self.tokens = rows * length // 2
        self.halved += 1

    def describe(self) -> JSON:
        """What held in the end."""
        if self.rows is not None:
            return {"batch_size": self.rows}
        return {"batch_size": "auto", "tokens_per_batch": self.tokens, "halved": self.halved}


def run_batches(lengths: Sequence[int], forward: Callable[[list[int]], Iterable[T]], budget: TokenBudget) -> list[T]:
    """`result[i]` is what `forward` returned for input i.

    `forward(rows)` gets indexes of inputs of about one length and returns as many results in their order; it must be
    safe to call again for the same rows. The longest come first: what does not fit shows at once.

    Raises:
        ModelError: memory runs out and the budget cannot be halved.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    results: list[T | None] = [None] * len(lengths)
    start = 0
    while start < len(order):
        longest = lengths[order[start]]
        rows = order[start : start + budget.fitting(longest)]
        outputs = attempt(forward, rows)
        if outputs is None:
            budget.halve(len(rows), longest)
            continue
        for index, output in zip(rows, outputs, strict=True):
            results[index] = output
        start += len(rows)
    return cast("list[T]", results)  # every place is filled


def attempt(forward: Callable[[list[int]], Iterable[T]], rows: list[int]) -> Iterable[T] | None:
    """What `forward` returns, None if memory ran out; every other error is a bug and passes.

    The failed batch's tensors hang on the traceback: they are freed here, once the exception is gone.
    """
    try:
        return forward(rows)
    except (RuntimeError, MemoryError) as error:
        if not is_exhausted(error):
            raise
    release_memory()
    return None


def is_exhausted(error: Exception) -> bool:
    """Whether an exception says that memory ran out: CUDA's own class, or the words of other allocators."""
    import torch

    text = str(error).lower()
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(words in text for words in EXHAUSTED)


def free_memory(device: str) -> int:
    """Bytes that are free on a device; on kinds that do not say, what is free in the machine."""
    import psutil
    import torch

    kind = torch.device(device)
    if kind.type == "cuda":
        return int(torch.cuda.mem_get_info(kind)[0])
    return int(psutil.virtual_memory().available)


def release_memory() -> None:
    """Give cached blocks back to the device."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
