"""The records of several trainings, `seeds.json` and `grid.json`, stored above the folders of the trainings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from statistics import fmean
from typing import Any, TypeAlias, TypeVar

from pydantic import Field, model_validator

from figeval.errors import RecordError, TrainError
from figeval.io.files import replace_text
from figeval.io.json_files import read_model
from figeval.records.run_folder import SEEDS as SEEDS
from figeval.records.run_folder import RunFolder, find_record, read_run
from figeval.records.schema import (
    CHOSEN_ON_TEST,
    SEEN_DESCRIPTION,
    MacroRecord,
    Role,
    RunRecord,
    ScoreRecord,
    Stored,
    TaskRecord,
)
from figeval.records.stored_types import StoredInterval

GRID = "grid.json"
MAX_SEEDS = 10_000
Sweep = TypeVar("Sweep", "SeedsRecord", "GridRecord")


class SeedScore(Stored):
    """One metric of one task over the seeds."""

    task: str
    metric: str
    language: str = Field(default="", description="of a task with several: empty for the mean over them")
    n: int = Field(description="examples that were scored, of the seed with the fewest")
    values: dict[str, float | None] = Field(description="the score of each seed")
    mean: float | None = Field(description="null where a seed has no score")
    sd: float | None = Field(description="standard deviation over the seeds")
    low: float | None = Field(
        frozen=True, description="lower end of the 95 % interval over other seeds and other examples"
    )
    high: float | None = Field(frozen=True)
    interval: StoredInterval = Field(frozen=True, description="the method behind the interval, or why there is none")
    seen: Role | None = Field(default=None, description=SEEN_DESCRIPTION)
    unseen_only: bool = Field(default=False, description="only over the examples that no seed's model has seen")

    @model_validator(mode="after")
    def _set_seen(self) -> SeedScore:
        """Set the mark that records before 1.4 only have in `interval`."""
        if self.interval.reason == CHOSEN_ON_TEST and self.seen is None:
            self.seen = "chosen"
        return self


class SeedsRecord(Stored):
    """Trainings that differ in their seed."""

    task: str
    model: str
    seeds: list[int] = Field(description="those that are done")
    wanted: list[int]
    runs: dict[str, str] = Field(description="the run of each seed, relative to this file")
    scores: list[SeedScore] = Field(default=[], description="a line per task, metric and language")
    warnings: list[str] = Field(default=[], description="warnings of the runs")


class GridPoint(Stored):
    """One combination of config values."""

    folder: str = Field(description="relative to this file")
    values: dict[str, Any]
    scores: dict[str, float | None] = Field(default={}, description="on dev, of the chosen checkpoint")
    step: int | None = None
    error: str = Field(default="", description="why it was not trained to the end")


class GridRecord(Stored):
    """Trainings that differ in config values, compared on dev."""

    task: str
    model: str
    dev: str = Field(default="", description="source of the examples for the comparison")
    metrics: list[str] = Field(default=[], description="metrics to compare by; later ones break ties")
    points: list[GridPoint] = Field(default=[], description="all combinations so far, in order")
    best: str | None = Field(default=None, description="the folder of the best one, once all are done")


def write(record: SeedsRecord | GridRecord, file: Path) -> None:
    """Replace the file atomically."""
    replace_text(file, record.model_dump_json(indent=1) + "\n")


def read(kind: type[Sweep], file: Path) -> Sweep:
    """Read a record from a file. Raises `RecordError` if the file is not a record of this kind."""
    return read_model(file, kind, RecordError, cure="it was not written by this version of figeval")


def parse_seeds(text: str, first: int) -> list[int]:
    """Parse --seeds: `5` means five seeds, starting at `first`; `1,7` or `7,` lists the seeds.

    Raises:
        TrainError: The text is neither, or a seed is negative or repeated.
    """
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise TrainError(f"--seeds {text}: give a number of seeds, or seeds separated by commas") from error
    seeds = numbers if "," in text else range(first, first + min(sum(numbers), MAX_SEEDS + 1))
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise TrainError(f"--seeds {text}: give the number of seeds (at least 1), or distinct seeds (0 or more)")
    if len(seeds) > MAX_SEEDS:
        raise TrainError(f"--seeds {text}: give at most {MAX_SEEDS:,} seeds")
    return [*seeds]


# ---- several runs as one --------------------------------------------------------------------------------------------


def run_or_mean(path: Path) -> RunRecord:
    """Return the run in a folder, or one record of means if the folder holds several seeds.

    Raises:
        RecordError: there is neither, or a seed has no run.
    """
    return run_or_seeds(path)[0]


def run_or_seeds(path: Path) -> tuple[RunRecord, list[tuple[RunRecord, RunFolder]]]:
    """Return the record of `run_or_mean`, and the run in a folder, or the runs of its seeds, with their folders.

    Raises:
        RecordError: there is neither, or a seed has no run.
    """
    file = path / SEEDS if path.is_dir() else path
    if file.name != SEEDS or not file.is_file():
        recorded_run = read_run(path)
        return recorded_run[0], [recorded_run]
    record = read(SeedsRecord, file)
    if not record.runs:
        raise RecordError(f"{file} has no runs; train with --evaluate")
    runs = [read_run(file.parent / run) for run in record.runs.values()]
    return mean_of(record, [run for run, _ in runs]), runs


def whole_runs(path: Path) -> Iterator[Path]:
    """Yield what `run_or_seeds` reads at a path: a run, a folder of several seeds, or all runs of a trained model.

    Raises:
        RecordError: there are several seeds or a trained model without runs.
    """
    seeds = path / SEEDS if path.is_dir() else path
    if seeds.name == SEEDS and seeds.is_file():
        runs = [seeds.parent] if read(SeedsRecord, seeds).runs else []
    elif not find_record(path).is_file() and (path / "training").is_dir():
        runs = sorted(file.parent for file in path.glob("runs/*/run.json"))
    else:
        runs = [path]
    if not runs:
        raise RecordError(f"{path} has no runs; evaluate the model with `figeval run --model {quote(str(path))}`")
    yield from runs


def run_folders(path: Path) -> Iterator[Path]:
    """Yield the folders of the runs at a path: those of `whole_runs`, and of several seeds the run of each.

    Raises:
        RecordError: there are several seeds or a trained model without runs.
    """
    for folder in whole_runs(path):
        seeds = folder / SEEDS
        runs = [folder / run for run in read(SeedsRecord, seeds).runs.values()] if seeds.is_file() else [folder]
        for run in runs:
            file = find_record(run)
            yield file.parent if file.is_file() else run  # `read_run` says that there is no run


def mean_of(record: SeedsRecord, runs: Sequence[RunRecord]) -> RunRecord:
    """Return the first run with its scores replaced by the means of all runs.

    Results of a single training are left out (breakdowns, kinds of options, counts, predictions).
    """
    first = runs[0]
    means = {(score.task, score.metric, score.language, score.unseen_only): score for score in record.scores}
    return RunRecord(
        identity=hashlib.sha256(" ".join(run.identity for run in runs).encode()).hexdigest()[:8],
        status=first.status,
        started=first.started,
        command=first.command,
        config=first.config,
        model=first.model.model_copy(
            update={"name": f"{record.model} on {record.task}, {len(runs)} seeds", "fingerprint": ""}
        ),
        tasks=[_mean_task(task, means, runs) for task in first.tasks],
        macro=list(_mean_macros(runs)),
        contrasts=[
            contrast.model_copy(update={"scores": _means(contrast.scores, contrast.name, means)})
            for contrast in first.contrasts
        ],
        provenance=first.provenance,
        warnings=list(dict.fromkeys(warning for run in runs for warning in run.warnings)),
        left_out=first.left_out,
    )


Means: TypeAlias = dict[tuple[str, str, str, bool], SeedScore]


def _means(
    scores: Sequence[ScoreRecord], name: str, means: Means, language: str = "", *, unseen_only: bool = False
) -> list[ScoreRecord]:
    """Return the scores of a task or contrast with their values replaced by the means."""
    records = []
    for score in scores:
        mean = means.get((name, score.metric, language, unseen_only))
        if mean is not None:
            records.append(score.with_interval(mean.interval, value=mean.mean, sd=mean.sd, n=mean.n, seen=mean.seen))
    return records


def _mean_task(task: TaskRecord, means: Means, runs: Sequence[RunRecord]) -> TaskRecord:
    records = [record for run in runs for record in run.tasks if record.task == task.task]
    warnings = list(dict.fromkeys(warning for record in records for warning in record.warnings))
    languages = [
        language.model_copy(update={"scores": _means(language.scores, task.task, means, language.language)})
        for language in task.languages
    ]
    updates: dict[str, Any] = {
        "scores": _means(task.scores, task.task, means),
        "languages": [language for language in languages if language.scores],  # earlier versions kept none
        "breakdowns": [],
        "choices": [],
        "counts": {},
        "predictions": "",
        "warnings": warnings,
    }
    if task.overlap is not None:
        scores = _means(task.overlap.scores, task.task, means, unseen_only=True)
        updates["overlap"] = task.overlap.model_copy(update={"scores": scores})
    return task.model_copy(update={**updates, "seconds": sum(record.seconds for record in records)})


def _mean_macros(runs: Sequence[RunRecord]) -> Iterator[MacroRecord]:
    for macro in runs[0].macro:
        values = [
            other_macro.value
            for run in runs
            for other_macro in run.macro
            if (other_macro.suite, other_macro.metric) == (macro.suite, macro.metric)
        ]
        numbers = [value for value in values if value is not None]
        is_complete = len(numbers) == len(runs)
        yield macro.model_copy(update={"value": fmean(numbers) if is_complete else None})
