"""Blind rules, which choose among the options of a multiple-choice item without reading its question.

A rule that looks at the options alone should be right as often as chance. If one is right more often, a model may have
learned that rule and not the task (Gururangan et al. 2018). Options are identified by their lower-cased text. Every
rule scores the options of an item and takes the best one; ties are scored by expectation.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any, TypeAlias
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from figeval.language.words import split_words
from figeval.task_types.choice import ChoiceExample

Floats: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = list[Floats]  # scores of the options of each item

HALVINGS = 8  # random divisions into halves; rules that know one half are averaged over them
ITEM, ALL, HALF = "the item", "all items", "the other half of the items"
OTHERS, LABELS = "items of other clusters", "the other half with its labels"


def jaccard(words: frozenset[str], other_words: frozenset[str]) -> float:
    """Return |one ∩ other| / |one ∪ other|, or 0 for two empty sets."""
    together = len(words | other_words)
    return len(words & other_words) / together if together else 0.0


def identity(option: str) -> str:
    """Return the text by which an option is identified, whatever its case and the Unicode form of its accents."""
    return normalize("NFC", option.strip().lower())


@dataclass(frozen=True, slots=True)
class Rule:
    """Result of a blind rule: what it knows besides the options of the item, and how often it is right.

    `hits` has the probability of being right for each example, in expectation over ties (and over random halves).
    """

    name: str
    knows: str
    hits: Floats


def blind_rules(examples: Sequence[ChoiceExample], seed: int = 0) -> Iterator[Rule]:
    """Yield the result of every rule. There must be at least two examples, all of them with a gold option."""
    items = ItemNumbers(examples)
    for index in range(min(map(len, items.options))):
        yield Rule(f"option {index + 1}", ITEM, items.hits([-np.abs(np.arange(len(o)) - index) for o in items.options]))
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
class ItemNumbers:
    """Examples as numbers: the options, the right option and the cluster of each item."""

    examples: Sequence[ChoiceExample]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each different option, by text."""
        texts = (identity(option) for example in self.examples for option in example.options)
        return {text: number for number, text in enumerate(dict.fromkeys(texts))}

    @cached_property
    def options(self) -> list[NDArray[np.intp]]:
        """Options of each item, by number."""
        return [np.array([self.numbers[identity(option)] for option in example.options]) for example in self.examples]

    @cached_property
    def gold(self) -> list[int]:
        """Place of the right option of each item."""
        return [-1 if example.gold is None else example.gold for example in self.examples]

    @cached_property
    def clusters(self) -> list[str]:
        """Cluster of each item; an item without one forms its own cluster."""
        return [example.cluster or f" {index}" for index, example in enumerate(self.examples)]

    @cached_property
    def lengths(self) -> Floats:
        """Length of each option in characters."""
        return np.array([len(text) for text in self.numbers], dtype=np.float64)

    # ---- hits --------------------------------------------------------------------------------------------------------

    def hits(self, scores: Scores) -> Floats:
        """Return the probability for each item that a fair draw from its best options takes the right one."""
        pairs = zip(scores, self.gold, strict=True)
        return np.array([float(row[gold] == row.max()) / int((row == row.max()).sum()) for row, gold in pairs])

    def scored(self, values: Floats) -> Scores:
        """Return the scores of each item's options, given one value for each different option."""
        return [values[options] for options in self.options]

    def both(self, rule_of_least: str, rule_of_most: str, knows: str, scores: Scores) -> Iterator[Rule]:
        """Yield the rules that take the option with the lowest and the one with the highest score."""
        yield Rule(rule_of_least, knows, self.hits([-row for row in scores]))
        yield Rule(rule_of_most, knows, self.hits(scores))

    def likeness(self) -> Scores:
        """Return the sum of each option's Jaccard similarities of words with the item's other options."""
        languages = {  # of the first item that offers the option
            identity(option): (example.language, example.segmenter)
            for example in reversed(self.examples)
            for option in example.options
        }
        words = [frozenset(split_words(text, *languages[text], joined=False)) for text in self.numbers]
        return [
            np.array(
                [
                    sum(jaccard(words[option_number], words[other]) for other in row if other != option_number)
                    for option_number in row
                ]
            ).round(9)
            for row in (options.tolist() for options in self.options)
        ]

    def spelling(self) -> Scores:
        """Return each option's highest cosine of TF-IDF character n-grams with another option of the item."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        try:
            weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(self.numbers)
        except ValueError:  # all options are empty
            return [np.zeros(len(row)) for row in self.options]
        columns = []
        for row in self.options:
            alike = (weights[row] @ weights[row].T).toarray()
            np.fill_diagonal(alike, 0)
            columns.append(alike.max(axis=1).round(9))
        return columns

    # ---- knowledge of other items ------------------------------------------------------------------------------------

    def counts(self, indices: Sequence[int]) -> Floats:
        """Return the number of these items that offer each option."""
        offered = np.concatenate([self.options[index] for index in indices])
        return np.bincount(offered, minlength=len(self.numbers)).astype(np.float64)

    def company(self) -> Scores:
        """Return the sum, over the item's other options, of the numbers of items that offer each option with them."""
        together = Counter(pair for options in self.options for pair in permutations(options.tolist(), 2))
        return [
            np.array(
                [sum(together[option, other] for other in row if other != option) for option in row], dtype=np.float64
            )
            for row in (options.tolist() for options in self.options)
        ]

    def halves(self, seed: str, *, by_cluster: bool) -> tuple[list[int], list[int]]:
        """Return the places of two random halves; with `by_cluster`, no cluster is in both."""
        units = sorted(set(self.clusters)) if by_cluster else list(range(len(self.examples)))
        drawn = set(random.Random(f"halves {seed}").sample(units, len(units) // 2))
        keys: Sequence[Any] = self.clusters if by_cluster else units
        first_half = [index for index, key in enumerate(keys) if key in drawn]
        return first_half, sorted(set(range(len(self.examples))) - set(first_half))

    def over(
        self,
        rule_of_least: str,
        rule_of_most: str,
        knows: str,
        halvings: Sequence[tuple[list[int], list[int]]],
        score: Callable[[list[int]], Scores],
    ) -> Iterator[Rule]:
        """Yield both rules for scores learned from the other half, averaged over the halvings."""
        yield Rule(rule_of_least, knows, self.mean_hits(halvings, lambda train: [-row for row in score(train)]))
        yield Rule(rule_of_most, knows, self.mean_hits(halvings, score))

    def mean_hits(
        self, halvings: Sequence[tuple[list[int], list[int]]], score: Callable[[list[int]], Scores]
    ) -> Floats:
        """Return the mean of each item's hits over the halvings; `score(known)` uses the items at these places only."""
        total = np.zeros(len(self.examples))
        for half, other_half in halvings:
            for train, test in ((half, other_half), (other_half, half)):
                total[test] += self.hits(score(train))[test]
        return total / len(halvings)

    def counted(self, train: list[int]) -> Scores:
        """Return scores by the number of known items that offer an option."""
        return self.scored(self.counts(train))

    def right_so_far(self, train: list[int]) -> Scores:
        """Return scores by the share of the known items with an option in which it is right."""
        right = np.bincount([self.options[index][self.gold[index]] for index in train], minlength=len(self.numbers))
        return self.scored(right / np.maximum(self.counts(train), 1))

    def learned(self, train: list[int]) -> Scores:
        """Return each option's log-odds of being right, by a logistic regression fitted to the known items."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        counts = self.counts(train)
        rows = [self._features(options, counts) for options in self.options]
        fitted = make_pipeline(StandardScaler(), LogisticRegression())
        right = np.concatenate([np.arange(len(rows[index])) == self.gold[index] for index in train])
        fitted.fit(np.concatenate([rows[index] for index in train]), right)
        odds = fitted.decision_function(np.concatenate(rows)).round(9)
        return np.split(odds, np.cumsum([len(row) for row in rows])[:-1])

    def _features(self, options: NDArray[np.intp], counts: Floats) -> Floats:
        """Return length, log length, share of the item's options that are shorter, and counts; shape (options, 4)."""
        lengths = self.lengths[options]
        shorter = (lengths[:, None] > lengths).mean(axis=1)
        return np.column_stack([lengths, np.log1p(lengths), shorter, counts[options]])
