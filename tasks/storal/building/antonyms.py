"""Replacement of one word of a moral by an antonym, for the wrong option of moPref (README.md)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from figeval.data.text_files import text_lines
from figeval.errors import DataError
from figeval.language.word_forms import UNIVERSAL, WORD, after_article, inflected_alike, open_wordnet, with_capitals

from .. import extras


@dataclass(frozen=True, slots=True)
class Replacement:
    """One replacement within a moral; `start` and `end` delimit the replaced characters, half-open."""

    start: int
    end: int
    word: str

    def apply(self, moral: str) -> str:
        return f"{moral[: self.start]}{self.word}{moral[self.end :]}"


class Antonyms(Protocol):
    """A source of antonyms."""

    def replacements(self, moral: str) -> Iterator[list[Replacement]]:
        """Yield all replacements of each word that has any, word by word."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The reason why a moral has no item."""

    reason: str


NO_WORDS = Dropped("no words")
NO_ANTONYM = Dropped("no word with an antonym")


def draw_replacement(moral: str, antonyms: Antonyms, seed: str) -> Replacement | Dropped:
    """Replace one word of a moral by one of its antonyms, both drawn with the seed.

    Words of the SMART stop list (is, have, in …) are replaced only if no other word has an antonym.

    Raises:
        DataError: a package of the extra `storal` is missing.
    """
    if not any(character.isalpha() for character in moral):
        return NO_WORDS
    words = list(antonyms.replacements(moral))
    if not words:
        return NO_ANTONYM
    common = frozenset(extras.smart_stop_words())
    content = [word for word in words if moral[word[0].start : word[0].end].lower() not in common]
    generator = random.Random(seed)
    return generator.choice(generator.choice(content or words))


# ---- English ---------------------------------------------------------------------------------------------------------


class WordNetAntonyms:
    """Antonyms of any part of speech from NLTK's WordNet, inflected like the word that they replace."""

    def replacements(self, moral: str) -> Iterator[list[Replacement]]:
        """Yield all replacements of each word that has any, word by word.

        Raises:
            DataError: NLTK finds no WordNet.
        """
        for match in WORD.finditer(moral):
            words = sorted(_inflected_antonyms(match.group().lower().replace("\u2019", "'")))
            if words:
                yield [replacement(moral, match, word) for word in words]


def replacement(moral: str, match: re.Match[str], word: str) -> Replacement:
    """Return the replacement, capitalised like the word; it includes a preceding article that changes ("a", "an")."""
    start, text = after_article(moral, match.start(), with_capitals(word, match.group()))
    return Replacement(start, match.end(), text)


@cache
def _inflected_antonyms(word: str) -> frozenset[str]:
    """Return the antonyms of a lower-case word, in the same inflected form."""
    wordnet = open_wordnet()
    forms: set[str] = set()
    for pos in UNIVERSAL:
        if lemma := wordnet.morphy(word, pos):
            antonyms = {antonym.name() for entry in wordnet.lemmas(lemma, pos) for antonym in entry.antonyms()}
            forms |= {inflected_alike(antonym, word, lemma, pos) for antonym in antonyms if WORD.fullmatch(antonym)}
    return frozenset(forms - {word})


# ---- any language ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListedAntonyms:
    """Antonyms from a list, as spelled there; Chinese words are found by jieba, others by a regular expression."""

    antonyms: Mapping[str, tuple[str, ...]]
    language: str

    def replacements(self, moral: str) -> Iterator[list[Replacement]]:
        """Yield all replacements of each word that has any, word by word."""
        for start, word in self._words(moral):
            if antonyms := self.antonyms.get(word) or self.antonyms.get(word.lower()):
                yield [Replacement(start, start + len(word), with_capitals(antonym, word)) for antonym in antonyms]

    def _words(self, moral: str) -> Iterable[tuple[int, str]]:
        if self.language != "zh":
            return [(match.start(), match.group()) for match in re.finditer(r"\w+(?:['\u2019-]\w+)*", moral)]
        starts, at = [], 0
        for token in extras.segments(moral):
            starts.append((at, token))
            at += len(token)
        return starts


def read_antonyms(file: Path, language: str) -> ListedAntonyms:
    """Read a TSV file with a word and its antonym per line, both spelled as in the output.

    Raises:
        DataError: the file cannot be read, has an invalid line, or is empty.
    """
    antonyms: dict[str, list[str]] = {}
    for number, line in enumerate(text_lines(file), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
        if len(cells) != 2 or not all(cells):
            raise DataError(
                f"{file}:{number}: a line must have a word, a tab and its antonym; this one has {len(cells)} cells"
            )
        antonyms.setdefault(cells[0], []).append(cells[1])
    if not antonyms:
        raise DataError(f"{file}: is empty; write a word, a tab and its antonym on each line")
    return ListedAntonyms({word: tuple(sorted(set(alternatives))) for word, alternatives in antonyms.items()}, language)
