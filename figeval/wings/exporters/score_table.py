"""Runs side by side, for people: a line per task and metric, a column per run, and the trivial baselines first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from figeval import Column, RunRecord, Table, TaskRecord
from figeval.records import conditions
from figeval.records.notes import shared_notes
from figeval.records.schema import (
    SEEN_NOTES,
    BaselineRecord,
    ContrastRecord,
    KindRecord,
    Role,
    ScoreRecord,
    baseline_scores,
)

MAX_NOTED_SHARE = 0.95  # of the clusters: above it, no note says how many are effective; exports as data have all


@dataclass(slots=True)
class ScoreLine:
    """One metric of one task, with the scores of each run and each baseline.

    `n` counts the examples on which a score rests if all of them have an answer, or values of the column `unit`. A run
    that has fewer says so at its score (`smaller_n`).
    """

    task: str
    metric: str
    n: int
    unit: str = ""
    scores: dict[int, ScoreRecord] = field(default_factory=dict)  # by number of the run
    baselines: dict[str, ScoreRecord] = field(default_factory=dict)
    is_one_label: bool = False  # a constant answer is never wrong, so that no run is better than another

    def smaller_n(self, run: int) -> int | None:
        """Return the number of examples of a run that has not answered all of them, else None."""
        score = self.scores.get(run)
        return score.n if score is not None and score.value is not None and score.n < self.n else None

    def add(self, run: int, score: ScoreRecord, n: int, baselines: Sequence[BaselineRecord]) -> None:
        """Add the score of a run, which rests on `n` examples if all have an answer, and those of its baselines."""
        self.n = max(self.n, n)
        self.scores[run] = score
        self.baselines |= baseline_scores(baselines, self.metric)


def score_lines(runs: Sequence[RunRecord]) -> list[ScoreLine]:
    """Return the lines of the table, in order of appearance.

    Floors of several runs differ, so they have lines of their own; that of a single run is a baseline of its tasks.

    Runs share a line only if they answered the same examples: with another --limit or --sample, or other data, there is
    a second line for the task. If a model has seen some of the examples, another line has its scores on the others.
    """
    lines = _collect_lines(runs)
    for index, run in enumerate(runs):
        _merge_baseline(lines, index, run)
    order = {task: index for index, task in enumerate(dict.fromkeys(line.task for line in lines))}
    return sorted(lines, key=lambda line: order[line.task])


def _collect_lines(runs: Sequence[RunRecord]) -> list[ScoreLine]:
    """Return the lines in the order in which runs have them, with the baselines of all runs."""
    lines: dict[tuple[str, str, str, str], ScoreLine] = {}
    for index, run in enumerate(runs):
        floors = {str(task.variant) for task in run.tasks if task.is_floor} if len(runs) > 1 else set()
        for task in run.tasks if len(runs) > 1 else run.tasks_with_rows():
            for part, scores, baselines in task.parts():
                name = f"{task.task} ({part})" if part else task.task
                subset = task.overlap.rest_sha256 if task.overlap is not None and part == "remaining" else part
                for score in scores:
                    key = (name, _examples(task), subset, score.metric)
                    line = lines.setdefault(key, ScoreLine(name, score.metric, score.n))
                    line.is_one_label |= task.only_label is not None
                    n = conditions.if_answered(task, score, baselines)
                    line.add(index, score, n, _without_floors(baselines, floors))
        examples = {task.task: _examples(task) for task in run.tasks}
        for contrast in run.contrasts:
            examples_of_tasks = repr([examples.get(task) for task in contrast.tasks])
            for name, contrast_scores in _contrast_parts(contrast, floors):
                # The trivial models of a floor have other inputs.
                baselines = _without_floors(contrast.baselines, floors) if name == contrast.name else []
                for score in contrast_scores:
                    key = (name, examples_of_tasks, "", score.metric)
                    line = lines.setdefault(key, ScoreLine(name, score.metric, score.n, contrast.within or ""))
                    line.add(index, score, score.n, baselines)
    return list(lines.values())


def _without_floors(baselines: Sequence[BaselineRecord], floors: Collection[str]) -> list[BaselineRecord]:
    return [baseline for baseline in baselines if baseline.baseline not in floors]


def _merge_baseline(lines: Sequence[ScoreLine], index: int, run: RunRecord) -> None:
    """Remove the baseline that a run is itself, if their scores are equal; the run then has its scores on all lines.

    It stays on the lines of a task that the run has on other examples, where it is no score of the run.
    """
    name = run.model.name
    lines = [line for line in lines if name in line.baselines]
    run_lines = [line for line in lines if index in line.scores]
    if not run_lines or any(line.scores[index].value != line.baselines[name].value for line in run_lines):
        return
    keys = {(line.task, line.metric) for line in run_lines}
    for line in lines:
        if index not in line.scores and (line.task, line.metric) in keys:
            continue
        line.scores.setdefault(index, line.baselines[name])
        del line.baselines[name]


def _examples(task: TaskRecord) -> str:
    """Return a key for the examples that were used: all, the first n, or a random sample."""
    return f"{task.n} of {task.examples_sha256}: {task.sample_sha256}"


def _contrast_parts(contrast: ContrastRecord, floors: Collection[str]) -> Iterator[tuple[str, Sequence[ScoreRecord]]]:
    """Yield (name of its lines, scores) for a contrast, and for those of the model's floors that get lines."""
    yield contrast.name, contrast.scores
    for floor in contrast.baselines:
        if floor.baseline in floors:
            yield f"{contrast.name}@{floor.baseline}", floor.scores


