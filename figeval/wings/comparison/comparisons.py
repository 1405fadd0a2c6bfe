"""Comparisons of any number of runs: with each other or with one of them, corrected for the number of tests, ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Literal

from figeval.errors import OptionError, RecordError, near
from figeval.io.text import one_line
from figeval.metrics.caveats import ALPHA
from figeval.metrics.paired import benjamini_hochberg, draws_for, holm
from figeval.records.schema import RunRecord, TaskRecord
from figeval.spec.loader import Catalogue
from figeval.wings.comparison.compare import (
    RunComparison,
    compare_sides,
    compare_task,
    refuse_other_examples,
    tasks_of,
)
from figeval.wings.comparison.power import detectable_by, equivalence
from figeval.wings.comparison.sides import Side
from figeval.wings.comparison.task_comparison import TaskComparison

Correction = Literal["holm", "bh"]
CORRECTIONS: Mapping[Correction, Callable[[Sequence[float]], list[float]]] = {"holm": holm, "bh": benjamini_hochberg}


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Which of several runs are compared, and how.

    Attributes:
        against: place of the run that all others are compared with; by default, all pairs are compared.
        correction: "holm" for a few planned comparisons, "bh" (Benjamini and Hochberg) for exploration. By default Holm
            for two runs and with `against`, else Benjamini and Hochberg.
        margin: largest difference that does not matter, for a test of equivalence.
        tasks: names of the tasks and contrasts that are compared; by default all that two runs have.
    """

    against: int | None = None
    correction: Correction | None = None
    margin: float | None = None
    tasks: frozenset[str] | None = None

    def places(self, runs: int) -> list[tuple[int, int]]:
        """Return the pairs that are compared, by the places of their runs."""
        if self.against is None:
            return list(combinations(range(runs), 2))
        return [(other, self.against) for other in range(runs) if other != self.against]


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


Pairs = Mapping[tuple[int, int], RunComparison]  # by the places of the two runs


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparisons:
    """Comparisons of several runs.

    Attributes:
        runs: records in the order given; those of several seeds have means.
        pairs: the places of two runs, and their comparison.
        correction: how p-values were corrected for the number of tests.
        family: number of tests in all comparisons.
        margin: largest difference that does not matter, or None.
        ranks: ranks on each task; empty for two runs, or if only some pairs were compared.
    """

    metric: str
    runs: tuple[RunRecord, ...]
    pairs: Mapping[tuple[int, int], RunComparison]
    correction: Correction
    family: int
    margin: float | None = None
    ranks: tuple[RankedRun, ...] = ()


def compare_runs(
    path_a: Path, path_b: Path, metric: str = "acc", seed: int = 0, prompts: tuple[str, str] | None = None
) -> RunComparison:
    """Compare two run folders (or their `run.json`) on every task that both have.

    A task with rows in several languages has one comparison per language, and one of the means over the languages under
    its own name.

    Args:
        path_a: run A, or a folder of several seeds; differences are A minus B.
        path_b: run B.
        metric: name of a metric whose values or sums the runs stored for each example.
        seed: random seed of the sign-flip test.
        prompts: prompt of each task in run A and in run B, where `default` is the task's own; the two folders may be
            the same. If None, tasks of the same name are compared.

    Raises:
        RecordError: a run or its predictions are missing, the runs have no task in common, a task has another version
            or other examples in one of them, or there is no such metric or prompt.
    """
    (found,) = compare_all([path_a, path_b], metric, seed, prompts).pairs.values()
    return found


def compare_all(
    paths: Sequence[Path],
    metric: str = "acc",
    seed: int = 0,
    prompts: tuple[str, str] | None = None,
    design: Design | None = None,
    catalogue: Catalogue | None = None,
) -> RunComparisons:
    """Compare several runs, or folders of several seeds, on every task that two of them have.

    Args:
        paths: folders of at least two runs.
        metric: see `compare_runs`.
        seed: see `compare_runs`.
        prompts: see `compare_runs`; for two runs.
        design: which runs are compared, and how; by default all pairs.
        catalogue: if given, the tasks of the design may also be named by their suites.

    Raises:
        OptionError: there is a catalogue, and no run has a task of the design.
        RecordError: a run is missing, or no two runs can be compared.
    """
    design = design or Design()
    whole = [Side.at(path) for path in paths]
    if design.tasks is not None and catalogue is not None:
        design = replace(design, tasks=names_of(design.tasks, [side.record for side in whole], catalogue))
    sides = [_of_tasks(side, design.tasks) for side in whole]
    _refuse_twice(sides)
    draws = draws_for(len(design.places(len(sides))) * max(map(possible_tests, sides)))
    places = design.places(len(sides))
    found: dict[tuple[int, int], RunComparison] = {}
    for one, other in places:
        try:
            found[one, other] = compare_sides(sides[one], sides[other], metric, seed, prompts, draws)
        except RecordError as error:
            a, b, problem = sides[one].record, sides[other].record, str(error)
            found[one, other] = RunComparison(metric=metric, a=a, b=b, left_out={}, problem=problem)
    if all(pair.problem for pair in found.values()):
        raise RecordError(next(iter(found.values())).problem)
    planned = len(places) == 1 or design.against is not None
    correction: Correction = design.correction or ("holm" if planned else "bh")
    pairs = corrected(found, correction, design.margin)
    family = family_of(pairs)
    return RunComparisons(
        metric=metric,
        runs=tuple(side.record for side in whole),
        pairs={places: replace(pair, family=family) for places, pair in pairs.items()},
        correction=correction,
        family=family,
        margin=design.margin,
        ranks=() if planned else tuple(_ranks(corrected(_alike(sides, metric, (seed, draws), found), "holm"), metric)),
    )


