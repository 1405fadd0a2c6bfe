"""Pairs of texts as token ids: one for every example, or one for each of its options."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from figeval.errors import TrainError
from figeval.task_types.choice import ChoiceExample
from figeval.task_types.ranking import RankingExample

from .._tokens import Tokens, tokenize
from ._inputs import Alone, rectangle

if TYPE_CHECKING:
    from figeval.training.contract import Batch


@dataclass(frozen=True)
class Reader:
    """What makes token ids of pairs."""

    tokenizer: Any
    limit: int | None

    def pairs(self, lefts: Sequence[str], rights: Sequence[str]) -> Tokens:
        """The pairs; what is too long loses tokens of its longer text."""
        return tokenize(self.tokenizer, lefts, self.limit, rights)

    def bare(self, texts: Sequence[str]) -> list[int]:
        """The tokens of the texts alone, special ones not counted."""
        own = self.tokenizer.num_special_tokens_to_add(pair=False)
        return [length - own for length in tokenize(self.tokenizer, texts, None).lengths]


class PairFeatures(Alone):
    """Pairs with their classes."""

    def __init__(self, tokens: Tokens, classes: Sequence[int]) -> None:
        self.tokens, self.classes = tokens, classes
        self.lengths = tokens.lengths
        self.truncated = len(tokens.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """input_ids, attention_mask … (rows, length) and classes (rows,)."""
        import torch

        return {**self.tokens.tensors(rows, "cpu"), "classes": torch.tensor([self.classes[row] for row in rows])}


class ChoiceFeatures(Alone):
    """The query with each of its options. An example takes as many tokens as its pairs, padded to the longest."""

    def __init__(self, reader: Reader, examples: Sequence[ChoiceExample]) -> None:
        lefts = [example.query for example in examples for _ in example.options]
        self.tokens = reader.pairs(lefts, [option for example in examples for option in example.options])
        ends = list(accumulate(len(example.options) for example in examples))
        self.groups = [range(end - len(example.options), end) for end, example in zip(ends, examples, strict=True)]
        self.golds = [gold_of(example) for example in examples]
        lengths = self.tokens.lengths
        self.lengths = [len(group) * max(lengths[pair] for pair in group) for group in self.groups]
        self.truncated = len(self.tokens.truncated)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:  # noqa: ARG002 - nothing is drawn
        """As `grouped` has it."""
        own = [pair for row in rows for pair in self.groups[row]]
        counts, golds = [len(self.groups[row]) for row in rows], [[self.golds[row]] for row in rows]
        return grouped(self.tokens.tensors(own, "cpu"), counts, golds)


class DrawnFeatures(Alone):
    """The query with its right candidates and some wrong ones, drawn anew in every epoch.

    All pairs together would be too many to keep, so those of a batch are made when it is. Candidates that say the same
    as a right one (`near`) are never drawn.
    """

    def __init__(self, reader: Reader, examples: Sequence[RankingExample], negatives: int) -> None:
        self.reader, self.examples, self.negatives = reader, examples, negatives
        candidates = {example.candidates: 0 for example in examples}
        for texts in candidates:
            candidates[texts] = max(reader.bare(texts))
        queries = reader.bare([example.query for example in examples])
        around = reader.tokenizer.num_special_tokens_to_add(pair=True)
        pairs = [one + candidates[example.candidates] + around for one, example in zip(queries, examples, strict=True)]
        limit = reader.limit or max(pairs)
        self.lengths = [
            min(pair, limit) * (len(example.relevant) + negatives)
            for pair, example in zip(pairs, examples, strict=True)
        ]
        self.truncated = sum(pair > limit for pair in pairs)

    def batch(self, rows: Sequence[int], draw: int) -> Batch:
        """As `grouped` has it, the right candidates of every row first."""
        drawn = [self.drawn(row, draw) for row in rows]
        lefts = [self.examples[row].query for row, numbers in zip(rows, drawn, strict=True) for _ in numbers]
        rights = [self.examples[row].candidates[n] for row, numbers in zip(rows, drawn, strict=True) for n in numbers]
        tokens = self.reader.pairs(lefts, rights)
        golds = [range(len(self.examples[row].relevant)) for row in rows]
        return grouped(tokens.tensors(range(len(lefts)), "cpu"), list(map(len, drawn)), golds)

    def drawn(self, row: int, draw: int) -> list[int]:
        """Numbers of the right candidates, then of wrong ones."""
        example = self.examples[row]
        wrong = [n for n in range(len(example.candidates)) if n not in example.relevant and n not in example.near]
        some = random.Random(f"{draw} {row}").sample(wrong, min(self.negatives, len(wrong)))
        return [*sorted(example.relevant), *some]


def grouped(inputs: Batch, counts: Sequence[int], golds: Sequence[Sequence[int]]) -> Batch:
    """Inputs (pairs, length), those of one row after those of the other, `counts` of them in each.

    `pairs` (rows, k) are their numbers and `golds` (rows, k) the places of the right ones, filled up with -1.
    """
    ends = list(accumulate(counts))
    pairs = [range(end - count, end) for end, count in zip(ends, counts, strict=True)]
    return {**inputs, "pairs": rectangle(pairs), "golds": rectangle(golds)}


def gold_of(example: ChoiceExample) -> int:
    """The right option. Raises `TrainError` where it is hidden."""
    if example.gold is None:
        raise TrainError(f"{example.id} has no right option to learn from; leave it out of the train split")
    return example.gold
