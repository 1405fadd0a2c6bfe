"""The front end of this process: the command line, or a Python program that imports figeval.

A user at a terminal reads lines on stderr, and the record of a run keeps the command that was typed. A program gets
Python warnings, no lines that it did not ask for, and has no command to record. Both are context variables, so that
threads with runs of their own do not affect each other. How processes end, and what those that they start inherit,
is here, too.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from pathlib import Path

from figeval.errors import FigevalWarning
from figeval.io.text import one_line

PATIENCE_SECONDS = 5
MAX_MESSAGE_CHARS = 2_000  # characters of an error, as some quote foreign texts
MAX_STOP_SECONDS = 10.0  # that a worker process has before it is killed
INNER_PACKAGES = frozenset({"figeval", "contextlib", "pluggy"})  # of frames between the user's line and a warning


class Audience(Enum):
    """Recipient of warnings and of messages about slow work."""

    TERMINAL = "lines on stderr"
    PROGRAM = "warnings alone"
    WATCHED_PROGRAM = "warnings, and lines on stderr"


_audience: ContextVar[Audience] = ContextVar("audience", default=Audience.TERMINAL)
_command: ContextVar[tuple[str, ...] | None] = ContextVar("command", default=None)


def command() -> list[str]:
    """Return the words that were typed after `figeval`; empty in a Python program."""
    return list(_command.get() or ())


@contextmanager
def command_line(words: Sequence[str]) -> Iterator[None]:
    """Mark all calls inside the context as coming from the command line."""
    token = _command.set(tuple(words))
    try:
        yield
    finally:
        _command.reset(token)


@contextmanager
def python_program(*, watched: bool) -> Iterator[None]:
    """Mark all calls inside the context as coming from a program, unless the command line is the caller.

    `watched` keeps lines about progress.
    """
    audience = Audience.WATCHED_PROGRAM if watched else Audience.PROGRAM
    token = _audience.set(_audience.get() if _command.get() is not None else audience)
    try:
        yield
    finally:
        _audience.reset(token)


def warn(message: str) -> None:
    """Warn about a problem that does not stop figeval: in one line on stderr, or with a `FigevalWarning`."""
    text = one_line(message)
    if _audience.get() is Audience.TERMINAL:
        print(f"figeval: warning: {text}", file=sys.stderr)
        return
    level, frame = 1, sys._getframe()  # the warning should point to the nearest caller outside figeval
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INNER_PACKAGES:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, FigevalWarning, stacklevel=level)


def print_error(message: str) -> None:
    """Print an error that the user can fix, in one line on stderr."""
    print(f"figeval: {one_line(message, MAX_MESSAGE_CHARS)}", file=sys.stderr)


def notice(text: str) -> None:
    """Print one line on stderr about slow or expensive work, if the user wants progress."""
    if _audience.get() is not Audience.PROGRAM:
        print(one_line(text), file=sys.stderr)


def wants_progress() -> bool:
    """Return whether the user wants progress, so that bars may be drawn."""
    return _audience.get() is not Audience.PROGRAM


def on_terminal() -> bool:
    """Return whether the caller is the command line, or anything else that is not the Python API."""
    return _audience.get() is Audience.TERMINAL


def end_quickly() -> None:
    """Let this process exit without the last garbage collection, which takes a second if torch is loaded.

    Only commands and their worker processes call this. Objects with reference counts of their own are still released,
    and `atexit` handlers still run. If torch has imported Triton, the collection takes place, because Triton would
    print everything that was not collected as leaked.
    """
    atexit.register(lambda: None if "triton" in sys.modules else gc.freeze())


def module_path() -> str:
    """Return the PYTHONPATH with which a worker imports the same modules as this process."""
    return os.pathsep.join(part or str(Path.cwd()) for part in sys.path)


def environment_of_worker(n: int) -> dict[str, str]:
    """Return the environment variables of one of n workers: its share of the cores, and its parent's module path."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, allowed // n)))
    return {"OMP_NUM_THREADS": threads, "PYTHONPATH": module_path()}


def ignore_terminal() -> None:
    """Ignore Ctrl-C and the end of the terminal, which reach all processes of a terminal: the parent decides."""
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):  # Windows has no SIGHUP
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def end_despite_threads(code: int) -> None:
    """Let this process exit with `code` even if a plugin or a library has left a thread that does not end.

    Python itself waits for all threads that are no daemons. Those that still run `PATIENCE_SECONDS` after the main
    thread has ended are named in a line and abandoned.
    """

    def abandon() -> None:
        threading.main_thread().join()  # returns when Python begins to wait for the others
        time.sleep(PATIENCE_SECONDS)
        if names := [repr(thread.name) for thread in _remaining_threads()]:
            notice(f"figeval: {', '.join(names)[:200]} did not end (threads of a plugin or library): exiting without")
            sys.stdout.flush()
            os._exit(code)

    if _remaining_threads():
        threading.Thread(target=abandon, name="exit", daemon=True).start()


def _remaining_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
