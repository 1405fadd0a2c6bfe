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

    Tokens of a known vocabulary are preferred, which some tokenizers have only within a word.

    Args:
        tokenizer: fast tokenizer.
        text: the text.
    """
    pieces = list(_after_anchors(tokenizer, text)) or [_without_blank(tokenizer, text)]
    return next((piece for piece in pieces if tokenizer.unk_token_id not in piece.ids), pieces[0])


def _without_blank(tokenizer: PreTrainedTokenizerBase, text: str) -> Piece:
    """Return the tokens of a text, less a first one for a blank that is not there."""
    piece = encode_bare(tokenizer, text)
    has_added_blank = len(piece.ids) > 1 and not text[0].isspace() and not tokenizer.decode(piece.ids[:1]).strip()
    return Piece(piece.ids[1:], piece.offsets[1:], piece.words[1:]) if has_added_blank else piece


def encode_bare(tokenizer: PreTrainedTokenizerBase, text: str) -> Piece:
    """Return the tokens of a text, perhaps with a blank before its first word."""
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    return Piece(list(encoding["input_ids"]), list(encoding["offset_mapping"]), encoding.word_ids())


def _after_anchors(tokenizer: PreTrainedTokenizerBase, text: str) -> Iterator[Piece]:
    """Yield the tokens of a text after each anchor whose tokens are the same without it."""
    for anchor in ANCHORS:
        head, joint = encode_bare(tokenizer, anchor), encode_bare(tokenizer, anchor + text)
        n = len(head.ids)
        is_known = n > 0 and head.ids[-1] != tokenizer.unk_token_id  # that token may stand for more than the anchor
        if is_known and joint.ids[:n] == head.ids and len(joint.ids) > n:
            offsets = [(max(0, begin - len(anchor)), end - len(anchor)) for begin, end in joint.offsets[n:]]
            yield Piece(joint.ids[n:], offsets, joint.words[n:])
