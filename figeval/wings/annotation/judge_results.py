"""Evaluation of a judge beside people: agreement with people, and means that their judgements correct.

The mean of a judge says nothing about people. If people judged a random part of the texts, prediction-powered inference
(`prediction_powered`) estimates what their mean over all texts would be. An answer without a label is left out of the
judge's mean and of the agreement; as a prediction, which every text needs, it is the judge's mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from figeval import Score
from figeval.metrics.differences import bounds_of_difference
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.agreement import Ratings, agreement, correlations
from figeval.wings.annotation.battles.outcomes import agreed_labels
from figeval.wings.annotation.human_results import system_score
from figeval.wings.annotation.items import Key
from figeval.wings.annotation.judge_record import JudgeAnswers, JudgeRecord, constant_labels
from figeval.wings.annotation.labels import Labels, item_means, majority_label
from figeval.wings.annotation.prediction_powered import PoweredMean, prediction_powered_mean
from figeval.wings.annotation.system_tests import SystemDifference, correct_p_values
from figeval.wings.annotation.tool_files import Judgement


@dataclass(frozen=True, slots=True)
class JudgedSystem:
    """The texts of one system by one criterion.

    Attributes:
        criterion, system: the criterion and the system.
        texts: number of texts that the judge was asked about and gave an answer to, with or without a label.
        people: mean judgement of people alone, over all texts that they judged.
        judge: mean of the judge alone, which is no measurement of people.
        powered: the mean of people, estimated with the judge's answers; None if none of these is a number.
    """

    criterion: str
    system: str
    texts: int
    people: Score
    judge: Score
    powered: PoweredMean | None


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """Agreement of a judge with the majority label of people, and correlation with their mean, by one criterion."""

    criterion: str
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class JudgeResults:
    """Everything that is known about one judge.

    `constant` has the criteria for which it gives all texts the same label, and how many.
    """

    name: str
    record: JudgeRecord
    systems: tuple[JudgedSystem, ...]
    differences: tuple[SystemDifference[PoweredMean], ...]
    agreement: tuple[JudgeAgreement, ...]
    constant: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def judge_results(key: Key, judgements: Sequence[Judgement], judged: JudgeAnswers, seed: int = 0) -> JudgeResults:
    """Compare a judge with people.

    Args:
        key: key to the items.
        judgements: judgements of people with the names and labels of the key; there may be none.
        judged: answers of the judge.
        seed: random seed of the intervals of agreement.
    """
    comparisons = [_CriterionComparison.of(key, criterion, judgements, judged) for criterion in key.all_criteria]
    systems = () if key.battles else key.authors  # battles have a ranking
    differences = [difference for comparison in comparisons for difference in comparison.differences()]
    return JudgeResults(
        name=judged.name,
        record=judged.record,
        systems=tuple(comparison.system(system) for comparison in comparisons for system in systems),
        differences=correct_p_values(differences),
        agreement=tuple(comparison.agreement(seed) for comparison in comparisons if comparison.people),
        constant=constant_labels(row for row in judged.rows if row.item in key.items),
    )


@dataclass(frozen=True, slots=True)
class _CriterionComparison:
    """Labels of people and of the judge by one criterion: item → who → label, and the values of items."""

    key: Key
    criterion: Criterion
    people: Labels
    judge: Labels
    answered: frozenset[str]
    of_people: Mapping[str, float]
    of_judge: Mapping[str, float]

    @classmethod
    def of(
        cls, key: Key, criterion: Criterion, judgements: Sequence[Judgement], judged: JudgeAnswers
    ) -> _CriterionComparison:
        people: Labels = defaultdict(dict)
        for judgement in judgements:
            if judgement.criterion == criterion.name and judgement.item in key.items:
                people[judgement.item][judgement.annotator] = judgement.label
        rows = [row for row in judged.rows if row.criterion == criterion.name and row.item in key.items]
        by_item = {row.item: row.label for row in rows if row.label is not None}
        by_item = agreed_labels(key, criterion, rows) if key.battles else by_item
        judge = {item: {judged.name: label} for item, label in by_item.items()}
        return cls(
            key,
            criterion,
            people,
            judge,
            frozenset(row.item for row in rows),
            item_means(key, criterion, people),
            item_means(key, criterion, judge),
        )

    def system(self, system: str) -> JudgedSystem:
        people = system_score(self.key, self.criterion, system, self.people, self.of_people).score
        judge = system_score(self.key, self.criterion, system, self.judge, self.of_judge).score
        predictions = self._predictions(system)
        powered = prediction_powered_mean(
            [self.of_people.get(item) for item in predictions],
            list(predictions.values()),
            [self.key.items[item].group for item in predictions],
            self.criterion.bounds,
            self.criterion.name,
        )
        texts = sum(self.key.items[item].author == system for item in self.answered)
        return JudgedSystem(self.criterion.name, system, texts, people, judge, powered if predictions else None)

    def differences(self) -> Iterator[SystemDifference[PoweredMean]]:
        """Yield the difference of each two systems, over the examples of which the judge was asked about both texts."""
        predictions = {system: self._predictions(system) for system in self.key.authors}
        items = {
            system: {self.key.items[item].example: item for item in by_item} for system, by_item in predictions.items()
        }
        for a, b in combinations([system for system in self.key.authors if items[system]], 2):
            pairs = [(items[a][example], items[b][example]) for example in items[a] if example in items[b]]
            labels = [
                self.of_people[x] - self.of_people[y] if x in self.of_people and y in self.of_people else None
                for x, y in pairs
            ]
            difference = prediction_powered_mean(
                labels,
                [predictions[a][x] - predictions[b][y] for x, y in pairs],
                [self.key.items[x].group for x, _ in pairs],
                bounds_of_difference(self.criterion.bounds),
                self.criterion.name,
            )
            yield SystemDifference(self.criterion.name, a, b, difference)

    def agreement(self, seed: int) -> JudgeAgreement:
        """Return the coefficients for two raters, the judge and the majority of people, and the correlations."""
        labels: Labels = {}
        for item in sorted(self.people.keys() & self.judge.keys()):
            if (majority := majority_label(self.people[item])) is not None:
                labels[item] = {"people": majority, "judge": next(iter(self.judge[item].values()))}
        clusters = {number: item.group for number, item in self.key.items.items()}
        ratings = Ratings.of(labels, self.criterion.labels, clusters)
        scores = agreement(ratings, "ordinal" if self.criterion.is_ordinal else "nominal", seed)
        common = sorted(self.of_people.keys() & self.of_judge.keys())
        correlated = correlations(
            [self.of_judge[item] for item in common],
            [self.of_people[item] for item in common],
            [clusters[item] for item in common],
            seed,
        )
        numeric = correlated if self.of_judge else ()
        return JudgeAgreement(self.criterion.name, (*scores, *numeric))

    def _predictions(self, system: str) -> dict[str, float]:
        """Return a prediction for each text of a system that the judge was asked about; empty without any number."""
        items = [number for number, item in self.key.items.items() if item.author == system and number in self.answered]
        values = [self.of_judge[item] for item in items if item in self.of_judge]
        return {item: self.of_judge.get(item, sum(values) / len(values)) for item in items} if values else {}
