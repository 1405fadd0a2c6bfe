"""The words of texts for masked models: each is hidden and predicted from left to right, from all other words.

The tokens of a word are predicted one after the other, with the later ones hidden, since they would give it away (Kauf
and Ivanova 2023). What is left of a text that is longer than the model takes has the word in its middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from figeval.models.capabilities import Outputs

from ..torch_models.word_tokens import group_tokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..surprisal.requests import WordScores


@dataclass(frozen=True, slots=True)
class HiddenWord:
    """Ids of a text's tokens, including special ones, and the positions of a word; none if it has no token."""

    ids: tuple[int, ...]
    positions: range


@dataclass(frozen=True, slots=True)
class HiddenWords:
    """The words of a request, and whether the text lost a part, or a token would have joined two words."""

    words: list[HiddenWord]
    truncated: bool
    straddling: bool

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, request: WordScores, limit: int | None) -> HiddenWords:
        """Encode a text, and cut it around each of its words if it is longer than the model takes."""
        tokens = group_tokens(tokenizer, request.context, request.pieces)
        opening, closing = special_tokens(tokenizer)
        room = len(tokens.ids) if limit is None else limit - len(opening) - len(closing)
        words = []
        for group in tokens.groups:
            if not group or group[-1] + 1 - group[0] > room:
                words.append(HiddenWord((), range(0)))
                continue
            start = _centre(group[0], group[-1] + 1, len(tokens.ids), room)
            ids = (*opening, *tokens.ids[start : start + room], *closing)
            shift = len(opening) - start
            words.append(HiddenWord(ids, range(group[0] + shift, group[-1] + 1 + shift)))
        return cls(words, len(tokens.ids) > room, tokens.straddling)


def special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Return the ids of the tokens that the tokenizer puts before and after a text."""
    ids = list(tokenizer("a", verbose=False)["input_ids"])
    bare = list(tokenizer("a", add_special_tokens=False, verbose=False)["input_ids"])
    start = next((index for index in range(len(ids)) if ids[index : index + len(bare)] == bare), 0)
    return ids[:start], ids[start + len(bare) :]


def _centre(start: int, stop: int, size: int, room: int) -> int:
    """Return where to begin with `room` of `size` tokens, so that those from `start` to `stop` are in the middle."""
    return max(0, min(start - (room - (stop - start)) // 2, size - room))


def outputs_of(texts: Sequence[HiddenWords], logprobs: Iterator[float]) -> Outputs[list[float]]:
    """Return log P of each word, the sum over its tokens; NaN for one without a token, or longer than the model takes.

    Args:
        texts: the texts.
        logprobs: log P of each token of all words, in order.
    """
    values = [
        [math.fsum(islice(logprobs, len(word.positions))) if word.positions else math.nan for word in text.words]
        for text in texts
    ]
    truncated = frozenset(index for index, text in enumerate(texts) if text.truncated)
    return Outputs(values, truncated, frozenset(index for index, text in enumerate(texts) if text.straddling))