def baseline_names(lines: Sequence[ScoreLine]) -> list[str]:
    """Return the baselines of all lines, in order of appearance."""
    return list(dict.fromkeys(name for line in lines for name in line.baselines))


def headings(runs: Sequence[RunRecord]) -> list[str]:
    """Return the model of each run with what distinguishes it from others, if necessary the run's identity."""
    names = conditions.labels(runs)
    counts = Counter(names)
    return [name if counts[name] == 1 else f"{name} ({run.identity})" for name, run in zip(names, runs, strict=True)]


def table_notes(
    runs: Sequence[RunRecord], tasks: Collection[str] | None = None, metrics: Collection[str] | None = None
) -> Iterator[str]:
    """Yield notes for the reader of the numbers: tasks without scores, and those of `figeval.records.notes`.

    Args:
        runs: the runs.
        tasks: names of the tasks and contrasts that the table shows; by default all.
        metrics: metrics that it shows; by default all.
    """
    names = headings(runs)
    shown_tasks = [[task for task in run.tasks if tasks is None or task.task in tasks] for run in runs]
    for name, tasks_of_run in zip(names, shown_tasks, strict=True):
        yield from (f"{name} has no scores on {task.task}: {task.status}" for task in tasks_of_run if not task.scores)
    yield from _version_notes(names, shown_tasks)
    for note, indices in shared_notes(runs, tasks, metrics).items():
        yield note if len(indices) == len(runs) else f"{', '.join(names[index] for index in indices)}: {note}"
    yield from dict.fromkeys(
        note
        for tasks_of_run in shown_tasks
        for task in tasks_of_run
        for score in task.scores
        if (note := _cluster_note(score, task.task))
    )


def _version_notes(names: Sequence[str], shown_tasks: Sequence[Sequence[TaskRecord]]) -> Iterator[str]:
    """Yield the tasks of which runs had different versions, so that nobody compares their scores."""
    runs_by_version: dict[str, dict[int, list[str]]] = {}
    for name, tasks in zip(names, shown_tasks, strict=True):
        for task in tasks:
            runs_by_version.setdefault(task.task, {}).setdefault(task.version, []).append(name)
    for task_name, versions in runs_by_version.items():
        if len(versions) > 1:
            parts = "; ".join(f"version {version}: {', '.join(runs)}" for version, runs in sorted(versions.items()))
            yield f"{task_name}: scores of different versions are not comparable ({parts})"


def route_notes(runs: Sequence[RunRecord], tasks: Collection[str] | None = None) -> Iterator[str]:
    """Yield the task types and routes of each run, of the tasks that the table shows."""
    for name, run in zip(headings(runs), runs, strict=True):
        tasks_of_run = (task for task in run.tasks if tasks is None or task.task in tasks)
        if names := dict.fromkeys(f"{task.task_type} {task.route}" for task in tasks_of_run):
            yield f"{name}: {', '.join(names)}"


