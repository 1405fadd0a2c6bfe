"""Noise that language models learn to undo. Its amount follows from the length of a text, its places are random.

Masks follow Devlin et al. (2019, section 3.1). Spans under sentinels follow Raffel et al. (2020, section 3.1.4),
sampled as in their code, which begins a text with kept tokens and ends it with a span. Spans under one mask each follow
Lewis et al. (2020, section 2.2, "text infilling"), but the spans are sampled as for sentinels, instead of with Poisson
lengths that may be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

from ..causal.engine.encoder_decoder import IGNORED
from ..torch_models.tokens import IDS
from .language import LABELS, Row, encoder_decoder_row


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A piece of a text: its token ids, of which `ids[first:end]` are the text's own."""

    ids: Sequence[int]
    first: int
    end: int
    origin: str  # source of the text, for messages


Noise = Callable[[TextPiece, Random], Row]

MASKED, RANDOM = 0.8, 0.1  # shares of the hidden tokens; the others are left unchanged


@dataclass(frozen=True, slots=True)
class Masks:
    """Noise that hides a share of the tokens: by a mask, by a random one of `words`, or not at all."""

    share: float
    mask: int
    words: Sequence[int]

    def __call__(self, piece: TextPiece, generator: Random) -> Row:
        """Return a row whose targets are the hidden tokens."""
        ids, labels = list(piece.ids), [IGNORED] * len(piece.ids)
        for position in generator.sample(range(piece.first, piece.end), count_hidden(piece, self.share)):
            labels[position] = ids[position]
            chance = generator.random()
            if chance < MASKED:
                ids[position] = self.mask
            elif chance < MASKED + RANDOM:
                ids[position] = generator.choice(self.words)
        return {IDS: ids, LABELS: labels}


@dataclass(frozen=True, slots=True)
class SpanSampler:
    """A sampler of the spans to hide, of about `mean` tokens each."""

    share: float
    mean: float

    def draw_spans(
        self, piece: TextPiece, max_spans: int, generator: Random
    ) -> list[tuple[Sequence[int], Sequence[int]]]:
        """Return the piece's own tokens as pairs of kept tokens and the span that follows them."""
        tokens = piece.ids[piece.first : piece.end]
        hidden = count_hidden(piece, self.share)
        count = max(1, min(round(hidden / self.mean), max_spans, hidden, len(tokens) - hidden))
        turns, start = [], 0
        for visible, masked in zip(
            random_parts(len(tokens) - hidden, count, generator), random_parts(hidden, count, generator), strict=True
        ):
            turns.append((tokens[start : start + visible], tokens[start + visible : start + visible + masked]))
            start += visible + masked
        return turns


@dataclass(frozen=True, slots=True)
class Sentinels:
    """Noise that replaces every span by a sentinel; the target lists the spans, each after its sentinel."""

    spans: SpanSampler
    sentinels: Sequence[int]
    start: int

    def __call__(self, piece: TextPiece, generator: Random) -> Row:
        """Return a row whose input is the kept tokens and sentinels."""
        turns = self.spans.draw_spans(piece, len(self.sentinels), generator)
        pairs = list(zip(turns, self.sentinels, strict=False))
        read = chain.from_iterable([*visible, sentinel] for (visible, _), sentinel in pairs)
        target = chain.from_iterable([sentinel, *masked] for (_, masked), sentinel in pairs)
        margins = (piece.ids[: piece.first], piece.ids[piece.end :])
        return encoder_decoder_row([*margins[0], *read, *margins[1]], [*target, *margins[1]], self.start)


@dataclass(frozen=True, slots=True)
class Holes:
    """Noise that replaces every span by one mask; the target is the whole text."""

    spans: SpanSampler
    mask: int
    start: int

    def __call__(self, piece: TextPiece, generator: Random) -> Row:
        """Return a row whose input is the text with masks."""
        turns = self.spans.draw_spans(piece, len(piece.ids), generator)
        read = chain.from_iterable([*visible, self.mask] for visible, _ in turns)
        margins = (piece.ids[: piece.first], piece.ids[piece.end :])
        return encoder_decoder_row([*margins[0], *read, *margins[1]], piece.ids, self.start)


def count_hidden(piece: TextPiece, share: float) -> int:
    """Return the number of tokens of a piece to hide, at least 1."""
    return max(1, round(share * (piece.end - piece.first)))


def random_parts(total: int, count: int, generator: Random) -> list[int]:
    """Split a total at random into `count` whole numbers, none of them 0 if possible; all splits are equally likely."""
    if total < count:
        return [total, *[0] * (count - 1)]
    cuts = sorted(generator.sample(range(1, total), count - 1))
    return [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
