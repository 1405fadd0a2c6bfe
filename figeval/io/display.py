"""The interface through which runs, trainings and the builds of plugins report the progress of long work.

The displays themselves, bars on a terminal and plain lines otherwise, are in `figeval.reporting.progress`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Display(Protocol):
    """Display of progress. `status` is shown beside a bar, `line` is printed where there are no bars.

    Where there are no bars, the last line is repeated with the time that has passed while nothing is reported, so a
    `line` tells a state and no time.
    """

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which the display is open."""

    def begin(self, name: str, total: int, done: int, line: str) -> None:
        """Begin a piece of work, part of which may be done already."""

    def update(self, done: int | None, status: str, line: str = "") -> None:
        """Update the count (None leaves it unchanged) and the status; an empty `line` prints nothing."""

    def end(self, status: str, line: str) -> None:
        """End the piece of work."""

    def wait(self, what: str, *, later: bool = False) -> None:
        """Show what is being done until the next piece of work begins, such as `loading model x`.

        What is usually short is printed `later`, only once it has taken seconds.
        """

    def say(self, text: str) -> None:
        """Print a line, above bars."""
