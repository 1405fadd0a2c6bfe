"""Progress of models while they work: one that is being loaded, and how many requests of a call are answered.

Models report (`loading`, `advance`), and whoever shows progress listens (`listening`). Both ends are context variables,
so that models pass no observer around, and runs in several threads do not hear one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class Listener(Protocol):
    """Hears about models."""

    def loading(self, model: str) -> None:
        """Take note that a model, named as the user named it, is being loaded."""

    def waiting(self, what: str) -> None:
        """Take note of what has to happen before anything can be answered, e.g. `2 workers are starting`."""

    def asked(self, answered: int, requests: int) -> None:
        """Take note of the number of requests that a model was sent, and of those that it has answered so far."""


@dataclass(slots=True)
class Call:
    """One call of a model.

    Attributes:
        requests: number of requests that were sent.
        listener: listener that hears about it.
        share: share of the call that is done, from 0 to 1.
    """

    requests: int
    listener: Listener
    share: float = 0.0

    def advance(self, share: float) -> None:
        """Add a share, and tell the listener."""
        self.reach(self.share + share)

    def reach(self, share: float) -> None:
        """Set the share if it is larger, and tell the listener."""
        self.share = max(self.share, min(1.0, share))
        self.listener.asked(int(self.share * self.requests + 1e-6), self.requests)


@dataclass(frozen=True, slots=True)
class _OfMany:
    """Listener that counts the answers to a block of requests as part of all of them."""

    listener: Listener
    before: int
    requests: int

    def loading(self, model: str) -> None:
        self.listener.loading(model)

    def waiting(self, what: str) -> None:
        self.listener.waiting(what)

    def asked(self, answered: int, _requests: int) -> None:
        self.listener.asked(self.before + answered, self.requests)


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_opened: ContextVar[str] = ContextVar("opened", default="")
_call: ContextVar[Call | None] = ContextVar("call", default=None)


@contextmanager
def _during(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


# ---- for those who show progress -------------------------------------------------------------------------------------


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Return a context in which a listener hears about all models."""
    return _during(_listener, listener)


def unheard() -> AbstractContextManager[None]:
    """Return a context in which nobody hears about models, such as one that is only compared with the user's."""
    return _during(_listener, None)


def tell(report: Callable[[Listener], None]) -> None:
    """Call a function with the listener of this context, if there is one: for models in other processes."""
    listener = _listener.get()
    if listener is not None:
        report(listener)


# ---- for those who open and call models ------------------------------------------------------------------------------


def opening(model: str) -> AbstractContextManager[None]:
    """Return a context in which a model of this name is opened."""
    return _during(_opened, model)


def begun(requests: int) -> Call | None:
    """Return a call with so many requests for `within`, or None if nobody listens."""
    listener = _listener.get()
    if listener is None:
        return None
    listener.asked(0, requests)
    return Call(requests, listener)


@contextmanager
def block(before: int, requests: int) -> Iterator[None]:
    """Enter a context in which a call is about a part of `requests` requests, `before` of which are answered."""
    listener = _listener.get()
    with _during(_listener, None if listener is None else _OfMany(listener, before, requests)):
        yield


def within(call: Call | None) -> AbstractContextManager[None]:
    """Return a context in which `advance` belongs to a call; None counts nothing."""
    return _during(_call, call)


# ---- for models ------------------------------------------------------------------------------------------------------


def loading() -> None:
    """Report that the model that is being opened is about to import large libraries or to load weights."""
    listener, model = _listener.get(), _opened.get()
    if listener is not None and model:
        listener.loading(model)


def waiting(what: str) -> None:
    """Report what the model waits for before it can answer, such as a server's response about a batch."""
    tell(lambda listener: listener.waiting(what))


def advance(share: float) -> None:
    """Report that a further share of the current call, such as `embed` or `generate`, is done."""
    call = _call.get()
    if call is not None:
        call.advance(share)
