"""Paired comparison of two runs on the examples of one task."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TypeVar

from figeval.metrics.differences import bounds_of_difference
from figeval.metrics.intervals import Bounds, clip
from figeval.metrics.paired import DRAWS, PairedTest, paired, paired_over_languages, paired_over_seeds
from figeval.runs.stored import Features, Values

Stored = TypeVar("Stored")
# Why tasks are left out.
DISJOINT = "the runs have no example of it in common; give both the same --sample and --seed"
ALL_SEEN = "a model was trained or chosen on these examples, so no valid test exists"
UNSTORED = "lacks predictions of it"
SEEDED = "is no mean over examples, which alone can be compared over seeds; compare the runs of single seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """Run A minus run B on one task.

    None of the examples that are counted here are compared.

    Attributes:
        unmatched_a: number of examples of run A for which run B has no row.
        unmatched_b: number of examples of run B for which run A has no row.
        unanswered: number of examples to which at least one run gave no valid answer.
        seen: number of examples that one of the models was trained or chosen on.
        same_as: an earlier task on which both runs have the same rows, so that both tasks are one test; else empty.
        p_adjusted: p-value corrected for all tests.
        detectable: true difference that p < .05, without correction, would find with probability .8.
        p_equivalence: p-value of the hypothesis that the runs differ by the margin or more.
    """

    task: str
    comparison: PairedTest
    unmatched_a: int = 0
    unmatched_b: int = 0
    unanswered: int = 0
    seen: int = 0
    same_as: str = ""
    p_adjusted: float | None = None
    detectable: float | None = None
    p_equivalence: float | None = None


def compare_values(
    task: str,
    a: Values,
    b: Values,
    seed: int = 0,
    languages: Mapping[str, Collection[str]] | None = None,
    draws: int = DRAWS,
) -> TaskComparison:
    """Compare two runs on the examples that both have; with `languages`, compare the means over the languages."""
    common = [example for example in a if example in b]
    values_a = [a[example][0] for example in common]
    values_b = [b[example][0] for example in common]
    known = [value for value in (*values_a, *values_b) if value is not None]
    bounds = (0.0, 1.0) if all(0 <= value <= 1 for value in known) else None
    if languages:
        comparison = paired_over_languages(*in_parts(a, b, common, languages), bounds, seed, draws)
    else:
        comparison = paired(values_a, values_b, [a[example][1] for example in common], bounds, seed, draws)
    return on_common(task, a, b, comparison, len(common))


def compare_features(
    task: str,
    a: Mapping[str, tuple[Features, str | None]],
    b: Mapping[str, tuple[Features, str | None]],
    test: Callable[..., PairedTest],
    languages: Mapping[str, Collection[str]] | None = None,
) -> TaskComparison:
    """Compare two runs by a score that is no mean; with `languages`, compare the means of the languages' scores.

    `test` is `statistic_over_languages` of the score.
    """
    common = [example for example in a if example in b]
    comparison = test(*in_parts(a, b, common, languages or {"": dict.fromkeys(common)}))
    return on_common(task, a, b, comparison, len(common))


def in_parts(
    a: Mapping[str, tuple[Stored, str | None]],
    b: Mapping[str, tuple[Stored, str | None]],
    common: Sequence[str],
    parts: Mapping[str, Collection[str]],
) -> tuple[dict[str, list[Stored]], dict[str, list[Stored]], dict[str, list[str | None]]]:
    """Return the values of A, those of B and the clusters of the common examples in each part."""
    ids = {name: [example for example in common if example in members] for name, members in parts.items()}
    of_a, of_b = ({name: [run[one][0] for one in own] for name, own in ids.items()} for run in (a, b))
    return of_a, of_b, {name: [a[one][1] for one in own] for name, own in ids.items()}


def on_common(task: str, a: Sized, b: Sized, comparison: PairedTest, common: int) -> TaskComparison:
    """Return the comparison of a task on the examples that both have, with the numbers of those left out."""
    return TaskComparison(
        task=task,
        comparison=comparison,
        unmatched_a=len(a) - common,
        unmatched_b=len(b) - common,
        unanswered=common - comparison.n,
    )


def compare_seeds(
    task: str,
    a: Sequence[Values],
    b: Sequence[Values],
    seed: int = 0,
    varies: tuple[bool, bool] = (False, False),
    draws: int = DRAWS,
) -> TaskComparison:
    """Compare two models on the examples that all their trainings have; for one training each, as `compare_values`.

    `varies` says whether another training of A, and of B, would give other values (`Side.varies`).
    """
    if len(a) == len(b) == 1:
        return compare_values(task, a[0], b[0], seed, None, draws)
    common = [example for example in a[0] if all(example in values for values in (*a, *b))]
    answered = [example for example in common if all(values[example][0] is not None for values in (*a, *b))]
    of_a, of_b = ([[values[example][0] or 0.0 for example in answered] for values in every] for every in (a, b))
    known = [value for values in (*of_a, *of_b) for value in values]
    bounds = (0.0, 1.0) if all(0 <= value <= 1 for value in known) else None
    comparison = paired_over_seeds(of_a, of_b, [a[0][example][1] for example in answered], bounds, varies)
    return TaskComparison(
        task=task,
        comparison=comparison,
        unmatched_a=len(a[0]) - len(common),
        unmatched_b=len(b[0]) - len(common),
        unanswered=len(common) - len(answered),
    )


def within(comparison: PairedTest, bounds: Bounds) -> PairedTest:
    """Return a comparison whose interval has only differences that are possible for values with these bounds."""
    if comparison.low is None or comparison.high is None:
        return comparison
    low, high = clip((comparison.low, comparison.high), bounds_of_difference(bounds))
    return replace(comparison, interval=replace(comparison.interval, low=low, high=high))
