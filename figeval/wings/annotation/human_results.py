"""Results of judgements: means per system, agreement of the annotators, tests between systems, correlations.

If several people judged a text, its value is their mean, so a text is one observation however many annotators it had.
Systems are compared within annotators. Neither means nor tests say anything about other annotators: people are fixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from figeval import MetricAggregator, Score, mean_of
from figeval.io.text import one_line, pluralize
from figeval.metrics.paired import PairedTest
from figeval.records.reference import JUDGED_SUFFIX, KAPPA, MAJORITY, MEAN, MeasuredNumber, MeasuredNumbers, Rule
from figeval.runs.stored import Values
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.agreement import (
    PairAgreement,
    Ratings,
    Scale,
    agreement,
    cohen_kappa,
    correlations,
    fleiss_kappa,
    pair_agreement,
    percent_agreement,
)
from figeval.wings.annotation.items import Key, slug
from figeval.wings.annotation.labels import Labels, Threshold, item_means, majority_labels
from figeval.wings.annotation.remarks import CategoryCount, Comment
from figeval.wings.annotation.system_tests import (
    JudgedSample,
    SampleDifference,
    SystemDifference,
    compare_samples,
    compare_systems,
    correct_p_values,
)
from figeval.wings.annotation.tool_files import Judgement

ACCURACY = "acc"  # the metric of tasks whose questions people answer
AGREEMENT, COHEN, SIGN_P = "_agreement", "_cohen_kappa", "_sign_p"  # end the metrics with agreement and sign tests
MAX_SOURCE_CHARS = 480


@dataclass(frozen=True, slots=True)
class SystemScore:
    """Judgements of the texts of one system by one criterion.

    Attributes:
        criterion: name of the criterion.
        system: name of the system.
        score: mean of the texts, each the mean over its annotators.
        majority: number of texts by the label that more annotators chose than any other.
        undecided: number of texts without such a label.
        by_majority: mean of the texts that have one, each by that label.
    """

    criterion: str
    system: str
    score: Score
    majority: Mapping[str, int]
    undecided: int
    by_majority: Score


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

    `samples` compares the systems with those of other items. `categories` counts the categories of remarks, or
    if `has_questions`, those of wrong answers. `checks` maps annotators to passed, answered and all
    attention checks. `inferred` has the scales, by criterion, that are only the labels that occur.
    """

    task: str
    annotators: tuple[str, ...]
    judgements: int
    systems: tuple[SystemScore, ...]
    agreement: tuple[CriterionAgreement, ...]
    tests: tuple[SystemDifference[PairedTest], ...]
    correlations: tuple[MetricCorrelation, ...]
    checks: Mapping[str, tuple[int, int, int]]
    samples: tuple[SampleDifference, ...] = ()
    comments: tuple[Comment, ...] = ()
    categories: tuple[CategoryCount, ...] = ()
    has_questions: bool = False
    inferred: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def labels_by_criterion(key: Key, judgements: Sequence[Judgement]) -> dict[str, Labels]:
    """Return criterion → item → annotator → label, without attention checks and criteria that nobody judged by."""
    labels: dict[str, Labels] = {}
    for judgement in judgements:
        if judgement.item in key.items:
            by_item = labels.setdefault(judgement.criterion, {})
            by_item.setdefault(judgement.item, {})[judgement.annotator] = judgement.label
    return labels


@dataclass(frozen=True, slots=True)
class Analysis:
    """Results of judgements that are only computed if they are asked for.

    Attributes:
        pairs: whether to compute the agreement of each pair of annotators, of which there may be many.
        thresholds: numerical criteria that are also read as yes and no.
        other_samples: judgements of other items, with whose systems those of these are compared.
    """

    pairs: bool = False
    thresholds: Sequence[Threshold] = ()
    other_samples: Sequence[JudgedSample] = ()


