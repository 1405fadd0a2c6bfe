"""The metrics of the paper that only this benchmark has: spans as its code scores them, and recall of keywords."""

from __future__ import annotations

from functools import cache
from statistics import fmean

from figeval import GenerationExample, Prediction
from figeval.metrics.spans import weighted, weighted_f1
from figeval.metrics.texts import parts, written

KEYWORDS = "keywords"  # the input whose texts should occur


# ---- spans -----------------------------------------------------------------------------------------------------------


def raw_words(text: str) -> tuple[str, ...]:
    """Return the tokens between white space as they are, as the released code of Ghosh and Srivastava (2022) does."""
    return tuple(text.split())


# Against `answer`, which in `epic_alignment_published` is the gold span of another row (`PublishedSpans`).
published_precision = weighted(raw_words, 0)
published_recall = weighted(raw_words, 1)
published_f1 = weighted_f1(raw_words)


# ---- keywords --------------------------------------------------------------------------------------------------------


def keyword_recall(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of the keywords that stand in the text as a substring (Ghosh and Srivastava 2022, their code).

    "art" is found in "party". None without keywords.
    """
    text, wanted = written(prediction), _keywords(example)
    return None if text is None or not wanted else fmean(keyword in text for keyword in wanted)


def keyword_recall_lemma(example: GenerationExample, prediction: Prediction) -> float | None:
    """Return the share of the keywords whose lemmas stand in the text as whole words side by side.

    "went" is found in "go", "art" not in "party". Lemmas are those of simplemma. None without keywords.
    """
    text, wanted = written(prediction), _keywords(example)
    if text is None or not wanted:
        return None
    found = f" {_lemmas(text)} "
    return fmean(f" {_lemmas(keyword)} " in found for keyword in wanted)


def _keywords(example: GenerationExample) -> list[str]:
    """Return the keywords, lower-cased; none where the task has no such input."""
    given = example.inputs.get(KEYWORDS, ())
    return [keyword.lower() for keyword in ((given,) if isinstance(given, str) else given)]


def _lemmas(text: str) -> str:
    """Return the lemmas of a text with blanks between them; "didn't" has two, as for taggers."""
    return " ".join(map(_lemma, parts(text)))


@cache
def _lemma(token: str) -> str:
    from simplemma import lemmatize

    return str(lemmatize(token, lang="en")).lower()
