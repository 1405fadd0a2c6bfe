"""Tests of differences between systems: within annotators where they judged the same examples, else as two samples.

Beside the paired test of `figeval compare` stand those that papers report: the sign test, of majority labels if these
are yes and no, and Student's t-test. p-values of the first are corrected for all differences, the others are not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Generic, TypeVar

from figeval import Interval
from figeval.metrics.differences import SignTest, sign_test, t_test, unpaired_t_test
from figeval.metrics.paired import PairedTest, compare_paired, holm
from figeval.spec.criteria import YES_NO, Criterion
from figeval.wings.annotation.items import Key
from figeval.wings.annotation.labels import Labels, item_means, label_values, majority_label
from figeval.wings.annotation.prediction_powered import PoweredMean

Test = TypeVar("Test", PairedTest, PoweredMean)


@dataclass(frozen=True, slots=True)
class SystemDifference(Generic[Test]):
    """System A minus system B by one criterion.

    Attributes:
        criterion: name of the criterion.
        a: name of system A.
        b: name of system B.
        test: the difference: a paired test within annotators, or a mean of people estimated with a judge's answers.
        p_holm: p-value corrected for all differences.
        sign: sign test of the examples, by majority labels if these are yes and no, else by means.
        p_t: p-value of Student's t-test.
    """

    criterion: str
    a: str
    b: str
    test: Test
    p_holm: float | None = None
    sign: SignTest | None = None
    p_t: float | None = None


@dataclass(frozen=True, slots=True)
class SampleDifference:
    """A system minus one of other data by one criterion, as means of independent samples of n_a and n_b clusters."""

    criterion: str
    a: str
    b: str
    difference: float
    interval: Interval
    p: float | None
    n_a: int
    n_b: int


def correct_p_values(differences: Sequence[SystemDifference[Test]]) -> tuple[SystemDifference[Test], ...]:
    """Return the differences with p-values corrected by Holm's method; those without a test are not counted."""
    adjusted = iter(holm([difference.test.p for difference in differences if difference.test.p is not None]))
    return tuple(
        difference if difference.test.p is None else replace(difference, p_holm=next(adjusted))
        for difference in differences
    )


# ---- the same examples -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _JudgedExample:
    """An example of which people judged the texts of two systems: labels and values of those who judged both."""

    labels: tuple[Mapping[str, str], Mapping[str, str]]
    values: tuple[float, float]
    cluster: str

    def sign_value(self, criterion: Criterion) -> float | None:
        """Return the difference whose sign counts; None if there is no majority."""
        if criterion.labels != YES_NO:
            return self.values[0] - self.values[1]
        a, b = (majority_label(labels) for labels in self.labels)
        return None if a is None or b is None else float(YES_NO.index(a) - YES_NO.index(b))


def compare_systems(
    key: Key, criterion: Criterion, labels: Labels, seed: int
) -> Iterator[SystemDifference[PairedTest]]:
    """Yield a test of each pair of systems on differences within annotators.

    Only annotators who judged both texts of an example count there, because the difference between the judgements of
    two people would also be that of their standards.
    """
    bounds = (0.0, 1.0) if key.gold else criterion.bounds
    by_system: dict[str, dict[str, str]] = {system: {} for system in key.authors}
    for number, item in key.items.items():
        if label_values(key, criterion, number, labels.get(number, {})):
            by_system[item.author][item.example] = number
    for a, b in combinations([system for system in key.authors if by_system[system]], 2):
        pairs = [(number, by_system[b][example]) for example, number in by_system[a].items() if example in by_system[b]]
        rows = [row for pair in pairs if (row := _judged_example(key, criterion, labels, pair)) is not None]
        # Examples without a shared cluster are independent, as `compare_paired` is told by None.
        sizes = Counter(row.cluster for row in rows)
        clusters = [row.cluster if sizes[row.cluster] > 1 else None for row in rows]
        test = compare_paired([row.values[0] for row in rows], [row.values[1] for row in rows], clusters, bounds, seed)
        signs = [(row.sign_value(criterion), cluster) for row, cluster in zip(rows, clusters, strict=True)]
        yield SystemDifference(
            criterion.name,
            a,
            b,
            replace(test, note=_add_omissions(test, len(pairs))),
            sign=sign_test([(value, cluster) for value, cluster in signs if value is not None]) if rows else None,
            p_t=_p_of_t(test),
        )


def _judged_example(key: Key, criterion: Criterion, labels: Labels, pair: tuple[str, str]) -> _JudgedExample | None:
    """Return the judgements of two items by annotators who judged both; None if nobody did."""
    of_a, of_b = (label_values(key, criterion, number, labels[number]) for number in pair)
    raters = [rater for rater in of_a if rater in of_b]
    if not raters:
        return None
    labels_a, labels_b = ({rater: labels[number][rater] for rater in raters} for number in pair)
    values = fmean(of_a[rater] for rater in raters), fmean(of_b[rater] for rater in raters)
    return _JudgedExample((labels_a, labels_b), values, key.items[pair[0]].group)


def _p_of_t(test: PairedTest) -> float | None:
    if test.difference is None or not test.stderr or not test.freedom:
        return None
    return t_test(test.difference, test.stderr, test.freedom)


def _add_omissions(test: PairedTest, common: int) -> str:
    """Return the note of a test with what was left out of the examples of which both texts were judged."""
    omitted = common - test.n
    if not common or not omitted:
        return test.note
    if not test.n:
        return (
            "no annotator judged both texts of an example, so a difference between the systems cannot be told from one "
            "between the annotators; have the same people judge all texts of an example"
        )
    omission = f"{omitted} of {common} examples left out, because no annotator judged both of their texts"
    return f"{test.note}; {omission}" if test.note else omission


# ---- other examples --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """The key to items, and criterion → labels of them."""

    key: Key
    labels: dict[str, Labels]

    def samples(self, criterion: Criterion) -> dict[str, list[float]]:
        """Return the mean judgements of independent clusters by system, whose names end in the task."""
        means = item_means(self.key, criterion, self.labels.get(criterion.name, {}))
        clusters: dict[str, dict[str, list[float]]] = {}
        for number, mean in means.items():
            item = self.key.items[number]
            by_cluster = clusters.setdefault(f"{item.author} of {self.key.task}", defaultdict(list))
            by_cluster[item.group].append(mean)
        return {system: [fmean(values) for values in groups.values()] for system, groups in clusters.items()}


def compare_samples(items: JudgedSample, other: JudgedSample) -> Iterator[SampleDifference]:
    """Yield a test of each system and each of the other items, by the criteria that both have with the same labels."""
    scales = {criterion.name: criterion.labels for criterion in other.key.all_criteria}
    for criterion in items.key.all_criteria:
        if scales.get(criterion.name) != criterion.labels:
            continue
        for a, values_a in items.samples(criterion).items():
            for b, values_b in other.samples(criterion).items():
                p, interval = unpaired_t_test(values_a, values_b)
                difference = fmean(values_a) - fmean(values_b)
                yield SampleDifference(criterion.name, a, b, difference, interval, p, len(values_a), len(values_b))
