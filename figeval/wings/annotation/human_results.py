"""Results of judgements: means per system, agreement of the annotators, tests between systems, correlations.

If several people judged a text, its value is their mean, so a text is one observation however many annotators it had.
Systems are compared within annotators. Neither means nor tests say anything about other annotators: people are fixed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean
from typing import Generic, TypeAlias, TypeVar

from figeval import MetricAggregator, Score, mean_of
from figeval.io.text import one_line, pluralize
from figeval.metrics.paired import PairedTest, compare_paired, holm
from figeval.records.reference import JUDGED_SUFFIX, KAPPA, MAJORITY, MEAN, MeasuredNumber, MeasuredNumbers, Rule
from figeval.runs.stored import Values
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.agreement import (
    PairAgreement,
    Ratings,
    Scale,
    agreement,
    correlations,
    fleiss_kappa,
    pair_agreement,
)
from figeval.wings.annotation.items import Key, slug
from figeval.wings.annotation.prediction_powered import PoweredMean
from figeval.wings.annotation.tool_files import Judgement

ACCURACY = "acc"  # the metric of tasks whose questions people answer
MAX_SOURCE_CHARS = 480
Test = TypeVar("Test", PairedTest, PoweredMean)
Labels: TypeAlias = dict[str, dict[str, str]]  # item → annotator → label


@dataclass(frozen=True, slots=True)
class SystemDifference(Generic[Test]):
    """System A minus system B by one criterion.

    Attributes:
        criterion: name of the criterion.
        a: name of system A.
        b: name of system B.
        test: the difference: a paired test within annotators, or a mean of people estimated with a judge's answers.
        p_holm: p-value corrected for all differences.
    """

    criterion: str
    a: str
    b: str
    test: Test
    p_holm: float | None = None


def correct_p_values(differences: Sequence[SystemDifference[Test]]) -> tuple[SystemDifference[Test], ...]:
    """Return the differences with p-values corrected by Holm's method; those without a test are not counted."""
    adjusted = iter(holm([difference.test.p for difference in differences if difference.test.p is not None]))
    return tuple(
        difference if difference.test.p is None else replace(difference, p_holm=next(adjusted))
        for difference in differences
    )


@dataclass(frozen=True, slots=True)
class SystemScore:
    """Judgements of the texts of one system by one criterion.

    `majority` counts the texts by the label that more annotators chose than any other; `undecided` have none.
    """

    criterion: str
    system: str
    score: Score
    majority: Mapping[str, int]
    undecided: int


@dataclass(frozen=True, slots=True)
class CriterionAgreement:
    """Agreement of the annotators by one criterion, over all of them and, if requested, for each pair."""

    criterion: str
    scale: str
    scores: tuple[Score, ...]
    pairs: tuple[PairAgreement, ...]


@dataclass(frozen=True, slots=True)
class MetricCorrelation:
    """Correlation of an automatic metric with the mean judgement, over the texts of a system."""

    criterion: str
    system: str
    metric: str
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class HumanResults:
    """Everything that judgements say.

    `checks` maps annotators to passed, answered and all attention checks. `inferred` has the scales, by criterion, that
    are only the labels that occur.
    """

    task: str
    annotators: tuple[str, ...]
    judgements: int
    systems: tuple[SystemScore, ...]
    agreement: tuple[CriterionAgreement, ...]
    tests: tuple[SystemDifference[PairedTest], ...]
    correlations: tuple[MetricCorrelation, ...]
    checks: Mapping[str, tuple[int, int, int]]
    inferred: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def human_results(
    key: Key,
    judgements: Sequence[Judgement],
    metrics: Mapping[str, Mapping[str, Values]],
    seed: int = 0,
    *,
    pairs: bool = False,
) -> HumanResults:
    """Compute the results of judgements that `check_judgements` returned.

    Args:
        key: key to the items.
        judgements: judgements with names and labels of the key.
        metrics: system → metric → value for each example, for correlations.
        seed: random seed of intervals and tests.
        pairs: whether to compute the agreement of each pair of annotators, of which there may be many.
    """
    labels: dict[str, Labels] = {criterion.name: defaultdict(dict) for criterion in key.all_criteria}
    for judgement in judgements:
        if judgement.item in key.items:
            labels[judgement.criterion][judgement.item][judgement.annotator] = judgement.label
    used = [(criterion, labels[criterion.name]) for criterion in key.all_criteria if labels[criterion.name]]
    means = {criterion.name: item_means(key, criterion, by_item) for criterion, by_item in used}
    tests = [test for criterion, by_item in used for test in _compare_systems(key, criterion, by_item, seed)]
    return HumanResults(
        task=key.task,
        annotators=tuple(sorted({judgement.annotator for judgement in judgements})),
        judgements=sum(len(by_annotator) for _, by_item in used for by_annotator in by_item.values()),
        systems=tuple(
            system_score(key, criterion, system, by_item, means[criterion.name])
            for criterion, by_item in used
            for system in key.authors
        ),
        agreement=tuple(_agreement(key, criterion, by_item, seed, pairs) for criterion, by_item in used),
        tests=correct_p_values(tests),
        correlations=tuple(
            correlation
            for criterion, _ in used
            for correlation in _correlate_metrics(key, criterion.name, means[criterion.name], metrics, seed)
        ),
        checks=_count_checks(key, judgements),
    )


