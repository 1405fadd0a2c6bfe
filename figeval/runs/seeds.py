"""Summary of the runs of several seeds: mean, standard deviation, and an interval over other seeds and examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from figeval.metrics.discrimination import NUMBERS, ContrastAnswer
from figeval.metrics.intervals import Bounds
from figeval.metrics.seeds import (
    SeededValues,
    discrimination_over_seeds,
    interval_over_languages,
    interval_over_seeds,
    over_seeds,
)
from figeval.records.notes import left_out, task_warnings
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder
from figeval.records.schema import UNEQUAL_ANSWERS, ContrastRecord, RunRecord, ScoreRecord, TaskRecord
from figeval.records.sweep import SeedScore
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
        _line(line.task.task, line.scores, _interval(line, folders), len(folders), line.language, line.unseen_only)
        for line in _lines(runs)
    )
    return [*tasks, *_contrasts(runs, folders)]


def _contrasts(runs: Runs, folders: Mapping[str, RunFolder]) -> Iterator[SeedScore]:
    """Yield a line per contrast and metric."""
    records = {str(seed): {contrast.name: contrast for contrast in run.contrasts} for seed, run in runs.items()}
    for name, first in next(iter(records.values()), {}).items():
        contrasts = {seed: by_name[name] for seed, by_name in records.items() if name in by_name}
        scores = [
            {seed: contrast.scores[index] for seed, contrast in contrasts.items()} for index in range(len(first.scores))
        ]
        reasons = [
            next(
                (score.interval.reason for score in by_seed.values() if score.seen is not None or score.value is None),
                "",
            )
            for by_seed in scores
        ]
        answers: list[Mapping[tuple[str, str], ContrastAnswer]] = []
        if not all(reasons):  # read rows only if there may be an interval
            answers = [_answers(contrast, runs[int(seed)], folders[seed]) for seed, contrast in contrasts.items()]
        for by_seed, reason in zip(scores, reasons, strict=True):
            interval = Interval(reason=reason) if reason else _of_contrast(first, by_seed, answers)
            yield _line(name, by_seed, interval, len(runs))


def _answers(contrast: ContrastRecord, run: RunRecord, folder: RunFolder) -> dict[tuple[str, str], ContrastAnswer]:
    """Return the answers of a run to the examples of a contrast, by task and id."""
    tasks = {(task.of or task.task, task.variant): task.task for task in run.tasks}
    rows = ((name, row) for name in contrast.tasks for row in folder.rows(tasks[name, contrast.variant]))
    answers = (((name, row["id"]), ContrastAnswer.of_row(row, contrast.label, contrast.within)) for name, row in rows)
    return {key: answer for key, answer in answers if answer is not None and answer.answered}


def _of_contrast(
    contrast: ContrastRecord,
    scores: Mapping[str, ScoreRecord],
    answers: Sequence[Mapping[tuple[str, str], ContrastAnswer]],
) -> Interval:
    """Return the interval of an AUC or a balanced accuracy over examples that all seeds have answered."""
    if any(list(by_example) != list(answers[0]) for by_example in answers):
        return Interval(reason=UNEQUAL_ANSWERS)
    number = NUMBERS[next(iter(scores.values())).metric]
    return discrimination_over_seeds(
        number, [list(by_example.values()) for by_example in answers], within=contrast.within is not None
    )


def _line(
    task: str,
    scores: Mapping[str, ScoreRecord],
    interval: Interval,
    seeds: int,
    language: str = "",
    unseen_only: bool = False,
) -> SeedScore:
    """Return the line of a score; `scores` has it by seed, and there is a mean only if all `seeds` have a value."""
    values = [score.value for score in scores.values() if score.value is not None]
    summary = over_seeds(values) if values and len(values) == seeds else None
    first = next(iter(scores.values()))
    return SeedScore(
        task=task,
        metric=first.metric,
        language=language,
        n=min(score.n for score in scores.values()),
        values={seed: score.value for seed, score in scores.items()},
        mean=summary.mean if summary else None,
        sd=summary.sd if summary else None,
        low=interval.low,
        high=interval.high,
        interval=interval,
        seen=strongest(score.seen for score in scores.values()),
        unseen_only=unseen_only,
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """The scores of a task on one metric, by seed: on all examples, those in one language, or those not seen."""

    task: TaskRecord
    scores: Mapping[str, ScoreRecord]
    language: str = ""
    unseen_only: bool = False


def _lines(runs: Runs) -> Iterator[_Line]:
    """Yield the lines in the order of the first run."""
    first = next(iter(runs.values()), None)
    for task in first.tasks if first is not None else ():
        parts = [*((record.language, False) for record in task.languages), ("", False), ("", True)]
        for score in task.scores:
            for language, unseen_only in parts:
                records = {
                    str(seed): _of(run, task.task, score.metric, language, unseen_only) for seed, run in runs.items()
                }
                scores = {seed: record for seed, record in records.items() if record is not None}
                if scores:
                    yield _Line(task, scores, language, unseen_only)


def _of(run: RunRecord, name: str, metric: str, language: str, unseen_only: bool) -> ScoreRecord | None:
    task = next((task for task in run.tasks if task.task == name), None)
    if task is None:
        return None
    scores = task.scores
    if unseen_only:
        scores = task.overlap.scores if task.overlap is not None else []
    elif language:
        scores = next((record.scores for record in task.languages if record.language == language), [])
    return next((score for score in scores if score.metric == metric), None)


def _interval(line: _Line, folders: Mapping[str, RunFolder]) -> Interval:
    """Return the interval of a mean over examples that all seeds have answered; other scores have no interval."""
    first = next(iter(line.scores.values()))
    seen = next((score for score in line.scores.values() if score.seen is not None), None)
    if seen is not None:
        return seen.interval
    run_folders = [folders[seed] for seed in line.scores]
    tables = [stored_values(folder, line.task.task, first.metric, line.unseen_only) for folder in run_folders]
    if not all(tables):
        return Interval(reason="no mean over examples")
    groups: Mapping[str, Iterable[str]] = {"": dict.fromkeys(example for table in tables for example in table)}
    if line.task.languages:
        examples = stored_languages(run_folders[0], line.task)
        groups = {name: ids for name, ids in examples.items() if line.language in ("", name)}
    bounds = declared_bounds(line.task, first.metric, Harness().metrics)
    values = {name: _values(tables, ids, bounds) for name, ids in groups.items()}
    shared = {name: seeded for name, seeded in values.items() if seeded is not None}
    if len(shared) < len(values):
        return Interval(reason=UNEQUAL_ANSWERS)
    if line.task.languages and not line.language:
        return interval_over_languages(shared)
    (seeded,) = shared.values()
    return interval_over_seeds(seeded.values, seeded.clusters, seeded.bounds)


def _values(tables: Sequence[Values], ids: Iterable[str], bounds: Bounds) -> SeededValues | None:
    """Return the values of the given examples by seed, or None if the seeds have not answered the same ones."""
    ids = list(ids)
    answered = [[example for example in ids if table.get(example, (None, None))[0] is not None] for table in tables]
    if any(examples != answered[0] for examples in answered):
        return None
    rows = [[table[example][0] for example in answered[0]] for table in tables]
    values = np.array(rows, dtype=np.float64)
    within = bounds is not None and bool(((values >= bounds[0]) & (values <= bounds[1])).all())
    return SeededValues(values, [tables[0][name][1] for name in answered[0]], bounds if within else None)


def warnings_of(runs: Runs) -> list[str]:
    """Return the warnings of the runs, each one once."""
    warnings = (text for run in runs.values() for text in (*run.warnings, *left_out(run), *task_warnings(run)))
    return list(dict.fromkeys(warnings))
