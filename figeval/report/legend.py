"""What a reader of a table must know of its tasks: right answers that are all the same, and thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from figeval.records.schema import RunRecord, TaskRecord


def legend(record: RunRecord) -> Iterator[str]:
    """Lines under the table, from what the tasks declare and how they were put; none where nothing needs saying."""
    tasks = [task for task in record.tasks if task.kind == "task" and task.scores]
    for label, names in _grouped((task.only_label, task.task) for task in tasks if task.only_label is not None):
        yield f"the right answer is {label} for every example of {', '.join(names)}"
    rules = _grouped((_threshold(task), task.task) for task in tasks if _threshold(task))
    for rule, names in rules:
        yield rule if len(rules) == 1 else f"{rule} ({', '.join(names)})"


def _threshold(task: TaskRecord) -> str:
    """How a route with a threshold decides; empty for other routes."""
    labels, threshold = task.settings.get("labels"), task.settings.get("threshold")
    if not labels or threshold is None:
        return ""
    return f"{task.route}: a pair is called {labels[0]} if its score is {threshold:g} or more, else {labels[-1]}"


def _grouped(told: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """(what is said, the tasks that it is said of), in the order of the table."""
    groups: dict[str, list[str]] = {}
    for said, task in told:
        groups.setdefault(said, []).append(task)
    return list(groups.items())
