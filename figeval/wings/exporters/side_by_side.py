"""Runs side by side, for people: a line per task and metric, a column per run, and the trivial baselines first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from figeval.records import conditions
from figeval.records.notes import shared_notes
from figeval.records.schema import (
    SEEN_NOTES,
    BaselineRecord,
    ContrastRecord,
    KindRecord,
    Role,
    RunRecord,
    ScoreRecord,
    TaskRecord,
)

NOTICEABLE = 0.95  # share of the clusters below which a note says how many are effective; exports as data have all


@dataclass(slots=True)
class Line:
    """One metric of one task, with the scores of each run and each baseline.

    `n` counts the examples on which a score rests if all of them have an answer, or values of the column `unit`. A run
    that has fewer says so at its score (`own_n`).
    """

    task: str
    metric: str
    n: int
    unit: str = ""
    scores: dict[int, ScoreRecord] = field(default_factory=dict)  # by number of the run
    baselines: dict[str, ScoreRecord] = field(default_factory=dict)
    is_one_label: bool = False  # a constant answer is never wrong, so that no run is better than another

    def own_n(self, place: int) -> int | None:
        """Return the number of examples of a run that has not answered all of them, else None."""
        score = self.scores.get(place)
        return score.n if score is not None and score.value is not None and score.n < self.n else None


def lines(runs: Sequence[RunRecord]) -> list[Line]:
    """Return the lines of the table, in order of appearance.

    Floors of several runs differ, so they have lines of their own; that of a single run is a baseline of its tasks.

    Runs share a line only if they answered the same examples: with another --limit or --sample, or other data, there is
    a second line for the task. If a model has seen some of the examples, another line has its scores on the others.
    """
    found = _collected(runs)
    for place, run in enumerate(runs):
        _merge_baseline(found, place, run)
    order = {task: place for place, task in enumerate(dict.fromkeys(line.task for line in found))}
    return sorted(found, key=lambda line: order[line.task])


def _collected(runs: Sequence[RunRecord]) -> list[Line]:
    """Return the lines in the order in which runs have them, with the baselines of all runs."""
    found: dict[tuple[str, str, str, str], Line] = {}
    for place, run in enumerate(runs):
        own = {str(task.variant) for task in run.tasks if task.is_floor} if len(runs) > 1 else set()

        def shared(baselines: Sequence[BaselineRecord], own: Collection[str] = own) -> list[BaselineRecord]:
            return [one for one in baselines if one.baseline not in own]

        for task in run.tasks if len(runs) > 1 else run.tasks_with_rows():
            for name, rest, scores, baselines in _scored(task):
                for score in scores:
                    key = (name, _examples(task), rest, score.metric)
                    line = found.setdefault(key, Line(name, score.metric, score.n))
                    line.n = max(line.n, conditions.if_answered(task, score, baselines))
                    line.is_one_label |= task.only_label is not None
                    line.scores[place] = score
                    line.baselines |= _of_metric(score.metric, shared(baselines))
        examples = {task.task: _examples(task) for task in run.tasks}
        for contrast in run.contrasts:
            same = repr([examples.get(task) for task in contrast.tasks])
            for name, scores in _contrasted(contrast, own):
                for score in scores:
                    made = Line(name, score.metric, score.n, contrast.within or "")
                    line = found.setdefault((name, same, "", score.metric), made)
                    line.n = max(line.n, score.n)
                    line.scores[place] = score
                    if name == contrast.name:  # the trivial models of a floor have other inputs
                        line.baselines |= _of_metric(score.metric, shared(contrast.baselines))
    return list(found.values())


def _merge_baseline(found: Sequence[Line], place: int, run: RunRecord) -> None:
    """Remove the baseline that a run is itself, if their scores are equal; the run then has its scores on all lines.

    It stays on the lines of a task that the run has on other examples, where it is no score of the run.
    """
    name, both = run.model.name, [line for line in found if run.model.name in line.baselines]
    if not any(place in line.scores for line in both):
        return
    if all(place not in line.scores or line.scores[place].value == line.baselines[name].value for line in both):
        own = {(line.task, line.metric) for line in both if place in line.scores}
        for line in both:
            if place not in line.scores and (line.task, line.metric) in own:
                continue
            line.scores.setdefault(place, line.baselines[name])
            del line.baselines[name]


def _examples(task: TaskRecord) -> str:
    """Return a key for the examples that were used: all, the first n, or a random sample."""
    return f"{task.n} of {task.examples_sha256}: {task.sample_sha256}"


def _contrasted(contrast: ContrastRecord, floors: Collection[str]) -> Iterator[tuple[str, Sequence[ScoreRecord]]]:
    """Yield (name of its lines, scores) for a contrast, and for those of the model's floors that get lines."""
    yield contrast.name, contrast.scores
    yield from ((f"{contrast.name}@{one.baseline}", one.scores) for one in contrast.baselines if one.baseline in floors)


def _of_metric(metric: str, baselines: Sequence[BaselineRecord]) -> dict[str, ScoreRecord]:
    """Return each baseline's score for a metric."""
    return {one.baseline: score for one in baselines for score in one.scores if score.metric == metric}


