"""The runs of several seeds as one table: mean, standard deviation, and an interval over other seeds and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from figeval.evaluation.selection_bias import strongest
from figeval.evaluation.stored import stored_values
from figeval.metrics.intervals import Interval
from figeval.metrics.seeds import interval_over_seeds, over_seeds
from figeval.records.folder import RunFolder
from figeval.records.schema import RunRecord, ScoreRecord
from figeval.records.sweep import SeedScore

Runs = Mapping[int, RunRecord]


def scores_of(runs: Runs, folders: Mapping[str, Path]) -> list[SeedScore]:
    """A line per task and metric, and one for the unseen examples below it where the models have seen some of them;
    `folders` has the run of each seed.
    """
    return [_score(line, folders) for line in _lines(runs)]


@dataclass(frozen=True, slots=True)
class _Line:
    """The scores of a task by one metric, by seed; of all examples, or of those that no model has seen."""

    task: str
    found: Mapping[str, ScoreRecord]
    unseen_only: bool
    of_languages: bool  # the score is a mean over languages


def _lines(runs: Runs) -> Iterator[_Line]:
    """In the order of the first run."""
    first = next(iter(runs.values()), None)
    for task in first.tasks if first is not None else ():
        for score in task.scores:
            for unseen_only in (False, True):
                found = {str(seed): _of(run, task.task, score.metric, unseen_only) for seed, run in runs.items()}
                known = {seed: one for seed, one in found.items() if one is not None}
                if known:
                    yield _Line(task.task, known, unseen_only, bool(task.languages))


def _of(run: RunRecord, task: str, metric: str, unseen_only: bool) -> ScoreRecord | None:
    tasks = [one for one in run.tasks if one.task == task]
    scores = (
        score
        for one in tasks
        for score in (one.scores if not unseen_only else one.overlap.scores if one.overlap is not None else ())
    )
    return next((score for score in scores if score.metric == metric), None)


def _score(line: _Line, folders: Mapping[str, Path]) -> SeedScore:
    found = line.found
    values = {seed: score.value for seed, score in found.items()}
    known = [value for value in values.values() if value is not None]
    whole = over_seeds(known) if known and len(known) == len(folders) else None
    first = next(iter(found.values()))
    interval = _interval(line, folders)
    return SeedScore(
        task=line.task,
        metric=first.metric,
        n=first.n,
        values=values,
        mean=whole.mean if whole else None,
        sd=whole.sd if whole else None,
        low=interval.low,
        high=interval.high,
        interval=interval.method,
        seen=strongest(score.seen for score in found.values()),
        unseen_only=line.unseen_only,
    )


def _interval(line: _Line, folders: Mapping[str, Path]) -> Interval:
    """Of a mean over examples that all seeds have answered alike; there is none of anything else."""
    found = line.found
    first = next(iter(found.values()))
    seen = next((score for score in found.values() if score.seen is not None), None)
    if seen is not None:
        return Interval(seen.interval)
    tables = [stored_values(RunFolder(folders[seed]), line.task, first.metric, line.unseen_only) for seed in found]
    if not all(tables):
        return Interval("none: no mean over examples")
    if line.of_languages:
        return Interval("none: a mean over languages")
    answered = [{example for example, (value, _) in table.items() if value is not None} for table in tables]
    if any(ids != answered[0] for ids in answered):
        return Interval("none: not the same examples answered")
    ids = sorted(answered[0])
    values = [[value for one in ids if (value := table[one][0]) is not None] for table in tables]
    bounds = (0.0, 1.0) if all(0 <= value <= 1 for row in values for value in row) else None
    return interval_over_seeds(values, [tables[0][example][1] for example in ids], bounds)


def warnings_of(runs: Runs) -> list[str]:
    """What the runs warn of, each sentence once."""
    found = (
        warning
        for run in runs.values()
        for warning in (*run.warnings, *(f"{task.task}: {text}" for task in run.tasks for text in task.warnings))
    )
    return list(dict.fromkeys(found))
