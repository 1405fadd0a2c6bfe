"""Summary of the runs of several seeds: mean, standard deviation, and an interval over other seeds and examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from figeval.metrics.discrimination import NUMBERS
from figeval.metrics.intervals import Bounds
from figeval.metrics.seeds import (
    SeededValues,
    discrimination_over_seeds,
    interval_over_languages,
    interval_over_seeds,
    over_seeds,
)
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder
from figeval.records.schema import UNEQUAL_ANSWERS, ContrastRecord, RunRecord, ScoreRecord, TaskRecord
from figeval.records.sweep import SeedScore
from figeval.runs.contrasts import ContrastAnswer, answer_of
from figeval.runs.harness import Harness
from figeval.runs.selection_bias import strongest
from figeval.runs.stored import Values, declared_bounds, stored_languages, stored_values
from figeval.types import Interval

Runs = Mapping[int, RunRecord]


class _Rows(RunFolder):
    """A run folder that keeps the predictions of the task read last, since each metric of a task needs them all."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._task, self._kept = "", list[PredictionRow]()

    def rows(self, task: str) -> Iterator[PredictionRow]:
        """Yield the stored predictions of a task."""
        if task != self._task:
            self._kept = list(super().rows(task))
            self._task = task
        return iter(self._kept)


def scores_of(runs: Runs, paths: Mapping[str, Path]) -> list[SeedScore]:
    """Return a line per task and metric, and per contrast and metric; `paths` has the run folder of each seed.

    If a task has several languages, a line for each comes before it; if the models have seen some of its examples, a
    line for the unseen ones follows it.
    """
    folders = {seed: _Rows(path) for seed, path in paths.items()}
    tasks = (
        _line(one.task.task, one.found, _interval(one, folders), len(folders), one.language, one.unseen_only)
        for one in _lines(runs)
    )
    return [*tasks, *_contrasts(runs, folders)]


def _contrasts(runs: Runs, folders: Mapping[str, RunFolder]) -> Iterator[SeedScore]:
    """Yield a line per contrast and metric."""
    records = {str(seed): {one.name: one for one in run.contrasts} for seed, run in runs.items()}
    for name, first in next(iter(records.values()), {}).items():
        found = {seed: own[name] for seed, own in records.items() if name in own}
        scores = [{seed: one.scores[place] for seed, one in found.items()} for place in range(len(first.scores))]
        reasons = [
            next((one.interval.reason for one in own.values() if one.seen is not None or one.value is None), "")
            for own in scores
        ]
        answers: list[Mapping[tuple[str, str], ContrastAnswer]] = []
        if not all(reasons):  # read rows only if there may be an interval
            answers = [_answers(one, runs[int(seed)], folders[seed]) for seed, one in found.items()]
        for own, reason in zip(scores, reasons, strict=True):
            interval = Interval(reason=reason) if reason else _of_contrast(first, own, answers)
            yield _line(name, own, interval, len(runs))


def _answers(contrast: ContrastRecord, run: RunRecord, folder: RunFolder) -> dict[tuple[str, str], ContrastAnswer]:
    """Return the answers of a run to the examples of a contrast, by task and id."""
    tasks = {(task.of or task.task, task.variant): task.task for task in run.tasks}
    rows = ((name, row) for name in contrast.tasks for row in folder.rows(tasks[name, contrast.variant]))
    found = (((name, row["id"]), answer_of(row, contrast.label, contrast.within)) for name, row in rows)
    return {key: one for key, one in found if one is not None and one.answered}


def _of_contrast(
    contrast: ContrastRecord,
    scores: Mapping[str, ScoreRecord],
    answers: Sequence[Mapping[tuple[str, str], ContrastAnswer]],
) -> Interval:
    """Return the interval of an AUC or a balanced accuracy over examples that all seeds have answered."""
    if any(list(one) != list(answers[0]) for one in answers):
        return Interval(reason=UNEQUAL_ANSWERS)
    number = NUMBERS[next(iter(scores.values())).metric]
    return discrimination_over_seeds(
        number, [list(one.values()) for one in answers], within=contrast.within is not None
    )


