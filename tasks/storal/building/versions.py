"""Two versions of a moral that differ from it in one word: in a synonym of it, and in an antonym (BUILD.md).

A model that has taken a story's value prefers the moral to the version with the antonym. The version with the synonym
is the control: it says what the moral says, so a preference against it is one of wording.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from .. import extras
from .antonyms import NO_WORDS, UNIVERSAL, WORD, Dropped, Replacement, inflected, open_wordnet, replacement

NO_BOTH = Dropped("no word with a synonym and an antonym of one sense")

Sense: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # synonyms and antonyms, in the form of the word


@dataclass(frozen=True, slots=True)
class Versions:
    """What replaces the same word of a moral in its two versions; the places differ where an article changes."""

    synonym: Replacement
    antonym: Replacement


def versions(moral: str, seed: str) -> Versions | Dropped:
    """Draw a word of an English moral that has both, and a synonym and an antonym of one of its senses.

    Words of the SMART stop list (is, have, in …) are replaced only where no other word has both.

    Raises:
        DataError: a package of the extra `storal`, or WordNet, is missing.
    """
    if not any(character.isalpha() for character in moral):
        return NO_WORDS
    words = [(match, found) for match in WORD.finditer(moral) if (found := _senses(_plain(match.group())))]
    if not words:
        return NO_BOTH
    common = frozenset(extras.smart_stop_words())
    content = [word for word in words if _plain(word[0].group()) not in common]
    generator = random.Random(seed)
    match, senses = generator.choice(content or words)
    synonym, antonym = (generator.choice(listed) for listed in generator.choice(senses))
    return Versions(replacement(moral, match, synonym), replacement(moral, match, antonym))


def _plain(word: str) -> str:
    return word.lower().replace("\u2019", "'")


@cache
def _senses(word: str) -> tuple[Sense, ...]:
    """Return the commonest sense with both for each part of speech that a lower-case word can be a form of."""
    wordnet = open_wordnet()
    lemmas = ((pos, wordnet.morphy(word, pos)) for pos in UNIVERSAL)
    found = (next(_of_lemma(word, lemma, pos), None) for pos, lemma in lemmas if lemma)
    return tuple(dict.fromkeys(sense for sense in found if sense is not None))


def _of_lemma(word: str, lemma: str, pos: str) -> Iterator[Sense]:
    """Yield the senses of a lemma that have both, the commonest first, as WordNet lists them."""
    for entry in open_wordnet().lemmas(lemma, pos):
        opposed = {antonym.name() for antonym in entry.antonyms()}
        alike = {synonym.name() for synonym in entry.synset().lemmas()} - {lemma, entry.name()} - opposed
        synonyms, antonyms = (
            {inflected(one, word, lemma, pos) for one in names if WORD.fullmatch(one) and one.islower()} - {word}
            for names in (alike, opposed)
        )
        if synonyms - antonyms and antonyms:
            yield tuple(sorted(synonyms - antonyms)), tuple(sorted(antonyms))
