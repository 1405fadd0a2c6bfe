"""Versions of a moral in which one word is replaced by a synonym or by an antonym (README.md).

A model that has understood a story's value prefers the moral to the version with the antonym. The version with the
synonym is the control: it means the same as the moral, so a preference against it is one of wording. It is a valid
control only if it fits its sentence, so both words have the part of speech and the form that the tagger finds in the
moral.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from figeval.language.tagging import reader
from figeval.language.word_forms import PARTS, WORD, inflect, open_wordnet, single_words

from .. import extras
from .antonyms import NO_WORDS, Dropped, Replacement, replacement

NO_BOTH = Dropped("no word with a synonym and an antonym of one sense")

Sense: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]  # synonyms and antonyms, in the form of the word


@dataclass(frozen=True, slots=True)
class Versions:
    """The two replacements for the same word of a moral; their spans differ if an article changes."""

    synonym: Replacement
    antonym: Replacement


def versions(moral: str, seed: str) -> Versions | Dropped:
    """Draw a word of an English moral, and a synonym and an antonym of one of its senses.

    Words of the SMART stop list (is, have, in …) are replaced only if no other word has both.

    Raises:
        DataError: a package of the extra `storal`, WordNet, or NLTK's tagger is missing.
    """
    if not any(character.isalpha() for character in moral):
        return NO_WORDS
    tags = {(token.start, token.end): token.tag for sentence in reader().sentences(moral) for token in sentence}
    words = [
        (match, sense)
        for match in WORD.finditer(moral)
        if (sense := _sense(_plain(match.group()), tags.get(match.span(), "")))
    ]
    if not words:
        return NO_BOTH
    common = frozenset(extras.smart_stop_words())
    content = [word for word in words if _plain(word[0].group()) not in common]
    generator = random.Random(seed)
    match, sense = generator.choice(content or words)
    synonym, antonym = (generator.choice(words) for words in sense)
    return Versions(replacement(moral, match, synonym), replacement(moral, match, antonym))


def _plain(word: str) -> str:
    return word.lower().replace("\u2019", "'")


@cache
def _sense(word: str, tag: str) -> Sense | None:
    """Return the most common sense of a lower-case word, in its tag's part of speech, with synonyms and antonyms."""
    wordnet, pos = open_wordnet(), PARTS.get(tag[:2])
    lemma = wordnet.morphy(word, pos) if pos else None
    form = tag.replace("NNP", "NN")  # a capitalised noun is replaced like any other
    if lemma is None or word not in inflect(lemma, form):  # no such lemma, or the spelling contradicts the tag
        return None
    for entry in wordnet.lemmas(lemma, pos):  # the commonest sense first
        antonym_names = {antonym.name() for antonym in entry.antonyms()}
        synonym_names = {synonym.name() for synonym in entry.synset().lemmas()} - {lemma, entry.name()} - antonym_names
        synonyms, antonyms = (single_words(names, form) - {word} for names in (synonym_names, antonym_names))
        if synonyms - antonyms and antonyms:
            return tuple(sorted(synonyms - antonyms)), tuple(sorted(antonyms))
    return None
