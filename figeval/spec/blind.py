"""Blind rules: how often does somebody find the right option of a multiple-choice item who never reads its question?

A rule that looks at the options alone should be right as often as chance. Where one is right more often, a model may
have learned that rule and not the task (Gururangan et al. 2018). Options are told apart by their text,
lower-cased. Every rule scores the options of an item and takes the best one; ties count by expectation.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.task_types.choice import ChoiceExample

Floats: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = list[Floats]  # per item the scores of its options

HALVINGS = 8  # random divisions into halves, over which the rules that know one half are averaged
ITEM, ALL, HALF = "the item", "all items", "the other half of the items"
OTHERS, LABELS = "items of other clusters", "the other half with its labels"


WORD = re.compile(r"\w+")


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """|one ∩ other| / |one ∪ other|, 0 for two empty sets."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0


@dataclass(frozen=True, slots=True)
class Rule:
    """A blind rule: what it knows beside the options of the item, and how often it is right.

    `hits` has a number for each example, the expectation over ties (and over random halves) of being right.
    """

    name: str
    knows: str
    hits: Floats


def blind_rules(examples: Sequence[ChoiceExample], seed: int = 0) -> Iterator[Rule]:
    """Yield every rule. There must be two examples, and those without a gold option must be left out."""
    items = Items(examples)
    for place in range(min(map(len, items.options))):
        yield Rule(f"option {place + 1}", ITEM, items.hits([-np.abs(np.arange(len(o)) - place) for o in items.options]))
    yield from items.both("shortest", "longest", ITEM, items.scored(items.lengths))
    yield from items.both("least like the others", "most like the others", ITEM, items.likeness())
    yield from items.both("spelt least like any other", "spelt most like another", ITEM, items.spelling())
    yield from items.both("rarest", "commonest", ALL, items.scored(items.counts(range(len(examples)))))
    yield from items.both("seldom beside the others", "often beside the others", ALL, items.company())
    halves = [items.halves(f"{seed} {number}", by_cluster=False) for number in range(HALVINGS)]
    yield from items.over("rarest", "commonest", HALF, halves, items.counted)
    yield Rule("logistic regression on length and frequency", HALF, items.mean_hits(halves, items.learned))
    if 1 < len(set(items.clusters)) < len(examples):
        parted = [items.halves(f"{seed} {number}", by_cluster=True) for number in range(HALVINGS)]
        yield from items.over("rarest", "commonest", OTHERS, parted, items.counted)
    yield from items.over("right least often", "right most often", LABELS, halves, items.right_so_far)


