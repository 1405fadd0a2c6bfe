"""What stands on disk of several trainings: `seeds.json` and `grid.json` on top of their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from figeval.atomic import replace_text
from figeval.records.schema import Stored

SEEDS, GRID = "seeds.json", "grid.json"


class SeedScore(Stored):
    """One metric of one task over the seeds."""

    task: str
    metric: str
    n: int = Field(description="examples that were scored")
    values: dict[str, float | None] = Field(description="the score of each seed")
    mean: float | None = Field(description="null where a seed has no score")
    sd: float | None = Field(description="standard deviation over the seeds")
    low: float | None = Field(description="lower end of the 95 % interval over other seeds and other examples")
    high: float | None
    interval: str = Field(description="the method behind the interval, or why there is none")


class SeedsRecord(Stored):
    """Trainings that differ in their seed."""

    task: str
    model: str
    seeds: list[int] = Field(description="those that are done")
    wanted: list[int]
    runs: dict[str, str] = Field(description="the run of each seed, relative to this file")
    scores: list[SeedScore] = Field(default=[], description="a line per task and metric")
    warnings: list[str] = Field(default=[], description="what the runs warn of")


class GridPoint(Stored):
    """One combination of values."""

    folder: str = Field(description="relative to this file")
    values: dict[str, Any]
    scores: dict[str, float | None] = Field(default={}, description="on dev, of the chosen checkpoint")
    step: int | None = None
    error: str = Field(default="", description="why it was not trained to the end")


class GridRecord(Stored):
    """Trainings that differ in values of the config, compared on dev."""

    task: str
    model: str
    dev: str = Field(default="", description="where the examples come from that they were compared on")
    metrics: list[str] = Field(default=[], description="by what, the later ones for ties")
    points: list[GridPoint] = Field(default=[], description="all combinations so far, in order")
    best: str | None = Field(default=None, description="the folder of the best one, once all are done")


def write(record: SeedsRecord | GridRecord, file: Path) -> None:
    """Replace the file atomically."""
    replace_text(file, record.model_dump_json(indent=1) + "\n")
