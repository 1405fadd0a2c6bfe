"""Folds of idiom pairs, to train on some idioms and test on others.

No idiom and no premise is in two folds. A premise with two idioms ties these together, and a pair with an unknown idiom
goes with its premise. Only pairs without a flaw are used. Stowe et al. (2022, section 5) held out one of ten folds of
idioms and added the others to the training one by one; their folds are not released.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from figeval.data import Row

FOLDS = 10
SEEN_SHARE = 0.1  # share of the training folds' premises that are tested and not learned from
DEV_FOLDS, UNSEEN_FOLDS = (8,), (9,)  # folds of idioms that are not learned from


def folds(rows: Iterable[Row], seed: int = 0, count: int = FOLDS) -> list[list[Row]]:
    """Split the rows into `count` folds of about equal size, keeping their order within each fold.

    Groups of rows that belong together are shuffled with the seed, and each goes to the fold with the fewest rows.
    """
    groups = group_rows(rows)
    random.Random(seed).shuffle(groups)
    numbered_folds: list[list[tuple[int, Row]]] = [[] for _ in range(count)]
    for group in groups:
        min(numbered_folds, key=len).extend(group)
    return [[row for _, row in sorted(fold, key=lambda numbered_row: numbered_row[0])] for fold in numbered_folds]


def group_rows(rows: Iterable[Row]) -> list[list[tuple[int, Row]]]:
    """Group the rows, with their indices, that share an idiom or a premise, directly or through other rows."""
    parents: dict[tuple[str, str], tuple[str, str]] = {}

    def root(name: tuple[str, str]) -> tuple[str, str]:
        while (parent := parents.setdefault(name, name)) != name:
            parents[name] = name = parents[parent]
        return name

    numbered = list(enumerate(rows))
    for _, row in numbered:
        premise = root(("premise", row["premise_key"]))
        if row["idiom"] is not None:
            parents[premise] = root(("idiom", row["idiom"]))
    groups: dict[tuple[str, str], list[tuple[int, Row]]] = defaultdict(list)
    for index, row in numbered:
        groups[root(("premise", row["premise_key"]))].append((index, row))
    return list(groups.values())


def part(rows: Iterable[Row], name: str, seed: int = 0) -> list[Row]:
    """Return the rows of `train`, `dev`, `seen` (other premises of training idioms) or `unseen` (other idioms).

    Raises:
        KeyError: no part has that name.
    """
    all_folds = folds(rows, seed)
    training_rows = [
        row for index, fold in enumerate(all_folds) if index not in (*DEV_FOLDS, *UNSEEN_FOLDS) for row in fold
    ]
    test_premises = choose_premises(training_rows, seed)
    return {
        "train": [row for row in training_rows if row["premise_key"] not in test_premises],
        "seen": [row for row in training_rows if row["premise_key"] in test_premises],
        "dev": [row for index in DEV_FOLDS for row in all_folds[index]],
        "unseen": [row for index in UNSEEN_FOLDS for row in all_folds[index]],
    }[name]


def choose_premises(rows: Sequence[Row], seed: int) -> set[str]:
    """Choose a tenth of the premises by a digest of seed and premise, leaving every idiom at least one premise."""

    def digest(premise: str) -> bytes:
        return blake2b(f"{seed} {premise}".encode(), digest_size=8).digest()

    premises = dict.fromkeys((row["premise_key"], row["idiom"]) for row in rows)
    remaining = Counter(idiom for _, idiom in premises)
    count = round(SEEN_SHARE * len({premise for premise, _ in premises}))
    of_premise: dict[str, list[str | None]] = defaultdict(list)
    for premise, idiom in premises:
        of_premise[premise].append(idiom)
    chosen: set[str] = set()
    for premise in sorted(of_premise, key=digest):
        idioms = of_premise[premise]
        if len(chosen) < count and all(idiom is not None and remaining[idiom] > 1 for idiom in idioms):
            chosen.add(premise)
            remaining.subtract(idioms)
    return chosen


# ---- learning curves ------------------------------------------------------------------------------------------------

REGIMES = {"both": None, "entailment": "entailment", "non-entailment": "non-entailment"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a learning curve: the held-out fold, and the pairs to learn from.

    Attributes:
        fold: fold that is held out.
        train: number of other folds that are learned from, in the order following `fold`.
        regime: pairs that are learned from: both, entailment or non-entailment.
        pairs: maximum number of pairs of all other folds together, an equal share of each; None for all.
        seed: seed of the folds and of the pairs drawn from them.
    """

    fold: int
    train: int
    regime: str = "both"
    pairs: int | None = None
    seed: int = 0

    def held_out(self, rows: Iterable[Row]) -> list[Row]:
        return folds(rows, self.seed)[self.fold]

    def learned(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows to learn from; the rows of fewer folds are a subset of those of more folds.

        With `pairs`, each of the other folds contributes an equal share in every regime, so that all regimes learn from
        the same number of pairs, provided that there are enough with the wanted label.
        """
        all_folds = folds(rows, self.seed)
        label = REGIMES[self.regime]
        learned: list[Row] = []
        for step in range(1, self.train + 1):
            fold = (self.fold + step) % FOLDS
            candidates = [row for row in all_folds[fold] if label in (None, row["label"])]
            if self.pairs is not None:
                share = round(self.pairs * step / (FOLDS - 1)) - round(self.pairs * (step - 1) / (FOLDS - 1))
                indices = random.Random(f"{self.seed} {fold}").sample(
                    range(len(candidates)), min(share, len(candidates))
                )
                candidates = [candidates[number] for number in sorted(indices)]
            learned += candidates
        return learned
