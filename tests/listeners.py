"""An observer of what models report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from figeval import Observer
from figeval.io.observer import listening


class Ears(Observer):
    """An observer that writes everything down."""

    def __init__(self) -> None:
        self.activities: list[str] = []
        self.heard: list[tuple[int, int]] = []

    def wait(self, activity: str, *, later: bool = False) -> None:
        if not later:
            self.activities.append(activity)

    def count_requests(self, answered: int, requests: int) -> None:
        self.heard.append((answered, requests))


@contextmanager
def listen() -> Iterator[Ears]:
    """Hear what models report within the block."""
    ears = Ears()
    with listening(ears):
        yield ears
