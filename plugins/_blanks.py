"""Texts with blanks: what a masked language model is asked, and at which of its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from figeval.errors import TaskError
from figeval.types import Cloze, Continuation

Part = tuple[str, slice]  # a text, and the characters of it that are to be scored


@dataclass(frozen=True, slots=True)
class Blank:
    """Token ids with masks in them, and the positions at which words are wanted. Equal ones are computed once."""

    ids: tuple[int, ...]
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """Σ_j log P(targets[j] at blank.positions[j])."""

    blank: Blank
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A text's token ids, special ones included and cut to the model's length.

    `scored` are the positions of the tokens to be scored; token p belongs to the word of number `words[p]`.
    """

    ids: tuple[int, ...]
    words: tuple[int | None, ...]
    scored: range
    truncated: bool


def continuation_part(request: Continuation) -> Part:
    """The whole text and where the continuation lies in it; blanks at the end of the context belong to it."""
    text = request.context + request.continuation
    return text, slice(len(request.context.rstrip()), len(text))


def cloze_part(request: Cloze, word: str) -> Part:
    """The text with the word in the gap, and where the word lies in it."""
    return request.before + word + request.after, slice(len(request.before), len(request.before) + len(word))


def fit(tokenizer: Any, parts: Sequence[Part], limit: int | None) -> list[Fitted]:
    """Tokenise texts and find the tokens to be scored; what is too long loses its beginning first.

    A text is tokenised in one piece, so that a word gets its leading blank where the tokenizer wants one.

    Raises:
        TaskError: there is nothing to score, or it alone is longer than the model takes.
    """
    texts = [text for text, _ in parts]
    encoded = tokenizer(texts, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
    return [_fit_one(encoded, index, part, limit) for index, part in enumerate(parts)]


def _fit_one(encoded: Any, index: int, part: Part, limit: int | None) -> Fitted:
    text, wanted = part
    offsets, special = encoded["offset_mapping"][index], encoded["special_tokens_mask"][index]
    body = [position for position, is_special in enumerate(special) if not is_special]
    scored = [p for p in body if offsets[p][1] > wanted.start and offsets[p][0] < wanted.stop]
    if not scored:
        raise TaskError(f"no token to score in {text[wanted]!r}; is an option or a label word of the task empty?")
    first, end = body[0], body[-1] + 1
    room = None if limit is None else limit - (len(special) - (end - first))
    start, stop = window(first, end, range(scored[0], scored[-1] + 1), room)
    kept = [*range(first), *range(start, stop), *range(end, len(special))]
    ids, words = encoded["input_ids"][index], encoded.word_ids(index)
    return Fitted(
        ids=tuple(ids[position] for position in kept),
        words=tuple(words[position] for position in kept),
        scored=range(scored[0] - (start - first), scored[-1] + 1 - (start - first)),
        truncated=stop - start < end - first,
    )


def window(first: int, end: int, keep: range, room: int | None) -> tuple[int, int]:
    """The stretch of the tokens [first, end) that holds `keep` and fits `room`: cut on the left, then on the right.

    Raises:
        TaskError: `keep` itself does not fit.
    """
    if room is None or end - first <= room:
        return first, end
    if len(keep) > room:
        raise TaskError(f"an option of {len(keep)} tokens is longer than the model takes ({room}); use another model")
    start = min(keep.start, end - room)
    return start, start + room


def hide(ids: Sequence[int], hidden: Sequence[int], asked: Sequence[int], mask: int) -> Question:
    """The question for the tokens at `asked`, with all of `hidden` masked."""
    covered = list(ids)
    for position in hidden:
        covered[position] = mask
    return Question(Blank(tuple(covered), tuple(asked)), tuple(ids[position] for position in asked))


def original(fitted: Fitted, mask: int) -> Iterator[Question]:
    """One copy of the text per scored token, with that token masked (Salazar et al. 2020)."""
    for position in fitted.scored:
        yield hide(fitted.ids, [position], [position], mask)


def within_word_l2r(fitted: Fitted, mask: int) -> Iterator[Question]:
    """The same, but the word's later tokens are masked too: they would give it away (Kauf and Ivanova 2023)."""
    for position in fitted.scored:
        word = fitted.words[position]
        later = [other for other in range(position, fitted.scored.stop) if fitted.words[other] == word]
        yield hide(fitted.ids, later, [position], mask)


def gap(fitted: Fitted, mask: int) -> Question:
    """As many masks as the word has tokens, all at once, filled independently of each other."""
    return hide(fitted.ids, fitted.scored, fitted.scored, mask)


PLL = {"original": original, "within_word_l2r": within_word_l2r}
