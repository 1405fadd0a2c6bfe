"""The encoding of a text that follows another one without a blank, apart from it.

A tokenizer may join the end of one text and the beginning of the next in one token, mostly in scripts without blanks.
Encoded apart, their tokens keep to their characters. Some tokenizers put a blank before the first word of a text, which
is not there; after an anchor they do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ANCHORS = ("\n", "|", ".", "\N{IDEOGRAPHIC FULL STOP}", "a")  # the first that is not joined to the text is used


@dataclass(frozen=True, slots=True)
class Piece:
    """A text in tokens, without special ones.

    Attributes:
        ids: ids of the tokens.
        offsets: begin and end of each token in characters of the text.
        words: number of the word of each token; None if it belongs to none.
    """

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int | None]


def encode_alone(tokenizer: PreTrainedTokenizerBase, text: str) -> Piece:
    """Return the tokens of a text without what precedes it, with no blank before it that is not there.

    Args:
        tokenizer: fast tokenizer.
        text: the text.
    """
    return next(_after_anchors(tokenizer, text), None) or encode_bare(tokenizer, text)


def encode_bare(tokenizer: PreTrainedTokenizerBase, text: str) -> Piece:
    """Return the tokens of a text, perhaps with a blank before its first word."""
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return Piece(list(encoded["input_ids"]), list(encoded["offset_mapping"]), encoded.word_ids())


def _after_anchors(tokenizer: PreTrainedTokenizerBase, text: str) -> Iterator[Piece]:
    """Yield the tokens of a text after each anchor whose tokens are the same without it."""
    for anchor in ANCHORS:
        head, both = encode_bare(tokenizer, anchor), encode_bare(tokenizer, anchor + text)
        n = len(head.ids)
        known = n > 0 and head.ids[-1] != tokenizer.unk_token_id  # that token may stand for more than the anchor
        if known and both.ids[:n] == head.ids and len(both.ids) > n:
            offsets = [(max(0, begin - len(anchor)), end - len(anchor)) for begin, end in both.offsets[n:]]
            yield Piece(both.ids[n:], offsets, both.words[n:])
