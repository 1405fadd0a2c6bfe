"""The observer to which runs, judges, measures, trainings, builds and models report how far they are.

`Observer` itself shows nothing; `figeval.reporting.progress` has the one that draws bars or prints lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType

from figeval.io.frontend import warn

NO_FIGURES: Mapping[str, float] = MappingProxyType({})


class Observer:
    """Hears of the progress of long work, stage by stage. This one ignores it; others override what they need.

    A display repeats the state of a stage with the time that has passed, so no text that it gets should tell a time.
    """

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which a display is open."""
        return nullcontext()

    def start(self, stage: str, total: int, done: int = 0, *, unit: str = "example", note: str = "") -> None:
        """Begin a stage of `total` units, `done` of which are kept from before; a note stands beside its name."""

    def reach(self, done: int, figures: Mapping[str, float] = NO_FIGURES) -> None:
        """Take note that so many units of the stage are done, and of other figures, such as `{"loss": 0.5}`."""

    def count_requests(self, answered: int, requests: int) -> None:
        """Take note of how many requests a model has answered of those that it was sent last."""

    def wait(self, activity: str, *, later: bool = False) -> None:
        """Take note of what is being done, before a stage or in it, such as `loading model x`.

        What is usually short is shown `later`, only once it has taken seconds.
        """

    def end(self, outcome: str = "") -> None:
        """End the stage. Without an outcome, the time that it took is shown; without a stage, nothing is."""

    def say(self, text: str) -> None:
        """Take note of a line, which a display prints above its bars."""

    def warn(self, text: str) -> None:
        """Warn about what does not stop the work, also where no progress is shown; a display does it once."""
        warn(text)
