"""The row of a preset in a form for people to read."""

from __future__ import annotations

from collections.abc import Iterator

from figeval.training.presets import SENTENCES, Preset
from figeval.types import JSON

HEADINGS = {
    "as_released": "what the released code does differently",
    "not_reproduced": "what is not reproduced here",
    "unknown": "what is not stated anywhere",
}


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
