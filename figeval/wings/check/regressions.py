"""The condition that a run is not worse than another one, by paired tests on the examples of both.

Without a margin, the run must not be significantly worse (p < .05, two-sided, by Holm's correction over the tests of a
metric). With one, it must be shown to be worse by less than the margin: the end of the 95 % interval of the paired
difference lies within it, which is a one-sided test at the level .025 (non-inferiority; Piaggio et al. 2012). Since all
conditions must hold, they need no correction then (intersection–union test; Berger 1982).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from figeval import Harness, OptionError, RecordError, RunRecord, TaskRecord
from figeval.io.text import one_line, pluralize
from figeval.metrics.differences import ALPHA, PairedTest
from figeval.records.conditions import with_scores_of_all
from figeval.runs.stored import declared_bounds
from figeval.wings.check.bounds import UNSCORED, Condition
from figeval.wings.comparison.detectable import equivalence
from figeval.wings.comparison.family import ComparisonDesign, compare_all, expand_names
from figeval.wings.comparison.pair import RunComparison
from figeval.wings.comparison.task_comparison import DISJOINT, TaskComparison, no_value

# Of a score: a smaller difference is taken for rounding, which other batches and processors bring about, and which a
# paired test would find significant if most examples differ the same way.
ROUNDING_SHARE = 1e-4


def compare_with(
    runs: tuple[tuple[Path, RunRecord], tuple[Path, RunRecord]],
    metrics: Sequence[str],
    tasks: Sequence[str],
    margin: float | None,
    seed: int,
) -> tuple[list[Condition], list[str]]:
    """Return a condition for each task that both runs have, and remarks on what was compared.

    Args:
        runs: the run that is checked and the one that it must not be worse than, as folders and records.
        metrics: metrics to compare by; by default the first one of each task.
        tasks: tasks, suites and contrasts; by default all tasks of the second run.
        margin: largest difference that does not matter.
        seed: random seed of the tests.

    Raises:
        OptionError: no run has one of the tasks.
        RecordError: the run lacks a task of the other one, a task has another version or other examples, or a task has
            none of the metrics.
    """
    (path_a, run_a), (path_b, run_b) = runs
    plan = _plan(run_a, run_b, metrics, tasks)
    conditions: list[Condition] = []
    remarks = [f"{name}: not in the other run" for name in _only_in(run_a, run_b) if not tasks]
    without_value: dict[str, list[str]] = {}
    for metric, names in plan.items():
        result = compare_all([path_a, path_b], metric, seed, None, ComparisonDesign(tasks=frozenset(names)))
        (pair,) = result.pairs.values()
        conditions += _check_pair(pair, metric, margin)
        remarks += pair.caveats
        for name, reason in pair.left_out.items():
            if reason == no_value(metric):
                without_value.setdefault(name, []).append(metric)
    for name, lacking in without_value.items():
        if (name in tasks or not metrics) and all(name not in plan[metric] for metric in plan if metric not in lacking):
            raise RecordError(f"{name}: no {' or '.join(lacking)} stored; choose another --metric, or other --tasks")
        remarks += (f"{name}: {no_value(metric)}" for metric in lacking)
    return conditions, list(dict.fromkeys(remarks))


def _plan(a: RunRecord, b: RunRecord, metrics: Sequence[str], tasks: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the names of the tasks and contrasts to compare by each metric.

    Raises:
        OptionError: no run has one of the tasks.
        RecordError: one of the runs lacks a task or contrast.
    """
    if not tasks and (missing := _only_in(b, a)):
        raise RecordError(
            f"the run lacks {', '.join(missing)}, which the other run has; run them too, or name the tasks to compare "
            "with --tasks"
        )
    first_a, first_b = map(_first_metrics, with_scores_of_all((a, b)))
    names = _expand(tasks, a, b) if tasks else [*_tasks(b)]
    for name in names:
        if not (name in first_a and name in first_b):
            raise RecordError(f"{name} is not in both runs")
    if not names:
        raise RecordError("the other run has no task, so there is nothing to compare")
    if metrics:
        return dict.fromkeys(metrics, names)
    plan: dict[str, list[str]] = {}
    for name in names:
        plan.setdefault(first_a[name], []).append(name)
    return plan


def _expand(tasks: Sequence[str], a: RunRecord, b: RunRecord) -> list[str]:
    """Return the tasks and contrasts of these names; a suite has its tasks, and no prompts, probes or contrasts."""
    expanded = expand_names(tasks, (a, b), Harness())
    names = _tasks(b) | _tasks(a) | dict.fromkeys(tasks)
    return [name for name in names if name in expanded]


def _tasks(run: RunRecord) -> dict[str, TaskRecord]:
    return {task.task: task for task in run.tasks if task.kind == "task"}