def _scored(task: TaskRecord) -> Iterator[tuple[str, str, Sequence[ScoreRecord], Sequence[BaselineRecord]]]:
    """Yield (name of its lines, identity of the examples, scores, baselines) for each set of examples of a task.

    The sets are each language if there are several, all examples, and the unseen ones.
    """
    for one in task.languages:
        yield f"{task.task} ({one.language})", one.language, one.scores, one.baselines
    yield task.task, "", task.scores, task.baselines
    if task.overlap is not None:
        yield f"{task.task} (remaining)", task.overlap.rest_sha256, task.overlap.scores, task.overlap.baselines


def baseline_names(table: Sequence[Line]) -> list[str]:
    """Return the baselines of all lines, in order of appearance."""
    return list(dict.fromkeys(name for line in table for name in line.baselines))


def headings(runs: Sequence[RunRecord]) -> list[str]:
    """Return the model of each run with what distinguishes it from others, if necessary the run's identity."""
    names = conditions.labels(runs)
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} ({run.identity})" for name, run in zip(names, runs, strict=True)]


def notes(
    runs: Sequence[RunRecord], tasks: Collection[str] | None = None, metrics: Collection[str] | None = None
) -> Iterator[str]:
    """Yield notes for the reader of the numbers: tasks without scores, and those of `figeval.records.notes`.

    Args:
        runs: the runs.
        tasks: names of the tasks and contrasts that the table shows; by default all.
        metrics: metrics that it shows; by default all.
    """
    names = headings(runs)
    shown = [[task for task in run.tasks if tasks is None or task.task in tasks] for run in runs]
    for name, tasks_of_run in zip(names, shown, strict=True):
        yield from (f"{name} has no scores on {task.task}: {task.status}" for task in tasks_of_run if not task.scores)
    for note, indexes in shared_notes(runs, tasks, metrics).items():
        yield note if len(indexes) == len(runs) else f"{', '.join(names[index] for index in indexes)}: {note}"
    sizes = dict.fromkeys(
        unequal(score, task.task) for tasks_of_run in shown for task in tasks_of_run for score in task.scores
    )
    yield from filter(None, sizes)


def routes(runs: Sequence[RunRecord], tasks: Collection[str] | None = None) -> Iterator[str]:
    """Yield the task types and routes of each run, of the tasks that the table shows."""
    for name, run in zip(headings(runs), runs, strict=True):
        tasks_of_run = (task for task in run.tasks if tasks is None or task.task in tasks)
        if names := dict.fromkeys(f"{task.task_type} {task.route}" for task in tasks_of_run):
            yield f"{name}: {', '.join(names)}"


def signs(runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield what the numbers of a table mean, without a full stop: which are means over languages, and the mark (*)."""
    yield from over_languages(runs)
    if any_score(runs, unreliable):
        yield "unreliable intervals (*): fewer than 10 effective clusters"


def over_languages(runs: Sequence[RunRecord]) -> Iterator[str]:
    """Yield which scores are means over languages, without a full stop."""
    tasks = {task.task: task.languages for run in runs for task in run.tasks if task.languages}
    for name, languages in tasks.items():
        yield f"{name}: the unweighted mean over {', '.join(one.language for one in languages)}"


@dataclass(frozen=True, slots=True)
class KindLine:
    """One kind of options of one task, with one run's choices."""

    task: str
    key: str
    model: str
    kind: KindRecord

    @property
    def expected(self) -> float | None:
        """Share among wrong answers if these were drawn at random; None if there were no wrong answers to share."""
        return None if self.kind.chosen_wrong.value is None else self.kind.expected_wrong


def kind_lines(runs: Sequence[RunRecord]) -> list[KindLine]:
    """Return the kinds of options that were chosen, one line per task, kind and run."""
    return [
        KindLine(task.task, table.key, name, kind)
        for name, run in zip(headings(runs), runs, strict=True)
        for task in run.tasks
        for table in task.choices
        for kind in table.kinds
    ]


def unequal(score: ScoreRecord, task: str) -> str:
    """Return a note on the number of effective clusters if it is noticeably below that of the clusters, else ""."""
    effective = score.effective_clusters
    if effective is None or round(effective) == score.clusters or effective > NOTICEABLE * score.clusters:
        return ""
    return f"{task}: {score.clusters} clusters of unequal size are equivalent to {effective:.3g} equal ones"


def roles(runs: Sequence[RunRecord]) -> list[Role]:
    """Return the marks that a table of these runs has."""
    found = {score.seen for run in runs for score in run.shown_scores()}
    return [role for role in SEEN_NOTES if role in found]


def any_score(runs: Sequence[RunRecord], has: Callable[[ScoreRecord], object]) -> bool:
    """Return whether any score in a table of these runs fulfils a condition, e.g. has a `deviation` or a mark."""
    return any(has(score) for run in runs for score in run.shown_scores())


def number(score: ScoreRecord | None) -> str | None:
    """Return a value with three decimals, or None if there is no value."""
    return None if score is None or score.value is None else f"{score.value:.3f}"


def deviation(score: ScoreRecord | None) -> str | None:
    """Return the standard deviation over seeds, or None if the value is no mean over several."""
    return None if score is None or score.sd is None else f"{score.sd:.3f}"


def bounds(score: ScoreRecord | None) -> str | None:
    """Return `[0.058, 0.308]`, with a mark if it is unreliable, or None if there is no interval."""
    if score is None or score.low is None:
        return None
    return f"[{score.low:.3f}, {score.high:.3f}]{'*' if unreliable(score) else ''}"


def unreliable(score: ScoreRecord) -> bool:
    """Return whether the interval has too few effective clusters."""
    return not score.interval.reliable
