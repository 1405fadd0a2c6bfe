"""One writer per folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from figeval.errors import FigevalError


@contextmanager
def alone(file: Path, refusal: FigevalError) -> Iterator[None]:
    """Hold a lock while the context is open. Raises `refusal` if another process holds it."""
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise refusal from error
    try:
        yield
    finally:
        lock.release()
