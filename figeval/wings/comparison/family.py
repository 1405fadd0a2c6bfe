"""Comparisons of any number of runs, corrected for the number of tests and ranked.

Other wings compare runs by the functions of this module: `compare_all` with a `ComparisonDesign`,
`compare_with_first`, `expand_names`, and `rank_runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias

from figeval import Harness, OptionError, RecordError, RunRecord, TaskRecord
from figeval.io.text import near, one_line
from figeval.metrics.differences import ALPHA
from figeval.metrics.paired import benjamini_hochberg, draws_for, holm
from figeval.records.conditions import default_metric, with_scores_of_all
from figeval.records.run_folder import RunFolder
from figeval.wings.comparison.detectable import detectable_by, equivalence
from figeval.wings.comparison.pair import (
    Changes,
    RunComparison,
    compare_sides,
    find_changes,
    refuse_other_examples,
    tasks_of,
)
from figeval.wings.comparison.task_comparison import RunSide, TaskComparison, compare_task

Correction = Literal["holm", "bh"]
CORRECTIONS: Mapping[Correction, Callable[[Sequence[float]], list[float]]] = {"holm": holm, "bh": benjamini_hochberg}
Pairs: TypeAlias = Mapping[tuple[int, int], RunComparison]  # by the indices of the two runs
StoredRuns: TypeAlias = tuple[RunRecord, list[tuple[RunRecord, RunFolder]]]  # of `run_or_seeds`


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDesign:
    """Which of several runs are compared, and how.

    Attributes:
        against: index of the run that all others are compared with; by default, all pairs are compared.
        correction: "holm" for a few planned comparisons, "bh" (Benjamini and Hochberg) for exploration. By default Holm
            for two runs and with `against`, else Benjamini and Hochberg.
        margin: largest difference that does not matter, for a test of equivalence.
        tasks: names of the tasks and contrasts that are compared; by default all that two runs have.
    """

    against: int | None = None
    correction: Correction | None = None
    margin: float | None = None
    tasks: frozenset[str] | None = None

    def pairs(self, runs: int) -> list[tuple[int, int]]:
        """Return the pairs that are compared, by the indices of their runs."""
        if self.against is None:
            return list(combinations(range(runs), 2))
        return [(run, self.against) for run in range(runs) if run != self.against]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRun:
    """Rank of a run among all runs on a task, 1 for the best, with a 95 % confidence set.

    `best` is 1 plus the number of runs that are significantly better, `worst` the number of runs minus that of the runs
    that are significantly worse, by Holm-corrected tests of all pairs: with probability .95, all runs' true ranks are
    within these limits (Mogstad, Romano, Shaikh and Wilhelm 2024). Without a test of each pair, they are None.
    `value` and all tests are of the same `n` examples, those that every ranked run answered and none has seen.
    """

    task: str
    run: int
    value: float | None
    rank: int | None
    best: int | None
    worst: int | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparisons:
    """Comparisons of several runs.

    Attributes:
        runs: records in the order given; those of several seeds have means.
        pairs: the indices of two runs, and their comparison.
        correction: how p-values were corrected for the number of tests.
        family: number of tests in all comparisons.
        margin: largest difference that does not matter, or None.
        against: index of the run that all others are compared with, or None for all pairs.
        ranks: ranks on each task; empty for two runs, or if only some pairs were compared.
    """

    metric: str
    runs: tuple[RunRecord, ...]
    pairs: Pairs
    correction: Correction
    family: int
    margin: float | None = None
    against: int | None = None
    ranks: tuple[RankedRun, ...] = ()


def compare_all(
    paths: Sequence[Path],
    metric: str | None = None,
    seed: int = 0,
    prompts: tuple[str, str] | None = None,
    design: ComparisonDesign | None = None,
    harness: Harness | None = None,
) -> RunComparisons:
    """Compare several runs, or folders of several seeds, on every task that two of them have.

    Args:
        paths: folders of at least two runs.
        metric: name of a metric whose values or sums the runs stored for each example; by default `acc`, or
            `acc_of_all` if a run left examples without an answer.
        seed: random seed of the sign-flip tests.
        prompts: prompt of each task in run A and in run B, where `default` is the task's own; for two runs, which may
            be the same. If None, tasks of the same name are compared.
        design: which runs are compared, and how; by default all pairs.
        harness: if given, the tasks of the design include their prompts and probes, and may be named by their suites.

    Raises:
        OptionError: there is a harness, and no run has a task of the design.
        RecordError: a run is missing, or no two runs can be compared.
    """
    design = design or ComparisonDesign()
    complete = [RunSide.at(path) for path in paths]
    names = design.tasks
    if names is not None and harness is not None:
        names = expand_names(names, [side.record for side in complete], harness)
    sides = [_select_tasks(side, names) for side in complete]
    _refuse_repeated_runs(sides)
    metric = metric or default_metric(side.record for side in sides)
    indices = design.pairs(len(sides))
    draws = draws_for(len(indices) * max(map(_count_possible_tests, sides)))
    uncorrected: dict[tuple[int, int], RunComparison] = {}
    for a, b in indices:
        try:
            uncorrected[a, b] = compare_sides(sides[a], sides[b], metric, seed, prompts, draws)
        except RecordError as error:
            record_a, record_b = sides[a].record, sides[b].record
            uncorrected[a, b] = RunComparison(metric=metric, a=record_a, b=record_b, left_out={}, problem=str(error))
    if all(pair.problem for pair in uncorrected.values()):
        raise RecordError(next(iter(uncorrected.values())).problem)
    is_planned = len(indices) == 1 or design.against is not None
    correction: Correction = design.correction or ("holm" if is_planned else "bh")
    pairs = _correct(uncorrected, correction, design.margin)
    return RunComparisons(
        metric=metric,
        runs=tuple(with_scores_of_all([side.record for side in complete])),
        pairs=pairs,
        correction=correction,
        family=next(iter(pairs.values())).family,
        margin=design.margin,
        against=design.against,
        ranks=() if is_planned else tuple(_rank_all(sides, metric, seed, draws, uncorrected)),
    )


def expand_names(names: Iterable[str], records: Sequence[RunRecord], harness: Harness) -> frozenset[str]:
    """Return the tasks and contrasts of some runs by the names under which they are compared.

    A task's name includes its further prompts and probes, and a suite's name those of its tasks and contrasts.

    Raises:
        OptionError: no run has a task of this name.
    """
    catalogue = harness.catalogue
    tasks = {task.task: task.of or task.task for record in records for task in record.tasks}
    contrasts = {contrast.name: contrast for record in records for contrast in record.contrasts}
    matches: set[str] = set()
    for name in sorted(names):
        members = {task.name for task in catalogue.expand([name])} if name in catalogue.suites else {name}
        selected = {task for task, base in tasks.items() if task in members or base in members}
        selected |= {key for key, contrast in contrasts.items() if key == name or members.issuperset(contrast.tasks)}
        if not selected:
            all_names = (*tasks, *contrasts)
            listing = f"{', '.join(all_names[:8])}{', …' * (len(all_names) > 8)}"
            cure = near(name, all_names) or f"; they have {listing}"
            raise OptionError(f"--tasks {one_line(name, 80)}: no run has it{cure}")
        matches |= selected
    return frozenset(matches)


def _select_tasks(side: RunSide, names: frozenset[str] | None) -> RunSide:
    """Return a run with only some of its tasks and contrasts."""
    if names is None:
        return side
    tasks = [task for task in side.record.tasks if task.task in names]
    contrasts = [contrast for contrast in side.record.contrasts if contrast.name in names]
    return replace(side, record=side.record.model_copy(update={"tasks": tasks, "contrasts": contrasts}))


def _count_possible_tests(side: RunSide) -> int:
    """Return the largest number of tests that a comparison of a run may have: a task, a language or contrast each."""
    of_tasks = sum(1 + len(task.settings.get("languages", ())) for task in side.record.tasks)
    return of_tasks + len(side.record.contrasts)


def _refuse_repeated_runs(sides: Sequence[RunSide]) -> None:
    """Raise `RecordError` if one of three or more runs was given twice, since it would be ranked twice."""
    paths = [side.folder.path.resolve() for side in sides]
    repeated = next((path for path in paths if paths.count(path) > 1), None)
    if repeated is not None and len(sides) > 2:
        raise RecordError(f"{repeated} was given more than once, and would be ranked as several runs; give it once")


# ---- the first run and each of the others ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ComparisonWithFirst:
    """Comparison of the first of several runs with another one by one metric.

    Attributes:
        run: index of the other run, which is run B.
        result: the differences, with p-values that are corrected for all runs and metrics.
        changes: for each task that was compared by a mean, the examples on which the runs differ.
    """

    run: int
    result: RunComparisons
    changes: list[Changes]


def compare_with_first(
    runs: Sequence[StoredRuns], metrics: Sequence[str], seed: int
) -> tuple[list[ComparisonWithFirst], list[tuple[int, str]]]:
    """Compare the first run with each of the others by each metric; Holm's correction covers the tests of all of them.

    Args:
        runs: at least two, as `figeval.records.sweep.run_or_seeds` returns them.
        metrics: names of metrics.
        seed: random seed of the sign-flip tests.

    Returns:
        The comparisons, and the index of each run that cannot be compared by a metric, with the reason.
    """
    sides = [RunSide(*run) for run in runs]
    results, problems = dict[tuple[int, int], RunComparison](), list[tuple[int, str]]()
    draws = draws_for((len(sides) - 1) * len(metrics) * max(map(_count_possible_tests, sides)))
    for run in range(1, len(sides)):
        for number, metric in enumerate(metrics):
            try:
                results[run, number] = compare_sides(sides[0], sides[run], metric, seed, draws=draws)
            except RecordError as error:
                problems.append((run, str(error)))
    comparisons = [
        ComparisonWithFirst(run, _only_pair(pair), list(find_changes(sides[0], sides[run], pair)))
        for (run, _), pair in _correct(results, "holm").items()
    ]
    return comparisons, problems


def _only_pair(pair: RunComparison) -> RunComparisons:
    return RunComparisons(
        metric=pair.metric, runs=(pair.a, pair.b), pairs={(0, 1): pair}, correction="holm", family=pair.family
    )


# ---- correction ------------------------------------------------------------------------------------------------------


def _correct(pairs: Pairs, correction: Correction, margin: float | None = None) -> Pairs:
    """Return the comparisons with p-values corrected over all of them, and with what they could have found.

    Tasks of a pair with the same rows are one test.
    """
    tests = [
        (runs, task, task.comparison.p)
        for runs, pair in pairs.items()
        for task in _distinct_tasks(pair)
        if task.comparison.p is not None
    ]
    p_values = CORRECTIONS[correction]([p for *_, p in tests])
    level = ALPHA / max(1, len(tests))  # at which either correction finds a difference, whatever the other tests find
    adjusted = {(runs, task.task): p for (runs, task, _), p in zip(tests, p_values, strict=True)}

    def correct(runs: tuple[int, int], task: TaskComparison) -> TaskComparison:
        test = task.comparison
        return replace(
            task,
            p_adjusted=adjusted.get((runs, task.task), adjusted.get((runs, task.same_as))),
            detectable=detectable_by(test, level),
            level=level,
            p_equivalence=None if margin is None else equivalence(test, margin),
        )

    return {
        runs: replace(pair, tasks=tuple(correct(runs, task) for task in pair.tasks), family=len(tests))
        for runs, pair in pairs.items()
    }


def _distinct_tasks(pair: RunComparison) -> list[TaskComparison]:
    names = {task.task for task in pair.tasks}
    return [task for task in pair.tasks if task.same_as not in names]


# ---- ranks -----------------------------------------------------------------------------------------------------------


def rank_runs(runs: Sequence[StoredRuns], task: str, metric: str, seed: int = 0) -> list[RankedRun]:
    """Return the ranks of runs on one task, with p-values that are corrected over all pairs of these runs.

    All pairs are compared on the same examples, those that every run answered and none has seen. The list is empty if
    a pair cannot be compared.

    Args:
        runs: runs that have the task, all on the same examples, as `figeval.records.sweep.run_or_seeds` returns them.
        task: name of the task.
        metric: metric that all runs stored for each example.
        seed: random seed of the sign-flip tests.

    Raises:
        RecordError: predictions are damaged.
    """
    sides = [RunSide(*run) for run in runs]
    tasks = [(side, next(record for record in side.record.tasks if record.task == task)) for side in sides]
    draws = draws_for(len(sides) * (len(sides) - 1) // 2)
    pairs = {
        indices: replace(pair, tasks=tuple(each for each in pair.tasks if each.task == task))
        for indices, pair in _compare_on_common(tasks, task, metric, seed, draws, {}).items()
    }
    return list(_rank_pairs(_correct(pairs, "holm"), metric))


def _rank_all(sides: Sequence[RunSide], metric: str, seed: int, draws: int, pairs: Pairs) -> Iterator[RankedRun]:
    """Yield the ranks on every task that all runs have, each by tests on the same examples for all pairs."""
    tasks_by_run = [tasks_of(side.record, None) for side in sides]
    comparisons: dict[tuple[int, int], list[TaskComparison]] = {indices: [] for indices in pairs}
    for name in tasks_by_run[0]:
        records = [tasks[name] for tasks in tasks_by_run if name in tasks]
        if len(records) < len(sides):
            continue
        try:
            for record in records[1:]:
                refuse_other_examples(records[0], record)
        except RecordError:
            continue  # the pairs' comparison says so
        tasks_on_common = list(zip(sides, records, strict=True))
        for indices, pair in _compare_on_common(tasks_on_common, name, metric, seed, draws, pairs).items():
            comparisons[indices] += pair.tasks
    repeats = _find_repeats(pairs)
    common = {
        indices: replace(
            pair, tasks=tuple(replace(task, same_as=repeats.get(task.task, "")) for task in comparisons[indices])
        )
        for indices, pair in pairs.items()
    }
    yield from _rank_pairs(_correct(common, "holm"), metric)


def _find_repeats(pairs: Pairs) -> dict[str, str]:
    """Return the tasks whose rows repeat those of an earlier task in all runs, with the earlier task."""
    originals: dict[str, set[str]] = {}
    for pair in pairs.values():
        for task in pair.tasks:
            originals.setdefault(task.task, set()).add(task.same_as)
    return {task: next(iter(names)) for task, names in originals.items() if len(names) == 1}


def _compare_on_common(
    tasks: Sequence[tuple[RunSide, TaskRecord]], name: str, metric: str, seed: int, draws: int, pairs: Pairs
) -> Pairs:
    """Return the comparisons of all pairs on the examples of a task that every run answered and none has seen.

    Those in `pairs` are on the examples that the two runs of a pair answered. They are returned if these are the same.
    """
    common = set.intersection(*(side.answered_ids(record.task, metric) for side, record in tasks))
    common -= set[str]().union(*(side.seen_ids(record.task) for side, record in tasks))
    of_task = {
        indices: replace(pair, tasks=tuple(task for task in pair.tasks if _base_name(task) == name))
        for indices, pair in pairs.items()
    }
    ns = [task.comparison.n for pair in of_task.values() for task in pair.tasks if task.task == name]
    if pairs and ns == [len(common)] * len(of_task):
        return of_task
    subsets = [(replace(side, subsets={record.task: common}), record) for side, record in tasks]
    comparisons = {}
    for a, b in combinations(range(len(tasks)), 2):
        result = compare_task(name, subsets[a], subsets[b], metric, seed, draws) if common else ""
        comparisons[a, b] = RunComparison(
            metric=metric,
            a=tasks[a][0].record,
            b=tasks[b][0].record,
            left_out={},
            tasks=() if isinstance(result, str) else tuple(result),
        )
    return comparisons


def _base_name(task: TaskComparison) -> str:
    """Return the task of a comparison, which may be of one of its languages."""
    return task.task.partition(" (")[0]


def _rank_pairs(pairs: Pairs, metric: str) -> Iterator[RankedRun]:
    """Yield the ranks of the runs on each task that every pair was compared on; p-values are Holm's."""
    records = [task for pair in pairs.values() for task in pair.a.tasks]
    falling = {
        record.task
        for record in records
        for score in record.scores
        if score.metric == metric and not score.higher_is_better
    }
    # Where one answer is right for every example, a model that always gives it is no better than another.
    unranked = {record.task for record in records if record.only_label is not None}
    for name in dict.fromkeys(task.task for pair in pairs.values() for task in pair.tasks):
        tests = {indices: task for indices, pair in pairs.items() for task in pair.tasks if task.task == name}
        base = name.partition(" (")[0]
        if len(tests) == len(pairs) and base not in unranked:
            yield from _rank_task(name, tests, -1 if base in falling else 1)


