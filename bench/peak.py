"""Measurement of a benchmark's peak memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading


def give_back_memory() -> None:
    """Return freed memory to the system, so that one side cannot reuse unnoticed what the other has freed."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


class Memory:
    """Context manager that measures by how many MiB the resident memory of the process grows within a block."""

    def __enter__(self) -> Memory:
        import psutil

        give_back_memory()
        self._process = psutil.Process()
        self._begin = self.peak = self._process.memory_info().rss
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._poll)
        self._watch.start()
        return self

    def _poll(self) -> None:
        while not self._stop.wait(0.01):
            self.peak = max(self.peak, self._process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watch.join()

    @property
    def grown(self) -> float:
        return (self.peak - self._begin) / 2**20
