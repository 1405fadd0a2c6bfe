"""Lemmas of the content words of a text: adjectives, adverbs, nouns and verbs, without stop words.

English is tagged and lemmatised by a spaCy pipeline if one is installed, else tagged by NLTK and lemmatised by
simplemma; Chinese is tagged by jieba. The words keep the order of the text and are repeated as often as they occur
(Guan et al. 2022, their code).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from figeval.errors import DataError, TaskError
from figeval.extras import require
from figeval.language import nltk_data
from figeval.language.spacy_pipeline import VARIABLE, installed_pipeline, pipeline_folder
from figeval.language.tagging import PACKAGES, main_verbs, reader
from figeval.types import JSON

SPACY_TAGS = frozenset({"ADJ", "ADV", "NOUN", "VERB"})
PENN_TAGS = ("JJ", "RB", "NN")  # prefixes of tags; verbs come from `main_verbs`
NAMES = frozenset({"NNP", "NNPS"})  # proper nouns, which have a tag of their own in spaCy
JIEBA_TAGS = frozenset({"n", "v", "vd", "vn", "a", "ad", "an", "d"})


@dataclass(frozen=True, slots=True)
class ContentWords:
    """Finds the content words of texts in one language; `identity` changes whenever the result might change."""

    identity: JSON
    of: Callable[[Sequence[str]], list[tuple[str, ...]]]


def content_words(language: str) -> ContentWords:
    """Return the finder of content words for a language.

    Raises:
        TaskError: the language is not supported.
        MissingPackage: a library is not installed.
        DataError: its data are not installed.
    """
    if language == "zh":
        return _chinese()
    if language != "en":
        raise TaskError(f"content words are supported in en and zh, not in {language!r}; use add=neighbours")
    name = installed_pipeline()
    return _by_nltk() if name is None else _by_spacy(name)


def _by_spacy(name: str) -> ContentWords:
    meta = json.loads((pipeline_folder(name) / "meta.json").read_text(encoding="utf-8"))
    identity = {"words": "spacy", "version": version("spacy"), "pipeline": f"{meta['name']} {meta['version']}"}

    def find_words(texts: Sequence[str]) -> list[tuple[str, ...]]:
        import spacy

        try:
            nlp = spacy.load(name)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"spaCy cannot load {name!r} ({reason}); set {VARIABLE} to another one") from error
        return [
            tuple(token.lemma_.lower() for token in doc if token.pos_ in SPACY_TAGS and not token.is_stop)
            for doc in nlp.pipe(texts)
        ]

    return ContentWords(identity, find_words)


def _by_nltk() -> ContentWords:
    nltk_data.require(PACKAGES)
    versions = {package: version(package) for package in ("nltk", "simplemma", "scikit-learn")}

    def find_words(texts: Sequence[str]) -> list[tuple[str, ...]]:
        from simplemma import lemmatize
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        read = reader()

        def words(text: str) -> tuple[str, ...]:
            lemmas: list[str] = []
            for sentence in read.sentences(text):
                verbs = {verb.start for verb in main_verbs(sentence)}
                for token in sentence:
                    counts = token.start in verbs or (token.tag.startswith(PENN_TAGS) and token.tag not in NAMES)
                    if counts and token.lower[0].isalpha() and token.lower not in ENGLISH_STOP_WORDS:
                        lemmas.append(str(lemmatize(token.lower, "en")).lower())
            return tuple(lemmas)

        return [words(text) for text in texts]

    return ContentWords({"words": "nltk", **versions}, find_words)


def _chinese() -> ContentWords:
    require("jieba", "the search for content words of Chinese texts")

    def find_words(texts: Sequence[str]) -> list[tuple[str, ...]]:
        import jieba
        from jieba import posseg

        jieba.setLogLevel(logging.WARNING)
        tagger: Any = posseg.POSTokenizer(jieba.Tokenizer())  # own instance, unaffected by user dictionaries
        return [tuple(token.word for token in tagger.cut(text) if token.flag in JIEBA_TAGS) for text in texts]

    return ContentWords({"words": "jieba", "version": version("jieba")}, find_words)
