"""Scores on all examples, which come before those that leave examples without an answer out.

A model that answers only what it is sure of would otherwise be judged by these answers: in the table of its run, and
beside models that answer everything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from figeval.records.conditions import OF_ALL, if_answered
from figeval.records.schema import BaselineRecord, RunRecord, ScoreRecord, TaskRecord


def with_scores_of_all(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return runs in which the scores of all examples come first on the tasks that one of them answered only in part.

    A run that answered all examples of such a task gets the same scores by their other names: of `acc`, `acc_of_all`.
    """
    metrics: dict[str, set[str]] = {}
    for task in (task for run in runs for task in run.tasks):
        metrics.setdefault(task.task, set()).update(incomplete_metrics(task))
    return [
        run.model_copy(update={"tasks": [_with_scores_of_all(task, metrics[task.task]) for task in run.tasks]})
        if any(metrics[task.task] for task in run.tasks)
        else run
        for run in runs
    ]


def task_with_scores_of_all(task: TaskRecord) -> TaskRecord:
    """Return the record of a task in which the scores of all examples come first if some have no answer."""
    return _with_scores_of_all(task, incomplete_metrics(task))


def incomplete_metrics(task: TaskRecord) -> frozenset[str]:
    """Return the metrics whose scores leave examples without an answer out, and which have a score of all examples."""
    names = {score.metric for score in task.scores}
    return frozenset(
        score.metric
        for score in task.scores
        if f"{score.metric}{OF_ALL}" in names and score.n < if_answered(task, score, task.baselines)
    )


def default_metric(runs: Iterable[RunRecord], metric: str = "acc") -> str:
    """Return a metric, or the one of all examples if one of the runs left examples of a task without an answer."""
    tasks = (task for run in runs for task in run.tasks if task.kind != "probe")
    return f"{metric}{OF_ALL}" if any(metric in incomplete_metrics(task) for task in tasks) else metric


def _with_scores_of_all(task: TaskRecord, metrics: Collection[str]) -> TaskRecord:
    if not metrics:
        return task
    unanswered = incomplete_metrics(task)
    complete_metrics = [metric for metric in metrics if metric not in unanswered and _is_complete(task, metric)]

    def reorder(scores: Sequence[ScoreRecord], derived: Collection[str]) -> list[ScoreRecord]:
        return list(_scores_of_all_first(scores, metrics, derived))

    def trivial(baselines: Sequence[BaselineRecord]) -> list[BaselineRecord]:
        return [each.model_copy(update={"scores": reorder(each.scores, metrics)}) for each in baselines]

    parts = {
        name: [
            part.model_copy(
                update={"scores": reorder(part.scores, complete_metrics), "baselines": trivial(part.baselines)}
            )
            for part in records
        ]
        for name, records in (("languages", task.languages), ("overlap", filter(None, [task.overlap])))
    }
    return task.model_copy(
        update={
            "scores": reorder(task.scores, complete_metrics),
            "baselines": trivial(task.baselines),
            "languages": parts["languages"],
            "overlap": next(iter(parts["overlap"]), None),
        }
    )


def _is_complete(task: TaskRecord, metric: str) -> bool:
    """Return whether a score rests on all examples."""
    return any(score.metric == metric and score.n == if_answered(task, score, task.baselines) for score in task.scores)


def _scores_of_all_first(
    scores: Sequence[ScoreRecord], metrics: Collection[str], derived: Collection[str]
) -> Iterator[ScoreRecord]:
    """Yield scores, before each by one of the metrics that of all examples; `derived` are those that are the same."""
    by_metric = {score.metric: score for score in scores}
    moved = {f"{metric}{OF_ALL}" for metric in metrics if metric in by_metric}
    for score in scores:
        name = f"{score.metric}{OF_ALL}"
        if name in moved:
            if name in by_metric:
                yield by_metric[name]
            elif score.metric in derived:
                yield score.model_copy(update={"metric": name})
        if score.metric not in moved:
            yield score
