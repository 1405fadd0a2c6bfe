"""The comparisons of a report: the first run with each of the others, and the examples on which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from figeval.errors import RecordError
from figeval.metrics.paired import draws_for
from figeval.records.schema import TaskRecord
from figeval.wings.comparison.compare import RunComparison, compare_sides, tasks_of
from figeval.wings.comparison.comparisons import corrected, family_of, possible_tests
from figeval.wings.comparison.sides import Side

AND_T = "“and t”: clusters differ in size, and a t-test must find the difference, too"
EXPLAINED = {  # by the beginning of a test's name
    "exact McNemar": "if neither run is better, each is equally likely to be the only one that gets an example right",
    "sign flip": f"p comes from flipping the signs of the clusters' summed differences; {AND_T}",
    "permutation": f"p comes from exchanging the two runs' answers to a cluster, for scores that are no means; {AND_T}",
    "t over": "a t-test whose variance covers other seeds as well as other examples",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """The examples of a task on which one of two runs has the better value; over seeds, the better mean.

    Attributes:
        a_better: ids of the examples on which run A is better.
        b_better: ids of the examples on which run B is better.
        both_right: number of examples that both got right.
        both_wrong: number of examples that both got wrong.
        is_binary: whether all values are 0 for a wrong answer or 1 for a right one.
    """

    task: str
    a_better: list[str]
    b_better: list[str]
    both_right: int
    both_wrong: int
    is_binary: bool


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """Run A minus run B.

    Attributes:
        a: place of run A among the runs of the report.
        b: place of run B.
        result: the differences, with p-values that are corrected for all tests of the report.
        changes: for each task that was compared by a mean, the examples on which the runs differ.
    """

    a: int
    b: int
    result: RunComparison
    changes: list[Changes]


def compare_with_first(
    sides: Sequence[Side], metrics: Sequence[str], seed: int
) -> tuple[list[ComparedRuns], list[tuple[int, str]]]:
    """Compare the first run with each of the others by each metric; Holm's correction covers the tests of all of them.

    Returns:
        The comparisons, and the place of each run that cannot be compared by a metric, with the reason.
    """
    results, problems = dict[tuple[int, int], RunComparison](), list[tuple[int, str]]()
    draws = draws_for((len(sides) - 1) * len(metrics) * max(map(possible_tests, sides)))
    for place in range(1, len(sides)):
        for number, metric in enumerate(metrics):
            try:
                results[place, number] = compare_sides(sides[0], sides[place], metric, seed, draws=draws)
            except RecordError as error:
                problems.append((place, str(error)))
    pairs = corrected(results, "holm")
    family = family_of(pairs)
    found = [
        ComparedRuns(0, place, replace(pair, family=family), list(_changes(sides[0], sides[place], pair)))
        for (place, _), pair in pairs.items()
    ]
    return found, problems


def explanations(pairs: Iterable[ComparedRuns]) -> Iterator[str]:
    """Yield a sentence for each kind of test that some comparisons used."""
    used = dict.fromkeys(one.comparison.test for pair in pairs for one in pair.result.tasks)
    for beginning, text in EXPLAINED.items():
        if names := [test for test in used if test.startswith(beginning)]:
            yield f"{', '.join(names)}: {text}"


def _changes(a: Side, b: Side, result: RunComparison) -> Iterator[Changes]:
    """Yield the examples that differ, counted as in the comparison: both runs answered, and no model has seen them."""
    of_a, of_b = tasks_of(a.record, None), tasks_of(b.record, None)
    for name, task in of_a.items():
        if name in result.left_out or name not in of_b:
            continue
        values_a, values_b = (_means(side, name, result.metric) for side in (a, b))
        if not values_a or not values_b:
            continue
        seen = a.seen(name) | b.seen(name)
        pairs = {
            example: (value, values_b[example])
            for example, value in values_a.items()
            if example in values_b and example not in seen
        }
        rises = _rises(task, result.metric)
        sign = 1 if rises else -1
        yield Changes(
            task=name,
            a_better=[example for example, (one, other) in pairs.items() if sign * one > sign * other],
            b_better=[example for example, (one, other) in pairs.items() if sign * one < sign * other],
            both_right=sum(values == (1, 1) for values in pairs.values()),
            both_wrong=sum(values == (0, 0) for values in pairs.values()),
            is_binary=rises and all(value in (0, 1) for values in pairs.values() for value in values),
        )


def _means(side: Side, task: str, metric: str) -> Mapping[str, float]:
    """Return the value of each example that all runs of a side answered, or its mean over seeds; empty for no mean."""
    every = side.values(task, metric)
    found: dict[str, float] = {}
    for example in every[0]:
        values = [values.get(example, (None, None))[0] for values in every]
        known = [value for value in values if value is not None]
        if len(known) == len(every):
            found[example] = fmean(known)
    return found


def _rises(task: TaskRecord, metric: str) -> bool:
    return next((score.higher_is_better for score in task.scores if score.metric == metric), True)
