"""The display of progress: bars with rate and time left on a terminal, plain lines elsewhere.

Both show signs of life while nothing is finished: a bar has a clock, and a plain line is repeated with the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from figeval.io.observer import NO_FIGURES, Observer
from figeval.io.text import clean, pluralize
from figeval.reporting.grid import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task, TaskID

FIRST_PAUSE_SECONDS = 5.0  # from the beginning of a piece of work to its second plain line
PAUSE_SECONDS = 10.0  # between two later ones
TICK_SECONDS = 0.5  # between two looks at the clock
RATE_SECONDS = 600.0  # from which a rate is taken: slow models answer many examples at once, every few minutes


def open_display(*, progress: bool) -> Observer:
    """Return an observer that shows progress on stderr within `with observer.live():`, or one that shows nothing."""
    if not progress:
        return Observer()
    from rich.console import Console

    return Display(Console(stderr=True))


class Lines:
    """Plain lines: after five seconds, every ten seconds from then on, and at the end.

    What is waited for and is no stage has a line at the start, unless it usually takes no time.

    A clock prints the lines: also if nothing has changed, so that a slow model can be told from one that hangs, and
    once for many updates that come together.
    """

    def __init__(self, console: Console) -> None:
        self.state = ""  # of the work that is going on; empty if there is none
        self._console = console
        self._lock = threading.Lock()
        self._began = self._due = 0.0  # when it began, and when its next line is due
        self._quiet: float | None = None  # since when nothing was printed

    @contextmanager
    def live(self) -> Iterator[None]:
        """Return a context in which the clock goes."""
        ended = threading.Event()

        def clock() -> None:
            while not ended.wait(TICK_SECONDS):
                self.tick()

        thread = threading.Thread(target=clock, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def tick(self) -> None:
        """Print the state, with the time since the beginning, if the last line was printed long enough ago."""
        with self._lock:
            clock = time.monotonic()
            if self.state and clock >= self._due:
                self._due = clock + PAUSE_SECONDS
                seconds = round(clock - self._began)
                self.say(f"{self.state} ({seconds} s)" if seconds else self.state)

    def start(self, state: str, *, later: bool = False) -> None:
        """Begin a piece of work."""
        with self._lock:
            self.state, self._began = state, time.monotonic()
            if self._quiet is None:
                self._quiet = self._began
            self._due = (self._quiet if later else self._began) + FIRST_PAUSE_SECONDS
            if not later:
                self.say(state)

    def end(self, line: str) -> None:
        """End the work with a last line."""
        with self._lock:
            self.state = ""
            self.say(line)

    def say(self, text: str) -> None:
        """Print a line at once."""
        self._quiet = time.monotonic()
        say(self._console, text)


class Display(Observer):
    """Observer that shows progress on a console; bars count in any case, and are drawn on a terminal."""

    def __init__(self, console: Console) -> None:
        self._bars = _make_bars(console)
        self.lines = None if console.is_terminal else Lines(console)
        self._stage: Task | None = None
        self._head = ""  # of the line that ends the stage, with its sign
        self._waiting: TaskID | None = None
        self._done = 0  # units of the stage that are finished
        self._done_before_call = 0  # those that were when the model was called; it may answer part by part
        self._warnings: set[str] = set()

    def live(self) -> AbstractContextManager[object]:
        return self._bars if self.lines is None else self.lines.live()

    def start(self, stage: str, total: int, done: int = 0, *, unit: str = "example", note: str = "") -> None:
        self._stop_waiting()
        self._done = done
        name = f"{stage}, {note}" if note else stage
        bar = self._bars.add_task(
            clean(name), total=total, completed=done, status="", stage=stage, unit=unit, done=done
        )
        self._stage = next(task for task in self._bars.tasks if task.id == bar)
        if self.lines is not None:
            notes = [note, f"{done:,} of them kept from before" if done else ""]
            head = ", ".join(filter(None, [f"{stage}: {pluralize(total, unit)}", *notes]))
            self._head = f"{stage}:" if note else f"{head},"  # a note, such as a cost, is said before
            self.lines.start(head, later=not note)
            self._update(done)

    def reach(self, done: int, figures: Mapping[str, float] = NO_FIGURES) -> None:
        self._done = done
        self._update(done, ", ".join(f"{name} {_format_figure(value)}" for name, value in figures.items()))

    def count_requests(self, answered: int, requests: int) -> None:
        if not answered:
            self._done_before_call = self._done
        if self._stage is not None and self._stage.fields["unit"] == "request":
            self._update(max(self._done, self._done_before_call + answered))
        else:
            self._update(self._done, f"{answered:,} of {requests:,} requests")

    def wait(self, activity: str, *, later: bool = False) -> None:
        if self._stage is None:  # a bar without an end, until a stage begins or something else is waited for
            self._stop_waiting()
            self._waiting = self._bars.add_task(f"{clean(activity)} …", total=None, status="")
            if self.lines is not None:
                self.lines.start(f"{activity} …", later=later)
        elif later:
            self._update(self._done, activity)
        else:
            self.say(f"{activity} …")

    def end(self, outcome: str = "") -> None:
        if (stage := self._stage) is None:
            return
        outcome = outcome or f"done in {stage.elapsed or 0:.1f} s"
        self._bars.update(stage.id, status=outcome)
        self._bars.stop_task(stage.id)
        if self.lines is not None:
            self.lines.end(f"{self._head} {outcome}")
        self._stage = None

    def say(self, text: str) -> None:
        if self.lines is None:
            say(self._bars.console, text)
        else:
            self.lines.say(text)

    def warn(self, text: str) -> None:
        if text not in self._warnings:  # each training of a sweep has the same ones
            self._warnings.add(text)
            super().warn(text)

    def _update(self, done: int, status: str = "") -> None:
        """Show how many units are done, how fast, and what else there is to say."""
        if (stage := self._stage) is None:
            return
        self._bars.update(stage.id, completed=done)
        new = done - stage.fields["done"]
        speed = (stage.speed or new / max(stage.elapsed or 0.0, 1e-3)) if new > 0 else 0.0
        rate = format_rate(speed)
        self._bars.update(stage.id, status=", ".join(filter(None, [rate, status])))
        if self.lines is not None and stage.total is not None:
            remaining = timedelta(seconds=round((stage.total - done) / speed)) if speed else None
            counts = f"{stage.fields['stage']}: {done:,} of {int(stage.total):,}"
            left = f"about {remaining} left" if remaining else ""
            self.lines.state = ", ".join(filter(None, [counts, rate, left, status]))

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._bars.remove_task(self._waiting)
            self._waiting = None


def format_rate(per_second: float) -> str:
    """Return units per second, or the seconds per unit if there are fewer than one; empty without any."""
    if not per_second:
        return ""
    return f"{per_second:,.0f}/s" if per_second >= 1 else f"{1 / per_second:,.1f} s each"


def _format_figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4f}"


def _make_bars(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Count(MofNCompleteColumn):
        """Column with the number of finished units; empty if their number is unknown."""

        def render(self, task: Task) -> Text:
            return Text() if task.total is None else super().render(task)

    class Clock(TimeRemainingColumn):
        """Column with the time since the beginning and the time left (`0:00:12 < 0:01:30`); empty at the end."""

        def render(self, task: Task) -> Text:
            if task.stop_time is not None:
                return Text()
            passed = TimeElapsedColumn().render(task)
            return passed if task.total is None else passed + " < " + super().render(task)

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        Count(),
        TextColumn("{task.fields[status]}", markup=False),
        Clock(),
        console=console,
        get_time=time.monotonic,
        speed_estimate_period=RATE_SECONDS,
        disable=not console.is_terminal,
    )
