"""Heads and presets as `figeval ls` lists them, and presets as `figeval show` describes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from figeval.io.text import clean
from figeval.reporting.grid import Grid
from figeval.reporting.result import Result
from figeval.types import JSON
from figeval.wings.training.learners import load_learners
from figeval.wings.training.presets import SENTENCES, Preset, load_presets

if TYPE_CHECKING:
    from rich.console import Console

    from figeval import Harness

HEADINGS = {
    "as_released": "what the released code does differently",
    "not_reproduced": "what is not reproduced here",
    "unknown": "what is not stated anywhere",
}


def heads(harness: Harness) -> Iterator[JSON]:
    """Yield one row per head, the default of a task type first."""
    for entry in load_learners(harness.manager).registry:
        task_type, _, head = entry.name.partition(":")
        yield {"name": head, "type": task_type, "summary": entry.summary, "owner": entry.owner}


def presets(harness: Harness) -> Iterator[JSON]:
    """Yield one row per preset, i.e. per row of a published table."""
    for entry in load_presets(harness.manager).registry:
        row = described(entry.load())
        yield {**row, "hyper-parameters": numbers(row["settings"]), "owner": entry.owner}


def preset_names(harness: Harness) -> Iterator[str]:
    """Yield the names of the presets."""
    return (entry.name for entry in load_presets(harness.manager).registry)


class PresetView(Result):
    """How a published model was trained: the paper's settings, those filled in, and the differences."""

    def __init__(self, harness: Harness, name: str) -> None:
        self._row = described(load_presets(harness.manager).registry.get(name))

    @property
    def grids(self) -> Sequence[Grid]:
        """None: a preset is shown as text."""
        return ()

    def to_dict(self) -> JSON:
        """Return all fields of the row."""
        return self._row

    def notes(self) -> Iterator[str]:
        """Yield the lines of the description."""
        row = self._row
        yield f"{row['name']}: {row['model']} ({row['checkpoint']}) in {row['source']}, {' '.join(row['tasks'])}"
        for heading, lines in sections(row):
            yield from ("", heading, *(f"  {line}" for line in lines))

    def print(self, console: Console) -> None:
        """Print the lines as plain text."""
        from rich.text import Text

        console.print(Text(clean("\n".join(self.notes()))), soft_wrap=True)


def described(preset: Preset) -> JSON:
    """Return all fields of a row."""
    return {
        "name": preset.full_name,
        "source": preset.table.source,
        "tasks": list(preset.table.tasks),
        "model": preset.own.model,
        "checkpoint": preset.own.checkpoint,
        "printed": preset.printed,
        "settings": preset.settings,
        **{kind: preset.sentences(kind) for kind in SENTENCES},
    }


def sections(row: JSON) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings and lines that describe a row (`described`)."""
    printed, settings = flat(row["printed"]), flat(row["settings"])
    filled_in = {name: value for name, value in settings.items() if name not in printed}
    for heading, values in (("published", printed), ("filled in from the released code", filled_in)):
        if values:
            yield heading, [f"{name} {value}" for name, value in values.items()]
    yield from ((heading, row[kind]) for kind, heading in HEADINGS.items() if row[kind])


def flat(settings: JSON) -> dict[str, str]:
    """Return settings as flags take them, with each option of a head on its own."""
    options = {f"head_args {name}": value for name, value in settings.get("head_args", {}).items()}
    values = {name: value for name, value in settings.items() if name != "head_args"} | options
    typed = {}
    for name, value in values.items():
        if isinstance(value, list | tuple):
            typed[name] = ",".join(map(str, value))
        else:
            typed[name] = f"{value:g}" if isinstance(value, float) else str(value).lower()
    return typed


def numbers(settings: JSON) -> str:
    """Return the main settings in a few words: `lr 2e-05, 25 epochs, batches of 16, seed 42`."""
    rate = settings.get("lr")
    parts = [f"lr {rate:g}" if rate else str(settings.get("optimizer"))]
    parts.append(f"{settings['epochs']} epochs" if "epochs" in settings else "")
    parts.append(f"batches of {settings['batch_size']}" if "batch_size" in settings else "")
    parts.append(f"seed {settings['seed']}" if "seed" in settings else "")
    return ", ".join(filter(None, parts))