def human_results(
    key: Key,
    judgements: Sequence[Judgement],
    metrics: Mapping[str, Mapping[str, Values]],
    analysis: Analysis,
    seed: int = 0,
) -> HumanResults:
    """Compute the results of judgements that `check_judgements` returned.

    Args:
        key: key to the items.
        judgements: judgements with names and labels of the key.
        metrics: system → metric → value for each example, for correlations.
        analysis: what is computed beside means, agreement and tests.
        seed: random seed of intervals and tests.
    """
    labels = labels_by_criterion(key, judgements)
    used = [(criterion, labels[criterion.name]) for criterion in key.all_criteria if criterion.name in labels]
    split = [
        (threshold.split, threshold.split_labels(labels[threshold.criterion.name]))
        for threshold in analysis.thresholds
        if threshold.criterion.name in labels
    ]
    means = {criterion.name: item_means(key, criterion, by_item) for criterion, by_item in (*used, *split)}
    tests = [test for criterion, by_item in used for test in compare_systems(key, criterion, by_item, seed)]
    sample = JudgedSample(key, labels)
    systems = () if key.battles else key.authors  # battles have a ranking
    return HumanResults(
        task=key.task,
        annotators=tuple(sorted({judgement.annotator for judgement in judgements})),
        judgements=sum(len(by_annotator) for _, by_item in used for by_annotator in by_item.values()),
        systems=tuple(
            system_score(key, criterion, system, by_item, means[criterion.name])
            for criterion, by_item in (*used, *split)
            for system in systems
        ),
        agreement=tuple(
            _agreement(key, criterion, by_item, seed, analysis.pairs) for criterion, by_item in (*used, *split)
        ),
        tests=correct_p_values(tests),
        correlations=tuple(
            correlation
            for criterion, _ in used
            for correlation in _correlate_metrics(key, criterion.name, means[criterion.name], metrics, seed)
        ),
        checks=_count_checks(key, judgements),
        samples=tuple(difference for other in analysis.other_samples for difference in compare_samples(sample, other)),
        has_questions=bool(key.gold),
    )


def numbers_of_systems(
    key: Key,
    judgements: Sequence[Judgement],
    results: HumanResults,
    thresholds: Sequence[Threshold] = (),
    seed: int = 0,
) -> MeasuredNumbers:
    """Return scores, agreement and sign tests of the systems by each criterion, as the tables of papers have them.

    A score stands twice: by the mean over annotators and by the label of their majority, since each table has a rule of
    its own. The part of the numbers is that of the task's judged texts, e.g. `storal_st2mo_en_judged`, and metrics are
    called after criteria: `fluency`, `fluency_kappa`, `fluency_agreement` (the share of equal judgements at a
    threshold), `fluency_sign_p`, `not_a_moral`. Accuracies of people who answered the questions of a task are numbers
    of that task: its `acc`, with `acc_agreement` and `acc_cohen_kappa`. Agreement is about the texts of one system. If
    a criterion is called like the kappa of another one, the first of them has the column.
    """
    labels = labels_by_criterion(key, judgements)
    part = key.task if key.gold else f"{key.task}{JUDGED_SUFFIX}"
    at = {threshold.criterion.name: threshold for threshold in thresholds}
    numbers: list[MeasuredNumber] = []
    owners: dict[str, str] = {}  # metric → criterion
    remarks: dict[str, None] = {}
    for criterion in key.all_criteria:
        rows: list[MeasuredNumber] = []
        name = ACCURACY if key.gold else slug(criterion.name)
        for score in (score for score in results.systems if score.criterion == criterion.name):
            of_system = _labels_of_system(key, labels.get(criterion.name, {}), score.system)
            agreements = _agreement_scores(key, criterion, of_system, at.get(criterion.name), seed)
            scores = (("", score.score, MEAN), ("", score.by_majority, MAJORITY), *agreements)
            rows += [
                _measured_number(part, f"{name}{ending}", score.system, value, rule)
                for ending, value, rule in scores
                if value.value is not None
            ]
            remarks |= dict.fromkeys(_remarks(score, of_system, agreements[0][1]))
        if rows and criterion.name in at:
            remarks[f"agreement on {at[criterion.name].split.name}"] = None
        for difference in (test for test in results.tests if test.criterion == criterion.name):
            if difference.sign is not None and difference.sign.p is not None:
                model = f"{difference.a} vs. {difference.b}"
                rows.append(MeasuredNumber(part=part, metric=f"{name}{SIGN_P}", model=model, value=difference.sign.p))
        numbers += (row for row in rows if owners.setdefault(row.metric, criterion.name) == criterion.name)
    people = len({judgement.annotator for judgement in judgements})
    by = "one person" if people == 1 else f"{people} people"
    items = "questions" if key.gold else "items"
    source = "; ".join(dict.fromkeys((f"{items} of {key.task} as judged by {by}", *remarks)))
    return MeasuredNumbers(source=one_line(source, MAX_SOURCE_CHARS), numbers=tuple(numbers))