def sign_notes(runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield what the numbers of a table mean, without a full stop: which are means over languages, and the mark (*)."""
    yield from language_notes(runs)
    if any_score(runs, is_unreliable):
        yield "unreliable intervals (*): fewer than 10 effective clusters"


def language_notes(runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield which scores are means over languages, without a full stop."""
    tasks = {task.task: task.languages for run in runs for task in run.tasks if task.languages}
    for name, languages in tasks.items():
        yield f"{name}: the unweighted mean over {', '.join(part.language for part in languages)}"


class CellFormat(NamedTuple):
    """Functions of a format for texts, values of trivial models, and scores with their n if it is not the usual one."""

    text: Callable[[str], str]
    value: Callable[[ScoreRecord | None], str]
    score: Callable[[ScoreRecord | None, int | None], str]


def score_table(runs: Sequence[RunRecord], lines: Sequence[ScoreLine], cells: CellFormat) -> Table[ScoreLine]:
    """Return the table of all scores: a row per task and metric, columns of trivial models, and those of the runs."""

    def baseline_column(name: str) -> Column[ScoreLine]:
        return Column(value=lambda line: line.baselines.get(name), head=name, text=cells.value, align="right")

    def run_column(run: int, heading: str) -> Column[ScoreLine]:
        return Column(
            value=lambda line: cells.score(line.scores.get(run), line.smaller_n(run)), head=heading, align="right"
        )

    columns: list[Column[ScoreLine]] = [
        Column("task", head="task", text=cells.text),
        Column("metric", head="metric", text=cells.text),
        Column(value=lambda line: f"{line.n} × {line.unit}" if line.unit else str(line.n), head="n", text=cells.text),
        *map(baseline_column, baseline_names(lines)),
        *(run_column(run, heading) for run, heading in enumerate(headings(runs))),
    ]
    return Table(columns, lines)


class OptionKind(NamedTuple):
    """One kind of options of one task, with one run's choices."""

    task: str
    key: str
    model: str
    kind: KindRecord

    @property
    def expected(self) -> str | None:
        """Share among wrong answers if these were drawn at random; None if there were no wrong answers to share."""
        is_missing = self.kind.chosen_wrong.value is None or self.kind.expected_wrong is None
        return None if is_missing else f"{self.kind.expected_wrong:.3f}"


def option_table(runs: Sequence[RunRecord], cells: CellFormat) -> Table[OptionKind]:
    """Return the table of the kinds of options that were chosen, one row per task, kind and run."""
    rows = [
        OptionKind(task.task, choices.key, name, kind)
        for name, run in zip(headings(runs), runs, strict=True)
        for task in run.tasks
        for choices in task.choices
        for kind in choices.kinds
    ]
    columns: list[Column[OptionKind]] = [
        Column("task", head="task", text=cells.text),
        Column(value=lambda row: f"{row.key}: {row.kind.value}", head="options", text=cells.text),
        Column(value=lambda row: row.kind.offered, head="offered"),
        Column("model", head="model", text=cells.text),
        Column(value=lambda row: cells.score(row.kind.chosen, None), head="chosen"),
        Column(value=lambda row: cells.score(row.kind.chosen_wrong, None), head="of wrong answers"),
        Column("expected", head="expected", text=lambda share: share or cells.value(None)),
    ]
    return Table(columns, rows)


def _cluster_note(score: ScoreRecord, task: str) -> str:
    """Return a note on the number of effective clusters if it is noticeably below that of the clusters, else ""."""
    effective = score.effective_clusters
    if effective is None or round(effective) == score.clusters or effective > MAX_NOTED_SHARE * score.clusters:
        return ""
    return f"{task}: {score.clusters} clusters of unequal size are equivalent to {effective:.3g} equal ones"


def seen_roles(runs: Sequence[RunRecord]) -> list[Role]:
    """Return the marks that a table of these runs has."""
    seen = {score.seen for run in runs for score in run.shown_scores()}
    return [role for role in SEEN_NOTES if role in seen]


def bracket_notes(runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield sentences, as LaTeX, on what the intervals of the runs are."""
    over_seeds = "; of means over seeds, over seeds and clusters" if any_score(runs, format_deviation) else ""
    yield rf"In brackets the 95\,\% interval, over clusters if examples are not independent{over_seeds}."
    if any_score(runs, lambda score: score.low is not None and is_unreliable(score)):
        yield "* Unreliable: fewer than 10 effective clusters."


def any_score(runs: Sequence[RunRecord], condition: Callable[[ScoreRecord], object]) -> bool:
    """Return whether any score in a table of these runs fulfils a condition, e.g. has a deviation or a mark."""
    return any(condition(score) for run in runs for score in run.shown_scores())


def format_value(score: ScoreRecord | None) -> str | None:
    """Return a value with three decimals, or None if there is no value."""
    return None if score is None or score.value is None else f"{score.value:.3f}"


def format_deviation(score: ScoreRecord | None) -> str | None:
    """Return the standard deviation over seeds, or None if the value is no mean over several."""
    return None if score is None or score.sd is None else f"{score.sd:.3f}"


def format_interval(score: ScoreRecord | None) -> str | None:
    """Return `[0.058, 0.308]`, with a mark if it is unreliable, or None if there is no interval."""
    if score is None or score.low is None:
        return None
    return f"[{score.low:.3f}, {score.high:.3f}]{'*' if is_unreliable(score) else ''}"


def is_unreliable(score: ScoreRecord) -> bool:
    """Return whether the interval has too few effective clusters."""
    return not score.interval.reliable
