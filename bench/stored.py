"""Readers of stored results, as README and docs show them: scores of runs, trivial models, records of benchmarks."""

from __future__ import annotations

import json
import math
from collections.abc import Container
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from figeval.metrics.differences import ALPHA
from figeval.metrics.paired import compare_paired
from figeval.metrics.seeds import interval_over_seeds
from figeval.records.run_folder import RunFolder, read_record
from figeval.records.schema import ScoreRecord, TaskRecord
from figeval.records.sweep import SEEDS, run_or_mean
from figeval.runs.stored import stored_values

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "results" / "measured"


class Value(NamedTuple):
    """A number and its interval; if there is no interval, both ends are the number itself."""

    value: float
    low: float
    high: float


@lru_cache(maxsize=64)
def tasks_of(run: str) -> dict[str, TaskRecord]:
    """Return the tasks of a stored run, or those of a trained model's runs, with means over its seeds, by name."""
    folder = MEASURED / run
    if (folder / "run.json").is_file():
        return {task.task: task for task in read_record(folder / "run.json").tasks}
    paths = [folder] if (folder / SEEDS).is_file() else sorted(folder.rglob("run.json"))
    return {task.task: task for path in paths for task in run_or_mean(path).tasks}


def runs_of(name: str, task: str) -> list[Path]:
    """Return the folders of the stored runs with predictions of a task: one, or one for each seed of a training."""
    folders = sorted(file.parent for file in (MEASURED / name).rglob("run.json"))
    return [folder for folder in folders if RunFolder(folder).has_predictions(task)]


@lru_cache(maxsize=64)
def difference(run: str, before: str, task: str, metric: str) -> Value | None:
    """Return the difference of two stored runs' means on the same examples, with its interval.

    For a training with several seeds, it is the mean over the seeds, and the interval holds for other seeds, too. An
    interval that the sign-flip test contradicts is replaced by one from minus infinity to infinity.

    The result is None if predictions are missing, the metric is not a mean over examples, or `before` has several
    seeds.
    """
    ours, theirs = runs_of(run, task), runs_of(before, task)
    tables = [stored_values(RunFolder(folder), task, metric) for folder in (*ours, *theirs)]
    if len(theirs) != 1 or not ours or not all(tables):
        return None
    *trained_tables, base = tables
    names = [name for name in base if all(name in table and table[name][0] is not None for table in tables)]
    clusters = [base[name][1] for name in names]
    differences = np.array(
        [[(table[name][0] or 0.0) - (base[name][0] or 0.0) for name in names] for table in trained_tables]
    )
    comparison = compare_paired(differences.mean(axis=0).tolist(), [0.0] * len(names), clusters, None)
    interval = comparison if len(trained_tables) == 1 else interval_over_seeds(differences, clusters, None)
    if comparison.difference is None:
        return None
    low, high = interval.low, interval.high
    if low is None or high is None or comparison.p is None or (comparison.p >= ALPHA and not low <= 0 <= high):
        low, high = -math.inf, math.inf
    return Value(comparison.difference, low, high)


def score_of(run: str, task: str, metric: str, baseline: str | None = None) -> ScoreRecord | None:
    """Return one score of the model or of a trivial model, or None if there is none."""
    record = tasks_of(run).get(task)
    if record is None:
        return None
    trivial = (floor.scores for floor in record.baselines if floor.baseline == baseline)
    scores = record.scores if baseline is None else next(trivial, [])
    return next((score for score in scores if score.metric == metric), None)


def short(number: float | None) -> str:
    """Format a number with three digits, as in the tables."""
    return f"{number or 0:.3f}".replace("0.", ".", 1).replace("-", "−")


def shown(score: ScoreRecord | None) -> str:
    """Format a score with its interval, and a mean over seeds also with its standard deviation."""
    if score is None or score.value is None:
        return "–"
    spread = "" if score.sd is None else f" ± {short(score.sd)}"
    interval = "" if score.low is None else f" [{short(score.low)}, {short(score.high)}]"
    return f"{short(score.value)}{spread}{interval}"


def floors(task: TaskRecord | None, metric: str, without: Container[str] = ()) -> str:
    """List the trivial models of a task with their scores, but for some."""
    baselines = [floor for floor in (task.baselines if task else ()) if floor.baseline not in without]
    trivial_scores = [
        (floor.baseline, s) for floor in baselines for s in floor.scores if s.metric == metric and s.value is not None
    ]
    return ", ".join(f"{name} {shown(score).partition(' ')[0]}" for name, score in trivial_scores) or "–"


def benched(name: str) -> dict[str, Any] | None:
    """Return the record of a benchmark, or None if it was not stored."""
    file = MEASURED / "bench" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
