"""What `figeval show` prints of a folder of `figeval train`: seeds, a grid, or one training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from figeval.cli.output import echo_json


def record_in(path: Path) -> Path | None:
    """The record that a path means, itself or in the folder: of the seeds, else of the grid, else of the training."""
    from figeval.records.sweep import GRID, SEEDS
    from figeval.training.folder import RECORD, TrainFolder

    if path.is_file():
        return path if path.name in (SEEDS, GRID, RECORD) else None
    places = (path / SEEDS, path / GRID, TrainFolder(path).record_file)
    return next((place for place in places if place.is_file()), None)


def show_trained(file: Path, as_json: bool) -> None:
    """One record. Raises `RecordError` where it is none."""
    from rich.console import Console

    from figeval.errors import RecordError

    if as_json:
        echo_json(file.read_text(encoding="utf-8").rstrip("\n"))
        return
    try:
        shown()[file.name](file, Console())
    except (ValueError, KeyError) as error:  # of a training's record, which has no schema
        raise RecordError(f"{file} was not written by this version of figeval ({error})") from error


def shown() -> Mapping[str, Callable[[Path, Any], None]]:
    """What prints each kind."""
    from figeval.errors import RecordError
    from figeval.jsonfile import read_json
    from figeval.records.sweep import GRID, SEEDS, GridRecord, SeedsRecord, read
    from figeval.report.training import show_grid, show_seeds, show_training
    from figeval.training.folder import RECORD

    return {
        SEEDS: lambda file, console: show_seeds(read(SeedsRecord, file), console),
        GRID: lambda file, console: show_grid(read(GridRecord, file), console),
        RECORD: lambda file, console: show_training(read_json(file, RecordError), console),
    }
