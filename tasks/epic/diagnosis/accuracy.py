"""Accuracy per proverb, and accuracy that accepts near-duplicates. Ties count by expectation throughout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from figeval.types import Interval, Score

from .answers import AnsweredRun, ProverbAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

Relation: TypeAlias = Mapping[str, frozenset[str]]  # proverb → proverbs accepted in its place


@dataclass(frozen=True, slots=True)
class TolerantAccuracy:
    """Accuracy that accepts the proverbs of a relation.

    Attributes:
        score: the accuracy with its interval.
        chance: expected accuracy of a uniform guess.
        unknown: number of rows left out because they do not say which candidates tie.
    """

    score: Score
    chance: float
    unknown: int


def tolerant_accuracy(run: AnsweredRun, accepted: Relation) -> TolerantAccuracy:
    """Return the share of narratives with the gold proverb or one accepted in its place, clustered by proverb.

    A row that does not say which candidates tie is left out, unless only the gold proverb would be accepted. There is
    no interval if the model has seen some of the narratives.
    """
    from figeval.metrics.aggregation import MetricAggregator
    from figeval.metrics.statistic import mean_of

    def credit(_example: Any, answer: Any) -> float | None:
        return credit_of(answer, accepted)

    statistic = mean_of(credit)
    tally, unknown = MetricAggregator("acc", statistic), 0
    for answer in run.answers.values():
        features = statistic.features(None, cast(Any, answer))
        if features is None:
            unknown += 1
        else:
            tally.add(answer.gold, features)
    score = tally.score()
    if run.seen:
        score = replace(score, interval=Interval(reason=f"{run.seen} were seen"))
    return TolerantAccuracy(score, chance(run, accepted), unknown)


def credit_of(answer: ProverbAnswer, accepted: Relation) -> float | None:
    """Return the probability that the answer is right or accepted, or None if the stored row does not say."""
    accepted_proverbs = accepted.get(answer.gold, frozenset())
    if not accepted_proverbs:
        return answer.right
    if answer.picks is None:
        return None
    return answer.right + sum(share for proverb, share in answer.picks.items() if proverb in accepted_proverbs)


def chance(run: AnsweredRun, accepted: Relation) -> float:
    """Return the expected accuracy of a uniform guess over the answered narratives."""
    questions = [run.questions[key] for key in run.answers]
    shares = [
        sum(
            candidate == question.gold or candidate in accepted.get(question.gold, ())
            for candidate in question.candidates
        )
        / len(question.candidates)
        for question in questions
    ]
    return sum(shares) / len(shares) if shares else 0.0


def by_proverb(run: AnsweredRun) -> dict[str, list[float]]:
    """Map each proverb to the accuracies of its narratives, in stored order."""
    accuracies: dict[str, list[float]] = {}
    for answer in run.answers.values():
        accuracies.setdefault(answer.gold, []).append(answer.right)
    return accuracies


def number_right(values: Sequence[float]) -> Floats:
    """Return P(exactly j of the k narratives are right), shape (k + 1,).

    Without ties the probabilities are 0 and 1; ties are drawn independently.
    """
    import numpy as np

    distribution = np.ones(1)
    for value in values:
        distribution = np.convolve(distribution, (1 - value, value))
    return distribution


def spread(groups: Mapping[str, Sequence[float]]) -> Floats:
    """Return the expected number of proverbs with exactly j narratives right, shape (largest k + 1,)."""
    import numpy as np

    max_right = max(map(len, groups.values()), default=0)
    total = np.zeros(max_right + 1)
    for values in groups.values():
        total[: len(values) + 1] += number_right(values)
    return total