def _only_in(run: RunRecord, other: RunRecord) -> list[str]:
    names = _tasks(other)
    return [name for name in _tasks(run) if name not in names]


def _first_metrics(run: RunRecord) -> dict[str, str]:
    """Return the first metric of each task and contrast."""
    scores = {task.task: task.scores for task in run.tasks} | {each.name: each.scores for each in run.contrasts}
    return {name: of_name[0].metric for name, of_name in scores.items() if of_name}


def _check_pair(pair: RunComparison, metric: str, margin: float | None) -> Iterator[Condition]:
    """Yield the conditions of one metric.

    Raises:
        RecordError: the runs have different examples of a task.
    """
    for name, reason in pair.left_out.items():
        if reason == DISJOINT:
            raise RecordError(f"{name} is not in both runs: {reason}")
        if reason != no_value(metric):
            yield Condition(task=name, metric=metric, kind="not_worse_than", bound=margin, reason=reason)
    for task in pair.tasks:
        if unmatched := task.unmatched_a + task.unmatched_b:
            raise RecordError(
                f"{task.task}: {pluralize(unmatched, 'example')} of one run are not in the other; give both runs the "
                "same --limit or --sample and --seed"
            )
        yield _check_difference(task, metric, margin, pair.a)


def _task_of(run: RunRecord, name: str) -> TaskRecord | None:
    """Return the record of a task by its name or that of one of its languages; None for a contrast."""
    base = name.partition(" (")[0]
    return next((task for task in run.tasks if task.task in (name, base)), None)


def _sign(task: TaskRecord | None, metric: str) -> int:
    """Return 1 if high values of a metric are good, as those of all contrasts are, -1 if low ones are."""
    scores = () if task is None else task.scores
    return next((1 if score.higher_is_better else -1 for score in scores if score.metric == metric), 1)


def _check_difference(comparison: TaskComparison, metric: str, margin: float | None, run: RunRecord) -> Condition:
    test, record = comparison.comparison, _task_of(run, comparison.task)
    sign = _sign(record, metric)
    condition = Condition(
        task=comparison.task,
        metric=metric,
        kind="not_worse_than",
        bound=margin,
        value=test.value_a,
        difference=test.difference,
        low=test.low,
        high=test.high,
        p=comparison.p_adjusted if margin is None else None,
    )
    if test.difference is None:
        return replace(condition, reason=test.note or UNSCORED)
    unanswered = comparison.unanswered
    remark = f"{pluralize(unanswered, 'example')} without a valid answer left out" if unanswered else ""
    if margin is None:
        if comparison.p_adjusted is None:
            return replace(condition, reason=test.note or "there is no test")
        is_rounding = abs(test.difference) <= ROUNDING_SHARE * abs(test.value_b or 0.0)
        passed = sign * test.difference >= 0 or is_rounding or comparison.p_adjusted >= ALPHA
        return replace(condition, passed=passed, reason=remark if passed else "significantly worse")
    worst = test.low if sign > 0 else test.high
    if worst is not None:
        passed = sign * worst > -margin
        failure = "worse by the margin or more" if sign * test.difference <= -margin else "may be worse by the margin"
        return replace(condition, passed=passed, reason=remark if passed else failure)
    bounds = None if record is None else declared_bounds(record, metric, Harness().metrics)
    if test.differing == 0 and bounds is not None and math.isfinite(width := bounds[1] - bounds[0]):
        passed = _is_equal_within(test, margin, width)
        failure = f"no example differs, but {pluralize(test.clusters, 'cluster')} are too few for this margin"
        return replace(condition, passed=passed, reason=remark if passed else failure)
    return replace(condition, reason=one_line(test.note or "no interval"))


def _is_equal_within(test: PairedTest, margin: float, width: float) -> bool:
    """Return whether runs that agree on every example, so that there is no interval, differ by less than the margin.

    If G clusters agree, the share of those that would differ is at most 1 − .025^(1/G) with 97.5 % confidence, and the
    mean of differences of values in an interval of this width is at most that share of the width.
    """
    if test.clusters < 2:
        return False
    if (p := equivalence(test, margin)) is not None:
        return p < ALPHA / 2
    share = 1 - (ALPHA / 2) ** (1 / (test.effective_clusters or test.clusters))
    return bool(share * width < margin)


def check_margin(margin: float | None, other: object) -> None:
    """Raise `OptionError` if a margin is not positive, or if there is no run to compare with."""
    if margin is not None and other is None:
        raise OptionError("--margin is for --not_worse_than; name the run to compare with, or leave it out")
    if margin is not None and not 0 < margin < float("inf"):
        raise OptionError(f"a margin of {margin:g} is not positive; give the largest difference that does not matter")