def numbers_of_systems(key: Key, judgements: Sequence[Judgement], seed: int = 0) -> MeasuredNumbers:
    """Return the scores and Fleiss' kappa of each system by each criterion, as the tables of papers have them.

    A score stands twice: by the mean over annotators and by the label of their majority, since each table has a rule of
    its own. The part of the numbers is that of the task's judged texts, e.g. `storal_st2mo_en_judged`, and metrics are
    called after criteria: `fluency`, `fluency_kappa`, `not_a_moral`. Accuracies of people who answered the questions of
    a task are numbers of that task: its `acc`. Kappa is that of the texts of the one system. If a criterion is called
    like the kappa of another one, the first of them has the column.
    """
    numbers: list[MeasuredNumber] = []
    owners: dict[str, str] = {}  # metric → criterion
    remarks: dict[str, None] = {}
    for criterion in key.all_criteria:
        for system in key.authors:
            systems_labels: Labels = defaultdict(dict)
            for judgement in judgements:
                item = key.items.get(judgement.item)
                if judgement.criterion == criterion.name and item is not None and item.author == system:
                    systems_labels[judgement.item][judgement.annotator] = judgement.label
            rows, reasons = _numbers_of_system(key, criterion, system, systems_labels, seed)
            remarks |= dict.fromkeys(reasons)
            numbers += (row for row in rows if owners.setdefault(row.metric, criterion.name) == criterion.name)
    people = len({judgement.annotator for judgement in judgements})
    by = "one person" if people == 1 else f"{people} people"
    items = "questions" if key.gold else "texts"
    source = "; ".join(dict.fromkeys((f"{items} of {key.task} as judged by {by}", *remarks)))
    return MeasuredNumbers(source=one_line(source, MAX_SOURCE_CHARS), numbers=tuple(numbers))


def _numbers_of_system(
    key: Key, criterion: Criterion, system: str, labels: Labels, seed: int
) -> tuple[list[MeasuredNumber], list[str]]:
    """Return the numbers of one system by one criterion, and remarks on what they leave out."""
    name = ACCURACY if key.gold else slug(criterion.name)
    clusters = {item: key.items[item].group for item in labels}
    of_mean = system_score(key, criterion, system, labels, item_means(key, criterion, labels))
    votes = majority_labels(labels)
    of_majority = system_score(key, criterion, system, votes, item_means(key, criterion, votes))
    kappa = fleiss_kappa(Ratings.of(labels, criterion.labels, clusters), seed)
    scores: tuple[tuple[Score, str, Rule | None], ...] = (
        (of_mean.score, name, MEAN),
        (of_majority.score, name, MAJORITY),
        (kappa, f"{name}{KAPPA}", None),
    )
    numbers = [
        MeasuredNumber(
            part=key.task if key.gold else f"{key.task}{JUDGED_SUFFIX}",
            metric=metric,
            model=system,
            value=score.value,
            low=score.low,
            high=score.high,
            n=score.n,
            rule=rule,
        )
        for score, metric, rule in scores
        if score.value is not None
    ]
    remarks = []
    if of_mean.undecided:
        undecided = f"{pluralize(of_mean.undecided, 'text')} of {system} without a majority"
        remarks.append(f"{criterion.name}: {undecided} left out where it counts")
    if labels and kappa.value is None:
        remarks.append(f"no kappa of {criterion.name} for {system}: {kappa.interval.reason}")
    return numbers, remarks


def majority_labels(labels: Labels) -> Labels:
    """Return the label that most annotators gave each item, as that of one rater; an item without one is left out."""
    majorities: Labels = {}
    for item, by_annotator in labels.items():
        if (label := majority_label(by_annotator)) is not None:
            majorities[item] = {MAJORITY: label}
    return majorities


def majority_label(labels: Mapping[str, str]) -> str | None:
    """Return the label that more annotators chose than any other, or None if there is none."""
    (best, votes), *runners_up = Counter(labels.values()).most_common()
    return best if not runners_up or runners_up[0][1] < votes else None


def _values_of(key: Key, criterion: Criterion, item: str, labels: Mapping[str, str]) -> dict[str, float]:
    """Return the value of each annotator's label of an item; empty if the labels have no values."""
    gold = key.gold.get(item)
    values = {
        annotator: criterion.value(label) if gold is None else float(label == gold)
        for annotator, label in labels.items()
    }
    return {annotator: value for annotator, value in values.items() if value is not None}


