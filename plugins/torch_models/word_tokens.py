"""Tokens of a text, grouped by its pieces, such as its words.

A token belongs to the piece with its first character that is no white space, so a blank belongs to the piece that it
precedes. Where a token would join characters of two pieces, the text is encoded apart at the border between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from .alone import encode_alone, encode_bare

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class WordTokens:
    """The tokens of a text without special ones.

    Attributes:
        ids: ids of the tokens.
        groups: positions of the tokens of each piece; empty for one that the tokenizer drops.
        straddling: whether a token would have joined two pieces, so that they were encoded apart.
    """

    ids: list[int]
    groups: list[list[int]]
    straddling: bool


def group_tokens(tokenizer: PreTrainedTokenizerBase, context: str, text_pieces: Sequence[str]) -> WordTokens:
    """Return the tokens of a context and the pieces that follow it, with the groups of the pieces.

    Args:
        tokenizer: fast tokenizer.
        context: text before the pieces; its tokens are in no group.
        text_pieces: texts that together are the text to be encoded.
    """
    borders = [*accumulate(map(len, text_pieces), initial=len(context))]
    joint_text = context + "".join(text_pieces)
    piece = encode_bare(tokenizer, joint_text)
    ids, offsets = piece.ids, piece.offsets
    cuts = _straddled(joint_text, offsets, borders)
    if cuts:
        ids, offsets = _encode_parts(tokenizer, joint_text, cuts)
    groups: list[list[int]] = [[] for _ in text_pieces]
    for position, (begin, end) in enumerate(offsets):
        blanks = len(joint_text[begin:end]) - len(joint_text[begin:end].lstrip())
        first = begin + (blanks if blanks < end - begin else 0)
        index = bisect_right(borders, first) - 1
        if 0 <= index < len(groups):
            groups[index].append(position)
    return WordTokens(ids, groups, bool(cuts))


def _straddled(text: str, offsets: Sequence[tuple[int, int]], borders: Sequence[int]) -> list[int]:
    """Return the borders inside of a token that has more than white space on both sides."""
    cuts = set()
    for begin, end in offsets:
        inside = borders[bisect_right(borders, begin) :]
        for border in inside:
            if border >= end:
                break
            if text[begin:border].strip() and text[border:end].strip():
                cuts.add(border)
    return sorted(cuts)


def _encode_parts(
    tokenizer: PreTrainedTokenizerBase, text: str, cuts: Sequence[int]
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return ids and offsets of a text whose parts between some places are encoded apart."""
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    for begin, end in pairwise((0, *cuts, len(text))):
        piece = encode_alone(tokenizer, text[begin:end]) if begin else encode_bare(tokenizer, text[begin:end])
        ids += piece.ids
        offsets += [(begin + first, begin + last) for first, last in piece.offsets]
    return ids, offsets
