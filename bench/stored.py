"""What was measured, as README and docs show it: scores of the stored runs, trivial models, records of benchmarks."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from figeval.records.folder import read_record
from figeval.records.schema import ScoreRecord, TaskRecord
from figeval.records.sweep import SEEDS, run_or_mean

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "results" / "measured"


class Value(NamedTuple):
    """A number and its interval, which is the number itself where there is none."""

    value: float
    low: float
    high: float


@lru_cache(maxsize=64)
def tasks_of(run: str) -> dict[str, TaskRecord]:
    """The tasks of a stored run, or those that a trained model was run on: the means of its seeds, or its runs."""
    folder = MEASURED / run
    if (folder / "run.json").is_file():
        return {task.task: task for task in read_record(folder / "run.json").tasks}
    places = [folder] if (folder / SEEDS).is_file() else sorted(folder.rglob("run.json"))
    return {task.task: task for place in places for task in run_or_mean(place).tasks}


def score_of(run: str, task: str, metric: str, baseline: str | None = None) -> ScoreRecord | None:
    """One score, of the model or of a trivial one; None where there is none."""
    record = tasks_of(run).get(task)
    if record is None:
        return None
    trivial = (one.scores for one in record.baselines if one.baseline == baseline)
    scores = record.scores if baseline is None else next(trivial, [])
    return next((score for score in scores if score.metric == metric), None)


def short(number: float | None) -> str:
    """Three digits, as in the tables."""
    return f"{number or 0:.3f}".replace("0.", ".", 1)


def shown(score: ScoreRecord | None) -> str:
    """A score with its interval; a mean over seeds with their standard deviation between."""
    if score is None or score.value is None:
        return "–"
    spread = "" if score.sd is None else f" ± {short(score.sd)}"
    interval = "" if score.low is None else f" [{short(score.low)}, {short(score.high)}]"
    return f"{short(score.value)}{spread}{interval}"


def floors(task: TaskRecord | None, metric: str) -> str:
    """The trivial models of a task, by name and number."""
    found = [(one.baseline, s) for one in (task.baselines if task else ()) for s in one.scores if s.metric == metric]
    return ", ".join(f"{name} {shown(score).partition(' ')[0]}" for name, score in found) or "–"


def benched(name: str) -> dict[str, Any] | None:
    """The record of a benchmark; None where it was not stored."""
    file = MEASURED / "bench" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