@dataclass
class Items:
    """Examples as numbers: per item the options by number, which is right, and the cluster."""

    examples: Sequence[ChoiceExample]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each different option."""
        texts = (option.strip().lower() for example in self.examples for option in example.options)
        return {text: number for number, text in enumerate(dict.fromkeys(texts))}

    @cached_property
    def options(self) -> list[NDArray[np.intp]]:
        """Per item its options."""
        return [
            np.array([self.numbers[option.strip().lower()] for option in example.options]) for example in self.examples
        ]

    @cached_property
    def gold(self) -> list[int]:
        """Per item the place of the right option."""
        return [-1 if example.gold is None else example.gold for example in self.examples]

    @cached_property
    def clusters(self) -> list[str]:
        """Per item its cluster; an item without one is a cluster of its own."""
        return [example.cluster or f" {place}" for place, example in enumerate(self.examples)]

    @cached_property
    def lengths(self) -> Floats:
        """Per option its length in characters."""
        return np.array([len(text) for text in self.numbers], dtype=np.float64)

    # ---- being right -------------------------------------------------------------------------------------------------

    def hits(self, scores: Scores) -> Floats:
        """Per item the chance that a fair draw from the best options takes the right one."""
        pairs = zip(scores, self.gold, strict=True)
        return np.array([float(row[gold] == row.max()) / int((row == row.max()).sum()) for row, gold in pairs])

    def scored(self, values: Floats) -> Scores:
        """Per item what its options are worth, if each is worth the same everywhere."""
        return [values[options] for options in self.options]

    def both(self, least: str, most: str, knows: str, scores: Scores) -> Iterator[Rule]:
        """Yield the rules that take the option with the lowest and with the highest score."""
        yield Rule(least, knows, self.hits([-row for row in scores]))
        yield Rule(most, knows, self.hits(scores))

    def likeness(self) -> Scores:
        """Per option of an item the sum of its Jaccard similarities of words with the item's other options."""
        words = [frozenset(WORD.findall(text)) for text in self.numbers]
        return [
            np.array([sum(jaccard(words[one], words[other]) for other in row if other != one) for one in row]).round(9)
            for row in (options.tolist() for options in self.options)
        ]

    def spelling(self) -> Scores:
        """Per option of an item the highest cosine of TF-IDF weighted character n-grams with another of its options."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        try:
            weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(self.numbers)
        except ValueError:  # all options are empty
            return [np.zeros(len(row)) for row in self.options]
        found = []
        for row in self.options:
            alike = (weights[row] @ weights[row].T).toarray()
            np.fill_diagonal(alike, 0)
            found.append(alike.max(axis=1).round(9))
        return found

    # ---- what is known of other items --------------------------------------------------------------------------------

    def counts(self, places: Sequence[int]) -> Floats:
        """Per option how many of these items offer it."""
        offered = np.concatenate([self.options[place] for place in places])
        return np.bincount(offered, minlength=len(self.numbers)).astype(np.float64)

    def company(self) -> Scores:
        """Per option of an item in how many items it stands beside the item's other options, one count for each."""
        together = Counter(pair for options in self.options for pair in permutations(options.tolist(), 2))
        return [
            np.array([sum(together[one, other] for other in row if other != one) for one in row], dtype=np.float64)
            for row in (options.tolist() for options in self.options)
        ]

    def halves(self, seed: str, *, by_cluster: bool) -> tuple[list[int], list[int]]:
        """The places of two random halves; with `by_cluster` no cluster is in both."""
        units = sorted(set(self.clusters)) if by_cluster else list(range(len(self.examples)))
        drawn = set(random.Random(f"halves {seed}").sample(units, len(units) // 2))
        keys: Sequence[Any] = self.clusters if by_cluster else units
        one = [place for place, key in enumerate(keys) if key in drawn]
        return one, sorted(set(range(len(self.examples))) - set(one))

    def over(
        self,
        least: str,
        most: str,
        knows: str,
        halvings: Sequence[tuple[list[int], list[int]]],
        score: Callable[[list[int]], Scores],
    ) -> Iterator[Rule]:
        """Yield both rules for scores that are known from the other half, averaged over the halvings."""
        yield Rule(least, knows, self.mean_hits(halvings, lambda known: [-row for row in score(known)]))
        yield Rule(most, knows, self.mean_hits(halvings, score))

    def mean_hits(
        self, halvings: Sequence[tuple[list[int], list[int]]], score: Callable[[list[int]], Scores]
    ) -> Floats:
        """Per item the mean of its hits over the halvings; `score(known)` knows these places only."""
        total = np.zeros(len(self.examples))
        for one, other in halvings:
            for known, asked in ((one, other), (other, one)):
                total[asked] += self.hits(score(known))[asked]
        return total / len(halvings)

    def counted(self, known: list[int]) -> Scores:
        """Per option how often the known items offer it."""
        return self.scored(self.counts(known))

    def right_so_far(self, known: list[int]) -> Scores:
        """Per option how often it is right among the known items; of those alike, the share of offers decides."""
        right = np.bincount([self.options[place][self.gold[place]] for place in known], minlength=len(self.numbers))
        return self.scored(right / np.maximum(self.counts(known), 1))

    def learned(self, known: list[int]) -> Scores:
        """Per option log-odds of being right, by a logistic regression that was fitted to the known items."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        counts = self.counts(known)
        rows = [self._features(options, counts) for options in self.options]
        fitted = make_pipeline(StandardScaler(), LogisticRegression())
        right = np.concatenate([np.arange(len(rows[place])) == self.gold[place] for place in known])
        fitted.fit(np.concatenate([rows[place] for place in known]), right)
        odds = fitted.decision_function(np.concatenate(rows)).round(9)
        return np.split(odds, np.cumsum([len(row) for row in rows])[:-1])

    def _features(self, options: NDArray[np.intp], counts: Floats) -> Floats:
        """Length, its logarithm, how many options of the item are shorter, and frequency; shape (options, 4)."""
        lengths = self.lengths[options]
        shorter = (lengths[:, None] > lengths).mean(axis=1)
        return np.column_stack([lengths, np.log1p(lengths), shorter, counts[options]])
