"""A device: how many operations and bytes per second it reaches, and how much memory a call takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

REPEATS = 5
SIDE = {"cuda": 8_192, "cpu": 512}  # of the square matrices that are multiplied
COPIED = {"cuda": 1 << 30, "cpu": 1 << 24}  # bytes


@dataclass(frozen=True)
class Machine:
    """A device and the precision in which it computes: bfloat16, or float32 on a CPU."""

    device: str

    @property
    def kind(self) -> str:
        return torch.device(self.device).type

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if self.kind == "cpu" else torch.bfloat16

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.kind == "cuda" else "CPU"

    def seconds(self, call: Callable[[], Any]) -> float:
        """Return the time of a call and of everything that it started on the device."""
        self.wait()
        began = time.perf_counter()
        call()
        self.wait()
        return time.perf_counter() - began

    def wait(self) -> None:
        if self.kind == "cuda":
            torch.cuda.synchronize(self.device)

    def peak_memory(self, call: Callable[[], Any]) -> float:
        """Return the most MiB that a call needs beyond what was in use before."""
        if self.kind == "cuda":
            self.wait()
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
            call()
            self.wait()
            return float(torch.cuda.max_memory_allocated(self.device) - before) / 2**20
        from bench.peak import Memory

        with Memory() as memory:
            call()
        return memory.grown

    def multiplications(self) -> float:
        """Return the highest rate of products of large matrices, in operations (two per multiply-add) per second."""
        side = SIDE[self.kind]
        left, right = (torch.randn(side, side, device=self.device, dtype=self.dtype) for _ in range(2))
        return 2 * side**3 / min(self.seconds(lambda: left @ right) for _ in range(REPEATS))

    def bandwidth(self) -> float:
        """Return the highest rate of a copy within the device's memory, in bytes read or written per second."""
        source = torch.empty(COPIED[self.kind], dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        return 2 * source.numel() / min(self.seconds(lambda: target.copy_(source)) for _ in range(REPEATS))

    def describe(self) -> dict[str, Any]:
        """Return name, precision and rates; on a GPU also its memory."""
        figures: dict[str, Any] = {
            "device": self.name,
            "dtype": str(self.dtype).removeprefix("torch."),
            "teraflops": self.multiplications() / 1e12,
            "gigabytes_per_second": self.bandwidth() / 1e9,
        }
        if self.kind == "cuda":
            figures["memory_gib"] = torch.cuda.get_device_properties(self.device).total_memory / 2**30
        return figures
