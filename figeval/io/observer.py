"""The observer to which runs, judges, measures, trainings, builds and models report how far they are.

`Observer` itself shows nothing; `figeval.reporting.progress` has the one that draws bars or prints lines.

Models report by functions (`report_loading`, `report_share`), and an observer hears them (`listening`). Both ends are
context variables, so that models pass no observer around, and runs in several threads do not hear one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

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


T = TypeVar("T")


@dataclass(slots=True)
class Call:
    """One call of a model.

    Attributes:
        requests: number of requests that were sent.
        before: number of requests that earlier calls about the same example have answered.
        total: number of requests of all these calls.
        observer: observer that hears of it.
        share: share of the call that is done, from 0 to 1.
    """

    requests: int
    before: int
    total: int
    observer: Observer
    share: float = 0.0

    def reach(self, share: float) -> None:
        """Set the share if it is larger, and tell the observer."""
        self.share = max(self.share, min(1.0, share))
        self.observer.count_requests(self.before + int(self.share * self.requests + 1e-6), self.total)


_observer: ContextVar[Observer] = ContextVar("observer", default=Observer())  # noqa: B039 - it has no state
_opened: ContextVar[str] = ContextVar("opened", default="")
_call: ContextVar[Call | None] = ContextVar("call", default=None)
_block: ContextVar[tuple[int, int] | None] = ContextVar("block", default=None)


@contextmanager
def _during(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


# ---- for those who show progress -------------------------------------------------------------------------------------


def listening(observer: Observer) -> AbstractContextManager[None]:
    """Return a context in which an observer hears about all models; `Observer()` ignores them."""
    return _during(_observer, observer)


def current_observer() -> Observer:
    """Return the observer of this context."""
    return _observer.get()


# ---- for those who open and call models ------------------------------------------------------------------------------


def opening(model: str) -> AbstractContextManager[None]:
    """Return a context in which a model of this name is opened."""
    return _during(_opened, model)


def begin_call(requests: int) -> Call:
    """Return a call with so many requests for `within`."""
    before, total = _block.get() or (0, requests)
    call = Call(requests, before, total, _observer.get())
    call.reach(0.0)
    return call


def block(before: int, total: int) -> AbstractContextManager[None]:
    """Return a context in which a call is about a part of `total` requests, `before` of which are answered."""
    return _during(_block, (before, total))


def within(call: Call | None) -> AbstractContextManager[None]:
    """Return a context in which `report_share` belongs to a call; None counts nothing."""
    return _during(_call, call)


# ---- for models ------------------------------------------------------------------------------------------------------


def report_loading() -> None:
    """Report that the model that is being opened is about to import large libraries or to load weights."""
    if model := _opened.get():
        _observer.get().wait(f"loading model {model}")


def report_waiting(activity: str) -> None:
    """Report what the model waits for before it can answer, such as a server's response about a batch."""
    _observer.get().wait(activity, later=True)


def report_share(share: float) -> None:
    """Report that a further share of the current call, such as `embed` or `generate`, is done.

    Args:
        share: share of the call's work since the last report, so that all reports of a call add up to 1. The parts of
            an `OutputStream` are counted without it.
    """
    if (call := _call.get()) is not None and share > 0:
        call.reach(call.share + share)