def item_means(key: Key, criterion: Criterion, labels: Labels) -> dict[str, float]:
    """Return the mean judgement of each item; empty if the labels have no values."""
    values = {
        item: list(_values_of(key, criterion, item, by_annotator).values()) for item, by_annotator in labels.items()
    }
    return {item: fmean(numbers) for item, numbers in values.items() if numbers}


def system_score(
    key: Key, criterion: Criterion, system: str, labels: Labels, means: Mapping[str, float]
) -> SystemScore:
    """Return the mean over the texts of a system.

    Args:
        key: key to the items.
        criterion: criterion of the labels.
        system: name of the system.
        labels: labels of the items of all systems.
        means: mean value of each item (`item_means`).
    """
    statistic = mean_of(
        lambda _example, _prediction: None,
        absent="no judgements" if means or not labels else "the labels are not numbers",
        bounds=(0.0, 1.0) if key.gold else criterion.bounds,
    )
    aggregator = MetricAggregator(criterion.name, statistic)
    majority, undecided = Counter[str](), 0
    for number, item in key.items.items():
        if item.author != system or number not in labels:
            continue
        if number in means:
            aggregator.add(item.group, (means[number], 1.0))
        label = majority_label(labels[number])
        if label is None:
            undecided += 1
        else:
            majority[label] += 1
    counts = {label: majority[label] for label in criterion.labels if majority[label]}
    return SystemScore(criterion.name, system, aggregator.score(), counts, undecided)


def _agreement(key: Key, criterion: Criterion, labels: Labels, seed: int, pairs: bool) -> CriterionAgreement:
    clusters = {number: item.group for number, item in key.items.items()}
    ratings = Ratings.of(labels, criterion.labels, clusters)
    scale: Scale = "ordinal" if criterion.is_ordinal else "nominal"
    of_pairs = pair_agreement(ratings, scale, seed) if pairs else ()
    return CriterionAgreement(criterion.name, scale, agreement(ratings, scale, seed), of_pairs)


def _compare_systems(
    key: Key, criterion: Criterion, labels: Labels, seed: int
) -> Iterator[SystemDifference[PairedTest]]:
    """Yield a test of each pair of systems on differences within annotators.

    Only annotators who judged both texts of an example count there, because the difference between the judgements of
    two people would also be that of their standards.
    """
    bounds = (0.0, 1.0) if key.gold else criterion.bounds
    by_system: dict[str, dict[str, tuple[dict[str, float], str]]] = {system: {} for system in key.authors}
    for number, item in key.items.items():
        if values := _values_of(key, criterion, number, labels.get(number, {})):
            by_system[item.author][item.example] = values, item.group
    for a, b in combinations([system for system in key.authors if by_system[system]], 2):
        common = [example for example in by_system[a] if example in by_system[b]]
        rows = []
        for example in common:
            (of_a, cluster), (of_b, _) = by_system[a][example], by_system[b][example]
            if raters := [rater for rater in of_a if rater in of_b]:
                rows.append((fmean(of_a[rater] for rater in raters), fmean(of_b[rater] for rater in raters), cluster))
        # Examples without a shared cluster are independent, as `compare_paired` is told by None.
        sizes = Counter(cluster for *_, cluster in rows)
        clusters = [cluster if sizes[cluster] > 1 else None for *_, cluster in rows]
        test = compare_paired([row[0] for row in rows], [row[1] for row in rows], clusters, bounds, seed)
        yield SystemDifference(criterion.name, a, b, replace(test, note=_add_omissions(test, len(common))))


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


def _correlate_metrics(
    key: Key, criterion: str, means: Mapping[str, float], metrics: Mapping[str, Mapping[str, Values]], seed: int
) -> Iterator[MetricCorrelation]:
    for system, by_metric in metrics.items():
        judged = {
            item.example: (means[number], item.group)
            for number, item in key.items.items()
            if item.author == system and number in means
        }
        for metric, values in by_metric.items():
            rows = [
                (value, *judged[example])
                for example, (value, _) in values.items()
                if value is not None and example in judged
            ]
            x, y, clusters = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
            yield MetricCorrelation(criterion, system, metric, correlations(x, y, clusters, seed))


def _count_checks(key: Key, judgements: Sequence[Judgement]) -> dict[str, tuple[int, int, int]]:
    """Return passed, answered and all attention checks of each annotator; nobody has any if there are none."""
    total = sum(map(len, key.checks.values()))
    counts = {judgement.annotator: (0, 0, total) for judgement in judgements} if total else {}
    for judgement in judgements:
        if judgement.item in key.checks:
            passed, answered, _ = counts[judgement.annotator]
            is_passed = judgement.label == key.checks[judgement.item].get(judgement.criterion)
            counts[judgement.annotator] = (passed + is_passed, answered + 1, total)
    return dict(sorted(counts.items()))
