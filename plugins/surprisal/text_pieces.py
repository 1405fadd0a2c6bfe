"""Division of a text into pieces: its words, and the signs between them.

Words are those of the project (`figeval.language.words`), or those that a study names. The text between two words is
divided at white space, so every character but white space belongs to one piece, and the pieces of a text together have
all of its probability.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from figeval.language.words import find_words, is_unspaced

_SIGNS = re.compile(r"\S+")


class Piece(NamedTuple):
    """A word, or signs between words: `text[start:end]`, without white space."""

    start: int
    end: int
    is_word: bool


def words_of(text: str, language: str = "", segmenter: str = "") -> tuple[str, ...]:
    """Return the words of a text as they are written."""
    return tuple(text[word.start : word.end] for word in find_words(text, language, segmenter))


def locate_words(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Return begin and end of each word, in order.

    Raises:
        ValueError: a word is blank, or does not follow the words before it.
    """
    spans: list[tuple[int, int]] = []
    end = 0
    for number, word in enumerate(words, start=1):
        start = text.find(word, end) if word.strip() else -1
        if start < 0:
            problem = "does not occur in the text after the words before it" if word.strip() else "is blank"
            raise ValueError(f"word {number} ({word!r:.80}) {problem}")
        end = start + len(word)
        spans.append((start, end))
    return spans


def divide(text: str, words: Sequence[str]) -> list[Piece]:
    """Return the pieces of a text with these words. Raises `ValueError` as `locate_words` does."""
    pieces: list[Piece] = []
    done = 0
    for start, end in locate_words(text, words):
        pieces += _signs(text, done, start)
        pieces.append(Piece(start, end, is_word=True))
        done = end
    return [*pieces, *_signs(text, done, len(text))]


def _signs(text: str, start: int, end: int) -> Iterator[Piece]:
    for match in _SIGNS.finditer(text, start, end):
        yield Piece(*match.span(), is_word=False)


def split_context(context: str | None, text: str) -> tuple[str, str]:
    """Return a context without blanks at its end, and the blanks between it and the text.

    One is put between the two, unless white space is there or the script has none.
    """
    if not context:
        return "", ""
    body = context.rstrip(" ")
    if body == context and not body[-1].isspace() and not text[:1].isspace() and not is_unspaced(text):
        return body, " "
    return body, context[len(body) :]
