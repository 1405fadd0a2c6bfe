"""Paired comparison of two runs by the contrasts of suites: how well each model tells the examples of tasks apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from figeval.metrics.discrimination import NUMBERS
from figeval.records.schema import CHOSEN_ON_TEST, ContrastRecord, TaskRecord
from figeval.runs.contrasts import ContrastAnswer, answer_of
from figeval.wings.comparison.paired_discrimination import paired_discrimination
from figeval.wings.comparison.sides import DEFAULT, Side
from figeval.wings.comparison.task_comparison import ALL_SEEN, DISJOINT, SEEDED, UNSTORED, TaskComparison

NO_SCORES = "have no scores to rank by"
OTHER_TASKS = "the runs contrast other tasks under this name"


def compare_contrasts(
    side_a: Side, side_b: Side, metric: str, prompts: tuple[str, str] | None, seed: int, draws: int
) -> Iterator[tuple[str, Sequence[str], TaskComparison | str]]:
    """Yield each contrast that both runs have: its name, its tasks, and the comparison or why there is none.

    Examples that a model was trained or chosen on are left out. Nothing is yielded for metrics of tasks.
    """
    if metric not in NUMBERS:
        return
    prompt_a, prompt_b = prompts or (None, None)
    of_b = _contrasts(side_b, prompt_b)
    for name, one in _contrasts(side_a, prompt_a).items():
        if name in of_b:
            yield name, one.tasks, _compared(name, (side_a, one), (side_b, of_b[name]), metric, seed, draws)


def _contrasts(side: Side, prompt: str | None) -> dict[str, ContrastRecord]:
    """Return the contrasts of a run by the names under which they are compared, with a prompt by those without it."""
    every = side.record.contrasts
    if prompt is None:
        return {one.name: one for one in every}
    return {f"{one.suite}:{one.contrast}": one for one in every if (one.variant or DEFAULT) == prompt}


def _tasks(side: Side, contrast: ContrastRecord) -> list[TaskRecord]:
    """Return the records of the tasks that a contrast was computed from, in its variant."""
    known = {(task.of or task.task, task.variant): task for task in side.runs[0][0].tasks}
    return [known[name, contrast.variant] for name in contrast.tasks]


def _compared(
    name: str, a: tuple[Side, ContrastRecord], b: tuple[Side, ContrastRecord], metric: str, seed: int, draws: int
) -> TaskComparison | str:
    (side_a, one), (side_b, other) = a, b
    if problem := _refused(a, b, metric):
        return problem
    answers_a, answers_b = _answers(side_a, one), _answers(side_b, other)
    both = [place for place in answers_a if place in answers_b]
    unseen = [place for place in both if answers_a[place].seen is None and answers_b[place].seen is None]
    if not unseen:
        return ALL_SEEN if both else DISJOINT
    of_a, of_b = ([every[place] for place in unseen] for every in (answers_a, answers_b))
    for key, own in zip("AB", (of_a, of_b), strict=True):
        if metric == "auc" and all(answer.score is None for answer in own):
            return f"the answers of {key} {NO_SCORES}"
    answered = sum(x.answered and y.answered for x, y in zip(of_a, of_b, strict=True))
    found = paired_discrimination(metric, of_a, of_b, within=one.within is not None, seed=seed, draws=draws)
    if one.within is not None:
        units = f"n counts values of {one.within} that have both kinds"
        found = replace(found, note="; ".join(filter(None, (units, found.note))))
    return TaskComparison(
        task=name,
        comparison=found,
        unmatched_a=len(answers_a) - len(both),
        unmatched_b=len(answers_b) - len(both),
        unanswered=len(unseen) - answered,
        seen=len(both) - len(unseen),
    )


def _refused(a: tuple[Side, ContrastRecord], b: tuple[Side, ContrastRecord], metric: str) -> str:
    """Return the reason why two contrasts cannot be compared, whatever was answered; empty if they can."""
    (side_a, one), (side_b, other) = a, b
    if len(side_a.runs) > 1 or len(side_b.runs) > 1:
        return f"{metric} {SEEDED}"
    if (one.tasks, one.label, one.within) != (other.tasks, other.label, other.within):
        return OTHER_TASKS
    if any(score.interval.reason == CHOSEN_ON_TEST for each in (one, other) for score in each.scores):
        return ALL_SEEN
    stored = {key: all(map(side.has, _tasks(side, each))) for key, (side, each) in (("A", a), ("B", b))}
    without = [key for key, found in stored.items() if not found]
    return f"{' and '.join(without)} {UNSTORED}" if without else ""


def _answers(side: Side, contrast: ContrastRecord) -> dict[tuple[str, str], ContrastAnswer]:
    """Return the answers of a run to the examples of a contrast that have a gold label, by task and id."""
    found = {}
    for task in _tasks(side, contrast):
        for row in side.folder.rows(task.task):
            if (answer := answer_of(row, contrast.label, contrast.within)) is not None:
                found[task.of or task.task, row["id"]] = answer
    return found
