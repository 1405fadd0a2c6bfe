"""Read what a language model quotes, an expression per line or "none", and find the words that it quotes.

Each line is read as the one quotation of a reply to a spans task is (`figeval.answers.quotes`) and looked for as that
is (`figeval.answers.places`): verbatim, folded, or nearly. What stands in the text several times is labelled
everywhere, because a reply cannot tell which place it means. Some quotations may stand nowhere: the answer is made of
the others, and `scores` hold the likeness of each, 0 for those, so that `quotes_found` can count them. Where none
stands in the text, the status is `absent`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from figeval.answers.places import CUTOFF, locate, stands
from figeval.answers.quotes import quotation
from figeval.answers.reply_text import REFUSAL, answering_part, not_written, one_turn
from figeval.prompts import PromptContext
from figeval.types import Prediction, Reply, Span, Status

from .tags import OUTSIDE
from .task_type import LabellingExample, answer_of

LINES = 100  # of a reply, at most
PLACES = 50  # of one quotation, at most
MOST = 200  # characters of a line that says that there is nothing
SHORT = 6  # words; a line of more is a sentence
NONE = re.compile(
    r"\W*(?:(?:the )?(?:answer|expressions?|idioms?|metaphors?)(?: is| are)?\s*[:=]\s*)?\W*"
    r"(?:none|nothing|null|n/?a|"
    r"(?:there (?:is|are) )?no (?:\w+ ){0,2}(?:expressions?|idioms?|metaphors?|words?)(?: \w+){0,4})\W*",
    re.IGNORECASE,
)
NUMBER = re.compile(r"\A\s*(?:[-*•–]|\(?\d{1,2}[.):])\s+")
PARTS = re.compile(r"\s*[,;]\s*|\s+\|\s+")
FENCE = re.compile(r"\A```\w*\s*|\s*```\s*\Z")


@dataclass(frozen=True, slots=True)
class Question:
    """What `quotation` looks at: a text to quote from, and nothing of the question's own."""

    text: str
    given: str = ""
    known: str = ""


def read_quotes(example: LabellingExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the labels of the words that a reply quotes, in its first turn."""
    text = one_turn(answering_part(reply.text))
    if (silent := not_written(reply, text)) is not None:
        return Prediction(example_id=example.id, value=None, status=silent[0])
    lines = lines_of(text, example.text)
    if lines and all(len(line) <= MOST and NONE.fullmatch(line) and not stands(line, example.text) for line in lines):
        return Prediction(example_id=example.id, value=(OUTSIDE,) * len(example.tokens))
    if REFUSAL.search(text):
        return Prediction(example_id=example.id, value=None, status="refusal")
    if lines and reply.finish == "length" and not any(quotes_in(lines[-1], example.text)):
        del lines[-1]  # its end was cut off
    quotes = list(dict.fromkeys(quote for line in lines for quote in quotes_in(line, example.text)))
    if quotes:
        return aligned(quotes, example, context.labels)
    return Prediction(example_id=example.id, value=None, status=without_quotes(lines, reply))


def without_quotes(lines: Sequence[str], reply: Reply) -> Status:
    """Return the status of a reply that quotes nothing: short lines are words that stand nowhere, others are talk."""
    if reply.finish == "length":
        return "truncated"
    return "absent" if lines and all(len(line.split()) <= SHORT for line in lines) else "unparseable"


def aligned(quotes: Sequence[str], example: LabellingExample, labels: Sequence[str]) -> Prediction:
    """Return the labels of the words that quotations cover; the status is `absent` where none stands in the text."""
    found = [list(places(quote, example)) for quote in quotes]
    scores = tuple(max((likeness for _, likeness in own), default=0.0) for own in found)
    if not any(scores):
        return Prediction(example_id=example.id, value=None, scores=scores, status="absent")
    longest = sorted({words for own in found for words, _ in own}, key=lambda one: (one[0] - one[1], one[0]))
    free: list[tuple[int, int]] = []
    for start, end in longest:  # of quotations that overlap the longest
        if all(end <= other or start >= until for other, until in free):
            free.append((start, end))
    return Prediction(example_id=example.id, value=answer_of(free, example, labels), scores=scores)


# ---- from a reply to quotations --------------------------------------------------------------------------------------


def lines_of(text: str, whole: str) -> list[str]:
    """Return the lines that may be quotations: without numbering, and without what introduces a list.

    A JSON list of strings, or one in an object, has a line for each of them.
    """
    listed = json_list(FENCE.sub("", text.strip()))
    if listed is not None:
        return listed or ["none"]
    lines = (NUMBER.sub("", line).strip() for line in text.splitlines()[:LINES])
    return [line for line in lines if line and (stands(line, whole) or not line.endswith(":"))]


def json_list(text: str) -> list[str] | None:
    """Return the strings of a JSON list, or of the only list in an object; None if it is none."""
    try:
        value = json.loads(text) if text[:1] in ("[", "{") else None
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = next((one for one in value.values() if isinstance(one, list)), None) if len(value) == 1 else None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        return None
    return [one for one in value[:LINES] if one.strip()]


def quotes_in(line: str, text: str) -> Iterator[str]:
    """Yield what a line quotes: all of it, one thing in quotation marks, or several that commas part.

    A line without quotation marks that is like no part of the text is no quotation, but talk.
    """
    if stands(line, text):
        yield line
        return
    parts = [part for part in PARTS.split(line) if part]
    for part in parts if len(parts) > 1 and any(one_quote(part, text) for part in parts) else [line]:
        quote = one_quote(part, text)
        if quote:
            yield quote


def one_quote(part: str, text: str) -> str:
    """Return the quotation that a part of a line is; empty if it is none."""
    said = quotation(Reply(text=part), Question(text))
    if said.status == "ok" and said.quote:
        return said.quote
    return part if locate(part, text).span is not None else ""


# ---- from a quotation to words ---------------------------------------------------------------------------------------


def places(quote: str, example: LabellingExample) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield ((start, end), likeness) of all places where a quotation stands, in words.

    The second place and those behind it count only where the quotation stands there whole, up to case and blanks. A
    word of which only a part is quoted is covered where the quotation is most of what it covers ("kick the bucket" in
    "kick the buckets", but not "he" in "the").
    """
    text, offset = example.text, 0
    ends = list(accumulate((len(word) + 1 for word in example.tokens), initial=0))
    for number in range(PLACES):
        place = locate(quote, text[offset:])
        if place.span is None or (number and place.kind == "near"):
            return
        span = Span(place.span.start + offset, place.span.end + offset)
        start, end = bisect_right(ends, span.start) - 1, bisect_left(ends, span.end)
        covered = ends[end] - 1 - ends[start]
        is_whole = not number or text[span.start : span.end].casefold().split() == quote.casefold().split()
        if is_whole and span.end - span.start >= CUTOFF * covered:
            yield (start, end), place.likeness
        offset = ends[end]
        if offset >= len(text):
            return