def names_of(names: Iterable[str], records: Sequence[RunRecord], catalogue: Catalogue) -> frozenset[str]:
    """Return the tasks, their prompts and the contrasts of runs that names of tasks, suites and contrasts stand for.

    A suite stands for its tasks, and for the contrasts between these.

    Raises:
        OptionError: no run has what a name stands for.
    """
    tasks = {task.task: task.of or task.task for record in records for task in record.tasks}
    contrasts = {one.name: one for record in records for one in record.contrasts}
    found: set[str] = set()
    for name in sorted(names):
        members = {one.name for one in catalogue.expand([name])} if name in catalogue.suites else {name}
        own = {task for task, of in tasks.items() if task in members or of in members}
        own |= {key for key, one in contrasts.items() if key == name or members.issuperset(one.tasks)}
        if not own:
            known = (*tasks, *contrasts)
            cure = near(name, known) or f"; they have {', '.join(known[:8])}{', …' * (len(known) > 8)}"
            raise OptionError(f"--tasks {one_line(name, 80)}: no run has it{cure}")
        found |= own
    return frozenset(found)


def _of_tasks(side: Side, tasks: frozenset[str] | None) -> Side:
    """Return a run with only some of its tasks and contrasts."""
    if tasks is None:
        return side
    kept = [task for task in side.record.tasks if task.task in tasks]
    contrasts = [one for one in side.record.contrasts if one.name in tasks]
    return replace(side, record=side.record.model_copy(update={"tasks": kept, "contrasts": contrasts}))


def possible_tests(side: Side) -> int:
    """Return the largest number of tests that a comparison of a run may have: a task, a language or contrast each."""
    of_tasks = sum(1 + len(task.settings.get("languages", ())) for task in side.record.tasks)
    return of_tasks + len(side.record.contrasts)


def _refuse_twice(sides: Sequence[Side]) -> None:
    """Raise `RecordError` if one of three or more runs was given twice, since it would be ranked twice."""
    places = [side.folder.path.resolve() for side in sides]
    twice = next((place for place in places if places.count(place) > 1), None)
    if twice is not None and len(sides) > 2:
        raise RecordError(f"{twice} was given more than once, and would be ranked as several runs; give it once")


def corrected(
    pairs: Mapping[tuple[int, int], RunComparison], correction: Correction, margin: float | None = None
) -> dict[tuple[int, int], RunComparison]:
    """Return the comparisons with p-values corrected over all of them, and with what they could have found."""
    tests = [(runs, task) for runs, pair in pairs.items() for task in _distinct(pair) if task.comparison.p is not None]
    corrections = CORRECTIONS[correction]([p for _, task in tests if (p := task.comparison.p) is not None])
    adjusted = {(runs, task.task): p for (runs, task), p in zip(tests, corrections, strict=True)}

    def finish(runs: tuple[int, int], task: TaskComparison) -> TaskComparison:
        test = task.comparison
        return replace(
            task,
            p_adjusted=adjusted.get((runs, task.task), adjusted.get((runs, task.same_as))),
            detectable=detectable_by(test),
            p_equivalence=None if margin is None else equivalence(test, margin),
        )

    return {runs: replace(pair, tasks=tuple(finish(runs, task) for task in pair.tasks)) for runs, pair in pairs.items()}


def family_of(pairs: Pairs) -> int:
    """Return the number of tests for which p-values were corrected; tasks with the same rows are one test."""
    return sum(task.p_adjusted is not None for pair in pairs.values() for task in _distinct(pair))


def _distinct(pair: RunComparison) -> list[TaskComparison]:
    """Return the comparisons of a pair without those that repeat one of the others."""
    names = {task.task for task in pair.tasks}
    return [task for task in pair.tasks if task.same_as not in names]


