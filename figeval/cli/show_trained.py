"""What `figeval show` prints of a folder of `figeval train`: seeds, a grid, or one training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click


def record_in(path: Path) -> Path | None:
    """The record that a path means, itself or in the folder: of the seeds, else of the grid, else of the training."""
    from figeval.pipeline.training.train import RECORD
    from figeval.records.sweep import GRID, SEEDS

    if path.is_file():
        return path if path.name in (SEEDS, GRID, RECORD) else None
    places = (path / SEEDS, path / GRID, path / "training" / RECORD)
    return next((place for place in places if place.is_file()), None)


def show_trained(file: Path, as_json: bool) -> None:
    """One record. Raises `RecordError` where it is none."""
    from rich.console import Console

    from figeval.errors import RecordError

    text = file.read_text(encoding="utf-8")
    if as_json:
        click.echo(text.rstrip("\n"))
        return
    try:
        shown()[file.name](text, Console())
    except (ValueError, KeyError) as error:  # pydantic's error is a ValueError
        first = str(error).splitlines()[0]
        raise RecordError(f"{file} was not written by this version of figeval ({first})") from error


def shown() -> Mapping[str, Callable[[str, Any], None]]:
    """What prints each kind."""
    import json

    from figeval.pipeline.training.train import RECORD
    from figeval.records.sweep import GRID, SEEDS, GridRecord, SeedsRecord
    from figeval.report.sweep import show_grid, show_seeds
    from figeval.report.training import show_training

    return {
        SEEDS: lambda text, console: show_seeds(SeedsRecord.model_validate_json(text), console),
        GRID: lambda text, console: show_grid(GridRecord.model_validate_json(text), console),
        RECORD: lambda text, console: show_training(json.loads(text), console),
    }
