"""How figeval is used in this process: by the command line, or by a Python program that imports it.

Someone at a terminal reads lines on stderr, and the record of a run keeps the command that was typed. A program gets
warnings as Python's own, sees no line that it did not ask for, and has typed no command. Both are context variables, so
that threads with runs of their own do not disturb one another.
"""

from __future__ import annotations

import atexit
import gc
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from figeval.errors import FigevalWarning
from figeval.text import one_line

OWN = frozenset({"figeval", "contextlib", "pluggy"})  # packages that stand between the user's line and a warning


class Audience(Enum):
    """Who hears of warnings and of what takes long."""

    TERMINAL = "lines on stderr"
    PROGRAM = "warnings alone"
    WATCHED_PROGRAM = "warnings, and lines on stderr"


_audience: ContextVar[Audience] = ContextVar("audience", default=Audience.TERMINAL)
_command: ContextVar[tuple[str, ...] | None] = ContextVar("command", default=None)


def command() -> list[str]:
    """Return the words behind `figeval` that were typed; none in a Python program."""
    return list(_command.get() or ())


@contextmanager
def command_line(words: Sequence[str]) -> Iterator[None]:
    """What is called inside of this is called by the command line."""
    token = _command.set(tuple(words))
    try:
        yield
    finally:
        _command.reset(token)


@contextmanager
def python_program(*, watched: bool) -> Iterator[None]:
    """What is called inside of this is called by a program, unless the command line calls it; `watched` keeps lines
    about progress.
    """
    audience = Audience.WATCHED_PROGRAM if watched else Audience.PROGRAM
    token = _audience.set(_audience.get() if _command.get() is not None else audience)
    try:
        yield
    finally:
        _audience.reset(token)


def warn(message: str) -> None:
    """Warn of something that does not stop figeval: in one line on stderr, or by a `FigevalWarning`."""
    text = one_line(message)
    if _audience.get() is Audience.TERMINAL:
        print(f"figeval: warning: {text}", file=sys.stderr)
        return
    level, frame = 1, sys._getframe()  # Python shows a warning at the nearest caller outside figeval
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OWN:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FigevalWarning, stacklevel=level)


def notice(text: str) -> None:
    """Print one line on stderr about what takes long or costs money, if somebody watches."""
    if _audience.get() is not Audience.PROGRAM:
        print(one_line(text), file=sys.stderr)


def watched() -> bool:
    """Return whether somebody watches, so that bars may be drawn."""
    return _audience.get() is not Audience.PROGRAM


def on_terminal() -> bool:
    """Return whether it is the command line that calls, or something that is no user of the Python API."""
    return _audience.get() is Audience.TERMINAL


def end_quickly() -> None:
    """Let this process end without the last garbage collection, which takes a second where torch is loaded.

    Only commands and their worker processes do so. What has a count of references of its own is still released, and
    whatever waits for `atexit` still runs.
    """
    atexit.register(gc.freeze)
