"""The notes that travel with the numbers of a run: what a reader must know of the tasks that a table shows.

Every output has the same ones: the terminal, HTML, comparisons, tables of papers and files for programs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from figeval.io.text import one_line
from figeval.records import conditions
from figeval.records.schema import RunRecord, ScoreRecord, TaskRecord
from figeval.types import Interval

if TYPE_CHECKING:
    from figeval.records.sweep import SeedScore

STRADDLING = "with a token across the border of what is scored, which is encoded apart; lm-eval leaves that token out"
NoteKind: TypeAlias = Literal["conditions", "answers", "gaps", "warnings"]
COUNTED = {  # one, and several
    "ties": ("tie, scored by expectation", "ties, scored by expectation"),
    "truncated_inputs": (
        "input truncated to the model's maximum length",
        "inputs truncated to the model's maximum length",
    ),
    "dropped_shots": (
        "solved example left out of a prompt that would be too long",
        "solved examples left out of prompts that would be too long",
    ),
    "shortened_prompts": ("question asked with fewer solved examples", "questions asked with fewer solved examples"),
    "straddling": (f"example {STRADDLING}", f"examples {STRADDLING}"),
    "nan": ("NaN", "NaN"),
    "ambiguous": ("ambiguous answer", "ambiguous answers"),
    "unparseable": ("answer that names none of the options", "answers that name none of the options"),
    "absent": ("quotation that is not in the text", "quotations that are not in the text"),
    "refusal": ("refusal", "refusals"),
    "empty": ("empty answer", "empty answers"),
    "truncated": (
        "truncated answer (increase --max_new_tokens)",
        "truncated answers (increase --max_new_tokens)",
    ),
    "error": ("question without a reply", "questions without a reply"),  # of several samples, each is a question
    "unasked": ("example that this route cannot ask about", "examples that this route cannot ask about"),
    "spans_unanswered": ("span without an answer", "spans without an answer"),
}


def notes(
    run: RunRecord, tasks: Collection[str] | None = None, metrics: Collection[str] | None = None
) -> Iterator[str]:
    """Yield the notes about a run: definitions, changed conditions, routes' settings, odd answers, examples, warnings.

    Args:
        run: the record.
        tasks: names of the tasks and contrasts that are shown; by default all.
        metrics: metrics that are shown; by default all.
    """
    return (text for _, text in notes_by_kind(run, tasks, metrics))


def notes_by_kind(
    run: RunRecord, tasks: Collection[str] | None = None, metrics: Collection[str] | None = None
) -> Iterator[tuple[NoteKind, str]]:
    """Yield the same notes with what each is about: conditions, odd or missing answers, gaps, or a warning."""
    shown = run if tasks is None else of_tasks(run, tasks)
    yield from _of_kind("conditions", chain(_definitions(shown), conditions.notes(shown), legend(shown)))
    for task in shown.tasks:
        yield from _of_task(task)
    yield from _of_kind("warnings", task_warnings(shown))
    answered = (
        task for task in shown.tasks if task.counts.get("ok") or any(score.value is not None for score in task.scores)
    )
    scores = chain(
        ((task.task, score) for task in answered for score in scores_or_reasons(task)),
        ((contrast.name, score) for contrast in shown.contrasts for score in contrast.scores),
    )
    gaps = missing((name, score) for name, score in scores if metrics is None or score.metric in metrics)
    yield from _of_kind("gaps", gaps)
    yield from _of_kind("answers", chain(conditions.incomplete(shown), _unanswered_notes(shown)))
    yield from _of_kind("conditions", conditions.partial(shown))
    yield from _of_kind("warnings", chain(_of_run(run), left_out(run) if len(shown.tasks) == len(run.tasks) else ()))


def marked_tasks(run: RunRecord) -> dict[str, list[NoteKind]]:
    """Return for each task whose scores need a mark what notes it has: warnings, or odd or missing answers."""
    kinds: dict[str, list[NoteKind]] = {}
    for task in run.tasks:
        if any(count for kind, count in task.counts.items() if kind not in {"ok", "ties"}):
            kinds.setdefault(task.task, []).append("answers")
        if task.warnings or task.error is not None:
            kinds.setdefault(task.task, []).append("warnings")
    return kinds


def _of_kind(kind: NoteKind, texts: Iterable[str]) -> Iterator[tuple[NoteKind, str]]:
    return ((kind, text) for text in texts)


def shared_notes(
    runs: Sequence[RunRecord], tasks: Collection[str] | None = None, metrics: Collection[str] | None = None
) -> dict[str, list[int]]:
    """Return the notes about several runs, each with the places of the runs that it belongs to."""
    runs_with: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        for note in dict.fromkeys(notes(run, tasks, metrics)):
            runs_with.setdefault(note, []).append(index)
    return runs_with


def of_tasks(run: RunRecord, names: Collection[str]) -> RunRecord:
    """Return a run with only some of its tasks and contrasts."""
    return run.model_copy(
        update={
            "tasks": [task for task in run.tasks if task.task in names],
            "contrasts": [contrast for contrast in run.contrasts if contrast.name in names],
        }
    )


def _definitions(run: RunRecord) -> Iterator[str]:
    trained = dict.fromkeys(floor.baseline for task in run.tasks for floor in task.baselines if floor.weights)
    yield from (f"{name}: a second model, which was trained on this probe" for name in trained)
    yield from dict.fromkeys(remark for contrast in run.contrasts for remark in contrast.remarks)


def _of_task(task: TaskRecord) -> Iterator[tuple[NoteKind, str]]:
    """Yield the notes about a task alone: hidden gold answers, its data, odd answers, and its failure."""
    if task.hidden:
        yield "conditions", f"{task.task}: {task.hidden} of {task.n} gold answers are hidden and not scored"
    if task.variant is None and (remark := task.settings.get("remark")):  # variants have the same data
        yield "conditions", f"{task.task}: {one_line(remark)}"
    counts = ((kind, count) for kind, count in task.counts.items() if kind != "ok" and count)
    odd = [f"{count} {COUNTED.get(kind, (kind, kind))[count != 1]}" for kind, count in counts]
    if odd:
        yield "answers", f"{task.task}: {'; '.join(odd)}"
    if task.error:
        yield "warnings", f"{task.task} failed: {task.error.strip().splitlines()[-1]}"


def task_warnings(run: RunRecord) -> Iterator[str]:
    """Yield the warnings about tasks, one line for all tasks with the same one."""
    warnings = _group_by_text((warning, task.task) for task in run.tasks for warning in task.warnings)
    yield from (f"{', '.join(names)}: {warning}" for warning, names in warnings)


def left_out(run: RunRecord) -> Iterator[str]:
    """Yield sentences about the tasks that the run does not have."""
    for omission in run.left_out:
        yield f"left out, since {omission.reason}: {', '.join(omission.tasks)}; {omission.cure}"


def _of_run(run: RunRecord) -> Iterator[str]:
    """Yield the warnings of the run and its model."""
    stored = set(conditions.partial(run))  # a warning of its own in the record, about all tasks
    yield from (warning for warning in run.warnings if warning not in stored)
    described = run.model.description
    yield from described.get("warnings", ())
    if "fell_back_because" in described and "scoring" in described:
        yield _slower(described)


def _slower(described: Mapping[str, Any]) -> str:
    """Return a note on log-likelihoods that took longer than they might have: by how much, why, and what helps."""
    times, cure = described.get("times_packed"), described.get("cure")
    slowdown = f", {times} times as many tokens as packed trees" if times else ""
    helps = f"; {cure}" if cure else ""
    return f"log-likelihoods from {described['scoring']}{slowdown} ({described['fell_back_because']}){helps}"


def _unanswered_notes(record: RunRecord) -> Iterator[str]:
    """Yield notes on how many examples contrasts leave out, one for all contrasts with the same numbers."""
    contrasts: dict[str, list[str]] = {}
    for contrast in record.contrasts:
        if contrast.unanswered:
            of = contrast.positive + contrast.negative + contrast.unanswered
            contrasts.setdefault(f"{contrast.unanswered} of {of} unanswered, left out", []).append(contrast.name)
    yield from (f"{', '.join(names)}: {line}" for line, names in contrasts.items())


def legend(record: RunRecord) -> Iterator[str]:
    """Yield explanations of the tasks and of their routes' settings; none if nothing needs explaining."""
    tasks = [task for task in record.tasks if task.kind == "task" and task.scores]
    yield from _only_labels(tasks)
    is_old = record.schema_version.startswith("1.")
    explanations = ((task.route, task.legend or _explain_settings(task, is_old=is_old), task.task) for task in tasks)
    rules = _group_by_text((f"{route}: {rule}", name) for route, rule, name in explanations if rule)
    for rule, names in rules:
        yield rule if len(rules) == 1 else f"{rule} ({', '.join(names)})"


