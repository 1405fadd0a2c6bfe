"""Progress displays of runs and trainings: bars with rate and time left on a terminal, plain lines elsewhere.

A display (`figeval.display`) shows the progress of a piece of work without knowing what the work is. `RunProgress` and
`TrainingProgress` are the observers to which runs and trainings report; they compose the texts for a display.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from figeval.display import Display
from figeval.records.schema import TaskRecord
from figeval.report.grid import say
from figeval.text import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

PAUSE = 10.0  # minimum seconds between two plain lines about the same work


class Silent:
    """Display that shows nothing."""

    def live(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return nullcontext()

    def begin(self, name: str, total: int, done: int, line: str) -> None:
        """Do nothing."""

    def update(self, done: int | None, status: str, line: str = "") -> None:
        """Do nothing."""

    def end(self, status: str, line: str) -> None:
        """Do nothing."""

    def say(self, text: str) -> None:
        """Do nothing."""


class Lines:
    """Display of plain lines: at the start, every ten seconds and at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = 0.0

    def live(self) -> AbstractContextManager[object]:
        """Return a context that does nothing, because lines need none."""
        return nullcontext()

    def begin(self, name: str, total: int, done: int, line: str) -> None:  # noqa: ARG002 - as the protocol has it
        """Print the line."""
        self._said = time.monotonic()
        self.say(line)

    def update(self, done: int | None, status: str, line: str = "") -> None:  # noqa: ARG002
        """Print the line if the last one was printed long enough ago."""
        now = time.monotonic()
        if line and now - self._said > PAUSE:
            self._said = now
            self.say(line)

    def end(self, status: str, line: str) -> None:  # noqa: ARG002
        """Print the line."""
        self.say(line)

    def say(self, text: str) -> None:
        """Print the line."""
        say(self._console, text)


class Bars:
    """Display with a bar for each piece of work, its status and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}", markup=False),
            TimeRemainingColumn(),
            console=console,
        )
        self._bar: TaskID | None = None

    def live(self) -> AbstractContextManager[object]:
        """Return the display, which is shown while the context is open."""
        return self._progress

    def begin(self, name: str, total: int, done: int, line: str) -> None:  # noqa: ARG002
        """Open a bar."""
        self._bar = self._progress.add_task(clean(name), total=total, completed=done, status="")

    def update(self, done: int | None, status: str, line: str = "") -> None:  # noqa: ARG002
        """Move the bar."""
        if self._bar is not None:
            self._progress.update(self._bar, completed=done, status=status)

    def end(self, status: str, line: str) -> None:
        """Keep the bar where it is, with its last status; without a bar, print the line."""
        if self._bar is None:
            self.say(line)
        self.update(None, status)
        self._bar = None

    def say(self, text: str) -> None:
        """Print the line above the bars."""
        say(self._progress.console, text)


def stderr() -> Console:
    """Return a rich console on stderr."""
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
        self._task, self._total, self._done, self._kept, self._began = "", 0, 0, 0, 0.0

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which the display is open."""
        return self._display.live()

    def resumed(self, folder: Path, kept: int, n: int) -> None:
        """Show how many answers of an earlier session are kept."""
        self._display.say(f"continuing, {kept} of {n} answers kept in {folder}")

    def task_started(self, task: str, n: int, done: int) -> None:
        """Begin a task."""
        self._task, self._total, self._done, self._kept, self._began = task, n, done, done, time.monotonic()
        kept = f", {done} of them kept from before" if done else ""
        self._display.begin(task, n, done, f"{task}: {n} examples{kept}")

    def advanced(self, rows: int) -> None:
        """Advance by a number of rows."""
        self._done += rows
        seconds = time.monotonic() - self._began
        rate = (self._done - self._kept) / max(seconds, 1e-3)
        line = f"{self._task}: {self._done} of {self._total} after {seconds:.0f} s"
        self._display.update(self._done, f"{rate:,.0f}/s", line)

    def scoring(self, what: str) -> None:
        """Show what is being computed after the last example."""
        self._display.update(None, f"{what} …")

    def task_ended(self, task: TaskRecord) -> None:
        """End the task and show the time that it took."""
        seconds = task.seconds + task.baseline_seconds
        if task.status == "done":
            self._display.end(f"{task.seconds:.1f} s", f"{task.task}: done in {seconds:.1f} s")
        else:
            self._display.end("FAILED", f"{task.task}: FAILED in {seconds:.1f} s")


class TrainingProgress:
    """Observer that shows the progress of a training: one piece of work for all steps, and a line per evaluation."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._total = 0

    def live(self) -> AbstractContextManager[object]:
        """Return the context in which the display is open."""
        return self._display.live()

    def began(self, total: int, done: int) -> None:
        """Begin at the first step that is not done."""
        self._total = total
        before = f", {done} of them done before" if done else ""
        self._display.begin("training", total, done, f"training: {total} steps{before}")

    def stepped(self, step: int, loss: float, rate: float, speed: float, remaining: float) -> None:  # noqa: ARG002
        """Show loss, tokens per second and the time left."""
        status, left = f"loss {loss:.4f}, {speed:,.0f} tokens/s", timedelta(seconds=round(remaining))
        self._display.update(step, status, f"step {step} of {self._total}: {status}, {left} left")

    def evaluated(self, step: int, scores: Mapping[str, float | None], best: bool) -> None:
        """Print the scores, with a dash for one that could not be computed."""
        listed = ", ".join(f"{name} {'–' if value is None else f'{value:.4f}'}" for name, value in scores.items())
        self._display.say(f"step {step}: {listed}{' (best so far)' if best else ''}")
