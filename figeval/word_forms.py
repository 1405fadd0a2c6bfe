"""English words in the form of others: lemmas, inflection, articles, capitals, and the WordNet that NLTK finds.

lemminflect has the forms; it is imported on first use, and so is NLTK.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from figeval.errors import DataError

WORD = re.compile(r"[A-Za-z]+(?:['\u2019-][A-Za-z]+)*")
ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
UNIVERSAL = {"n": "NOUN", "v": "VERB", "a": "ADJ", "r": "ADV"}  # parts of speech of WordNet, and those of lemminflect
PARTS = {"NN": "n", "VB": "v", "JJ": "a", "RB": "r"}  # how Penn tags begin → parts of speech of WordNet
SOUNDS_LIKE_YOU_OR_WON = r"eu|one\b|once|u(?:ni(?:[tv]|on|que|form|son|fy|fi|late)|s[aeu]|ti|to)"
VOWEL_SOUND = re.compile(rf"(?!{SOUNDS_LIKE_YOU_OR_WON})[aeiou]|hon(?:est|ou?r)|hour|heir", re.IGNORECASE)


@cache
def open_lemminflect() -> ModuleType:
    """Return the module.

    Raises:
        DataError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # imports that newer versions of Python deprecate
            return import_module("lemminflect")
    except ImportError as error:
        raise DataError("lemminflect is not installed; run pip install lemminflect") from error


@cache
def open_wordnet() -> Any:
    """Return the WordNet that NLTK finds.

    Raises:
        DataError: NLTK finds none.
    """
    from nltk.corpus import wordnet

    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise DataError(
            "NLTK finds no WordNet; run `python -m nltk.downloader wordnet`, or set NLTK_DATA to a folder that holds it"
        ) from error
    return wordnet


def indefinite_article(word: str) -> str:
    """Return "an" or "a", by how the word behind it sounds."""
    return "an" if VOWEL_SOUND.match(word) else "a"


def after_article(text: str, start: int, word: str) -> tuple[int, str]:
    """Return where a word has to be written in a text instead of `start`, and what is written there.

    These are `start` and `word`, unless "a" or "an" stands before it and has to change: it is then taken in, with its
    capital and the blanks behind it.
    """
    article = ARTICLE.search(text, 0, start)
    right = indefinite_article(word)
    if article is None or article.group(1).lower() == right:
        return start, word
    right = right.capitalize() if article.group(1)[0].isupper() else right
    return article.start(), f"{right}{article.group(2)}{word}"


def with_capitals(word: str, model: str) -> str:
    """Return a word with the capitals of another one: all of them, the first one, or none added."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if model[0].isupper() else word


def inflected_alike(other: str, word: str, lemma: str, pos: str) -> str:
    """Return another lemma in the form in which `word` is of `lemma`; `pos` is a part of speech of WordNet."""
    if word == lemma:
        return other
    lemminflect = open_lemminflect()
    forms = lemminflect.getAllInflections(lemma, upos=UNIVERSAL[pos])
    tags = [tag for tag, spellings in forms.items() if word in spellings]
    found = lemminflect.getInflection(other, tags[0]) if tags else ()
    return str(found[0]) if found else other


def inflected(lemma: str, tag: str, *, listed: bool = False) -> tuple[str, ...]:
    """Return the spellings of a lemma in the form of a Penn tag, the commonest first.

    Args:
        lemma: in small letters.
        tag: such as `VBD` or `NNS`.
        listed: whether only forms count that lemminflect's dictionary has; others follow its rules.
    """
    found: tuple[str, ...] = open_lemminflect().getInflection(lemma, tag, inflect_oov=not listed)
    return found


def single_words(lemmas: Iterable[str], tag: str) -> set[str]:
    """Return those lemmas that are single words in small letters, in the form of a Penn tag.

    Only forms of lemminflect's dictionary are taken: others are hardly in use.
    """
    found = (inflected(lemma, tag, listed=True) for lemma in lemmas if WORD.fullmatch(lemma) and lemma.islower())
    return {spelled[0] for spelled in found if spelled}