def _only_labels(tasks: Iterable[TaskRecord]) -> Iterator[str]:
    """Yield a sentence for each label that is the right answer to every example of some tasks."""
    for label, names in _group_by_text((task.only_label, task.task) for task in tasks if task.only_label is not None):
        yield f"the right answer is {label} for every example of {', '.join(names)}"


def _explain_settings(task: TaskRecord, *, is_old: bool) -> str:
    """Return an explanation of a route's settings for a record that was stored before routes had legends.

    In records of versions 1.x (`is_old`), all task types were figeval's own, and a threshold separated two labels.
    """
    match task.settings:
        case {"labels": [first, second], "threshold": int() | float() as threshold} if is_old:
            return f"a pair is labelled {first} if its score is {threshold:g} or more, otherwise {second}"
    return ", ".join(f"{name} {task.settings[name]}" for name in ("threshold", "temperature") if name in task.settings)


def _group_by_text(texts: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return (text, tasks with this text) in the order of the table."""
    groups: dict[str, list[str]] = {}
    for text, task in texts:
        groups.setdefault(text, []).append(task)
    return list(groups.items())


def scores_or_reasons(task: TaskRecord) -> list[ScoreRecord]:
    """Return the scores of a task, with the reason why there are none if there are examples, but no answers."""
    if task.counts.get("ok"):
        return task.scores
    unanswered = Interval(reason="no example has an answer")
    return [
        score.with_interval(unanswered) if score.interval.reason == "no examples" else score for score in task.scores
    ]


def missing(scores: Iterable[tuple[str, ScoreRecord | SeedScore]]) -> Iterator[str]:
    """Yield the reasons why scores have no value or no interval; each reason is given once for all of its tasks."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for task, score in scores:
        value = score.value if isinstance(score, ScoreRecord) else score.mean
        if score.interval.reason and score.seen is None:
            kind = "" if value is None else "interval of "
            reasons.setdefault((task, kind, score.interval.reason), []).append(score.metric)
    tasks_with: dict[str, list[str]] = {}
    for (task, kind, reason), metrics in reasons.items():
        tasks_with.setdefault(f"no {kind}{', '.join(metrics)}: {reason}", []).append(task)
    yield from (f"{', '.join(tasks)}: {line}" for line, tasks in tasks_with.items())
