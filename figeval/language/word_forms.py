"""Forms of English words: lemmas, inflection, articles, capitals, and access to the WordNet that NLTK finds.

The forms come from lemminflect, which is imported on first use, as is NLTK.
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
from figeval.extras import needed_for

WORD = re.compile(r"[A-Za-z]+(?:['\u2019-][A-Za-z]+)*")
ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
UNIVERSAL = {"n": "NOUN", "v": "VERB", "a": "ADJ", "r": "ADV"}  # WordNet's parts of speech → lemminflect's
PARTS = {"NN": "n", "VB": "v", "JJ": "a", "RB": "r"}  # prefixes of Penn tags → WordNet's parts of speech
SOUNDS_LIKE_YOU_OR_WON = r"eu|one\b|once|u(?:ni(?:[tv]|on|que|form|son|fy|fi|late)|s[aeu]|ti|to)"
VOWEL_SOUND = re.compile(rf"(?!{SOUNDS_LIKE_YOU_OR_WON})[aeiou]|hon(?:est|ou?r)|hour|heir", re.IGNORECASE)


@cache
def open_lemminflect() -> ModuleType:
    """Return the module lemminflect.

    Raises:
        MissingPackage: lemminflect is not installed.
    """
    with needed_for(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its imports are deprecated in newer versions of Python
        return import_module("lemminflect")


@cache
def open_wordnet() -> Any:
    """Return the WordNet that NLTK finds.

    Raises:
        DataError: NLTK finds no WordNet.
    """
    from nltk.corpus import LazyCorpusLoader
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class EnglishWordNet(WordNetCorpusReader):  # type: ignore[misc]
        """WordNet without the mapping of other languages' synsets, which takes longer to load than all the rest."""

        def map_wn(self, version: str = "wordnet") -> None:
            """Return no mapping."""

    wordnet: Any = LazyCorpusLoader("wordnet", EnglishWordNet, {})  # not None, which makes the reader warn
    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise DataError(
            "NLTK cannot find WordNet; run `python -m nltk.downloader wordnet`, or set NLTK_DATA to a folder "
            "that contains it"
        ) from error
    return wordnet


def indefinite_article(word: str) -> str:
    """Return "an" or "a", depending on the sound of the following word."""
    return "an" if VOWEL_SOUND.match(word) else "a"


def after_article(text: str, start: int, word: str) -> tuple[int, str]:
    """Return the start and the text of a replacement, with "a" or "an" before it corrected.

    These are `start` and `word`, unless an article before `start` must change: the replacement then includes the
    article, with its capital, and the blanks after it.
    """
    article = ARTICLE.search(text, 0, start)
    right = indefinite_article(word)
    if article is None or article.group(1).lower() == right:
        return start, word
    right = right.capitalize() if article.group(1)[0].isupper() else right
    return article.start(), f"{right}{article.group(2)}{word}"


def with_capitals(word: str, model: str) -> str:
    """Return a word with the capitalisation of another one: all capitals, a capital first letter, or no change."""
    if len(model) > 1 and model.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if model[0].isupper() else word


def inflected_alike(other: str, word: str, lemma: str, pos: str) -> str:
    """Return another lemma in the form that `word` is of `lemma`; `pos` is a WordNet part of speech."""
    if word == lemma:
        return other
    lemminflect = open_lemminflect()
    forms = lemminflect.getAllInflections(lemma, upos=UNIVERSAL[pos])
    tags = [tag for tag, spellings in forms.items() if word in spellings]
    inflections = lemminflect.getInflection(other, tags[0]) if tags else ()
    return str(inflections[0]) if inflections else other


def inflect(lemma: str, tag: str, *, listed: bool = False) -> tuple[str, ...]:
    """Return the spellings of a lemma in the form of a Penn tag, the most common first.

    Args:
        lemma: lemma in lower case.
        tag: Penn tag, e.g. `VBD` or `NNS`.
        listed: only return forms in lemminflect's dictionary; otherwise its rules are used for other lemmas.
    """
    forms: tuple[str, ...] = open_lemminflect().getInflection(lemma, tag, inflect_oov=not listed)
    return forms


def single_words(lemmas: Iterable[str], tag: str) -> set[str]:
    """Return the lemmas that are single lower-case words, in the form of a Penn tag.

    Only forms in lemminflect's dictionary are used: others are rare.
    """
    forms = (inflect(lemma, tag, listed=True) for lemma in lemmas if WORD.fullmatch(lemma) and lemma.islower())
    return {spelled[0] for spelled in forms if spelled}
