"""Numbers over several tasks of a run: macro means of suites, and the spread over the prompts of a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean
from typing import Any

from figeval.evaluation.harness import Harness
from figeval.evaluation.overlap import strongest
from figeval.records.schema import MacroRecord, Role, RunRecord, SpreadRecord, TaskRecord


def summed_up(record: RunRecord, suites: Iterable[str], harness: Harness) -> None:
    """Put both into the record."""
    record.macro = [macro for name in suites for macro in macro_means(name, record, harness)]
    record.spreads = list(spreads(record.tasks))


def macro_means(suite: str, record: RunRecord, harness: Harness) -> list[MacroRecord]:
    """Macro means of a suite, for the metrics that all of its tasks have; further prompts and probes are no tasks.

    None for a suite that declares no macro mean, or of several task types: accuracy among 250 candidates and among 5
    options have no mean.
    """
    if suite not in harness.catalogue.suites or not harness.catalogue.suites.get(suite).macro_mean:
        return []
    names = {task.name for task in harness.catalogue.expand([suite])}
    tasks = [task for task in record.tasks if task.task in names]
    if len({task.task_type for task in tasks}) != 1:
        return []
    columns: list[dict[str, Any]] = [{score.metric: score.value for score in task.scores} for task in tasks]
    shared = [metric for metric in (columns[0] if columns else ()) if all(metric in column for column in columns)]
    means = []
    for metric in shared:
        values = [column[metric] for column in columns]
        mean = None if None in values else sum(values) / len(values)
        seen = strongest(score.seen for task in tasks for score in task.scores if score.metric == metric)
        means.append(MacroRecord(suite=suite, metric=metric, value=mean, tasks=len(values), seen=seen))
    return means


def spreads(tasks: Iterable[TaskRecord]) -> Iterator[SpreadRecord]:
    """Per task and metric the lowest, highest and mean value over its prompts, where it was asked with several."""
    prompts: dict[tuple[str, str], dict[str, float]] = {}
    seen: dict[tuple[str, str], Role | None] = {}
    for task in tasks:
        for score in task.scores if task.kind != "probe" else ():
            if score.value is not None:
                key = (task.of or task.task, score.metric)
                prompts.setdefault(key, {})[task.variant or "default"] = score.value
                seen[key] = strongest((score.seen, seen.get(key)))
    for (name, metric), values in prompts.items():
        if len(values) > 1:
            low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
            yield SpreadRecord(
                task=name,
                metric=metric,
                prompts=len(values),
                mean=fmean(values.values()),
                lowest=values[low],
                lowest_prompt=low,
                highest=values[high],
                highest_prompt=high,
                range=values[high] - values[low],
                seen=seen[name, metric],
            )