def _rank_task(name: str, tests: Mapping[tuple[int, int], TaskComparison], sign: int) -> Iterator[RankedRun]:
    """Yield the runs of all pairs by their rank on a task; `sign` is -1 where lower values are better."""
    runs = 1 + max(run for indices in tests for run in indices)
    values: dict[int, float | None] = {}
    better, worse = [0] * runs, [0] * runs  # numbers of runs that are significantly better, and worse
    for (a, b), task in tests.items():
        test = task.comparison
        values |= {a: test.value_a, b: test.value_b}
        if task.p_adjusted is not None and task.p_adjusted < ALPHA and test.difference:
            winner, loser = (a, b) if sign * test.difference > 0 else (b, a)
            better[loser] += 1
            worse[winner] += 1
    is_tested = all(task.p_adjusted is not None for task in tests.values())
    numbers = [value for value in values.values() if value is not None]
    n = max(task.comparison.n for task in tests.values())
    for run, value in sorted(values.items(), key=lambda item: (item[1] is None, -sign * (item[1] or 0.0))):
        rank = None if value is None else 1 + sum(sign * number > sign * value for number in numbers)
        best, worst = (1 + better[run], runs - worse[run]) if is_tested else (None, None)
        yield RankedRun(task=name, run=run, value=value, rank=rank, best=best, worst=worst, n=n)
