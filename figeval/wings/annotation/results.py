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
from typing import TypeAlias

from figeval.errors import DataError, near
from figeval.io.text import counted, one_line
from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.correlation import correlations
from figeval.metrics.paired import PairedTest, paired
from figeval.metrics.statistic import mean_of
from figeval.records.measured import JUDGED, KAPPA, MAJORITY, MEAN, MeasuredNumber, MeasuredNumbers, Rule
from figeval.runs.stored import Values
from figeval.spec.criteria import Criterion
from figeval.types import Score
from figeval.wings.annotation.agreement import PairAgreement, Ratings, Scale, agreement, fleiss_kappa, pair_agreement
from figeval.wings.annotation.differences import SystemDifference, corrected
from figeval.wings.annotation.judgements import Judgement, Judgements
from figeval.wings.annotation.sheets import Key

ACCURACY = "acc"  # the metric of tasks whose questions people answer
MAX_SOURCE_CHARS = 480
ANSWER = "answer"  # criterion of questions with options, whose value is whether the label is right
Labels: TypeAlias = dict[str, dict[str, str]]  # item → annotator → label


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


def checked(key: Key, given: Judgements, *, last: bool = False) -> tuple[Judgement, ...]:
    """Return the judgements with the key's names of criteria and labels, attention checks included.

    Args:
        key: key to the items.
        given: judgements as they were read.
        last: True if the last answer counts where an annotator judged an item twice; otherwise, that is refused. The
            last one is that with the latest time, or without times that which is read last.

    Raises:
        DataError: an item or a criterion is unknown, a label is not on the scale, or an annotator judged an item twice.
    """
    found: dict[tuple[str, str, str], Judgement] = {}
    for one in given.found:
        if one.item not in key.items and one.item not in key.checks:
            known = [*key.items, *key.checks]
            raise DataError(
                f"{one.where}: item {one.item!r:.40} is unknown{near(one.item, known)}; give the key that belongs to "
                "these judgements, or remove the row"
            )
        criterion = _criterion(key, one)
        label = criterion.read(one.label)
        if label is None:
            raise DataError(
                f"{one.where}: {one.annotator} gave {one.label!r:.40} for {criterion.name!r}, which is not on the "
                f"scale {', '.join(criterion.labels)}; correct it, or leave it empty if there is no judgement"
            )
        named = replace(one, criterion=criterion.name, label=label)
        place = (one.item, one.annotator, criterion.name)
        if place in found and not last:
            raise DataError(
                f"{one.where}: {one.annotator} judged item {one.item!r:.40} twice for {criterion.name!r} (first at "
                f"{found[place].where}); remove one of the two, or give --last to count the last one"
            )
        if place not in found or not (one.time and found[place].time) or one.time >= found[place].time:
            found[place] = named
    return tuple(found.values())


def _criterion(key: Key, one: Judgement) -> Criterion:
    """Return the criterion that a judgement names; the only one if it names none."""
    known = {criterion.name: criterion for criterion in key.judged}
    if not one.criterion and len(known) == 1:
        return next(iter(known.values()))
    spelled = {slug(name): name for name in known}
    name = spelled.get(slug(one.criterion))
    if name is None:
        what = (
            f"criterion {one.criterion!r:.40} is unknown{near(one.criterion, known)}"
            if one.criterion
            else ("there is no criterion, but several are known")
        )
        raise DataError(f"{one.where}: {what}; the criteria are {', '.join(known)}")
    return known[name]


def slug(name: str) -> str:
    """Return a name as identifiers spell it: lower case, with underscores for everything but letters and digits."""
    return "".join(letter if letter.isalnum() else "_" for letter in name.lower())


