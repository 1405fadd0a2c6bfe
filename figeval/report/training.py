"""How a training goes on: a bar with loss, speed and time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from figeval.report.grid import Grid, say
from figeval.report.table import MARKS, number
from figeval.text import clean
from figeval.types import JSON


class Lines:
    """Plain lines on stderr: at the start, every ten seconds, at every evaluation."""

    def __init__(self, console: Any) -> None:
        self.console = console
        self._total, self._said = 0, 0.0

    def live(self) -> AbstractContextManager[Any]:
        """Nothing to keep open."""
        return nullcontext()

    def began(self, total: int, done: int) -> None:
        """How much there is to do."""
        self._total, self._said = total, time.monotonic()
        self._say(f"training: {total} steps" + (f", {done} of them done before" if done else ""))

    def stepped(self, step: int, loss: float, rate: float, speed: float, remaining: float) -> None:  # noqa: ARG002
        """Now and then where it stands."""
        now = time.monotonic()
        if now - self._said > 10:
            self._said = now
            self._say(f"step {step} of {self._total}: {standing(loss, speed)}, {left(remaining)} left")

    def evaluated(self, step: int, scores: Mapping[str, float | None], best: bool) -> None:
        """The scores."""
        self._say(f"step {step}: {listed(scores)}" + (" (best so far)" if best else ""))

    def _say(self, text: str) -> None:
        self.console.print(clean(text), markup=False, highlight=False, soft_wrap=True)


class Bar:
    """A bar over all steps; scores are printed above it."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[standing]}"),
            console=console,
        )
        self._bar: Any = None

    def live(self) -> AbstractContextManager[Any]:
        """The display, shown while the context is open."""
        return self._progress

    def began(self, total: int, done: int) -> None:
        """Open the bar."""
        self._bar = self._progress.add_task("", total=total, completed=done, standing="")

    def stepped(self, step: int, loss: float, rate: float, speed: float, remaining: float) -> None:  # noqa: ARG002
        """Move it."""
        self._progress.update(self._bar, completed=step, standing=f"{standing(loss, speed)}, {left(remaining)} left")

    def evaluated(self, step: int, scores: Mapping[str, float | None], best: bool) -> None:
        """The scores, above the bar."""
        mark = " [green]best so far[/]" if best else ""
        self._progress.console.print(f"step {step}: {listed(scores)}{mark}", highlight=False)


def standing(loss: float, speed: float) -> str:
    """Loss and speed."""
    return f"loss {loss:.4f}, {speed:,.0f} tokens/s"


def left(seconds: float) -> str:
    """A time as people say it."""
    return str(timedelta(seconds=round(seconds)))


def listed(scores: Mapping[str, float | None]) -> str:
    """Metrics and scores; one that could not be computed is a dash."""
    return ", ".join(f"{name} {'–' if value is None else f'{value:.4f}'}" for name, value in scores.items())


def progress_on(console: Any) -> Bar | Lines:
    """The kind of progress that suits this console."""
    return Bar(console) if console.is_terminal else Lines(console)


# ---- a finished one -------------------------------------------------------------------------------------------------


def show_training(record: JSON, console: Any) -> None:
    """Print the table of a training and the notes under it."""
    dev_scores(record).print(console)
    for note in notes(record):
        say(console, f"  {note}")


def dev_scores(record: JSON) -> Grid:
    """The scores on dev of every evaluation."""
    config, evaluations = record["config"], record["evaluations"]
    names = list(dict.fromkeys(name for one in evaluations for name in one["scores"]))
    rows = [
        (str(one["step"]), *(number(one["scores"].get(name)) for name in names), chosen(one["step"], record))
        for one in evaluations
    ]
    title = f"{config['model']} on {record['task']} with {record['head']['name']}, seed {config['seed']}"
    return Grid(("step", *names, ""), rows, title, {"step", *names})


def notes(record: JSON) -> Iterator[str]:
    """What was learnt from, what the checkpoint was chosen by, and what it cost."""
    by = f"chosen by {', '.join(record['select_by'])} on {record['dev']['source']}"
    yield f"learnt from {record['train']['n']} examples in {record['steps']} steps ({record['why']})"
    yield by if record["evaluations"] else "the last checkpoint; nothing was held out"
    yield f"{left(record['seconds'])} and {record['tokens']:,} tokens, {record['peak_memory_mb']:,.0f} MB at most"


def chosen(step: int, record: JSON) -> str:
    """The mark of the checkpoint that came out."""
    if step != record["best"]:
        return ""
    return f"best {MARKS['chosen']}" if record["config"]["select_on"] == "test" else "best"
