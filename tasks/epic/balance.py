"""Balance of multiple-choice items: how an option compares with its narrative and the other options tells nothing.

Distractors that resemble the narrative more than the right option punish a scorer and reward its inverse; distractors
that resemble it as much give away the middle. Here, an item's right option is as good as a fair draw from its five
options, as far as these labels of an option show, and every pair of them:

* for each scorer, its *rank* among the five by likeness to the narrative, its *gap* to the mean of the five, and the
  *level* of its likeness among all proverbs;
* its rank by the distance of all scores from those means;
* its ranks by length and by likeness to the other options in spelling, words and how scorers rate both.

A table has a cell for each pair of values of two labels. The *excess* of a cell is the number of right options in it,
less a fifth of all options. It is brought to what a lottery among the same options gave, and not to zero: a rank that
is too rare among the right options of one half of such items would be too frequent in the other half, which would tell
as much.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.language.words import split_words

from .distractors import SLOTS, Alike, Golds, Indices, Scores, assign_distractors, blocks

Excess: TypeAlias = NDArray[np.float32]

OPTIONS = SLOTS + 1
LEVELS = 8  # of likeness, equally frequent among the right options
GAPS = (-1.5, -0.75, -0.25, 0.25, 0.75, 1.5)  # borders in standard deviations
ROUNDS = 8
LOTTERY_ROUND = 3  # the first round that aims at the excesses of a lottery; those before aim at zero
LOTTERIES = 20  # of which the one with the smallest excesses of ranks is taken
SMOOTHING = 2  # right options that are added to the variance of a cell, so that rare cells do not decide
SWAPS = 64  # candidates in a step, of which the best is made
CLOSENESS = 0.3  # weight of the distance from the right option, relative to the tables
DIGITS = 9  # scores that agree to this digit are equal


@dataclass(frozen=True)
class Cues:
    """Scores by which the options of an item can be compared. A proverb's likeness to itself is 0."""

    scores: Scores  # of each scorer, standardised within each narrative; (scorers, narratives, proverbs)
    levels: Indices  # of the same shape
    spelling: Scores  # likeness of two proverbs by letters
    words: Scores  # likeness of two proverbs by words
    profiles: Scores  # correlation of two proverbs' scores over narratives, averaged over scorers
    lengths: Scores  # of the proverbs, in letters

    def compare(self, narratives: Indices, options: Indices) -> tuple[Scores, Indices]:
        """Return what the options are ranked by, and their gaps and levels; (labels, items, options)."""
        scores = self.scores[:, narratives[:, None], options]
        gaps = scores - scores.mean(axis=2, keepdims=True)
        pairs = options[:, :, None], options[:, None, :]
        likenesses = [self.spelling[pairs].max(axis=2), self.words[pairs].sum(axis=2), self.profiles[pairs].sum(axis=2)]
        distance = np.sqrt((gaps**2).sum(axis=0))
        ranked = np.concatenate([scores, [distance, *likenesses, self.lengths[options]]]).round(DIGITS)
        return ranked, np.concatenate([np.searchsorted(GAPS, gaps), self.levels[:, narratives[:, None], options]])


def read_cues(scores: Sequence[Scores], gold: Golds, proverbs: Sequence[str]) -> Cues:
    """Return the cues of the options of these narratives. A NaN counts as the mean of its narrative."""
    valid = np.ma.masked_invalid(scores)
    spread = valid.std(axis=2, keepdims=True)
    standard = ((valid - valid.mean(axis=2, keepdims=True)) / (spread + (spread == 0))).filled(0.0)
    right = np.take_along_axis(standard, gold[None, :, None], axis=2)
    borders = np.quantile(right, np.arange(1, LEVELS) / LEVELS, axis=(1, 2)).T
    levels = np.stack([np.searchsorted(border, part) for border, part in zip(borders, standard, strict=True)])
    words = [frozenset(split_words(text, "en", joined=False)) for text in proverbs]
    shared = np.array([[len(a & b) / (len(a | b) or 1) for b in words] for a in words])
    lengths = np.array([len(text) for text in proverbs], dtype=np.float64)
    letters = letter_cosines(proverbs, proverbs)
    profiles = np.mean([np.nan_to_num(_correlations(part.T)) for part in standard], axis=0)
    spelling, likeness, profile = (matrix * ~np.eye(len(words), dtype=bool) for matrix in (letters, shared, profiles))
    return Cues(standard, levels, spelling, likeness, profile, lengths)


def _correlations(rows: Scores) -> Scores:
    with np.errstate(divide="ignore", invalid="ignore"):  # rows without spread
        return np.asarray(np.corrcoef(rows))


