"""Rankings of systems by the battles that people or a judge decided, and by people's with a judge's help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from figeval.io.text import one_line, pluralize
from figeval.records.reference import JUDGED_SUFFIX, MeasuredNumber, MeasuredNumbers
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.battles.outcomes import (
    Answer,
    Field,
    PairResult,
    PositionBias,
    Results,
    answers_of_judge,
    answers_of_people,
    in_both_orders,
)
from figeval.wings.annotation.battles.powered import correct_by_judge
from figeval.wings.annotation.battles.ranking import Outcomes, RankedSystem, rank_systems
from figeval.wings.annotation.items import TIE, Key, slug
from figeval.wings.annotation.judge_record import JudgeAnswers
from figeval.wings.annotation.labels import Labels

PEOPLE = "people"
WIN_RATE, STRENGTH = "_win_rate", "_strength"  # end the metrics in measured.json
MAX_SOURCE_CHARS = 480


@dataclass(frozen=True, slots=True)
class Ranking:
    """Systems from the strongest to the weakest by one criterion.

    Attributes:
        criterion: name of the criterion.
        by: `people`, the name of a judge, or `people and` that name for people's ranking with its help.
        systems: the systems.
        pairs: battles of each pair of systems; none with a judge's help.
        decided: number of battles that were decided.
        battles: number of battles that were to be decided.
        weight: λ, the weight of the judge's answers; None without its help.
    """

    criterion: str
    by: str
    systems: tuple[RankedSystem, ...]
    pairs: tuple[PairResult, ...]
    decided: int
    battles: int
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class RaterBias:
    """The position bias of an annotator or a judge by one criterion."""

    criterion: str
    rater: str
    bias: PositionBias


@dataclass(frozen=True, slots=True)
class BattleResults:
    """Everything that battles say.

    Attributes:
        rankings: by each criterion, those of people, of each judge, and of people with its help.
        biases: position bias of each annotator, of all together, and of each judge.
        equal: number of battles of equal texts, which count as ties.
        half_answered: judge → number of its battles with an answer in one order only, which do not count.
    """

    rankings: tuple[Ranking, ...]
    biases: tuple[RaterBias, ...]
    equal: int
    half_answered: Mapping[str, int]


def battle_results(
    key: Key, labels: Mapping[str, Labels], judges: Sequence[JudgeAnswers], seed: int = 0
) -> BattleResults:
    """Return the rankings by each criterion.

    Args:
        key: key to the battles.
        labels: criterion → item → annotator → label of people.
        judges: answers of judges.
        seed: random seed of the bootstrap.
    """
    parts = [_ByCriterion.of(key, criterion, labels.get(criterion.name, {}), seed) for criterion in key.all_criteria]
    judged = [part.judged_by(judge) for judge in judges for part in parts]
    return BattleResults(
        rankings=tuple(
            ranking
            for part in parts
            for ranking in (*part.of_people(), *(row for judge in judges for row in part.of_judge(judge)))
        ),
        biases=tuple(
            bias for part in parts for bias in (*part.biases_of_people(), *(part.bias_of(judge) for judge in judges))
        ),
        equal=len(key.identical),
        half_answered={
            judge.name: count
            for judge in judges
            if (count := sum(answers.half for answers in judged if answers.name == judge.name))
        },
    )


@dataclass(frozen=True, slots=True)
class _JudgeAnswers:
    """The answers of a judge by one criterion, and how many battles have one in one order only."""

    name: str
    answers: list[Answer]
    complete: list[Answer]

    @property
    def half(self) -> int:
        return len(self.answers) - len(self.complete)


@dataclass(frozen=True, slots=True)
class _ByCriterion:
    """Battles by one criterion: the key to them, and what people said."""

    key: Key
    criterion: Criterion
    field: Field
    answers: list[Answer]
    seed: int

    @classmethod
    def of(cls, key: Key, criterion: Criterion, labels: Labels, seed: int) -> _ByCriterion:
        return cls(key, criterion, Field.of(key), answers_of_people(key, labels), seed)

    @property
    def has_ties(self) -> bool:
        return TIE in self.criterion.labels

    def of_people(self) -> Iterator[Ranking]:
        """Yield the ranking by people if anybody has judged."""
        if self.answers:
            yield self._rank(PEOPLE, self.field.results(self.answers), len(self.field.to_judge))

    def judged_by(self, judge: JudgeAnswers) -> _JudgeAnswers:
        rows = [row for row in judge.rows if row.criterion == self.criterion.name]
        answers = answers_of_judge(self.key, judge.name, rows)
        return _JudgeAnswers(judge.name, answers, in_both_orders(answers, self.field.systems))

    def of_judge(self, judge: JudgeAnswers) -> Iterator[Ranking]:
        """Yield the ranking by a judge, and that of people with its help."""
        rows = [row for row in judge.rows if row.criterion == self.criterion.name and row.item in self.key.battles]
        meetings = self.field.meetings(self.key.battles[row.item] for row in rows)
        results = self.field.results(self.judged_by(judge).complete)
        if not results:
            return
        yield self._rank(judge.name, results, len(meetings))
        people = self.field.results(self.answers)
        corrected = correct_by_judge(self.field, people, results, meetings, has_ties=self.has_ties)
        if corrected is not None and corrected.shift is not None:
            systems = rank_systems(corrected, self.seed)
            yield Ranking(
                criterion=self.criterion.name,
                by=f"{PEOPLE} and {judge.name}",
                systems=systems,
                pairs=(),
                decided=len(people.keys() & meetings),
                battles=len(meetings),
                weight=corrected.shift.weight,
            )

    def biases_of_people(self) -> Iterator[RaterBias]:
        by_rater: dict[str, list[Answer]] = {}
        for answer in self.answers:
            by_rater.setdefault(answer.rater, []).append(answer)
        for rater, answers in sorted(by_rater.items()):
            yield RaterBias(self.criterion.name, rater, self.field.position_bias(answers))
        if len(by_rater) > 1:
            yield RaterBias(self.criterion.name, "all people", self.field.position_bias(self.answers))

    def bias_of(self, judge: JudgeAnswers) -> RaterBias:
        return RaterBias(self.criterion.name, judge.name, self.field.position_bias(self.judged_by(judge).complete))

    def _rank(self, by: str, results: Results, battles: int) -> Ranking:
        counts = self.field.count(results, has_ties=self.has_ties)
        systems = rank_systems(Outcomes(self.field.systems, counts, self.has_ties), self.seed)
        pairs = tuple(self.field.pair_results(results))
        return Ranking(self.criterion.name, by, systems, pairs, len(results), battles)


def judge_biases(key: Key, judge: JudgeAnswers) -> tuple[RaterBias, ...]:
    """Return the position bias of a judge by each criterion; none if its items are no battles."""
    if not key.battles:
        return ()
    return tuple(_ByCriterion.of(key, criterion, {}, 0).bias_of(judge) for criterion in key.all_criteria)


def numbers_of_battles(key: Key, results: BattleResults, annotators: int) -> MeasuredNumbers:
    """Return win rates and strengths by people, as `measured.json` has numbers of tables.

    The part is that of the task's judged texts, e.g. `storal_st2mo_en_judged`; metrics are called after criteria:
    `preference_win_rate`, `preference_strength`.
    """
    part = f"{key.task}{JUDGED_SUFFIX}"
    numbers = []
    for ranking in results.rankings:
        for system in ranking.systems if ranking.by == PEOPLE else ():
            values = (
                (WIN_RATE, system.win_rate, system.win_rate_interval),
                (STRENGTH, system.strength, system.strength_interval),
            )
            battles = round(system.wins + system.ties + system.losses)
            for ending, value, interval in values:
                if value is not None:
                    metric = f"{slug(ranking.criterion)}{ending}"
                    number = MeasuredNumber(part=part, metric=metric, model=system.system, value=value, n=battles)
                    numbers.append(number.model_copy(update={"low": interval.low, "high": interval.high}))
    by = "one person" if annotators == 1 else f"{annotators} people"
    source = f"{pluralize(len(key.battles), 'battle')} of {key.task} as judged by {by}"
    return MeasuredNumbers(source=one_line(source, MAX_SOURCE_CHARS), numbers=tuple(numbers))
