"""Extract the quotation that is the answer of a reply, as JSON or between quotation marks, and find it in its text."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Literal, Protocol, TypeAlias
from unicodedata import normalize

from figeval.answers.folding import bare, fold
from figeval.answers.reply_text import REFUSAL, answering_part, not_written, one_turn
from figeval.language.words import find_words, is_boundary, is_cluster_boundary
from figeval.types import Reply, Span, Status

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
    span = _find_folded(quote, text, language)
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
    return bool(quote) and (_first(quote, text) is not None or _find_folded(quote, text, language) is not None)


def _find_folded(quote: str, text: str, language: str) -> Span | None:
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


KEYS = ("quote", "span", "quotation", "answer", "text", "words", "phrase")  # the first one present counts
BRACES = 100  # opening braces that are tried, the last ones of a reply: each search for an end may scan the rest
MAX_MAPPING_CHARS = 2_000  # in Python syntax
NO_QUOTE = "no_quote"  # rule of an ok without a quotation: the reply says that there is none
_NONE = re.compile(r"(?:none|null|n/?a|not found)?\W*", re.IGNORECASE)
_ABSENT = re.compile(r"(?:(?:none|null|n/?a|not found)\W*)?", re.IGNORECASE)  # not "...", a placeholder in the prompt
_REVISED = re.compile(
    r"\b(?:wait|actually|correction|sorry|i mean|on second thoughts?|make that|rather)\b", re.IGNORECASE
)
_KEY = rf"""\b(?:{"|".join(KEYS)})["'”’]?\s*[:=]\s*"""
_CLOSED = re.compile(rf"""{_KEY}["'“‘](.{{0,2000}}?)["'”’]\s*(?=[,}}\]\n]|\Z)""", re.IGNORECASE | re.DOTALL)
_OPEN = re.compile(rf"""{_KEY}["“]([^"“”]*)\Z""", re.IGNORECASE)
_MARKS = (
    *(("“", "”"), ("„", "“"), ("„", "”"), ("«", "»"), ("‹", "›"), ("「", "」"), ("『", "』")),
    *(('"', '"'), ("`", "`"), ("*", "*")),
)
_BETWEEN = [
    re.compile(rf"{re.escape(left)}([^{re.escape(left + right)}\n]+){re.escape(right)}") for left, right in _MARKS
]
_SINGLE = re.compile(r"(?<!\w)['‘](\S(?:[^\n]{0,600}?\S)?)['’](?!\w)")
_CUE = re.compile(r"\A\W*(?:(?:final |my |the )?(?:answer|quote|span|json)(?: is)?\s*[:=]\s*)?", re.IGNORECASE)


class Quotable(Protocol):
    """An example that asks for a quotation from `text`; `given` and `known` are the question's own words.

    `language` is a BCP 47 tag, for the rules of case, or empty.
    """

    @property
    def text(self) -> str: ...
    @property
    def given(self) -> str: ...
    @property
    def known(self) -> str: ...
    @property
    def language(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Quoted:
    """The quotation of a reply if `status` is ok, and the rule that found it.

    An empty quotation means that, according to the reply, nothing in the text is right.
    """

    status: Status
    quote: str
    rule: str


def quotation(reply: Reply, example: Quotable) -> Quoted:
    """Return the verdict of the first step that has one. No reply makes this raise."""
    text = one_turn(answering_part(reply.text))
    verdicts = (step(text, reply, example) for step in STEPS)
    return next((verdict for verdict in verdicts if verdict), Quoted("unparseable", "", "nothing_found"))


def _not_written(text: str, reply: Reply, _example: Quotable) -> Quoted | None:
    outcome = not_written(reply, text)
    return outcome and Quoted(outcome[0], "", outcome[1])


def _json(text: str, _reply: Reply, _example: Quotable) -> Quoted | None:
    """Accept JSON anywhere in the reply; only the last object counts if it revises the one before it."""
    objects = list(_objects(text))
    if len(objects) > 1 and _REVISED.search(text, objects[-2].end, objects[-1].start):
        objects = objects[-1:]
    if objects and all(_nothing(item.value) for item in objects):
        return Quoted("ok", "", NO_QUOTE)
    return _only_quote((quote for item in objects for quote in _quotes(item.value)), "json") if objects else None


def _loose(text: str, reply: Reply, _example: Quotable) -> Quoted | None:
    """Accept malformed JSON: with a quotation mark inside a text, or without an end."""
    quotes = _CLOSED.findall(text)
    if quotes:
        return _only_quote(quotes, "loose_json")
    begun = _OPEN.findall(text)
    if begun and reply.finish == "length":
        return Quoted("truncated", "", "cut_off")
    return _only_quote(begun, "loose_json") if begun else None


def _accept_refusal(text: str, _reply: Reply, _example: Quotable) -> Quoted | None:
    return Quoted("refusal", "", "refusal_phrase") if REFUSAL.search(text) else None


def _cut_off(_text: str, reply: Reply, _example: Quotable) -> Quoted | None:
    return Quoted("truncated", "", "cut_off") if reply.finish == "length" else None


def _accept_quoted(text: str, _reply: Reply, example: Quotable) -> Quoted | None:
    """Accept words between quotation marks, other than the question's own; those that occur in the text come first."""
    of_question = {_inner(words, example) for words in (example.given, example.known)}
    quotes = [quote for quote in _between(text) if _inner(quote, example) not in of_question]
    standing = [quote for quote in quotes if stands(quote, example.text, example.language)]
    return _only_quote(standing or quotes, "quotation_marks") if quotes else None


_STOPS = " .,;:!?\u0964\u0965\u06d4\u060c\u061b\u061f\u3001\u3002\u104a\u104b\u17d4\u1362\u1363\u0589"


def _inner(text: str, example: Quotable) -> str:
    return fold(text, example.language).text.strip(_STOPS)


def _bare(text: str, _reply: Reply, example: Quotable) -> Quoted | None:
    """Accept a reply, or its last line, that consists of words of the text only."""
    contents = (_CUE.sub("", part).strip() for part in (text, text.strip().rpartition("\n")[2]))
    quote = next((content for content in contents if content and stands(content, example.text, example.language)), None)
    return Quoted("ok", quote, "bare") if quote else None


STEPS = (_not_written, _json, _loose, _accept_refusal, _cut_off, _accept_quoted, _bare)
"""The steps in the order in which they are tried, the most reliable first."""


def _only_quote(quotes: Iterable[str], rule: str) -> Quoted:
    """Return the only quotation among these, however often it is repeated; several different ones are ambiguous."""
    different = {fold(quote).text.strip(): quote for quote in quotes if not _NONE.fullmatch(quote.strip())}
    if len(different) > 1:
        return Quoted("ambiguous", "", rule)
    return Quoted("ok", different.popitem()[1], rule) if different else Quoted("unparseable", "", f"{rule}_empty")


def _between(text: str) -> Iterator[str]:
    """Yield the texts in quotation marks or in bold; those in apostrophes only if there are no others."""
    quotes = [quote for pattern in _BETWEEN for quote in pattern.findall(text)]
    yield from quotes or _SINGLE.findall(text)


# ---- JSON ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object within a reply, and its place."""

    start: int
    end: int
    value: dict[str, Any]


def _objects(text: str) -> Iterator[_Object]:
    """Yield every outermost object that begins at one of the last `BRACES` opening braces."""
    decoder, end = json.JSONDecoder(strict=False), 0
    for start in [match.start() for match in re.finditer("{", text)][-BRACES:]:
        if start < end:
            continue  # within the last object
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            value, end = _python(text, start)
        if value is not None:
            yield _Object(start, end, value)


def _python(text: str, start: int) -> tuple[Any, int]:
    """Return a flat mapping in Python syntax and its end, or None and the place where the search continues."""
    end = text.find("}", start, start + MAX_MAPPING_CHARS) + 1
    try:
        value = ast.literal_eval(text[start:end]) if end else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # TypeError: an unhashable key, {[]}
        value = None
    return (value, end) if isinstance(value, dict) else (None, start + 1)


def _nothing(value: dict[str, Any]) -> bool:
    """Return whether a JSON object states under the quotation's key that there is none: "", null, [] or "none"."""
    values = {str(key).lower(): inner for key, inner in value.items()}
    answers = [values[key] for key in KEYS if key in values][:1]
    return any(
        value in (None, [], {}) or (isinstance(value, str) and _ABSENT.fullmatch(value.strip())) for value in answers
    )


def _quotes(value: Any) -> Iterator[str]:
    """Yield the quotations of a JSON value: under the first known key, else in its only text, list or object."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _quotes(item)
        case dict():
            values = {str(key).lower(): inner for key, inner in value.items()}
            answers = [values[key] for key in KEYS if key in values]
            inner_values = [inner for inner in values.values() if isinstance(inner, str | dict | list)]
            yield from _quotes(answers[0] if answers else inner_values[0] if len(inner_values) == 1 else None)
