"""Word segmentation and stop lists from the packages of the extra `storal`, which are imported on first use."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from figeval.errors import MissingPackage
from figeval.language import nltk_data


@cache
def load(module: str) -> ModuleType:
    """Import a module of the extra. Raises `MissingPackage` if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes and imports that newer versions of Python deprecate
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise MissingPackage(module, "storal") from error


@cache
def segmenter() -> Any:
    """Return a separate jieba tokenizer, which user dictionaries do not affect."""
    jieba = load("jieba")
    jieba.setLogLevel(logging.WARNING)
    return jieba.Tokenizer()


def segments(text: str) -> Iterator[str]:
    """Yield jieba's tokens (default mode) one by one; concatenated, they give the text, including blanks."""
    tokens: Iterator[str] = segmenter().cut(text)
    return tokens


def tagged_segments(text: str) -> Iterator[tuple[str, str]]:
    """Yield jieba's tokens with their parts of speech; concatenated, they give the text."""
    for pair in _tagger().cut(text):
        yield pair.word, pair.flag


@cache
def _tagger() -> Any:
    load("jieba")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posseg = import_module("jieba.posseg")
    return posseg.POSTokenizer(segmenter())


@cache
def smart_stop_words() -> tuple[str, ...]:
    """Return the SMART stop list of the package python-rake, in its order."""
    return tuple(load("RAKE").SmartStopList())


@cache
def chinese_stop_words() -> tuple[str, ...]:
    """Return the Chinese stop list of NLTK's package `stopwords`.

    Raises:
        DataError: NLTK does not find it.
    """
    nltk_data.require(["stopwords"])
    from nltk.corpus import stopwords

    return tuple(stopwords.words("chinese"))
