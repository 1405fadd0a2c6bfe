"""Memory that runs out: how such an error is recognised, and what is released after it; and copies to a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    import torch
    from torch import Tensor

P = ParamSpec("P")
T = TypeVar("T")

# Words of allocators, in lower case: torch's on every device, those of the system, and CUDA's libraries for themselves.
EXHAUSTED = (
    *("out of memory", "not enough memory", "allocate memory", "allocation on device", "bad_alloc"),
    *("memory exhausted", "allocation failed", "_alloc_failed"),
)


def is_exhausted(error: BaseException) -> bool:
    """Return whether an exception means that memory ran out, on a device or on the host."""
    import torch

    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in EXHAUSTED)


def attempt(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return the result of a call, or None if memory ran out; any other error propagates.

    The traceback keeps the tensors of the failed call alive, so memory is released only once the exception is gone.
    """
    try:
        return call(*args, **kwargs)
    except (RuntimeError, MemoryError) as error:
        if not is_exhausted(error):
            raise
    release_memory()
    return None


def release_memory() -> None:
    """Return cached memory blocks to the devices."""
    import gc

    import torch

    gc.collect()
    torch.cuda.empty_cache()  # nothing happens before CUDA is used
    torch.xpu.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()


def copy_to(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Copy a tensor from the host to a device; from pinned memory, the host does not wait for CUDA's copy."""
    import torch

    if torch.device(device).type != "cuda":
        return tensor.to(device)
    try:
        return tensor.pin_memory().to(device, non_blocking=True)
    except RuntimeError:  # systems limit the memory that can be pinned; any other error comes again
        return tensor.to(device)
