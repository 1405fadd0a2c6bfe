"""The condition that a run is not worse than another one, by paired tests on the examples of both.

Without a margin, the run must not be significantly worse (p < .05, two-sided, by Holm's correction over the tests of a
metric). With one, it must be shown to be worse by less than the margin: the end of the 95 % interval of the paired
difference lies within it, which is a one-sided test at the level .025 (non-inferiority; Piaggio et al. 2012). Since all
conditions must hold, they need no correction then (intersection–union test; Berger 1982).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from figeval import Harness, OptionError, RecordError, RunRecord, TaskRecord
from figeval.io.text import one_line, pluralize
from figeval.metrics.differences import ALPHA, PairedTest
from figeval.wings.check.bounds import UNSCORED, Condition
from figeval.wings.comparison.detectable import equivalence
from figeval.wings.comparison.family import ComparisonDesign, RunComparisons, compare_all
from figeval.wings.comparison.pair import RunComparison
from figeval.wings.comparison.task_comparison import DISJOINT, TaskComparison, no_value

# Of a score: a smaller difference is taken for rounding, which other batches and processors bring about, and which a
# paired test would find significant if most examples differ the same way.
ROUNDING_SHARE = 1e-4
ONLY_IN_A, ONLY_IN_B = "only in A", "only in B"  # reasons of `RunComparison.left_out`


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
        RecordError: the run lacks a task of the other one, a task has another version or other examples, or no task has
            one of the metrics.
    """
    (path_a, run_a), (path_b, run_b) = runs
    conditions: list[Condition] = []
    remarks = [f"{name}: not in the other run" for name in _only_in(run_a, run_b) if not tasks]
    for metric, names in _plan(run_a, run_b, metrics, tasks).items():
        design = ComparisonDesign(tasks=frozenset(names) or None)
        result = compare_all([path_a, path_b], metric, seed, None, design, Harness() if tasks else None)
        (pair,) = result.pairs.values()
        conditions += _check_pair(result, pair, bool(tasks), margin)
        remarks += pair.caveats
        remarks += (f"{name}: {reason}" for name, reason in pair.left_out.items() if reason == no_value(metric))
    return conditions, list(dict.fromkeys(remarks))


def _plan(a: RunRecord, b: RunRecord, metrics: Sequence[str], tasks: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the names of the tasks to compare by each metric; empty for all.

    Raises:
        RecordError: run A lacks a task of run B.
    """
    tasks_a, tasks_b = _tasks(a), _tasks(b)
    if not tasks and (missing := _only_in(b, a)):
        raise RecordError(
            f"the run lacks {', '.join(missing)}, which the other run has; run them too, or name the tasks to compare "
            "with --tasks"
        )
    if metrics:
        return {metric: tasks or [*tasks_b] for metric in metrics}
    plan: dict[str, list[str]] = {}
    for name in tasks or tasks_b:
        plan.setdefault(_first_metric(name, tasks_a), []).append(name)
    return plan


def _tasks(run: RunRecord) -> dict[str, TaskRecord]:
    return {task.task: task for task in run.tasks if task.kind == "task"}


def _only_in(run: RunRecord, other: RunRecord) -> list[str]:
    names = _tasks(other)
    return [name for name in _tasks(run) if name not in names]


def _first_metric(name: str, tasks: Mapping[str, TaskRecord]) -> str:
    """Return the first metric of a task; "acc" for names of suites and contrasts."""
    scores = tasks[name].scores if name in tasks else ()
    return scores[0].metric if scores else "acc"


def _check_pair(
    result: RunComparisons, pair: RunComparison, is_named: bool, margin: float | None
) -> Iterator[Condition]:
    """Yield the conditions of one metric.

    Raises:
        RecordError: the runs have different examples of a task, or one lacks a task that was named.
    """
    metric = result.metric
    for name, reason in pair.left_out.items():
        if reason == DISJOINT or (is_named and reason in (ONLY_IN_A, ONLY_IN_B)):
            raise RecordError(f"{name} is not in both runs{f': {reason}' * (reason == DISJOINT)}")
        if reason not in (ONLY_IN_A, ONLY_IN_B, no_value(metric)):
            yield Condition(task=name, metric=metric, kind="not_worse_than", bound=margin, reason=reason)
    for task in pair.tasks:
        if unmatched := task.unmatched_a + task.unmatched_b:
            raise RecordError(
                f"{task.task}: {pluralize(unmatched, 'example')} of one run are not in the other; give both runs the "
                "same --limit or --sample and --seed"
            )
        yield _check_difference(task, metric, margin, _sign(pair.a, task.task, metric))


def _sign(run: RunRecord, name: str, metric: str) -> int:
    """Return 1 if high values of a metric are good, -1 if low ones are."""
    base = name.partition(" (")[0]
    scores = (score for task in run.tasks if task.task in (name, base) for score in task.scores)
    return next((1 if score.higher_is_better else -1 for score in scores if score.metric == metric), 1)


def _check_difference(task: TaskComparison, metric: str, margin: float | None, sign: int) -> Condition:
    test = task.comparison
    condition = Condition(
        task=task.task,
        metric=metric,
        kind="not_worse_than",
        bound=margin,
        value=test.value_a,
        difference=test.difference,
        low=test.low,
        high=test.high,
        p=task.p_adjusted if margin is None else None,
    )
    if test.difference is None:
        return replace(condition, reason=test.note or UNSCORED)
    remark = f"{pluralize(task.unanswered, 'example')} without a valid answer left out" if task.unanswered else ""
    if margin is None:
        if task.p_adjusted is None:
            return replace(condition, reason=test.note or "there is no test")
        is_rounding = abs(test.difference) <= ROUNDING_SHARE * abs(test.value_b or 0.0)
        passed = sign * test.difference >= 0 or is_rounding or task.p_adjusted >= ALPHA
        return replace(condition, passed=passed, reason=remark if passed else "significantly worse")
    worst = test.low if sign > 0 else test.high
    if worst is not None:
        passed = sign * worst > -margin
        failure = "worse by the margin or more" if sign * test.difference <= -margin else "may be worse by the margin"
        return replace(condition, passed=passed, reason=remark if passed else failure)
    passed = _is_equal_within(test, margin)
    return replace(condition, passed=passed, reason=remark if passed else one_line(test.note or "no interval"))


def _is_equal_within(test: PairedTest, margin: float) -> bool:
    """Return whether runs that agree on every example, so that there is no interval, differ by less than the margin.

    If G clusters agree, the share of those that would differ is at most 1 − .025^(1/G) with 97.5 % confidence, and so
    is the mean of differences of values from 0 to 1.
    """
    if test.differing != 0 or test.clusters < 2 or test.value_a is None or not 0 <= test.value_a <= 1:
        return False
    if (p := equivalence(test, margin)) is not None:
        return p < ALPHA / 2
    share = 1 - (ALPHA / 2) ** (1 / (test.effective_clusters or test.clusters))
    return bool(share < margin)


def check_margin(margin: float | None, other: object) -> None:
    """Raise `OptionError` if a margin is not positive, or if there is no run to compare with."""
    if margin is not None and other is None:
        raise OptionError("--margin is for --not_worse_than; name the run to compare with, or leave it out")
    if margin is not None and not 0 < margin < float("inf"):
        raise OptionError(f"a margin of {margin:g} is not positive; give the largest difference that does not matter")
