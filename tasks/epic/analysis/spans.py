"""Counts, repetitions and overlaps of the aligned spans, which users of the data need to know about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from figeval.records.findings import AnalysedNumber

from ..alignment import SpanPair
from ..epic_rows import proverb_of
from .corpus import AnalysedTexts
from .part import Analysis, Column

# name → (definition, test of a pair, the text of its narrative and the text of its proverb)
OF_PAIRS: dict[str, tuple[str, Callable[[SpanPair, str, str], bool]]] = {
    "proverb spans found as written": ("case-sensitive", lambda pair, _, proverb: pair.of_proverb in proverb),
    "narrative spans found as written": ("case-sensitive", lambda pair, text, _: pair.of_narrative in text),
    "pairs not found": (
        "one side does not occur in its text, case ignored: a span of Q55 extends into the scraped tail",
        lambda pair, text, proverb: (
            pair.of_proverb.lower() not in proverb.lower() or pair.of_narrative.lower() not in text.lower()
        ),
    ),
    "ambiguous narrative spans": (
        "occur more than once in their narrative, case ignored, overlapping occurrences counted",
        lambda pair, text, _: occurrences(text.lower(), pair.of_narrative.lower()) > 1,
    ),
    "ambiguous narrative spans, case kept": (
        "occur more than once in their narrative, case-sensitive",
        lambda pair, text, _: occurrences(text, pair.of_narrative) > 1,
    ),
    "ambiguous proverb spans, case kept": (
        "occur more than once in their proverb, case-sensitive",
        lambda pair, _, proverb: occurrences(proverb, pair.of_proverb) > 1,
    ),
    "narrative spans of one word": ("split at white space", lambda pair, _, __: len(pair.of_narrative.split()) == 1),
}
# name → (definition, test of a narrative, its proverb and its pairs)
OF_NARRATIVES: dict[str, tuple[str, Callable[[str, str, Sequence[SpanPair]], bool]]] = {
    "narratives that use a proverb span twice": (
        "case ignored; a mapping keyed by proverb span would lose pairs there",
        lambda _, __, pairs: len({pair.of_proverb.lower() for pair in pairs}) < len(pairs),
    ),
    "narratives with overlapping spans": (
        "two narrative spans share a character; first occurrence, case ignored",
        lambda text, _, pairs: spans_overlap(text, pairs),
    ),
    "narratives that contain their proverb verbatim": (
        "case ignored",
        lambda text, proverb, _: proverb.lower() in text.lower(),
    ),
    "narratives with CR LF": ("a line break within the text", lambda text, _, __: "\r\n" in text),
    "narratives with double spaces": ("at least one", lambda text, _, __: "  " in text),
    "narratives with non-ASCII characters": (
        "typographic quotes, dashes, accents",
        lambda text, _, __: not text.isascii(),
    ),
}


def analyse(corpus: AnalysedTexts) -> Analysis:
    """Return counts over narratives and over pairs; none of them is in the paper."""
    narratives = [
        (text, corpus.proverbs[proverb_of(key)], corpus.spans[key]) for key, text in corpus.narratives.items()
    ]
    pairs = [(pair, text, proverb) for text, proverb, spans in narratives for pair in spans]
    pair_counts = {key: len(spans) for key, spans in corpus.spans.items()}
    lengths = [len(text.split()) for text in corpus.narratives.values()]
    per_row = Counter(pair_counts.values())
    findings = [
        *(count(f"narratives with {n} pair{'s' * (n != 1)}", per_row[n], "slots in use") for n in sorted(per_row)),
        count("pairs", len(pairs), "all slots in use"),
        *(
            count(name, sum(test(*arguments) for arguments in pairs), definition)
            for name, (definition, test) in OF_PAIRS.items()
        ),
        *(
            count(name, sum(test(*arguments) for arguments in narratives), definition)
            for name, (definition, test) in OF_NARRATIVES.items()
        ),
        count("shortest narrative", min(lengths), "words, split at white space"),
        count("longest narrative", max(lengths), "words, split at white space"),
    ]
    columns: dict[str, Column] = {
        "spans": pair_counts,
        "span_words": {
            key: sum(len(pair.of_narrative.split()) for pair in spans) for key, spans in corpus.spans.items()
        },
    }
    return Analysis(name="Spans and texts", findings=findings, narratives=columns)


def count(name: str, value: int, definition: str) -> AnalysedNumber:
    """Return a count without a published value."""
    return AnalysedNumber(name=name, value=value, definition=definition)


def occurrences(text: str, span: str) -> int:
    """Count the occurrences of a span in a text; they may overlap."""
    total, start = 0, text.find(span)
    while start >= 0:
        total, start = total + 1, text.find(span, start + 1)
    return total


def spans_overlap(text: str, pairs: Iterable[SpanPair]) -> bool:
    """Return whether two narrative spans share a character, judged by their first occurrences with case ignored."""
    starts = [(text.lower().find(pair.of_narrative.lower()), len(pair.of_narrative)) for pair in pairs]
    extents = sorted((start, start + length) for start, length in starts if start >= 0)
    return any(left[1] > right[0] for left, right in pairwise(extents))
