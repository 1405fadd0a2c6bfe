"""Rewrites of a text with almost the same words, which a model has hardly read: swapped words, and synonyms."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import regex

from figeval.errors import DataError
from figeval.language.word_forms import open_wordnet, with_capitals
from figeval.language.words import find_words, is_unspaced

_LETTERS = r"(?:[\p{L}\p{Nl}\p{No}][\p{M}\p{Cf}]*+)++"
WORD = regex.compile(rf"{_LETTERS}(?:['\u2019-]{_LETTERS})*+")  # compounds are one word; numbers are none
LONG = 4  # letters of a word that is likely to have content
APART = 8  # words of a text for each pair of words that is swapped
PARTS = "nvar"  # WordNet's parts of speech: noun, verb, adjective, adverb
Rewrite = Callable[[str], "str | None"]


class Place(NamedTuple):
    """A word at its place in a text: `text[start:end]`."""

    start: int
    end: int


def places_of(text: str) -> list[Place]:
    """Return the places of the words of a text; in scripts without blanks, these are grapheme clusters."""
    places: list[Place] = []
    for match in WORD.finditer(text):
        start, end = match.span()
        divided = find_words(match.group()) if is_unspaced(match.group()) else ()
        places += [Place(start + word.start, start + word.end) for word in divided] or [Place(start, end)]
    return places


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written, without punctuation and numbers."""
    return [text[place.start : place.end] for place in places_of(text)]


def swapped(text: str) -> str | None:
    """Return a text with pairs of long words exchanged, one pair for every eight words; None without two such words.

    In scripts without blanks, what stands between punctuation is exchanged. Which words these are depends on the text
    alone. Capitals stay in their places.
    """
    found = list(WORD.finditer(text))
    for least in (LONG, LONG - 1):
        places = [place for place, match in enumerate(found) if len(match.group()) >= least]
        if len({found[place].group().lower() for place in places}) > 1:
            break
    else:
        return None
    words = [match.group() for match in found]
    generator = random.Random(f"contamination {text}")
    for _ in range(max(1, len(found) // APART)):
        one = generator.choice(places)
        others = [place for place in places if words[place].lower() != words[one].lower()]
        other = generator.choice(others)
        words[one], words[other] = (
            with_capitals_of(words[other], words[one]),
            with_capitals_of(words[one], words[other]),
        )
    changed = _written(text, found, words)
    return changed if changed != text else None


def with_synonyms(text: str) -> str | None:
    """Return an English text with one word in eight, at least one, replaced by a synonym; None if no word has one.

    Only words with a single part of speech in WordNet are replaced, in their base form, so that no tagger decides.
    """
    found = list(WORD.finditer(text))
    words = [match.group() for match in found]
    known = [
        (place, other) for place, word in enumerate(words) if len(word) >= LONG and (other := synonym(word.lower()))
    ]
    chosen = random.Random(f"contamination {text}").sample(known, min(len(known), max(1, len(words) // APART)))
    for place, other in chosen:
        words[place] = with_capitals_of(other, words[place])
    return _written(text, found, words) if chosen else None


@lru_cache(maxsize=1 << 14)
def synonym(word: str) -> str | None:
    """Return a synonym from the commonest sense that has one, or None. Raises `DataError` without WordNet."""
    wordnet = open_wordnet()
    parts = [part for part in PARTS if wordnet.morphy(word, part)]
    if len(parts) != 1 or wordnet.morphy(word, parts[0]) != word:
        return None
    for sense in wordnet.synsets(word, parts[0]):
        for name in sense.lemma_names():
            if name.isalpha() and name.islower() and name != word and not name.startswith(word[:LONG]):
                return str(name)
    return None


def rewrites_for(language: str) -> tuple[dict[str, Rewrite], str]:
    """Return the rewrites that can be made in a language, and a note on what is left out."""
    if language.partition("-")[0] != "en":
        return {"swap": swapped}, "no synonyms: they are English"
    try:
        open_wordnet()
    except DataError:
        return {"swap": swapped}, "no synonyms: NLTK finds no WordNet (python -m nltk.downloader wordnet)"
    return {"swap": swapped, "synonym": with_synonyms}, ""


def with_capitals_of(word: str, model: str) -> str:
    """Return a word in lower case unless it is all capitals, with the capitals of another one."""
    return with_capitals(word if len(word) > 1 and word.isupper() else word.lower(), model)


def _written(text: str, matches: list[regex.Match[str]], words: list[str]) -> str:
    """Return a text with its words replaced by others."""

    def parts() -> Iterator[str]:
        end = 0
        for match, word in zip(matches, words, strict=True):
            yield text[end : match.start()]
            yield word
            end = match.end()
        yield text[end:]

    return "".join(parts())
