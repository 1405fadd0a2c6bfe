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

from figeval import Example
from figeval.language.words import split_words

Floats: TypeAlias = NDArray[np.float64]
Scores: TypeAlias = list[Floats]  # scores of the options of each item
Halves: TypeAlias = tuple[list[int], list[int]]  # indices of the items of two halves

HALVINGS = 8  # random divisions into halves; rules that know one half are averaged over them
ITEM, ALL, HALF = "the item", "all items", "the other half of the items"
OTHERS, LABELS = "items of other clusters", "the other half with its labels"


@dataclass(frozen=True, slots=True)
class Rule:
    """Result of a blind rule: what it knows besides the options of the item, and how often it is right.

    `hits` has the probability of being right for each example, in expectation over ties (and over random halves).
    """

    name: str
    knows: str
    hits: Floats


def blind_rules(
    examples: Sequence[Example], seed: int = 0, *, options: str = "options", gold: str = "gold"
) -> Iterator[Rule]:
    """Yield the result of every rule.

    Args:
        examples: at least two examples, all of them with a gold option.
        seed: seed of the random halves.
        options: field with the options of an example.
        gold: field with the index of the right option.
    """
    items = read_items(examples, options, gold)
    for position in range(min(map(len, items.options))):
        distances = [np.abs(np.arange(len(row)) - position) for row in items.options]
        yield Rule(f"option {position + 1}", ITEM, items.hits([-row for row in distances]))
    yield from items.extremes("shortest", "longest", ITEM, items.spread(items.lengths))
    yield from items.extremes("least like the others", "most like the others", ITEM, items.likeness())
    yield from items.extremes("spelt least like any other", "spelt most like another", ITEM, items.spelling())
    yield from items.extremes("rarest", "commonest", ALL, items.score_by_count(range(len(examples))))
    yield from items.extremes("seldom beside the others", "often beside the others", ALL, items.company())
    halvings = [items.halves(f"{seed} {number}", by_cluster=False) for number in range(HALVINGS)]
    yield from items.mean_extremes("rarest", "commonest", HALF, halvings, items.score_by_count)
    yield Rule("logistic regression on length and frequency", HALF, items.mean_hits(halvings, items.log_odds))
    if 1 < len(set(items.clusters)) < len(examples):
        clustered = [items.halves(f"{seed} {number}", by_cluster=True) for number in range(HALVINGS)]
        yield from items.mean_extremes("rarest", "commonest", OTHERS, clustered, items.score_by_count)
    yield from items.mean_extremes(
        "right least often", "right most often", LABELS, halvings, items.score_by_share_right
    )


def read_items(examples: Sequence[Example], options: str, gold: str) -> BlindItems:
    """Return the items of these examples, given the fields of their options and of the index of the right one."""
    return BlindItems(
        examples, [getattr(example, options) for example in examples], [getattr(example, gold) for example in examples]
    )


def _identity(option: str) -> str:
    """Return the text by which an option is identified, whatever its case and the Unicode form of its accents."""
    return normalize("NFC", option.strip().lower())


def jaccard(words: frozenset[str], other_words: frozenset[str]) -> float:
    """Return the share of the words of both that they have in common."""
    union = len(words | other_words)
    return len(words & other_words) / union if union else 0.0


