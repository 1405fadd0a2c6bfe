"""Memory that runs out is recognised whoever says so, and nothing else is taken for it."""

from __future__ import annotations

import pytest
import torch

from figeval.models.devices import attempt


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        torch.OutOfMemoryError("Allocation on device 0 would exceed allowed memory."),
        RuntimeError("Allocation on device"),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9.05 GB)"),
        RuntimeError("XPU out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::40"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 40 bytes"),
        RuntimeError("std::bad_alloc"),
        MemoryError(),
    ],
    ids=str,
)
def test_memory_that_ran_out_is_no_result(error: Exception) -> None:
    def call(size: int) -> int:
        if size > 1:
            raise error
        return size

    assert attempt(call, 2) is None
    assert attempt(call, size=1) == 1


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("The size of tensor a (49) must match the size of tensor b (48)"),
        torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
        ValueError("this text is about being out of memory"),
    ],
    ids=str,
)
def test_any_other_error_propagates(error: Exception) -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        attempt(call)
    assert raised.value is error
