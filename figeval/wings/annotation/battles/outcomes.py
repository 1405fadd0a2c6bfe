"""Answers to battles, of people or of a judge, and what they say: results, and how far the order decided.

An answer is about two texts in the order in which they were shown. All answers to a battle, by several people or in
both orders, have the same weight, and a battle is one observation: one of two people, or of a judge in two orders, is
half of a win.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np

from figeval import MetricAggregator, Score, mean_of
from figeval.metrics.intervals import Floats
from figeval.spec.criteria import Criterion
from figeval.wings.annotation.battles.davidson import LOSS, TIE, WIN
from figeval.wings.annotation.battles.ranking import SHARES
from figeval.wings.annotation.items import TEXT_A, TEXT_B, Battle, Key
from figeval.wings.annotation.items import TIE as TIED
from figeval.wings.annotation.judge_record import JudgeRow
from figeval.wings.annotation.labels import Labels

BOTH_ORDERS = 2


class Meeting(NamedTuple):
    """Two systems, in the order of the key's authors, and the example for which they wrote."""

    a: str
    b: str
    example: str


class Answer(NamedTuple):
    """The label that a rater gave to two texts, of which A is by `first`."""

    rater: str
    first: str
    second: str
    example: str
    label: str

    @property
    def result(self) -> int:
        """Index of a win, a tie or a loss of the first system."""
        return {TEXT_A: WIN, TEXT_B: LOSS}.get(self.label, TIE)


Results: TypeAlias = dict[Meeting, Floats]  # shares of wins, ties and losses of system a


def answers_of_people(key: Key, labels: Labels) -> list[Answer]:
    """Return the answers to battles; attention checks are none."""
    battles = key.battles
    return [
        Answer(annotator, battles[item].author, battles[item].opponent, battles[item].example, label)
        for item, by_annotator in labels.items()
        if item in battles
        for annotator, label in by_annotator.items()
    ]


def answers_of_judge(key: Key, rater: str, rows: Iterable[JudgeRow]) -> list[Answer]:
    """Return the answers that have a label, in both orders."""
    battles, answers = key.battles, []
    for row in rows:
        if row.item in battles and row.label is not None:
            shown = (battles[row.item].author, battles[row.item].opponent)
            answers.append(
                Answer(rater, *(shown[::-1] if row.swapped else shown), battles[row.item].example, row.label)
            )
    return answers


@dataclass(frozen=True, slots=True)
class Field:
    """The systems that met, and the independent groups of examples for which they wrote."""

    systems: tuple[str, ...]
    groups: Mapping[str, int]  # example → number of its cluster
    to_judge: frozenset[Meeting]
    identical: tuple[Meeting, ...]

    @classmethod
    def of(cls, key: Key) -> Field:
        battles = [*key.battles.values(), *key.identical]
        present = {name for battle in battles for name in (battle.author, battle.opponent)}
        numbers: dict[str, int] = {}
        groups = {battle.example: numbers.setdefault(battle.group, len(numbers)) for battle in battles}
        field = cls(tuple(name for name in key.authors if name in present), groups, frozenset(), ())
        identical = tuple(map(field._meeting_of, key.identical))
        return replace(field, to_judge=field.meetings(key.battles.values()), identical=identical)

    def meetings(self, battles: Iterable[Battle]) -> frozenset[Meeting]:
        """Return what battles are about; in both orders, they are about the same."""
        return frozenset(map(self._meeting_of, battles))

    def _meeting_of(self, battle: Battle) -> Meeting:
        return _meeting(self.systems, battle.author, battle.opponent, battle.example)

    def results(self, answers: Iterable[Answer]) -> Results:
        """Return the mean of the answers to each battle."""
        counts: defaultdict[Meeting, Floats] = defaultdict(lambda: np.zeros(3))
        for answer in answers:
            meeting = _meeting(self.systems, answer.first, answer.second, answer.example)
            counts[meeting][answer.result if meeting.a == answer.first else LOSS - answer.result] += 1
        return {meeting: count / count.sum() for meeting, count in counts.items()}

    def count(self, results: Results, *, has_ties: bool) -> Floats:
        """Return the results in each cluster, shape (clusters, pairs, 3).

        Equal texts tied in as large a share of their battles as people have judged of the others; where nobody can call
        a tie, half of a win.
        """
        rows = {pair: row for row, pair in enumerate(combinations(self.systems, 2))}
        counts = np.zeros((max(self.groups.values()) + 1, len(rows), 3))
        for (a, b, example), shares in results.items():
            counts[self.groups[example], rows[a, b]] += shares
        tie = np.array([0.0, 1.0, 0.0] if has_ties else [0.5, 0.0, 0.5])
        for a, b, example in self.identical:
            counts[self.groups[example], rows[a, b]] += tie * (len(results) / len(self.to_judge))
        return counts

    def pair_results(self, results: Results) -> list[PairResult]:
        """Return the battles of each pair of systems that has any."""
        pairs = []
        for a, b in combinations(self.systems, 2):
            shares = {meeting: share for meeting, share in results.items() if meeting[:2] == (a, b)}
            equal = sum(meeting[:2] == (a, b) for meeting in self.identical)
            if not shares and not equal:
                continue
            score = _mean((self.groups[meeting.example], float(share @ SHARES)) for meeting, share in shares.items())
            wins, ties, losses = np.sum(list(shares.values()), axis=0) if shares else np.zeros(3)
            pairs.append(PairResult(a, b, float(wins), float(ties), float(losses), equal, score))
        return pairs

    def position_bias(self, answers: Sequence[Answer]) -> PositionBias:
        """Return how often the first text won, and whether battles seen in both orders had the same result."""
        firsts = [(answer, float(answer.result == WIN)) for answer in answers if answer.result != TIE]
        winners: dict[tuple[str, Meeting], set[str]] = defaultdict(set)
        times = Counter[tuple[str, Meeting]]()
        for answer in answers:
            seen = answer.rater, _meeting(self.systems, answer.first, answer.second, answer.example)
            winners[seen].add({WIN: answer.first, LOSS: answer.second}.get(answer.result, ""))
            times[seen] += 1
        both = [seen for seen, count in times.items() if count == BOTH_ORDERS]
        return PositionBias(
            answers=len(answers),
            ties=len(answers) - len(firsts),
            first=_mean((self.groups[answer.example], is_first) for answer, is_first in firsts),
            both_orders=len(both),
            contradictions=sum(len(winners[seen]) > 1 for seen in both),
        )


