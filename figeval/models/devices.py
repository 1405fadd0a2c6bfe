"""Devices: memory that runs out and what is released after it, copies, and the kernels of attention."""

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


def avoid_cudnn_attention() -> None:
    """Let torch compute attention on NVIDIA's GPUs by its other kernels (FlashAttention, memory-efficient attention).

    Recent versions of torch prefer cuDNN's on Hopper. It prepares a plan for every new shape of a batch, and each batch
    of texts, each token that is written, has a new shape. This holds for the whole process; without such a GPU it
    changes nothing.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)
