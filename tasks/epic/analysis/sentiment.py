"""Sentiment of proverbs and of their narratives according to VADER (Hutto and Gilbert 2014)."""

from __future__ import annotations

from figeval.records.findings import AnalysedNumber

from ..correlation import correlation
from .corpus import AnalysedTexts
from .language import sentiment
from .part import Analysis, mean

MIN_COMPOUND = 0.05  # VADER's own threshold: compound ≥ 0.05 is positive, ≤ −0.05 negative
MIN_NARRATIVES = 9  # of ten narratives


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Return the compound scores, their correlation, and counts of proverbs with narratives of nearly one sign."""
    analyser = sentiment()

    def compound(text: str) -> float:
        return float(analyser.polarity_scores(text)["compound"])

    of_narratives = {key: compound(text) for key, text in corpus.narratives.items()}
    of_proverbs = {key: compound(text) for key, text in corpus.proverbs.items()}
    grouped = {
        key: [of_narratives[narrative] for narrative in narratives] for key, narratives in corpus.by_proverb().items()
    }
    means = {key: mean(values) for key, values in grouped.items()}
    positive = {key: sum(value >= MIN_COMPOUND for value in values) for key, values in grouped.items()}
    negative = {key: sum(value <= -MIN_COMPOUND for value in values) for key, values in grouped.items()}
    r, interval = correlation([of_proverbs[key] for key in means], list(means.values()))
    findings = [
        AnalysedNumber(
            name="Pearson's r",
            value=r,
            published="0.35",
            interval=interval,
            definition="compound of a proverb against the mean of its narratives, over proverbs; Fisher's z",
        ),
        _count("positive", "23", sum(n >= MIN_NARRATIVES for n in positive.values()), "≥ 0.05"),
        _count("negative", "6", sum(n >= MIN_NARRATIVES for n in negative.values()), "≤ −0.05"),
        AnalysedNumber(
            name="proverbs with compound 0",
            value=sum(value == 0 for value in of_proverbs.values()),
            definition="none of their words is in VADER's lexicon, or the words cancel out",
        ),
    ]
    columns = {"sentiment": of_proverbs, "narratives_sentiment": means}
    counts = {"positive_narratives": positive, "negative_narratives": negative}
    return Analysis(
        name="Sentiment (VADER)",
        findings=findings,
        narratives={"sentiment": of_narratives},
        proverbs={**columns, **counts},
    )


def _count(sign: str, published: str, value: int, threshold: str) -> AnalysedNumber:
    return AnalysedNumber(
        name=f"proverbs with {MIN_NARRATIVES} or 10 {sign} narratives",
        value=value,
        published=published,
        definition=f"compound {threshold}, VADER's own threshold; a threshold of 0 gives the same counts",
    )