def _line(
    task: str,
    found: Mapping[str, ScoreRecord],
    interval: Interval,
    seeds: int,
    language: str = "",
    unseen_only: bool = False,
) -> SeedScore:
    """Return the line of a score; `found` has it by seed, and there is a mean only if all `seeds` have a value."""
    known = [score.value for score in found.values() if score.value is not None]
    whole = over_seeds(known) if known and len(known) == seeds else None
    first = next(iter(found.values()))
    return SeedScore(
        task=task,
        metric=first.metric,
        language=language,
        n=min(score.n for score in found.values()),
        values={seed: score.value for seed, score in found.items()},
        mean=whole.mean if whole else None,
        sd=whole.sd if whole else None,
        low=interval.low,
        high=interval.high,
        interval=interval,
        seen=strongest(score.seen for score in found.values()),
        unseen_only=unseen_only,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """The scores of a task on one metric, by seed: on all examples, those in one language, or those not seen."""

    task: TaskRecord
    found: Mapping[str, ScoreRecord]
    language: str = ""
    unseen_only: bool = False


def _lines(runs: Runs) -> Iterator[_Line]:
    """Yield the lines in the order of the first run."""
    first = next(iter(runs.values()), None)
    for task in first.tasks if first is not None else ():
        parts = [*((one.language, False) for one in task.languages), ("", False), ("", True)]
        for score in task.scores:
            for language, unseen_only in parts:
                found = {
                    str(seed): _of(run, task.task, score.metric, language, unseen_only) for seed, run in runs.items()
                }
                known = {seed: one for seed, one in found.items() if one is not None}
                if known:
                    yield _Line(task, known, language, unseen_only)


def _of(run: RunRecord, name: str, metric: str, language: str, unseen_only: bool) -> ScoreRecord | None:
    task = next((one for one in run.tasks if one.task == name), None)
    if task is None:
        return None
    scores = task.scores
    if unseen_only:
        scores = task.overlap.scores if task.overlap is not None else []
    elif language:
        scores = next((one.scores for one in task.languages if one.language == language), [])
    return next((score for score in scores if score.metric == metric), None)


def _interval(line: _Line, folders: Mapping[str, RunFolder]) -> Interval:
    """Return the interval of a mean over examples that all seeds have answered; other scores have no interval."""
    first = next(iter(line.found.values()))
    seen = next((score for score in line.found.values() if score.seen is not None), None)
    if seen is not None:
        return seen.interval
    places = [folders[seed] for seed in line.found]
    tables = [stored_values(place, line.task.task, first.metric, line.unseen_only) for place in places]
    if not all(tables):
        return Interval(reason="no mean over examples")
    groups: Mapping[str, Iterable[str]] = {"": dict.fromkeys(one for table in tables for one in table)}
    if line.task.languages:
        examples = stored_languages(places[0], line.task)
        groups = {name: ids for name, ids in examples.items() if line.language in ("", name)}
    bounds = declared_bounds(line.task, first.metric, Harness().metrics)
    values = {name: _values(tables, ids, bounds) for name, ids in groups.items()}
    same = {name: one for name, one in values.items() if one is not None}
    if len(same) < len(values):
        return Interval(reason=UNEQUAL_ANSWERS)
    if line.task.languages and not line.language:
        return interval_over_languages(same)
    (one,) = same.values()
    return interval_over_seeds(one.values, one.clusters, one.bounds)


def _values(tables: Sequence[Values], ids: Iterable[str], bounds: Bounds) -> SeededValues | None:
    """Return the values of the given examples by seed, or None if the seeds have not answered the same ones."""
    ids = list(ids)
    answered = [[one for one in ids if table.get(one, (None, None))[0] is not None] for table in tables]
    if any(found != answered[0] for found in answered):
        return None
    rows = [[table[one][0] for one in answered[0]] for table in tables]
    values = np.array(rows, dtype=np.float64)
    within = bounds is not None and bool(((values >= bounds[0]) & (values <= bounds[1])).all())
    return SeededValues(values, [tables[0][name][1] for name in answered[0]], bounds if within else None)


def warnings_of(runs: Runs) -> list[str]:
    """Return the warnings of the runs, each one once."""
    found = (
        warning
        for run in runs.values()
        for warning in (*run.warnings, *(f"{task.task}: {text}" for task in run.tasks for text in task.warnings))
    )
    return list(dict.fromkeys(found))
