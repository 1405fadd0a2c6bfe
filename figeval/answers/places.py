"""Search a text for a quotation: verbatim, with other case, blanks, quotation marks and dashes, or nearly."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Literal, TypeAlias
from unicodedata import normalize

from figeval.answers.folding import bare, fold
from figeval.language.words import find_words, is_boundary, is_cluster_boundary
from figeval.types import Span

Kind: TypeAlias = Literal["verbatim", "folded", "near", "nowhere"]

CUTOFF = 0.7
"""Minimum likeness of a quotation that is not verbatim (Indel ratio of folded texts).

Measured on the 3274 spans of ePiC's seen-train narratives: 99 % are found again if one word in ten is left out,
replaced or added; 96 % if one in four is, and 97 % of these at a place that overlaps theirs by more than half; and all
if word endings are clipped. Of spans of another narrative, 0.4 % are wrongly found (0.03 % at 0.75, 0.9 % at 0.65).
"""
MAX_QUOTE_CHARS = 1_000  # longer quotations are only searched literally, as a near match takes quadratic time
MAX_TEXT_CHARS = 50_000  # no near match is searched in a longer text
MAX_OCCURRENCES = 1_000  # of a quotation among which one at word boundaries is preferred
MIN_NEAR_CHARS = 8  # shorter quotations resemble any text by chance, so only a literal match counts
MAX_INEXACT_LIKENESS = 0.999  # maximum likeness of a quotation that is not verbatim
MAX_MOVED_TOKENS = 3  # tokens by which either end of a near match may be moved


@dataclass(frozen=True, slots=True)
class QuotePlace:
    """The place of a quotation, or None if it is nowhere, and its likeness to the text there: 1 if it is verbatim."""

    kind: Kind
    span: Span | None
    likeness: float


def locate(quote: str, text: str, language: str = "") -> QuotePlace:
    """Return the first place of a quotation in a text: verbatim, else folded, else the most similar run of tokens.

    A place at word boundaries is preferred, so that "he" is not found in "the". `language` is a BCP 47 tag, for the
    rules of case.
    """
    quote = quote.strip()
    start = _first(quote, text)
    if start is not None:
        return QuotePlace("verbatim", Span(start, start + len(quote)), 1.0)
    span = _folded(quote, text, language)
    if span is not None:
        from rapidfuzz.fuzz import ratio

        spelling, stretch = (normalize("NFC", spelling) for spelling in (quote, text[span.start : span.end]))
        if spelling == stretch:
            return QuotePlace("verbatim", span, 1.0)
        return QuotePlace("folded", span, min(MAX_INEXACT_LIKENESS, ratio(spelling, stretch) / 100))
    return _nearly(quote, text, language)


def stands(quote: str, text: str, language: str = "") -> bool:
    """Return whether a text contains a quotation, ignoring case, blanks and marks."""
    quote = quote.strip()
    return bool(quote) and (_first(quote, text) is not None or _folded(quote, text, language) is not None)


def _folded(quote: str, text: str, language: str) -> Span | None:
    """Return the first place of a quotation when both are folded; the marks at its ends may be missing in the text."""
    if len(quote) > 2 * len(text) + MAX_QUOTE_CHARS:
        return None  # folding makes a text shorter by its runs of blanks, hardly ever by half
    folded_text, folded_quote = fold(text, language), fold(quote, language)
    closed, wanted_closed = folded_text.without_inner_blanks(), folded_quote.without_inner_blanks()
    tries = (
        (folded_text, folded_quote.text.strip()),
        (folded_text, bare(folded_quote.text)),
        (closed, bare(wanted_closed.text)),
    )
    for folded, spelling in tries:
        start = _first(spelling, folded.text, folded.is_edge)
        if start is not None:
            return folded.span(start, start + len(spelling))
    return None


def _first(quote: str, text: str, is_edge: Callable[[int], bool] = lambda _: True) -> int | None:
    """Return the first place of a text in another, at word boundaries if possible, or None if there is no place.

    No place divides a letter from its marks, or an emoji; `is_edge` says where else a place may begin and end.
    """
    if not quote:
        return None
    starts: list[int] = []
    start = text.find(quote)
    while start >= 0 and len(starts) < MAX_OCCURRENCES:
        end = start + len(quote)
        if all(is_edge(index) and is_cluster_boundary(text, index) for index in (start, end)):
            if is_boundary(text, start) and is_boundary(text, end):
                return start
            starts.append(start)
        start = text.find(quote, start + 1)
    return starts[0] if starts else None


def _nearly(quote: str, text: str, language: str) -> QuotePlace:
    """Return the stretch of whole tokens that is most similar to a quotation, if it is similar enough."""
    from rapidfuzz.fuzz import partial_ratio_alignment, ratio

    if len(quote) > MAX_QUOTE_CHARS or len(text) > MAX_TEXT_CHARS:
        return QuotePlace("nowhere", None, 0.0)
    folded_text, folded_quote = fold(text, language), bare(fold(quote, language).text)
    tokens = _find_tokens(folded_text.text)
    rough = partial_ratio_alignment(folded_quote, folded_text.text) if len(folded_quote) >= MIN_NEAR_CHARS else None
    if rough is None or not tokens:
        return QuotePlace("nowhere", None, 0.0)
    starts = _around([start for start, _ in tokens], rough.dest_start)
    ends = _around([end for _, end in tokens], rough.dest_end)
    tried = {(a, b): ratio(folded_quote, folded_text.text[a:b]) / 100 for a, b in product(starts, ends) if a < b}
    (start, end), likeness = max(tried.items(), key=lambda stretch: stretch[1], default=((0, 0), 0.0))
    if likeness < CUTOFF:
        return QuotePlace("nowhere", None, likeness)
    return QuotePlace("near", folded_text.span(start, end), min(MAX_INEXACT_LIKENESS, likeness))


def _find_tokens(text: str) -> list[tuple[int, int]]:
    """Return the start and end of what stands between blanks, divided between words that have none, as in Chinese."""
    tokens = [token.span() for token in re.finditer(r"\S+", text)]
    cuts = [] if text.isascii() else [word.end for word, after in pairwise(find_words(text)) if word.end == after.start]
    if not cuts:
        return tokens
    edges = [[start, *(cut for cut in cuts if start < cut < end), end] for start, end in tokens]
    return [token for row in edges for token in pairwise(row)]


def _around(positions: Sequence[int], near: int) -> Sequence[int]:
    rank = bisect_left(positions, near)
    return positions[max(0, rank - MAX_MOVED_TOKENS) : rank + MAX_MOVED_TOKENS + 1]