def human_results(
    key: Key,
    judgements: Sequence[Judgement],
    metrics: Mapping[str, Mapping[str, Values]],
    seed: int = 0,
    *,
    pairs: bool = False,
) -> HumanResults:
    """Compute the results of judgements that `checked` returned.

    Args:
        key: key to the items.
        judgements: judgements with names and labels of the key.
        metrics: system → metric → value for each example, for correlations.
        seed: random seed of intervals and tests.
        pairs: whether to compute the agreement of each pair of annotators, of which there may be many.
    """
    labels: dict[str, Labels] = {criterion.name: defaultdict(dict) for criterion in key.judged}
    for one in judgements:
        if one.item in key.items:
            labels[one.criterion][one.item][one.annotator] = one.label
    used = [criterion for criterion in key.judged if labels[criterion.name]]
    means = {criterion.name: item_means(key, criterion, labels[criterion.name]) for criterion in used}
    bounds = {one.name: (0.0, 1.0) if key.gold else one.bounds for one in used}
    tests = [test for one in used for test in _tests(key, one, labels[one.name], bounds[one.name], seed)]
    return HumanResults(
        task=key.task,
        annotators=tuple(sorted({one.annotator for one in judgements})),
        judgements=sum(len(own) for by_item in labels.values() for own in by_item.values()),
        systems=tuple(
            system_score(key, one, system, labels[one.name], means[one.name]) for one in used for system in key.authors
        ),
        agreement=tuple(_agreement(key, one, labels[one.name], seed, pairs) for one in used),
        tests=corrected(tests),
        correlations=tuple(
            found for one in used for found in _correlated(key, one.name, means[one.name], metrics, seed)
        ),
        checks=_checks(key, judgements),
    )


def numbers_for_tables(key: Key, judgements: Sequence[Judgement], seed: int = 0) -> MeasuredNumbers:
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
    part = key.task if key.gold else f"{key.task}{JUDGED}"
    for criterion in key.judged:
        name = ACCURACY if key.gold else slug(criterion.name)
        for system in key.authors:
            labels: Labels = defaultdict(dict)
            for one in judgements:
                if one.criterion == criterion.name and one.item in key.items and key.items[one.item].author == system:
                    labels[one.item][one.annotator] = one.label
            clusters = {item: key.items[item].cluster or key.items[item].example for item in labels}
            of_mean = system_score(key, criterion, system, labels, item_means(key, criterion, labels))
            voted = majority_labels(labels)
            of_majority = system_score(key, criterion, system, voted, item_means(key, criterion, voted))
            kappa = fleiss_kappa(Ratings.of(labels, criterion.labels, clusters), seed)
            rows: tuple[tuple[Score, str, Rule | None], ...] = (
                (of_mean.score, name, MEAN),
                (of_majority.score, name, MAJORITY),
                (kappa, f"{name}{KAPPA}", None),
            )
            for score, metric, rule in rows:
                if score.value is not None and owners.setdefault(metric, criterion.name) == criterion.name:
                    number = MeasuredNumber(
                        part=part,
                        metric=metric,
                        model=system,
                        value=score.value,
                        low=score.low,
                        high=score.high,
                        n=score.n,
                        rule=rule,
                    )
                    numbers.append(number)
            if of_mean.undecided:
                undecided = f"{counted(of_mean.undecided, 'text')} of {system} without a majority"
                remarks[f"{criterion.name}: {undecided} left out where it counts"] = None
            if labels and kappa.value is None:
                remarks[f"no kappa of {criterion.name} for {system}: {kappa.interval.reason}"] = None
    people = len({one.annotator for one in judgements})
    by = "one person" if people == 1 else f"{people} people"
    items = "questions" if key.gold else "texts"
    source = "; ".join(dict.fromkeys((f"{items} of {key.task} as judged by {by}", *remarks)))
    return MeasuredNumbers(source=one_line(source, MAX_SOURCE_CHARS), numbers=tuple(numbers))


def majority_labels(labels: Labels) -> Labels:
    """Return the label that most annotators gave each item, as that of one rater; an item without one is left out."""
    majorities: Labels = {}
    for item, votes_of in labels.items():
        (best, votes), *runners_up = Counter(votes_of.values()).most_common()
        if not runners_up or runners_up[0][1] < votes:
            majorities[item] = {MAJORITY: best}
    return majorities


def _values(key: Key, criterion: Criterion, item: str, own: Mapping[str, str]) -> dict[str, float]:
    """Return the value of each annotator's label of an item; empty if the labels have no values."""
    right = key.gold.get(item)
    values = {who: criterion.value(label) if right is None else float(label == right) for who, label in own.items()}
    return {who: value for who, value in values.items() if value is not None}