def ranked(sides: Sequence[Side], task: str, metric: str, seed: int = 0) -> list[RankedRun]:
    """Return the ranks of runs on one task, with p-values that are corrected over all pairs of these runs.

    All pairs are compared on the same examples, those that every run answered and none has seen. The list is empty if
    a pair cannot be compared.

    Args:
        sides: runs that have the task, all on the same examples.
        task: name of the task.
        metric: metric that all runs stored for each example.
        seed: random seed of the sign-flip tests.

    Raises:
        RecordError: predictions are damaged.
    """
    own = [next(one for one in side.record.tasks if one.task == task) for side in sides]
    chance = seed, draws_for(len(sides) * (len(sides) - 1) // 2)
    pairs = {
        places: replace(pair, tasks=tuple(one for one in pair.tasks if one.task == task))
        for places, pair in _on_common(sides, task, own, metric, chance, {}).items()
    }
    return _ranks(corrected(pairs, "holm"), metric)


def _alike(sides: Sequence[Side], metric: str, chance: tuple[int, int], known: Pairs) -> Pairs:
    """Return the comparisons of all pairs on every task that all runs have, each on the same examples for all pairs."""
    tasks = [tasks_of(side.record, None) for side in sides]
    found: dict[tuple[int, int], list[TaskComparison]] = {places: [] for places in known}
    for name in tasks[0]:
        own = [one[name] for one in tasks if name in one]
        if len(own) < len(sides):
            continue
        try:
            for other in own[1:]:
                refuse_other_examples(own[0], other)
        except RecordError:
            continue  # the pairs' comparison says so
        for places, pair in _on_common(sides, name, own, metric, chance, known).items():
            found[places] += pair.tasks
    repeats = _repeats(known)
    return {
        compared: replace(
            pair, tasks=tuple(replace(task, same_as=repeats.get(task.task, "")) for task in found[compared])
        )
        for compared, pair in known.items()
    }


def _repeats(pairs: Pairs) -> dict[str, str]:
    """Return the tasks whose rows repeat those of an earlier task in all runs, with the earlier task."""
    names: dict[str, set[str]] = {}
    for pair in pairs.values():
        for task in pair.tasks:
            names.setdefault(task.task, set()).add(task.same_as)
    return {task: next(iter(same)) for task, same in names.items() if len(same) == 1}


def _on_common(
    sides: Sequence[Side], name: str, own: Sequence[TaskRecord], metric: str, chance: tuple[int, int], known: Pairs
) -> dict[tuple[int, int], RunComparison]:
    """Return the comparisons of all pairs on the examples of a task that every run answered and none has seen.

    Those in `known` are on the examples that the two runs of a pair answered. They are kept if these are the same.
    `chance` is the seed of the tests and their largest number of draws.
    """
    both = list(zip(sides, own, strict=True))
    common = set.intersection(*(side.answered(task.task, metric) for side, task in both))
    common -= set[str]().union(*(side.seen(task.task) for side, task in both))
    kept = {
        places: replace(pair, tasks=tuple(one for one in pair.tasks if _task_of(one) == name))
        for places, pair in known.items()
    }
    ns = [one.comparison.n for pair in kept.values() for one in pair.tasks if one.task == name]
    if known and ns == [len(common)] * len(kept):
        return kept
    limited = [(replace(side, only={task.task: common}), task) for side, task in both]
    pairs = {}
    for a, b in combinations(range(len(sides)), 2):
        found = compare_task(name, limited[a], limited[b], metric, *chance) if common else ""
        tasks = () if isinstance(found, str) else tuple(found)
        pairs[a, b] = RunComparison(metric=metric, a=sides[a].record, b=sides[b].record, left_out={}, tasks=tasks)
    return pairs


def _task_of(one: TaskComparison) -> str:
    """Return the task of a comparison, which may be of one of its languages."""
    return one.task.partition(" (")[0]


def _ranks(pairs: Pairs, metric: str) -> list[RankedRun]:
    """Return the ranks of the runs on each task that every pair was compared on; p-values are Holm's."""
    runs = 1 + max(place for places in pairs for place in places)
    higher = {
        task.task: score.higher_is_better
        for pair in pairs.values()
        for task in pair.a.tasks
        for score in task.scores
        if score.metric == metric
    }
    # Where one answer is right for every example, a model that always gives it is no better than another.
    one_label = {task.task for pair in pairs.values() for task in pair.a.tasks if task.only_label is not None}
    found = []
    for name in dict.fromkeys(one.task for pair in pairs.values() for one in pair.tasks):
        known = {places: one for places, pair in pairs.items() for one in pair.tasks if one.task == name}
        if len(known) < len(pairs) or name.partition(" (")[0] in one_label:
            continue
        sign = 1 if higher.get(_task_of(next(iter(known.values()))), True) else -1
        values: dict[int, float | None] = {}
        better, beaten = [0] * runs, [0] * runs
        for (a, b), one in known.items():
            test = one.comparison
            values |= {a: test.value_a, b: test.value_b}
            if one.p_adjusted is not None and one.p_adjusted < ALPHA and test.difference:
                winner, loser = (a, b) if sign * test.difference > 0 else (b, a)
                better[loser] += 1
                beaten[winner] += 1
        tested = all(one.p_adjusted is not None for one in known.values())
        numbers = [value for value in values.values() if value is not None]
        for run, value in sorted(values.items(), key=lambda item: (item[1] is None, -sign * (item[1] or 0.0))):
            rank = None if value is None else 1 + sum(sign * other > sign * value for other in numbers)
            limits = (1 + better[run], runs - beaten[run]) if tested else (None, None)
            n = max(one.comparison.n for one in known.values())
            found.append(RankedRun(task=name, run=run, value=value, rank=rank, best=limits[0], worst=limits[1], n=n))
    return found
