"""Progress displays of runs and trainings: bars with rate and time left on a terminal, plain lines elsewhere.

Both show signs of life while nothing is finished: a bar has a clock, and a plain line is repeated with the time.

A display (`figeval.io.display`) shows the progress of a piece of work without knowing what the work is. `RunProgress`,
`MeasureProgress` and `TrainingProgress` are the observers to which runs, measures of contamination and trainings
report; they compose the texts for a display.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.io.display import Display
from figeval.io.frontend import warn
from figeval.io.text import clean, counted
from figeval.records.schema import TaskRecord
from figeval.reporting.grid import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

FIRST_PAUSE = 5.0  # seconds from the beginning of a piece of work to its second plain line
PAUSE = 10.0  # seconds between two later ones
TICK = 0.5  # seconds between two looks at the clock
RECENT, LEAST = 60.0, 5.0  # seconds from which a rate is taken: about the last 60, and no fewer than 5


class Silent:
    """Display that shows nothing."""

    def live(self) -> AbstractContextManager[object]:
        return nullcontext()

    def begin(self, name: str, total: int, done: int, line: str) -> None:
        """Do nothing."""

    def update(self, done: int | None, status: str, line: str = "") -> None:
        """Do nothing."""

    def end(self, status: str, line: str) -> None:
        """Do nothing."""

    def wait(self, activity: str, *, later: bool = False) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""


class Lines:
    """Display of plain lines: at the start, after five seconds, every ten seconds from then on, and at the end.

    What usually takes no time has no line at the start, and one only when nothing was printed for five seconds.

    A clock prints the lines: also if nothing has changed, so that a slow model can be told from one that hangs, and
    once for many updates that come together.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._line = ""  # about the work that is going on; empty if there is none
        self._began = self._due = 0.0  # when it began, and when its next line is due
        self._quiet: float | None = None  # since when nothing was printed

    @contextmanager
    def live(self) -> Iterator[None]:
        """Return a context in which the clock goes."""
        ended = threading.Event()

        def clock() -> None:
            while not ended.wait(TICK):
                self.tick()

        thread = threading.Thread(target=clock, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def begin(self, name: str, total: int, done: int, line: str) -> None:  # noqa: ARG002 - as the protocol has it
        self._start(line)

    def update(self, done: int | None, status: str, line: str = "") -> None:  # noqa: ARG002
        """Take note of the line for the clock."""
        if line:
            self._line = line

    def tick(self) -> None:
        """Print the current line, with the time since the beginning, if the last one was printed long enough ago."""
        with self._lock:
            clock = time.monotonic()
            if self._line and clock >= self._due:
                self._due = clock + PAUSE
                seconds = round(clock - self._began)
                self.say(f"{self._line} ({seconds} s)" if seconds else self._line)

    def end(self, status: str, line: str) -> None:  # noqa: ARG002
        with self._lock:
            self._line = ""
            self.say(line)

    def wait(self, activity: str, *, later: bool = False) -> None:
        """Print what is being done."""
        self._start(f"{activity} …", later=later)

    def _start(self, line: str, *, later: bool = False) -> None:
        with self._lock:
            self._line, self._began = line, time.monotonic()
            if self._quiet is None:
                self._quiet = self._began
            self._due = (self._quiet if later else self._began) + FIRST_PAUSE
            if not later:
                self.say(line)

    def say(self, text: str) -> None:
        self._quiet = time.monotonic()
        say(self._console, text)


class Bars:
    """Display with a bar for each piece of work, its status and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Count(MofNCompleteColumn):
            """Column with the number of finished pieces; empty if their number is unknown."""

            def render(self, task: Task) -> Text:
                return Text() if task.total is None else super().render(task)

        class Clock(TimeRemainingColumn):
            """Column with the time since the beginning and the time left (`0:00:12 < 0:01:30`); empty at the end."""

            def render(self, task: Task) -> Text:
                if task.stop_time is not None:
                    return Text()
                passed = TimeElapsedColumn().render(task)
                return passed if task.total is None else passed + " < " + super().render(task)

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            Count(),
            TextColumn("{task.fields[status]}", markup=False),
            Clock(),
            console=console,
        )
        self._bar: TaskID | None = None
        self._waiting: TaskID | None = None

    def live(self) -> AbstractContextManager[object]:
        """Return the display, which is shown while the context is open."""
        return self._progress

    def begin(self, name: str, total: int, done: int, line: str) -> None:  # noqa: ARG002
        self._stop_waiting()
        self._bar = self._progress.add_task(clean(name), total=total, completed=done, status="")

    def update(self, done: int | None, status: str, line: str = "") -> None:  # noqa: ARG002
        if self._bar is not None:
            self._progress.update(self._bar, completed=done, status=status)

    def end(self, status: str, line: str) -> None:
        """Keep the bar where it is, with its last status; without a bar, print the line."""
        if self._bar is None:
            self.say(line)
        else:
            self.update(None, status)
            self._progress.stop_task(self._bar)
        self._bar = None

    def wait(self, activity: str, *, later: bool = False) -> None:  # noqa: ARG002
        """Show a bar without an end until the next piece of work begins, or something else is waited for."""
        self._stop_waiting()
        self._waiting = self._progress.add_task(f"{clean(activity)} …", total=None, status="")

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._progress.remove_task(self._waiting)
            self._waiting = None

    def say(self, text: str) -> None:
        """Print the line above the bars."""
        say(self._progress.console, text)


def stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True)


def display_on(console: Console | None) -> Display:
    """Return the display for a console: bars on a terminal, lines elsewhere, and a silent one without a console."""
    if console is None:
        return Silent()
    return Bars(console) if console.is_terminal else Lines(console)


class RunProgress:
    """Observer that shows the progress of a run, with one piece of work per task."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._task, self._total, self._done = "", 0, 0
        self._began = (0.0, 0)  # when the task began, with how many examples
        self._counts: deque[tuple[float, int]] = deque()  # later moments, at least a second apart
        self._line = ""  # state of the task; empty between tasks

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which the display is open."""
        return self._display.live()

    def reading(self, task: str) -> None:
        """Show that the examples of a task are being read, which takes long if there are very many."""
        self._display.wait(f"reading {task}", later=True)

    def loading(self, model: str) -> None:
        """Show that a model is being loaded."""
        activity = f"loading model {model}"
        if self._line:  # for a metric of the task
            self._display.say(f"{activity} …")
        else:
            self._display.wait(activity)

    def waiting(self, activity: str) -> None:
        """Show what has to happen before there are answers, unless it happens soon."""
        if self._line:
            self._display.update(None, activity, f"{self._line}, {activity}")
        else:
            self._display.wait(activity, later=True)

    def resumed(self, folder: Path, stored_answers: int, n: int) -> None:
        """Show how many answers of an earlier session are kept."""
        self._display.say(f"continuing, {stored_answers:,} of {n:,} answers kept in {folder}")

    def task_started(self, task: str, n: int, done: int) -> None:
        """Begin a task."""
        self._task, self._total, self._done = task, n, done
        self._began, self._counts = (time.monotonic(), done), deque()
        note = f", {done:,} of them kept from before" if done else ""
        self._display.begin(task, n, done, f"{task}: {counted(n, 'example')}{note}")
        self._show("")

    def asked(self, answered: int, requests: int) -> None:
        """Show how many requests a model has answered of those that it was sent last."""
        if self._line:
            status = f"{answered:,} of {requests:,} requests"
            self._display.update(None, status, f"{self._line}, {status}")

    def advanced(self, rows: int) -> None:
        """Advance by a number of rows."""
        self._done += rows
        new, seconds = self._recent()
        left = timedelta(seconds=round(seconds / max(new, 1) * (self._total - self._done)))
        self._show(speed(new, seconds), f", {speed(new, seconds)}, about {left} left" if left else "")

    def _recent(self) -> tuple[int, float]:
        """Return the number of examples that were done lately, and in how many seconds.

        What precedes the first of them, such as the embedding of a corpus, counts only in the first seconds after it.
        """
        clock, counts = time.monotonic(), self._counts
        if counts and clock - counts[-1][0] < 1:
            counts[-1] = (counts[-1][0], self._done)
        else:
            counts.append((clock, self._done))
        while len(counts) > 1 and clock - counts[1][0] > RECENT:
            counts.popleft()
        began, before = counts[0] if clock - counts[0][0] > LEAST else self._began
        return self._done - before, max(clock - began, 1e-3)

    def _show(self, status: str, suffix: str = "") -> None:
        self._line = f"{self._task}: {self._done:,} of {self._total:,}{suffix}"
        self._display.update(self._done, status, self._line)

    def scoring(self, quantity: str) -> None:
        """Show what is being computed after the last example."""
        self._line = f"{self._task}: computing {quantity}"
        self._display.update(None, f"{quantity} …", self._line)

    def task_ended(self, task: TaskRecord) -> None:
        """End the task and show the time that it took."""
        self._line = ""
        seconds = task.seconds + task.baseline_seconds
        if task.status == "done":
            self._display.end(f"{task.seconds:.1f} s", f"{task.task}: done in {seconds:.1f} s")
        else:
            self._display.end("FAILED", f"{task.task}: FAILED in {seconds:.1f} s")


class MeasureProgress:
    """Observer that shows the progress of measures that ask a model, with one piece of work per measure of a task."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._name, self._requests, self._answered, self._began = "", 0, 0, 0.0

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which the display is open."""
        return self._display.live()

    def loading(self, model: str) -> None:
        """Show that a model is being loaded."""
        self._display.wait(f"loading model {model}")

    def waiting(self, activity: str) -> None:
        """Show what has to happen before there are answers, unless it happens soon."""
        if not self._name:
            self._display.wait(activity, later=True)

    def measure_started(self, name: str, requests: int, tokens: int) -> None:
        """Begin a measure, and show what it costs."""
        self._name, self._requests, self._answered, self._began = name, requests, 0, time.monotonic()
        cost = f"about {tokens:,} tokens at most"
        self._display.begin(f"{name}, {cost}", requests, 0, f"{name}: {requests:,} requests, {cost}")

    def asked(self, answered: int, requests: int) -> None:  # noqa: ARG002 - one call of several
        """Show how many requests are answered, with those of the call that is going on."""
        if self._name:
            self._show(self._answered + answered)

    def measure_advanced(self, requests: int) -> None:
        """Show how many requests of the measure are answered."""
        self._answered = requests
        self._show(requests)

    def _show(self, done: int) -> None:
        self._display.update(done, "", f"{self._name}: {done:,} of {self._requests:,} requests")

    def measure_ended(self) -> None:
        """End the measure and show the time that it took."""
        seconds = time.monotonic() - self._began
        self._display.end(f"{seconds:.1f} s", f"{self._name}: done in {seconds:.1f} s")
        self._name = ""


def speed(examples: int, seconds: float) -> str:
    """Return the number of examples per second, or the seconds per example if there are fewer than one."""
    if not examples:
        return ""
    return f"{examples / seconds:,.0f}/s" if examples >= seconds else f"{seconds / examples:,.1f} s each"


class TrainingProgress:
    """Observer that shows the progress of a training: one piece of work for all steps, and a line per evaluation."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._total = 0
        self._warnings: set[str] = set()

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which the display is open."""
        return self._display.live()

    def preparing(self, activity: str) -> None:
        """Show what is done before the first step or after the last one."""
        self._display.wait(activity)

    def warned(self, text: str) -> None:
        """Print a warning, once for all trainings of a sweep."""
        if text not in self._warnings:
            self._warnings.add(text)
            warn(text)

    def began(self, total: int, done: int) -> None:
        """Begin at the first step that is not done."""
        self._total = total
        if done:
            self._display.say(f"continuing from step {done} of {total}")
        self._display.begin("training", total, done, f"training: {total - done} steps{' left' if done else ''}")

    def stepped(self, step: int, loss: float, rate: float, speed: float, remaining: float) -> None:  # noqa: ARG002
        """Show loss, tokens per second and the time left."""
        status, left = f"loss {loss:.4f}, {speed:,.0f} tokens/s", timedelta(seconds=round(remaining))
        self._display.update(step, status, f"step {step} of {self._total}: {status}, {left} left")

    def evaluated(self, step: int, scores: Mapping[str, float | None], best: bool) -> None:
        """Print the scores, with a dash for one that could not be computed; step 0 is the model before training."""
        listed = ", ".join(f"{name} {'–' if value is None else f'{value:.4f}'}" for name, value in scores.items())
        note = " (best so far)" if best else "" if step else " (before training)"
        self._display.say(f"step {step}: {listed}{note}")