def letter_cosines(texts: Sequence[str], other_texts: Sequence[str]) -> Scores:
    """Return the cosine of the TF-IDF weighted character n-grams of each text and each other text."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit([*texts, *other_texts])
    return np.asarray((weights.transform(texts) @ weights.transform(other_texts).T).toarray(), dtype=np.float64)


class Tables:
    """The cells of options in all tables, numbered through, and the excess of right options in them."""

    def __init__(self, cues: Cues) -> None:
        self.cues = cues
        scorers = len(cues.scores)
        rankings = scorers + 5
        values = [OPTIONS] * rankings + [len(GAPS) + 1] * scorers + [LEVELS] * scorers
        self.first, self.second = np.array(list(combinations(range(len(values)), 2))).T
        self.width = np.array(values)[self.second]
        sizes = [OPTIONS**2] * rankings + list(np.array(values)[self.first] * self.width)
        self.offsets = np.cumsum([0, *sizes])[:-1, None, None]
        self.size = sum(sizes)
        self.exact = OPTIONS**2 * rankings  # cells of the first tables

    def cells(self, narratives: Indices, options: Indices) -> Indices:
        """Return the cell of every option in every table; (tables, items, options).

        The first tables, of how many options rank above and below, tell ties from ranks.
        """
        compared, bins = self.cues.compare(narratives, options)
        above = (compared[:, :, None, :] > compared[:, :, :, None]).sum(axis=3)
        below = (compared[:, :, None, :] < compared[:, :, :, None]).sum(axis=3)
        ranks = (above - below + SLOTS) * OPTIONS // (2 * SLOTS + 1)
        labels = np.concatenate([ranks, bins])
        pairs = labels[self.first] * self.width[:, None, None] + labels[self.second]
        return np.asarray(np.concatenate([above * OPTIONS + below, pairs]) + self.offsets)

    def excess(self, narratives: Indices, options: Indices) -> Excess:
        """Return the excess that each item adds to every cell; (items, cells). The first option is the right one."""
        cells = self.cells(narratives, options) + self.size * np.arange(len(options))[:, None]
        weights = np.broadcast_to(np.eye(OPTIONS)[0] - 1 / OPTIONS, cells.shape)
        counts = np.bincount(cells.ravel(), weights.ravel(), self.size * len(options))
        return counts.astype(np.float32).reshape(len(options), self.size)


class Search:
    """Swaps of distractors between the items of a block, so that proverbs are offered as often as before."""

    def __init__(self, cues: Cues, gold: Golds, alike: Alike, seed: int) -> None:
        self.tables, self.alike, self.blocks = Tables(cues), alike, blocks(gold)
        self.random = random.Random(f"{seed} balance")
        right = np.take_along_axis(cues.scores, gold[None, :, None], axis=2)
        self.distance = np.abs(cues.scores - right).mean(axis=0)
        start = assign_distractors([self.distance] * SLOTS, gold, alike)
        self.narratives, self.options = np.arange(len(gold)), np.column_stack([gold, start])
        self.item_excess = self.tables.excess(self.narratives, self.options)

    def run(self, steps: int) -> list[list[int]]:
        """Search in rounds of so many steps, and return the distractors of every narrative."""
        target = np.zeros(self.tables.size)
        for number in range(ROUNDS):
            cells = self.tables.cells(self.narratives, self.options)
            expected = np.bincount(cells.ravel(), minlength=self.tables.size) / OPTIONS
            variance = (expected * (1 - 1 / OPTIONS) + SMOOTHING).astype(np.float32)
            if number == LOTTERY_ROUND:
                lotteries = [self._draw_lots(cells) - expected for _ in range(LOTTERIES)]
                target = min(lotteries, key=lambda excess: (excess**2 / variance)[: self.tables.exact].sum())
            surplus = (self.item_excess.sum(axis=0, dtype=np.float64) - target).astype(np.float32)
            for _ in range(steps):
                surplus += self.step(surplus, variance)
        return [list(map(int, options)) for options in self.options[:, 1:]]

    def step(self, surplus: Excess, variance: Excess) -> Excess:
        """Make the best of a few random swaps if it is an improvement, and return what it adds to the surplus."""
        items, slots = self._draw()
        proverbs = self.options[items, slots]
        options = self.options[items]  # (2, swaps, options)
        options[np.arange(2)[:, None], np.arange(SWAPS), slots] = proverbs[::-1]
        excess = self.tables.excess(items.ravel(), options.reshape(-1, OPTIONS))
        added = (excess - self.item_excess[items.ravel()]).reshape(2, SWAPS, -1).sum(axis=0)
        moved = (self.distance[items, proverbs[::-1]] - self.distance[items, proverbs]).sum(axis=0)
        gain = (added**2) @ (1 / variance) + added @ (2 * surplus / variance) + CLOSENESS * moved
        barred = (self.alike[options[..., :, None], options[..., None, :]].sum(axis=(2, 3)) > OPTIONS).any(axis=0)
        best = int(np.where(barred | (items[0] == items[1]), np.inf, gain).argmin())
        if barred[best] or items[0, best] == items[1, best] or gain[best] >= 0:
            return np.zeros_like(surplus)
        self.options[items[:, best]] = options[:, best]
        self.item_excess[items[:, best]] = excess.reshape(2, SWAPS, -1)[:, best]
        return np.asarray(added[best])

    def _draw_lots(self, cells: Indices) -> Scores:
        drawn = np.array([[self.random.randrange(OPTIONS)] for _ in self.narratives])
        counts = np.bincount(np.take_along_axis(cells, drawn[None], axis=2).ravel(), minlength=self.tables.size)
        return counts.astype(np.float64)

    def _draw(self) -> tuple[Indices, NDArray[np.intp]]:
        block = self.random.choice(self.blocks)
        items = block[[[self.random.randrange(len(block)) for _ in range(SWAPS)] for _ in range(2)]]
        return items, np.array([[self.random.randint(1, SLOTS) for _ in range(SWAPS)] for _ in range(2)])