@dataclass(frozen=True, slots=True)
class PairResult:
    """The battles between two systems.

    Attributes:
        a: name of system A.
        b: name of system B.
        wins, ties, losses: results of A in judged battles, in fractions if a battle has several answers.
        equal: battles of equal texts, which nobody judged.
        score: mean result of A in judged battles, a win being 1, a tie .5 and a loss 0.
    """

    a: str
    b: str
    wins: float
    ties: float
    losses: float
    equal: int
    score: Score


@dataclass(frozen=True, slots=True)
class PositionBias:
    """The influence of the order of the texts.

    Attributes:
        answers: number of answers.
        ties: how many of them are ties.
        first: share of wins of the first text among the other answers; .5 without a bias, since orders are balanced.
        both_orders: number of battles that a rater saw in both orders.
        contradictions: how many of these had different results.
    """

    answers: int
    ties: int
    first: Score
    both_orders: int
    contradictions: int


def agreed_labels(key: Key, criterion: Criterion, rows: Iterable[JudgeRow]) -> dict[str, str]:
    """Return the label of a judge for each item by a criterion: that of both orders, or a tie if they differ.

    Items with an answer in one order only are left out; where nobody can call a tie, also those whose orders differ.
    """
    battles = key.battles
    labels: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row.label is not None and row.item in battles and row.criterion == criterion.name:
            swapped = {TEXT_A: TEXT_B, TEXT_B: TEXT_A}.get(row.label, row.label)
            labels[row.item].append(swapped if row.swapped else row.label)
    both = {item: chosen for item, chosen in labels.items() if len(chosen) == BOTH_ORDERS}
    agreed = {item: chosen[0] if len(set(chosen)) == 1 else TIED for item, chosen in both.items()}
    return {item: label for item, label in agreed.items() if label in criterion.labels}


def in_both_orders(answers: Sequence[Answer], systems: Sequence[str]) -> list[Answer]:
    """Return the answers to battles that were answered in both orders."""
    meetings = [_meeting(systems, answer.first, answer.second, answer.example) for answer in answers]
    times = Counter(meetings)
    return [answer for answer, meeting in zip(answers, meetings, strict=True) if times[meeting] >= BOTH_ORDERS]


def _meeting(systems: Sequence[str], first: str, second: str, example: str) -> Meeting:
    is_ordered = systems.index(first) < systems.index(second)
    return Meeting(first, second, example) if is_ordered else Meeting(second, first, example)


def _mean(values: Iterable[tuple[int, float]]) -> Score:
    statistic = mean_of(lambda _example, _prediction: None, absent="no judgements", bounds=(0.0, 1.0))
    aggregator = MetricAggregator("win_rate", statistic)
    for group, value in values:
        aggregator.add(str(group), (value, 1.0))
    return aggregator.score()
