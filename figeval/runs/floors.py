"""Which probe is the floor of a task: the one that its file declares, unless that one says nothing.

To a model of words an empty query is as close to one option as to another, and so it is to some encoders. Such a model
ties on every example of `no_query`, which then gives the value of a draw and not what a model gets from the options
alone. The floor is then the probe named by `figeval.task_types.probes.SUBSTITUTES`, with the query of another example.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from figeval.records.predictions import PredictionRow
from figeval.records.schema import RunRecord, TaskRecord
from figeval.runs.plan import Plan
from figeval.task_types.probes import SUBSTITUTES

NEARLY_ALL = 0.95  # share of the answered examples

Rows = Callable[[str], Iterable[PredictionRow]]  # task@variant → its stored rows


def choose_floor(record: RunRecord, plan: Plan, rows: Rows) -> bool:
    """Mark a substitute as the floor of its task if the declared floor says nothing; return whether it is to be asked.

    It is also asked, without being the floor, with --probes.

    Args:
        record: record of the run; `is_floor` of both probes is written into it.
        plan: plan of a probe that may stand in for a floor; the task and the floor have been carried out.
        rows: function that opens the stored rows of a task.
    """
    tasks = {task.task: task for task in record.tasks}
    task = tasks[plan.task.name]
    floor = tasks.get(f"{plan.task.name}@{plan.variant.substitute_for}")
    if floor is None:
        return not plan.is_reserve
    is_needed = is_superseded(task, floor, rows)
    floor.is_floor, tasks[plan.name].is_floor = not is_needed, is_needed
    return is_needed or not plan.is_reserve


def is_superseded(task: TaskRecord, floor: TaskRecord, rows: Rows) -> bool:
    """Return whether the answers to a floor say nothing, unlike those to its task.

    A floor beside which a model was trained keeps its place: that model had the same inputs.
    """
    comparable = task.status == floor.status == "done" and not any(baseline.weights for baseline in floor.baselines)
    with_threshold = "threshold" in floor.settings
    return (
        comparable
        and says_nothing(rows(floor.task), with_threshold=with_threshold)
        and not says_nothing(rows(task.task), with_threshold=with_threshold)
    )


def substitute_name(floor: TaskRecord) -> str:
    """Return the name of the probe that stands in for a floor which says nothing."""
    return f"{floor.of}@{SUBSTITUTES.get(floor.variant or '')}"


def substitution_notes(record: RunRecord, plans: Iterable[Plan]) -> Iterator[str]:
    """Yield a note on the floors that say nothing, one for all tasks with the same substitute."""
    floors = {task.task for task in record.tasks if task.is_floor}
    substituted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for plan in plans:
        if plan.variant.substitute_for and plan.name in floors:
            substituted[plan.variant.substitute_for, plan.variant.name].append(plan.task.name)
    for (floor, substitute), names in substituted.items():
        yield (
            f"{', '.join(names)}: the floor is {substitute}, since {floor} says nothing: without the query, (nearly) "
            "all scores are equal"
        )


def says_nothing(rows: Iterable[PredictionRow], *, with_threshold: bool = False) -> bool:
    """Return whether nearly all rows have equal scores: those of all options, or of all examples if each has only one.

    With a threshold, two scores are the one of the example and the threshold. Rows without scores say something, and
    those without a reply are not counted.
    """
    n = tied = 0
    alike: Counter[Any] = Counter()
    for row in rows:
        if row["status"] in ("error", "unasked"):
            continue
        n += 1
        scores = _scores(row)
        if len(scores) > 1 and len(set(scores)) == 1:
            tied += 1
        elif len(scores) == 1 or (with_threshold and len(scores) == 2):
            alike[scores[0]] += 1
    commonest = alike.most_common(1)[0][1] if alike else 0
    return n > 1 and tied + commonest >= NEARLY_ALL * n


def _scores(row: PredictionRow) -> Sequence[Any]:
    """Return the scores in a row; of a ranking, those of the best candidates and of the right ones."""
    if "top" in row:
        return [*(score for _, score in row["top"]), *row.get("relevant_scores", ())]
    return row.get("scores", ())