@dataclass
class BlindItems:
    """Examples as numbers: the options, the right option and the cluster of each item."""

    examples: Sequence[Example]
    texts: Sequence[Sequence[str]]
    gold: Sequence[int]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each different option, by text."""
        identities = (_identity(text) for texts in self.texts for text in texts)
        return {identity: number for number, identity in enumerate(dict.fromkeys(identities))}

    @cached_property
    def options(self) -> list[NDArray[np.intp]]:
        """Options of each item, by number."""
        return [np.array([self.numbers[_identity(text)] for text in texts]) for texts in self.texts]

    @cached_property
    def clusters(self) -> list[str]:
        """Cluster of each item; an item without one forms its own cluster."""
        return [example.cluster or f" {index}" for index, example in enumerate(self.examples)]

    @cached_property
    def lengths(self) -> Floats:
        """Length of each option in characters."""
        return np.array([len(text) for text in self.numbers], dtype=np.float64)

    @cached_property
    def words(self) -> list[list[str]]:
        """Words of each option, in the language of the first item that offers it."""
        languages = {
            _identity(text): (example.language, example.segmenter)
            for example, texts in zip(reversed(self.examples), reversed(self.texts), strict=True)
            for text in texts
        }
        return [split_words(text, *languages[text], joined=False) for text in self.numbers]

    # ---- hits --------------------------------------------------------------------------------------------------------

    def hits(self, scores: Scores) -> Floats:
        """Return the probability for each item that a fair draw from its best options takes the right one."""
        pairs = zip(scores, self.gold, strict=True)
        return np.array([float(row[gold] == row.max()) / int((row == row.max()).sum()) for row, gold in pairs])

    def mean_hits(self, halvings: Sequence[Halves], score: Callable[[list[int]], Scores]) -> Floats:
        """Return the mean of each item's hits over the halvings; `score(indices)` learns from these items only."""
        total = np.zeros(len(self.examples))
        for halves in halvings:
            for learned, tested in (halves, halves[::-1]):
                total[tested] += self.hits(score(learned))[tested]
        return total / len(halvings)

    def extremes(self, lowest: str, highest: str, knows: str, scores: Scores) -> Iterator[Rule]:
        """Yield the rules that take the option with the lowest and the one with the highest score."""
        yield Rule(lowest, knows, self.hits([-row for row in scores]))
        yield Rule(highest, knows, self.hits(scores))

    def mean_extremes(
        self, lowest: str, highest: str, knows: str, halvings: Sequence[Halves], score: Callable[[list[int]], Scores]
    ) -> Iterator[Rule]:
        """Yield both rules for scores learned from the other half, averaged over the halvings."""
        yield Rule(lowest, knows, self.mean_hits(halvings, lambda indices: [-row for row in score(indices)]))
        yield Rule(highest, knows, self.mean_hits(halvings, score))

    # ---- scores from the item ----------------------------------------------------------------------------------------

    def spread(self, values: Floats) -> Scores:
        """Return the scores of each item's options, given one value for each different option."""
        return [values[options] for options in self.options]

    def likeness(self) -> Scores:
        """Return the sum of each option's Jaccard similarities of words with the item's other options."""
        words = [frozenset(words) for words in self.words]
        return [row.round(9) for row in self._sums_over_others(lambda a, b: jaccard(words[a], words[b]))]

    def spelling(self) -> Scores:
        """Return each option's highest cosine of TF-IDF character n-grams with another option of the item."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        try:
            weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit_transform(self.numbers)
        except ValueError:  # all options are empty
            return [np.zeros(len(row)) for row in self.options]
        scores = []
        for row in self.options:
            cosines = (weights[row] @ weights[row].T).toarray()
            np.fill_diagonal(cosines, 0)
            scores.append(cosines.max(axis=1).round(9))
        return scores

    def _sums_over_others(self, similarity: Callable[[int, int], float]) -> Scores:
        """Return the sum of each option's similarities, by number, with the item's other options."""
        return [
            np.array([sum(similarity(a, b) for b in row if b != a) for a in row], dtype=np.float64)
            for row in (options.tolist() for options in self.options)
        ]

    # ---- scores from other items -------------------------------------------------------------------------------------

    def counts(self, indices: Sequence[int]) -> Floats:
        """Return the number of these items that offer each option."""
        offers = np.concatenate([self.options[index] for index in indices])
        return np.bincount(offers, minlength=len(self.numbers)).astype(np.float64)

    def company(self) -> Scores:
        """Return the sum, over the item's other options, of the numbers of items that offer each option with them."""
        pairs = Counter(pair for options in self.options for pair in permutations(options.tolist(), 2))
        return self._sums_over_others(lambda a, b: pairs[a, b])

    def halves(self, seed: str, *, by_cluster: bool) -> Halves:
        """Return the indices of two random halves; with `by_cluster`, no cluster is in both."""
        units = sorted(set(self.clusters)) if by_cluster else list(range(len(self.examples)))
        sample = set(random.Random(f"halves {seed}").sample(units, len(units) // 2))
        keys: Sequence[Any] = self.clusters if by_cluster else units
        half = [index for index, key in enumerate(keys) if key in sample]
        return half, sorted(set(range(len(self.examples))) - set(half))

    def score_by_count(self, indices: Sequence[int]) -> Scores:
        """Return scores by the number of these items that offer an option."""
        return self.spread(self.counts(indices))

    def score_by_share_right(self, indices: list[int]) -> Scores:
        right = np.bincount([self.options[index][self.gold[index]] for index in indices], minlength=len(self.numbers))
        return self.spread(right / np.maximum(self.counts(indices), 1))

    def log_odds(self, indices: list[int]) -> Scores:
        """Return each option's log-odds of being right, given its length and frequency in these items."""
        counts = self.counts(indices)
        return self.regress(indices, [self._features(options, counts) for options in self.options])

    def regress(self, indices: list[int], rows: list[Floats]) -> Scores:
        """Return each option's log-odds of being right, by a logistic regression fitted to the rows of these items."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        regression = make_pipeline(StandardScaler(), LogisticRegression())
        right = np.concatenate([np.arange(len(rows[index])) == self.gold[index] for index in indices])
        regression.fit(np.concatenate([rows[index] for index in indices]), right)
        odds = regression.decision_function(np.concatenate(rows)).round(9)
        return np.split(odds, np.cumsum([len(row) for row in rows])[:-1])

    def _features(self, options: NDArray[np.intp], counts: Floats) -> Floats:
        """Return length, log length, share of the item's options that are shorter, and counts; shape (options, 4)."""
        lengths = self.lengths[options]
        shorter = (lengths[:, None] > lengths).mean(axis=1)
        return np.column_stack([lengths, np.log1p(lengths), shorter, counts[options]])