def _labels_of_system(key: Key, labels: Labels, system: str) -> Labels:
    return {item: by_annotator for item, by_annotator in labels.items() if key.items[item].author == system}


def _agreement_scores(
    key: Key, criterion: Criterion, labels: Labels, threshold: Threshold | None, seed: int
) -> list[tuple[str, Score, Rule | None]]:
    """Return Fleiss' kappa and, of answers or at a threshold, the share of equal judgements, after their endings."""
    clusters = {item: key.items[item].group for item in labels}
    ratings = Ratings.of(labels, criterion.labels, clusters)
    scores: list[tuple[str, Score, Rule | None]] = [(KAPPA, fleiss_kappa(ratings, seed), None)]
    if key.gold:
        scores += [(AGREEMENT, percent_agreement(ratings, seed), None), (COHEN, cohen_kappa(ratings, seed=seed), None)]
    elif threshold is not None:
        ratings = Ratings.of(threshold.split_labels(labels), threshold.split.labels, clusters)
        scores.append((AGREEMENT, percent_agreement(ratings, seed), None))
    return scores


def _measured_number(part: str, metric: str, system: str, score: Score, rule: Rule | None) -> MeasuredNumber:
    assert score.value is not None
    ends = {"low": score.low, "high": score.high}
    return MeasuredNumber(part=part, metric=metric, model=system, value=score.value, **ends, n=score.n, rule=rule)


def _remarks(score: SystemScore, labels: Labels, kappa: Score) -> Iterator[str]:
    """Yield what the numbers of a system leave out."""
    if score.undecided:
        yield f"{score.criterion}: no majority for {pluralize(score.undecided, 'text')} of {score.system}"
    if labels and kappa.value is None:
        yield f"no kappa of {score.criterion} for {score.system}: {kappa.interval.reason}"


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
    votes = majority_labels({item: by_annotator for item, by_annotator in labels.items() if item in key.items})
    majority, undecided = Counter[str](), 0
    for number, item in key.items.items():
        if item.author != system or number not in labels:
            continue
        if (vote := votes.get(number)) is None:
            undecided += 1
        else:
            majority.update(vote.values())
    return SystemScore(
        criterion=criterion.name,
        system=system,
        score=_mean_score(key, criterion, system, labels, means),
        majority={label: majority[label] for label in criterion.labels if majority[label]},
        undecided=undecided,
        by_majority=_mean_score(key, criterion, system, votes, item_means(key, criterion, votes)),
    )


def _mean_score(key: Key, criterion: Criterion, system: str, labels: Labels, means: Mapping[str, float]) -> Score:
    statistic = mean_of(
        lambda _example, _prediction: None,
        absent="no judgements" if means or not labels else "the labels are not numbers",
        bounds=(0.0, 1.0) if key.gold else criterion.bounds,
    )
    aggregator = MetricAggregator(criterion.name, statistic)
    for number, item in key.items.items():
        if item.author == system and number in means:
            aggregator.add(item.group, (means[number], 1.0))
    return aggregator.score()


def _agreement(key: Key, criterion: Criterion, labels: Labels, seed: int, pairs: bool) -> CriterionAgreement:
    clusters = {number: item.group for number, item in key.items.items()}
    ratings = Ratings.of(labels, criterion.labels, clusters)
    scale: Scale = "ordinal" if criterion.is_ordinal else "nominal"
    of_pairs = pair_agreement(ratings, scale, seed) if pairs else ()
    return CriterionAgreement(criterion.name, scale, agreement(ratings, scale, seed), of_pairs)


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
