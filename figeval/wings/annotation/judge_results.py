"""Evaluation of a judge beside people: agreement with people, and means that their judgements correct.

The mean of a judge says nothing about people. If people judged a random part of the texts, prediction-powered inference
(`prediction_powered`) estimates what their mean over all texts would be. An answer without a label is left out of the
judge's mean and of the agreement; as a prediction, which every text needs, it is the judge's mean.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from figeval.metrics.correlation import correlations
from figeval.metrics.differences import bounds_of_difference
from figeval.spec.criteria import Criterion
from figeval.types import Score
from figeval.wings.annotation.agreement import Ratings, agreement
from figeval.wings.annotation.differences import SystemDifference, corrected
from figeval.wings.annotation.judge_record import Judged, JudgeRecord, constant_labels
from figeval.wings.annotation.judgements import Judgement
from figeval.wings.annotation.prediction_powered import PoweredMean, prediction_powered_mean
from figeval.wings.annotation.results import Labels, item_means, system_score
from figeval.wings.annotation.sheets import Key

PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class JudgedSystem:
    """The texts of one system by one criterion.

    Attributes:
        criterion, system: the criterion and the system.
        asked: number of texts that the judge was asked about and gave an answer to, with or without a label.
        people: mean judgement of people alone, over all texts that they judged.
        judge: mean of the judge alone, which is no measurement of people.
        powered: the mean of people, estimated with the judge's answers; None if none of these is a number.
    """

    criterion: str
    system: str
    asked: int
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


def judge_results(key: Key, judgements: Sequence[Judgement], judged: Judged, seed: int = 0) -> JudgeResults:
    """Compare a judge with people.

    Args:
        key: key to the items.
        judgements: judgements of people with the names and labels of the key; there may be none.
        judged: answers of the judge.
        seed: random seed of the intervals of agreement.
    """
    of_criteria = [_Compared.of(key, one, judgements, judged) for one in key.judged]
    differences = [one for compared in of_criteria for one in compared.differences()]
    return JudgeResults(
        name=judged.name,
        record=judged.record,
        systems=tuple(compared.system(system) for compared in of_criteria for system in key.authors),
        differences=corrected(differences),
        agreement=tuple(compared.agreement(seed) for compared in of_criteria if compared.people),
        constant=constant_labels(row for row in judged.rows if row.item in key.items),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """Labels of people and of the judge by one criterion: item → who → label, and the values of items."""

    key: Key
    criterion: Criterion
    people: Labels
    judge: Labels
    asked: frozenset[str]
    of_people: Mapping[str, float]
    of_judge: Mapping[str, float]

    @classmethod
    def of(cls, key: Key, criterion: Criterion, judgements: Sequence[Judgement], judged: Judged) -> _Compared:
        people: Labels = defaultdict(dict)
        for one in judgements:
            if one.criterion == criterion.name and one.item in key.items:
                people[one.item][one.annotator] = one.label
        rows = [row for row in judged.rows if row.criterion == criterion.name and row.item in key.items]
        judge = {row.item: {judged.name: row.label} for row in rows if row.label is not None}
        asked = frozenset(row.item for row in rows)
        return cls(
            key,
            criterion,
            people,
            judge,
            asked,
            item_means(key, criterion, people),
            item_means(key, criterion, judge),
        )

    def system(self, system: str) -> JudgedSystem:
        people, judge = (
            system_score(self.key, self.criterion, system, labels, values).score
            for labels, values in ((self.people, self.of_people), (self.judge, self.of_judge))
        )
        predictions = self._predictions(system)
        powered = prediction_powered_mean(
            [self.of_people.get(item) for item in predictions],
            list(predictions.values()),
            [self._cluster(item) for item in predictions],
            self.criterion.bounds,
            self.criterion.name,
        )
        asked = sum(self.key.items[item].author == system for item in self.asked)
        return JudgedSystem(self.criterion.name, system, asked, people, judge, powered if predictions else None)

    def differences(self) -> Iterator[SystemDifference[PoweredMean]]:
        """Yield the difference of each two systems, over the examples of which the judge was asked about both texts."""
        own = {
            system: {self.key.items[item].example: item for item in self._predictions(system)}
            for system in self.key.authors
        }
        for a, b in combinations([system for system in self.key.authors if own[system]], 2):
            pairs = [(own[a][example], own[b][example]) for example in own[a] if example in own[b]]
            predictions = self._predictions(a), self._predictions(b)
            labels = [
                self.of_people[x] - self.of_people[y] if x in self.of_people and y in self.of_people else None
                for x, y in pairs
            ]
            found = prediction_powered_mean(
                labels,
                [predictions[0][x] - predictions[1][y] for x, y in pairs],
                [self._cluster(x) for x, _ in pairs],
                bounds_of_difference(self.criterion.bounds),
                self.criterion.name,
            )
            yield SystemDifference(self.criterion.name, a, b, found)

    def agreement(self, seed: int) -> JudgeAgreement:
        """Return the coefficients for two raters, the judge and the majority of people, and the correlations."""
        both: Labels = {}
        for item in sorted(self.people.keys() & self.judge.keys()):
            (best, votes), *others = Counter(self.people[item].values()).most_common()
            if not others or others[0][1] < votes:
                both[item] = {PEOPLE: best, "judge": next(iter(self.judge[item].values()))}
        clusters = {item: self._cluster(item) for item in self.key.items}
        ratings = Ratings.of(both, self.criterion.labels, clusters)
        scores = agreement(ratings, "ordinal" if self.criterion.is_ordinal else "nominal", seed)
        common = sorted(self.of_people.keys() & self.of_judge.keys())
        correlated = correlations(
            [self.of_judge[item] for item in common],
            [self.of_people[item] for item in common],
            [self._cluster(item) for item in common],
            seed,
        )
        numeric = correlated if self.of_judge else ()
        return JudgeAgreement(self.criterion.name, (*scores, *numeric))

    def _predictions(self, system: str) -> dict[str, float]:
        """Return a prediction for each text of a system that the judge was asked about; empty without any number."""
        items = [item for item, one in self.key.items.items() if one.author == system and item in self.asked]
        known = [self.of_judge[item] for item in items if item in self.of_judge]
        return {item: self.of_judge.get(item, sum(known) / len(known)) for item in items} if known else {}

    def _cluster(self, item: str) -> str:
        one = self.key.items[item]
        return one.cluster or one.example
