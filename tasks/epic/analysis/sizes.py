"""The numbers of Table 2: the size of the corpus. Tokens are split at white space, unlike those of Table 3."""

from __future__ import annotations

from figeval.metrics.texts import ngrams
from figeval.records.findings import AnalysedNumber

from .corpus import AnalysedTexts
from .language import blank_split, sentences
from .part import Analysis, mean

TOKENS = "lower-cased text split at white space, punctuation kept"
SPANS = "mean over all spans; split at white space"
PUNKT = "mean; NLTK's Punkt"
NO_SENTENCES = (
    "Not reproduced: Punkt on the lower-cased text gives 4.265, a split after . ! ? gives 4.250; the paper's splitter "
    "is unknown."
)


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Return all numbers of Table 2."""
    tokens = {key: blank_split(text) for key, text in corpus.narratives.items()}
    split = {key: len(sentences(text)) for key, text in corpus.narratives.items()}
    pairs = [pair for spans in corpus.spans.values() for pair in spans]
    unique = {n: len({gram for narrative in tokens.values() for gram in ngrams(narrative, n)}) for n in (1, 2, 3)}
    length = mean([len(narrative) for narrative in tokens.values()])
    spans_per_narrative = mean([len(spans) for spans in corpus.spans.values()])
    of_proverb = mean([len(pair.of_proverb.split()) for pair in pairs])
    of_narrative = mean([len(pair.of_narrative.split()) for pair in pairs])
    findings = [
        finding("vocabulary", "vocabulary_size", unique[1], "16170", f"distinct tokens of all narratives; {TOKENS}"),
        finding("tokens per narrative", "avg_tokens_per_narrative", length, "64.27", f"mean; {TOKENS}"),
        finding("sentences per narrative", "avg_sentences_per_narrative", mean(list(split.values())), "4.26", PUNKT),
        finding("unique bigrams", "unique_bigrams", unique[2], "80978", f"within a narrative; {TOKENS}"),
        finding("unique trigrams", "unique_trigrams", unique[3], "133772", f"within a narrative; {TOKENS}"),
        finding(
            "aligned spans per narrative", "avg_aligned_spans", spans_per_narrative, "2.18", "mean over narratives"
        ),
        finding("words per proverb span", "avg_words_per_proverb_span", of_proverb, "2.71", SPANS),
        finding("words per narrative span", "avg_words_per_narrative_span", of_narrative, "11.57", SPANS),
    ]
    columns = {"tokens": {key: len(narrative) for key, narrative in tokens.items()}, "sentences": split}
    return Analysis(name="Table 2: size", table="epic_statistics", findings=findings, narratives=columns)


def finding(name: str, metric: str, value: float, published: str, definition: str) -> AnalysedNumber:
    """Return one number of the table; only the sentences are not the paper's."""
    note = NO_SENTENCES if definition == PUNKT else ""
    return AnalysedNumber(
        name=name, value=value, published=published, definition=definition, note=note, cell=(metric, "ePiC")
    )
