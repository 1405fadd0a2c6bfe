"""Language tools of the analysis: the paper's two tokenizers, sentence splitting, stemming and sentiment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def blank_split(text: str) -> list[str]:
    """Return the tokens of Table 2: the lower-cased text split at white space, punctuation kept."""
    return text.lower().split()


def alphabetic(text: str) -> list[str]:
    """Return the tokens of Table 3: NLTK's `word_tokenize` on the lower-cased text, alphabetic tokens only."""
    import nltk

    return [token for token in nltk.word_tokenize(text.lower()) if token.isalpha()]


def sentences(text: str) -> list[str]:
    """Split a text into sentences with Punkt."""
    import nltk

    sentence_texts: list[str] = nltk.sent_tokenize(text)
    return sentence_texts


def words(text: str) -> list[str]:
    """Return the words as a reader counts them: runs of letters, with apostrophes inside."""
    return WORD.findall(text)


def content_stems(texts: Iterable[str]) -> list[frozenset[str]]:
    """Return, for each text, the Porter stems of its alphabetic tokens other than stop words."""
    from nltk.corpus import stopwords
    from nltk.stem import PorterStemmer

    stop, stem = frozenset(stopwords.words("english")), PorterStemmer().stem
    return [frozenset(stem(token) for token in alphabetic(text) if token not in stop) for text in texts]


def sentiment() -> Any:
    """Return a VADER analyser (Hutto and Gilbert 2014) with NLTK's lexicon."""
    from nltk.sentiment.vader import SentimentIntensityAnalyzer

    return SentimentIntensityAnalyzer()
