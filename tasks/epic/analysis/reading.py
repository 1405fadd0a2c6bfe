"""Flesch reading ease of every narrative (Flesch 1948), with syllables counted by pyphen's hyphenation patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from figeval.errors import MissingPackage
from figeval.extras import require
from figeval.records.findings import AnalysedNumber

from .corpus import AnalysedTexts
from .language import sentences, words
from .part import Analysis, mean

FORMULA = "206.835 − 1.015 · words per sentence − 84.6 · syllables per word; sentences by Punkt"
LIES_BETWEEN = (
    "Syllable counters differ: hyphenation finds too few (it never cuts off a single letter), NLTK's sonority rule too "
    "many (a silent e counts). The paper does not name its counter."
)


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Return the reading ease with two syllable counters; the part is left out if pyphen is not installed."""
    try:
        require("pyphen")
    except MissingPackage as error:
        return Analysis(name="Reading ease", left_out=str(error))
    counter = by_hyphenation()
    split = {key: (words(text), len(sentences(text))) for key, text in corpus.narratives.items()}
    ease = {key: flesch(tokens, n, counter) for key, (tokens, n) in split.items()}
    values = [value for value in ease.values() if value is not None]
    sonority = by_sonority()
    sonority_ease = [flesch(tokens, n, sonority) for tokens, n in split.values()]
    pyphen = f"{FORMULA}; syllables by pyphen, en_US"
    findings = [
        AnalysedNumber(name="mean", value=mean(values), published="66.5", definition=pyphen, note=LIES_BETWEEN),
        AnalysedNumber(name="max", value=max(values), published="112.1", definition=pyphen),
        AnalysedNumber(name="min", value=min(values), published="-41.5", definition=pyphen, note=LIES_BETWEEN),
        AnalysedNumber(
            name="mean, sonority",
            value=mean([value for value in sonority_ease if value is not None]),
            definition=f"{FORMULA}; syllables by NLTK's SyllableTokenizer",
        ),
    ]
    return Analysis(name="Reading ease", findings=findings, narratives={"reading_ease": ease})


def flesch(tokens: Sequence[str], n_sentences: int, syllables: Callable[[str], int]) -> float | None:
    """Return the Flesch reading ease of a text, or None if it has no words."""
    if not tokens:
        return None
    return 206.835 - 1.015 * len(tokens) / n_sentences - 84.6 * sum(map(syllables, tokens)) / len(tokens)


def by_hyphenation() -> Callable[[str], int]:
    """Return a counter of syllables: possible hyphens + 1. Raises `ImportError` if pyphen is not installed."""
    from pyphen import Pyphen

    patterns = Pyphen(lang="en_US")
    return cache(lambda word: len(patterns.positions(word.lower())) + 1)


def by_sonority() -> Callable[[str], int]:
    """Return a counter of syllables: peaks of sonority (NLTK), in the letters a to z only."""
    from nltk.tokenize import SyllableTokenizer

    tokenizer = SyllableTokenizer()

    @cache
    def count(word: str) -> int:
        letters = re.sub("[^a-z]", "", word.lower())
        return len(tokenizer.tokenize(letters)) if letters else 1

    return count
