"""Noise that language models learn to undo. How much there is follows from the length of a text, where it is is drawn.

Masks: Devlin et al. (2019, section 3.1). Spans under sentinels: Raffel et al. (2020, section 3.1.4), drawn as in their
code, which begins a text with what is kept and ends it with a span. Spans under one mask each: Lewis et al. (2020,
section 2.2, "text infilling"), with spans as the former draw them instead of Poisson lengths that may be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

from ..causal.engine.encoder_decoder import IGNORED
from ..encoders.tokens import IDS
from .language import LABELS, Row, read_and_written


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text: its token ids, and which of them are the text's own: `ids[first:end]`."""

    ids: Sequence[int]
    first: int
    end: int
    origin: str  # which text it is of, for messages


Noise = Callable[[Piece, Random], Row]

MASKED, RANDOM = 0.8, 0.1  # of the hidden tokens; the others stay as they are


@dataclass(frozen=True, slots=True)
class Masks:
    """A share of the tokens is hidden: under a mask, under any of the `words`, or not at all."""

    share: float
    mask: int
    words: Sequence[int]

    def __call__(self, piece: Piece, generator: Random) -> Row:
        """The hidden tokens are the targets."""
        ids, labels = list(piece.ids), [IGNORED] * len(piece.ids)
        for place in generator.sample(range(piece.first, piece.end), hidden(piece, self.share)):
            labels[place] = ids[place]
            fate = generator.random()
            if fate < MASKED:
                ids[place] = self.mask
            elif fate < MASKED + RANDOM:
                ids[place] = generator.choice(self.words)
        return {IDS: ids, LABELS: labels}


@dataclass(frozen=True, slots=True)
class SpanSampler:
    """Where spans of a piece are hidden, about `mean` tokens each."""

    share: float
    mean: float

    def drawn(self, piece: Piece, most: int, generator: Random) -> list[tuple[Sequence[int], Sequence[int]]]:
        """The piece's own tokens in turns: those that are kept, and those of the span after them."""
        tokens = piece.ids[piece.first : piece.end]
        lost = hidden(piece, self.share)
        count = max(1, min(round(lost / self.mean), most, lost, len(tokens) - lost))
        turns, place = [], 0
        for kept, covered in zip(
            parts(len(tokens) - lost, count, generator), parts(lost, count, generator), strict=True
        ):
            turns.append((tokens[place : place + kept], tokens[place + kept : place + kept + covered]))
            place += kept + covered
        return turns


@dataclass(frozen=True, slots=True)
class Sentinels:
    """Every span becomes a sentinel; the target are the spans, each after its sentinel."""

    spans: SpanSampler
    sentinels: Sequence[int]
    start: int

    def __call__(self, piece: Piece, generator: Random) -> Row:
        """Read is what was kept."""
        turns = self.spans.drawn(piece, len(self.sentinels), generator)
        pairs = list(zip(turns, self.sentinels, strict=False))
        read = chain.from_iterable([*kept, sentinel] for (kept, _), sentinel in pairs)
        target = chain.from_iterable([sentinel, *covered] for (_, covered), sentinel in pairs)
        around = (piece.ids[: piece.first], piece.ids[piece.end :])
        return read_and_written([*around[0], *read, *around[1]], [*target, *around[1]], self.start)


@dataclass(frozen=True, slots=True)
class Holes:
    """Every span becomes one mask; the target is the whole text."""

    spans: SpanSampler
    mask: int
    start: int

    def __call__(self, piece: Piece, generator: Random) -> Row:
        """Read is the text with its holes."""
        turns = self.spans.drawn(piece, len(piece.ids), generator)
        read = chain.from_iterable([*kept, self.mask] for kept, _ in turns)
        around = (piece.ids[: piece.first], piece.ids[piece.end :])
        return read_and_written([*around[0], *read, *around[1]], piece.ids, self.start)


def hidden(piece: Piece, share: float) -> int:
    """How many tokens of a piece are hidden: at least one."""
    return max(1, round(share * (piece.end - piece.first)))


def parts(total: int, count: int, generator: Random) -> list[int]:
    """A whole number as the sum of others, none of them 0 if there are enough; all ways are equally likely."""
    if total < count:
        return [total, *[0] * (count - 1)]
    cuts = sorted(generator.sample(range(1, total), count - 1))
    return [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