def item_means(key: Key, criterion: Criterion, labels: Labels) -> dict[str, float]:
    """Return the mean judgement of each item; empty if the labels have no values."""
    values = {item: list(_values(key, criterion, item, own).values()) for item, own in labels.items()}
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
            aggregator.add(item.cluster or item.example, (means[number], 1.0))
        (best, votes), *others = Counter(labels[number].values()).most_common()
        if others and others[0][1] == votes:
            undecided += 1
        else:
            majority[best] += 1
    counted = {label: majority[label] for label in criterion.labels if majority[label]}
    return SystemScore(criterion.name, system, aggregator.score(), counted, undecided)


def _agreement(key: Key, criterion: Criterion, labels: Labels, seed: int, pairs: bool) -> CriterionAgreement:
    clusters = {number: item.cluster or item.example for number, item in key.items.items()}
    ratings = Ratings.of(labels, criterion.labels, clusters)
    scale: Scale = "ordinal" if criterion.is_ordinal else "nominal"
    of_pairs = pair_agreement(ratings, scale, seed) if pairs else ()
    return CriterionAgreement(criterion.name, scale, agreement(ratings, scale, seed), of_pairs)


def _by_example(key: Key, system: str, means: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    """Return example → (mean judgement of the system's text, cluster)."""
    return {
        item.example: (means[number], item.cluster or item.example)
        for number, item in key.items.items()
        if item.author == system and number in means
    }


def _tests(
    key: Key, criterion: Criterion, labels: Labels, bounds: tuple[float, float], seed: int
) -> Iterator[SystemDifference[PairedTest]]:
    """Yield a test of each pair of systems on differences within annotators.

    Only annotators who judged both texts of an example count there, because the difference between the judgements of
    two people would also be that of their standards.
    """
    own: dict[str, dict[str, tuple[dict[str, float], str]]] = {system: {} for system in key.authors}
    for number, item in key.items.items():
        if values := _values(key, criterion, number, labels.get(number, {})):
            own[item.author][item.example] = values, item.cluster or item.example
    for a, b in combinations([system for system in key.authors if own[system]], 2):
        common = [example for example in own[a] if example in own[b]]
        rows = []
        for example in common:
            (of_a, cluster), (of_b, _) = own[a][example], own[b][example]
            if both := [who for who in of_a if who in of_b]:
                rows.append((fmean(of_a[who] for who in both), fmean(of_b[who] for who in both), cluster))
        # Examples without a shared cluster are independent, as `paired` is told by None.
        shared = Counter(cluster for *_, cluster in rows)
        alone = [cluster if shared[cluster] > 1 else None for *_, cluster in rows]
        found = paired([row[0] for row in rows], [row[1] for row in rows], alone, bounds, seed)
        yield SystemDifference(criterion.name, a, b, replace(found, note=_caveats(found, len(common))))


def _caveats(test: PairedTest, common: int) -> str:
    """Return the note of a test with what was left out of the examples of which both texts were judged."""
    apart = common - test.n
    if not common or not apart:
        return test.note
    if not test.n:
        return (
            "no annotator judged both texts of an example, so a difference between the systems cannot be told from one "
            "between the annotators; have the same people judge all texts of an example"
        )
    left_out = f"{apart} of {common} examples left out, because no annotator judged both of their texts"
    return f"{test.note}; {left_out}" if test.note else left_out


def _correlated(
    key: Key, name: str, means: Mapping[str, float], metrics: Mapping[str, Mapping[str, Values]], seed: int
) -> Iterator[MetricCorrelation]:
    for system, own in metrics.items():
        judged = _by_example(key, system, means)
        for metric, values in own.items():
            rows = [
                (value, *judged[example])
                for example, (value, _) in values.items()
                if value is not None and example in judged
            ]
            x, y, clusters = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
            yield MetricCorrelation(name, system, metric, correlations(x, y, clusters, seed))


def _checks(key: Key, judgements: Sequence[Judgement]) -> dict[str, tuple[int, int, int]]:
    """Return passed, answered and all attention checks of each annotator; nobody has any if there are none."""
    total = sum(map(len, key.checks.values()))
    counts = {judgement.annotator: (0, 0, total) for judgement in judgements} if total else {}
    for one in judgements:
        if one.item in key.checks:
            passed, answered, _ = counts[one.annotator]
            expected = key.checks[one.item].get(one.criterion)
            counts[one.annotator] = (passed + (one.label == expected), answered + 1, total)
    return dict(sorted(counts.items()))
