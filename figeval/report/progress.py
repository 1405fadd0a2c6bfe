"""How a run goes on: a bar with rate and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from figeval.records.schema import TaskRecord
from figeval.report.grid import say
from figeval.text import clean


class Lines:
    """Plain lines on stderr: at the start, every ten seconds, at the end."""

    def __init__(self, console: Any) -> None:
        self.console = console
        self._task, self._n, self._done, self._began, self._said = "", 0, 0, 0.0, 0.0

    def live(self) -> AbstractContextManager[Any]:
        """Nothing to keep open."""
        return nullcontext()

    def resumed(self, folder: Path, kept: int, n: int) -> None:
        """Say what is kept of an earlier session."""
        self._say(continuing(folder, kept, n))

    def task_started(self, task: str, n: int, done: int) -> None:
        """Name the task."""
        self._task, self._n, self._done = task, n, done
        self._began = self._said = time.monotonic()
        kept = f", {done} of them kept from before" if done else ""
        self._say(f"{task}: {n} examples{kept}")

    def advanced(self, rows: int) -> None:
        """Count, and now and then say so."""
        self._done += rows
        now = time.monotonic()
        if now - self._said > 10:
            self._said = now
            self._say(f"{self._task}: {self._done} of {self._n} after {now - self._began:.0f} s")

    def scoring(self, what: str) -> None:
        """Not worth a line."""

    def task_ended(self, task: TaskRecord) -> None:
        """Say how long it took."""
        outcome = "done" if task.status == "done" else "FAILED"
        self._say(f"{task.task}: {outcome} in {task.seconds + task.baseline_seconds:.1f} s")

    def _say(self, text: str) -> None:
        self.console.print(clean(text), markup=False, highlight=False)


class Bar:
    """A bar per task with examples per second and the time left."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
        )
        self._current: Any = None
        self._began, self._since = 0.0, 0

    def live(self) -> AbstractContextManager[Any]:
        """The display, shown while the context is open."""
        return self._progress

    def resumed(self, folder: Path, kept: int, n: int) -> None:
        """Say above the bars what is kept of an earlier session."""
        say(self._progress.console, continuing(folder, kept, n))

    def task_started(self, task: str, n: int, done: int) -> None:
        """Open a bar."""
        self._began, self._since = time.monotonic(), 0
        self._current = self._progress.add_task(task, total=n, completed=done, rate="")

    def advanced(self, rows: int) -> None:
        """Move it."""
        self._since += rows
        rate = self._since / max(time.monotonic() - self._began, 1e-3)
        self._progress.update(self._current, advance=rows, rate=f"{rate:,.0f}/s")

    def scoring(self, what: str) -> None:
        """Say what is being computed after the last example."""
        self._progress.update(self._current, rate=f"{what} …")

    def task_ended(self, task: TaskRecord) -> None:
        """Leave the bar with its time."""
        outcome = f"{task.seconds:.1f} s" if task.status == "done" else "FAILED"
        self._progress.update(self._current, rate=outcome)


def continuing(folder: Path, kept: int, n: int) -> str:
    """`continuing, 624 of 1000 answers kept in results/nli`."""
    return f"continuing, {kept} of {n} answers kept in {folder}"


def progress_on(console: Any) -> Bar | Lines:
    """The kind of progress that suits this console."""
    return Bar(console) if console.is_terminal else Lines(console)
