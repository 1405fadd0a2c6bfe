"""Counts of proverbs that were taken for other proverbs."""

from __future__ import annotations

from dataclasses import dataclass

from .. import duplicates
from .answers import AnsweredRun


@dataclass(frozen=True, slots=True)
class Confusion:
    """A confusion: `predicted` was taken for `gold` in `count` of its `n` narratives (a fraction if candidates tie)."""

    gold: str
    predicted: str
    count: float
    n: int
    paraphrase: bool
    defensible: bool


def confusions(run: AnsweredRun) -> list[Confusion]:
    """Return every confused pair, most frequent first; rows that do not say which candidates tie are left out."""
    counts: dict[tuple[str, str], float] = {}
    sizes: dict[str, int] = {}
    for answer in run.answers.values():
        sizes[answer.gold] = sizes.get(answer.gold, 0) + 1
        for proverb, share in (answer.picks or {}).items():
            if proverb != answer.gold:
                counts[answer.gold, proverb] = counts.get((answer.gold, proverb), 0.0) + share
    paraphrases, defensible = duplicates.near_duplicates(), duplicates.defensible()
    pairs = [
        Confusion(
            gold,
            predicted,
            count,
            sizes[gold],
            predicted in paraphrases.get(gold, ()),
            predicted in defensible.get(gold, ()),
        )
        for (gold, predicted), count in counts.items()
    ]
    return sorted(pairs, key=lambda confusion: (-confusion.count, confusion.gold, confusion.predicted))


def most_taken(run: AnsweredRun) -> list[tuple[str, float]]:
    """Return how often each proverb is taken wrongly, most frequent first: a model's favourites."""
    counts: dict[str, float] = {}
    for confusion in confusions(run):
        counts[confusion.predicted] = counts.get(confusion.predicted, 0.0) + confusion.count
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
