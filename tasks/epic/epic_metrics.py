"""The paper's metrics that only this benchmark has: span scores as in its code, and keyword recall."""

from __future__ import annotations

from functools import cache
from statistics import fmean

from figeval import GenerationExample, Prediction
from figeval.metrics.spans import weighted_f1, weighted_mean
from figeval.metrics.texts import lowercased_answer, parts

KEYWORDS = "keywords"  # the input with the texts that should occur


# ---- spans -----------------------------------------------------------------------------------------------------------


def raw_words(text: str) -> tuple[str, ...]:
    """Split a text at white space and keep the tokens as they are, like the code of Ghosh and Srivastava (2022)."""
    return tuple(text.split())


# These compare with `answer`, which is the gold span of another row in `epic_alignment_published` (`PublishedSpans`).
published_precision = weighted_mean(raw_words, 0)
published_recall = weighted_mean(raw_words, 1)
published_f1 = weighted_f1(raw_words)


# ---- keywords --------------------------------------------------------------------------------------------------------


def keyword_recall(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of the keywords that occur in the text as substrings (code of Ghosh and Srivastava 2022).

    "art" is found in "party". The value is None if there are no keywords.
    """
    text, keywords = lowercased_answer(prediction), _keywords(example)
    return None if text is None or not keywords else fmean(keyword in text for keyword in keywords)


def keyword_recall_lemma(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of the keywords whose lemmas occur in the text as adjacent whole words.

    "went" is found in "go", but "art" is not found in "party". Lemmas are simplemma's. The value is None if there are
    no keywords.
    """
    text, keywords = lowercased_answer(prediction), _keywords(example)
    if text is None or not keywords:
        return None
    text_lemmas = f" {_lemmas(text)} "
    return fmean(f" {_lemmas(keyword)} " in text_lemmas for keyword in keywords)


def _keywords(example: GenerationExample) -> list[str]:
    """Return the keywords in lower case, or an empty list if the task has no such input."""
    keywords = example.inputs.get(KEYWORDS, ())
    return [keyword.lower() for keyword in ((keywords,) if isinstance(keywords, str) else keywords)]


def _lemmas(text: str) -> str:
    """Return the lemmas of a text separated by spaces; "didn't" has two, as in tagging."""
    return " ".join(map(_lemma, parts(text)))


@cache
def _lemma(token: str) -> str:
    from simplemma import lemmatize

    return str(lemmatize(token, lang="en")).lower()
