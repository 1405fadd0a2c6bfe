"""Where the progress of long work is shown: what runs, trainings and the builds of plugins report to.

The displays themselves, bars on a terminal and plain lines elsewhere, are in `figeval.report.progress`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Display(Protocol):
    """Where progress is shown. `status` is what stands beside a bar, `line` what is printed where there are no bars."""

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which the display is open."""

    def begin(self, name: str, total: int, done: int, line: str) -> None:
        """Begin a piece of work, of which some may be done already."""

    def update(self, done: int | None, status: str, line: str = "") -> None:
        """Show how much is done; None leaves the count alone, and no line means that this is not worth one."""

    def end(self, status: str, line: str) -> None:
        """End the piece of work."""

    def say(self, text: str) -> None:
        """Print a line, above bars."""
