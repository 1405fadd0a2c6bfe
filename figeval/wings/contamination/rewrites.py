"""Rewrites of a text with almost the same words, which a model has hardly read: swapped words, and synonyms."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import regex

from figeval import DataError
from figeval.language.word_forms import open_wordnet, with_capitals
from figeval.language.words import find_words, is_unspaced

_LETTERS = r"(?:[\p{L}\p{Nl}\p{No}][\p{M}\p{Cf}]*+)++"
WORD = regex.compile(rf"{_LETTERS}(?:['\u2019-]{_LETTERS})*+")  # compounds are one word; numbers are none
MIN_CONTENT_LETTERS = 4  # of a word that is likely to have content
WORDS_PER_CHANGE = 8  # of a text, for each pair of words that is swapped
PARTS_OF_SPEECH = "nvar"  # of WordNet: noun, verb, adjective, adverb
Rewrite = Callable[[str], "str | None"]


class WordSpan(NamedTuple):
    """A word at its place in a text: `text[start:end]`."""

    start: int
    end: int


def spans_of_words(text: str) -> list[WordSpan]:
    """Return the spans of the words of a text; in scripts without blanks, these are grapheme clusters."""
    spans: list[WordSpan] = []
    for match in WORD.finditer(text):
        start, end = match.span()
        clusters = find_words(match.group()) if is_unspaced(match.group()) else ()
        spans += [WordSpan(start + word.start, start + word.end) for word in clusters] or [WordSpan(start, end)]
    return spans


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written, without punctuation and numbers."""
    return [text[span.start : span.end] for span in spans_of_words(text)]


def swap_words(text: str) -> str | None:
    """Return a text with pairs of long words exchanged, one pair for every eight words; None without two such words.

    In scripts without blanks, what stands between punctuation is exchanged. Which words these are depends on the text
    alone. Capitals stay in their places.
    """
    matches = list(WORD.finditer(text))
    words = [match.group() for match in matches]
    for min_letters in (MIN_CONTENT_LETTERS, MIN_CONTENT_LETTERS - 1):
        indices = [index for index, word in enumerate(words) if len(word) >= min_letters]
        if len({words[index].lower() for index in indices}) > 1:
            break
    else:
        return None
    generator = random.Random(f"contamination {text}")
    for _ in range(max(1, len(matches) // WORDS_PER_CHANGE)):
        first = generator.choice(indices)
        second = generator.choice([index for index in indices if words[index].lower() != words[first].lower()])
        words[first], words[second] = (
            _with_capitals_of(words[second], words[first]),
            _with_capitals_of(words[first], words[second]),
        )
    rewrite = _replace_words(text, matches, words)
    return rewrite if rewrite != text else None


def insert_synonyms(text: str) -> str | None:
    """Return an English text with one word in eight, at least one, replaced by a synonym; None if no word has one.

    Only words with a single part of speech in WordNet are replaced, in their base form, so that no tagger decides.
    """
    matches = list(WORD.finditer(text))
    words = [match.group() for match in matches]
    synonyms = [
        (index, synonym)
        for index, word in enumerate(words)
        if len(word) >= MIN_CONTENT_LETTERS and (synonym := find_synonym(word.lower()))
    ]
    count = min(len(synonyms), max(1, len(words) // WORDS_PER_CHANGE))
    for index, synonym in random.Random(f"contamination {text}").sample(synonyms, count):
        words[index] = _with_capitals_of(synonym, words[index])
    return _replace_words(text, matches, words) if count else None


@lru_cache(maxsize=1 << 14)
def find_synonym(word: str) -> str | None:
    """Return a synonym from the commonest sense that has one, or None. Raises `DataError` without WordNet."""
    wordnet = open_wordnet()
    parts = [part for part in PARTS_OF_SPEECH if wordnet.morphy(word, part)]
    if len(parts) != 1 or wordnet.morphy(word, parts[0]) != word:
        return None
    for sense in wordnet.synsets(word, parts[0]):
        for name in sense.lemma_names():
            if name.isalpha() and name.islower() and name != word and not name.startswith(word[:MIN_CONTENT_LETTERS]):
                return str(name)
    return None


def rewrites_for(language: str) -> tuple[dict[str, Rewrite], str]:
    """Return the rewrites that can be made in a language, and a note on what is left out."""
    if language.partition("-")[0] != "en":
        return {"swap": swap_words}, "no synonyms: they are English"
    try:
        open_wordnet()
    except DataError:
        return {"swap": swap_words}, "no synonyms: NLTK finds no WordNet (python -m nltk.downloader wordnet)"
    return {"swap": swap_words, "synonym": insert_synonyms}, ""


def _with_capitals_of(word: str, model: str) -> str:
    """Return a word in lower case unless it is all capitals, with the capitals of another one."""
    return with_capitals(word if len(word) > 1 and word.isupper() else word.lower(), model)


def _replace_words(text: str, matches: list[regex.Match[str]], words: list[str]) -> str:
    def parts() -> Iterator[str]:
        end = 0
        for match, word in zip(matches, words, strict=True):
            yield text[end : match.start()]
            yield word
            end = match.end()
        yield text[end:]

    return "".join(parts())
