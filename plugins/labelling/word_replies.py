"""Parse the expressions that a language model quotes, one per line or "none", and align them with the text's words.

Each line is read like the single quotation in a reply to a spans task (`figeval.answers.quotes`) and located like it
(`figeval.answers.quotes`): verbatim, folded, or nearly. It has to match whole words. An explanation of its meaning, in
parentheses or after a dash or a colon, is not part of it. An expression that occurs several times is labelled
everywhere, because a reply cannot tell which place it means. If some quotations do not occur in the text, the answer
consists of the others, and `scores` hold the likeness of each, 0 for those, so that `quotes_found` can count them. If
none occurs, the status is `absent`; if a reply denies that there is anything and quotes something all the same, it is
`ambiguous`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from figeval.answers.folding import fold
from figeval.answers.quotes import CUTOFF, locate, quotation
from figeval.answers.reply_text import REFUSAL, answering_part, not_written, one_turn
from figeval.language.words import is_boundary, is_cluster_boundary
from figeval.prompts import PromptContext
from figeval.types import Prediction, Reply, Span, Status

from .labelling import LabellingExample, answer_of
from .tags import OUTSIDE

MAX_LINES = 100  # most lines of a reply
MAX_OCCURRENCES = 50  # of one quotation
MAX_GLOSS_CHARS = 1_000  # characters of a line in which an explanation may begin
MAX_GLOSSES = 8  # places of a line after which an explanation may begin
MAX_QUOTE_WORDS = 6  # most words of a quotation; a longer line is a sentence
NUMBER = re.compile(r"\A\s*(?:[-*•–]|\(?\d{1,2}[.):])\s+")
PARTS = re.compile(r"""\s*[,;]\s*|\s+\|\s+|(?<=["'”’»*`])\s+(?:and|und|y|e)\s+(?=["'“‘„«*`])""")
FENCE = re.compile(r"\A```\w*\s*|\s*```\s*\Z")
ASIDE = re.compile(r"\s*(?:\([^()]*\)|\[[^][]*\])")
GLOSS = re.compile(
    r"\s+(?:[-–—=]+>?|→)\s+|\s*[:=]\s|[,\s]+(?:which )?(?:means?|meaning|refers? to|i\.e\.)\s", re.IGNORECASE
)

# Ways to say that there is nothing: "none", as the prompt asks, and paraphrases. The questions are in English, the
# texts may be German, Italian or Spanish, and models answer in either language.
MAX_DENIAL_CHARS = 200  # most characters of a line that are examined
EXCEPTION = (
    r"(?:but|except|excepting|besides|beyond|other|apart|outside|"
    r"außer|sondern|aber|excepto|salvo|sino|pero|tranne|ma)"
)
WORD = (
    r"(?:none|no|nothing|nil|null|empty|n\s*/\s*a|not (?:applicable|found)|"
    r"kein(?:e[rs]?)?|nichts|ningun[oa]s?|nada|nessun[oa]?|niente)"
)
NOUN = (
    r"(?:expressions?|idioms?|metaphors?|phrases?|words?|uses?|idiomatic|metaphorical|figurative|language|"
    r"ausdr[uü]ck\w*|redewendung\w*|redensart\w*|idiome?|metaphern?|"
    r"expresi[oó]n\w*|modismos?|locuci[oó]n\w*|met[aá]foras?|palabras?|"
    r"espression[ei]|locuzion[ei]|metafor[ae]|modi|parol[ae])"
)
SUBJECT = rf"(?:(?!{EXCEPTION}\b)[\w'’-]+ ){{0,6}}?"  # "the sentence does"
NEGATION = (
    r"(?:no|(?:(?:can)?not|\w+n[’']t)(?: have| contain| use| include| see| find)?(?: any| an?)?|"
    r"kein(?:e[nrs]?)?|ningun[oa]?|ningún|nessun[oa]?|no (?:hay|contiene|existen?)|non (?:ci sono|c[’']è|contiene))"
)
REMAINDER = rf"(?:,? (?!{EXCEPTION}\b)[\w'’-]+){{0,10}}"  # words without a quotation or an exception
DENIAL_PATTERNS = (
    rf"{WORD}(?: (?:of|in|found|here|present|detected|identified|exists?|applies|apply)\b{REMAINDER})?",
    rf"{SUBJECT}{NEGATION} (?!{EXCEPTION}\b)(?:\w+ ){{0,3}}?{NOUN}{REMAINDER}",
    rf"(?:all|every|each)(?: of)?(?: the| its)? (?:words?|expressions?) (?:\w+ ){{0,5}}?literal(?:ly)?{REMAINDER}",
)
HEADING = r"(?:(?:the |my )?(?:\w+ )?(?:answers?|expressions?|idioms?|metaphors?)(?: is| are)?\s*[:=]\s*)?"
DENIAL = re.compile(rf"\W*{HEADING}\W*(?:{'|'.join(DENIAL_PATTERNS)})\W*", re.IGNORECASE)
CLAUSE = re.compile(r"(?<=\w)[\"'”’*_`)\]]*(?:[.!;:,](?=\s)|\s+[-–—]\s|\s+\()")  # the end of a clause
EXCEPTION_START = re.compile(rf"\W*{EXCEPTION}\b", re.IGNORECASE)
INTRODUCTION = re.compile(HEADING, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QuotedText:
    """The attributes that `quotation` needs: a text to quote from, and no text of the question."""

    text: str
    given: str = ""
    known: str = ""
    language: str = ""


def read_quotes(example: LabellingExample, context: PromptContext, reply: Reply) -> Prediction:
    """Return the labels of the words that a reply quotes in its first turn."""
    text = one_turn(answering_part(reply.text))
    if (silent := not_written(reply, text)) is not None:
        return Prediction(example_id=example.id, value=None, status=silent[0])
    source = QuotedText(example.text, language=example.language)
    lines = lines_of(text, source)
    if lines and (behind := nothing_in(lines[0], source)) is not None:
        return deny(example, any(stands_in(line, source) for line in (*lines[1:], behind)))
    if REFUSAL.search(text):
        return Prediction(example_id=example.id, value=None, status="refusal")
    if lines and reply.finish == "length" and not any(quotes_in(lines[-1], source)):
        del lines[-1]  # its end was cut off
    quotes = list(dict.fromkeys(quote for line in lines for quote in quotes_in(line, source)))
    if quotes:
        return align_quotes(quotes, example, context.labels)
    if any(nothing_in(line, source) is not None for line in lines):
        return deny(example, is_contradicted=False)
    return Prediction(example_id=example.id, value=None, status=without_quotes(lines, reply))


def nothing_in(line: str, source: QuotedText) -> str | None:
    """Return the rest of a line that says that there is nothing, or None if it does not, or only quotes such words."""
    behind = behind_nothing(line)
    return None if behind is None or (len(line.split()) > 1 and stands_in(line, source)) else behind


def behind_nothing(line: str) -> str | None:
    """Return the rest of a line whose first clause says that there is nothing to quote.

    It is "" if the whole line says so, and None if it does not.
    """
    if len(line) <= MAX_DENIAL_CHARS and DENIAL.fullmatch(line):
        return ""
    clause = CLAUSE.search(line, 0, MAX_DENIAL_CHARS)
    if clause is None or not DENIAL.fullmatch(line[: clause.start()]) or EXCEPTION_START.match(line, clause.end()):
        return None
    return line[clause.end() :]


def deny(example: LabellingExample, is_contradicted: bool) -> Prediction:
    """Return the answer without labels, or the status `ambiguous` if something was quoted all the same."""
    if is_contradicted:
        return Prediction(example_id=example.id, value=None, status="ambiguous")
    return Prediction(example_id=example.id, value=(OUTSIDE,) * len(example.tokens))


def without_quotes(lines: Sequence[str], reply: Reply) -> Status:
    """Return the status of a reply without quotations: short lines are words that are absent, longer ones are prose."""
    if reply.finish == "length":
        return "truncated"
    return "absent" if lines and all(len(line.split()) <= MAX_QUOTE_WORDS for line in lines) else "unparseable"


def align_quotes(quotes: Sequence[str], example: LabellingExample, labels: Sequence[str]) -> Prediction:
    """Return the labels of the words that quotations cover; the status is `absent` if none occurs in the text."""
    occurrences_by_quote = [list(find_occurrences(quote, example)) for quote in quotes]
    scores = tuple(max((likeness for _, likeness in occurrences), default=0.0) for occurrences in occurrences_by_quote)
    if not any(scores):
        return Prediction(example_id=example.id, value=None, scores=scores, status="absent")
    longest = sorted(
        {words for occurrences in occurrences_by_quote for words, _ in occurrences},
        key=lambda span: (span[0] - span[1], span[0]),
    )
    free: list[tuple[int, int]] = []
    for start, end in longest:  # the longest of overlapping quotations
        if all(end <= begin or start >= stop for begin, stop in free):
            free.append((start, end))
    return Prediction(example_id=example.id, value=answer_of(free, example, labels), scores=scores)


# ---- from a reply to quotations --------------------------------------------------------------------------------------


def lines_of(text: str, source: QuotedText) -> list[str]:
    """Return the lines that may be quotations, without numbering and without the introduction of a list.

    The strings of a JSON list, or of one in an object, count as lines.
    """
    strings = json_list(FENCE.sub("", text.strip()))
    if strings is not None:
        return strings or ["none"]
    lines = (NUMBER.sub("", line).strip() for line in text.splitlines()[:MAX_LINES])
    return [line for line in lines if line and (not line.endswith(":") or stands_in(line, source))]


def json_list(text: str) -> list[str] | None:
    """Return the strings of a JSON list, or of the only list in an object; None for anything else."""
    try:
        value = json.loads(text) if text[:1] in ("[", "{") else None
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = (
            next((member for member in value.values() if isinstance(member, list)), None) if len(value) == 1 else None
        )
    if not isinstance(value, list) or not all(isinstance(string, str) for string in value):
        return None
    return [string for string in value[:MAX_LINES] if string.strip()]


def quotes_in(line: str, source: QuotedText) -> Iterator[str]:
    """Yield the quotations of a line: all of it, one in quotation marks, or several separated by commas.

    A line without quotation marks that resembles no part of the text is prose.
    """
    if stands_in(line, source):
        yield line
        return
    line = ASIDE.sub(lambda aside: aside[0] if stands_in(aside[0], source) else "", line)
    line = INTRODUCTION.sub("", line, count=1) or line
    if quote := before_gloss(line, source):
        yield quote
        return
    parts = [part for part in PARTS.split(line) if part]
    for part in parts if len(parts) > 1 and any(one_quote(part, source) for part in parts) else [line]:
        quote = before_gloss(part, source) or one_quote(part, source)
        if quote:
            yield quote


def before_gloss(part: str, source: QuotedText) -> str:
    """Return the longest beginning of a line that occurs in the text before an explanation, or "" if there is none."""
    heads = (part, *(part[: gloss.start()] for gloss in islice(GLOSS.finditer(part[:MAX_GLOSS_CHARS]), MAX_GLOSSES)))
    return max((head for head in heads if stands_in(head, source)), key=len, default="")


def one_quote(part: str, source: QuotedText) -> str:
    """Return the quotation in a part of a line, or "" if there is none."""
    quoted_part = quotation(Reply(text=part), source)
    if quoted_part.status == "ok" and quoted_part.quote:
        return quoted_part.quote
    return part if locate(part, source.text, source.language).span is not None else ""


# ---- from a quotation to words ---------------------------------------------------------------------------------------


def stands_in(quote: str, source: QuotedText) -> bool:
    """Return whether a quotation occurs in a text as whole words, ignoring case, blanks and punctuation."""
    match = locate(quote, source.text, source.language)
    return match.span is not None and match.kind != "near" and is_whole(match.span, source.text)


def is_whole(span: Span, text: str) -> bool:
    """Return whether a stretch begins and ends at word boundaries.

    The last of several words may be longer: "kick the bucket" occurs in "kick the buckets", but "bucket" does not occur
    in "buckets", nor "he art" in "the art".
    """
    if not is_boundary(text, span.start) or not is_cluster_boundary(text, span.end):
        return False
    return is_boundary(text, span.end) or len(text[span.start : span.end].split()) > 1


def find_occurrences(quote: str, example: LabellingExample) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield ((start, end), likeness) of all places where a quotation occurs, in words.

    Later places are those of the words found at the first one. A place with partly quoted words counts if the quotation
    makes up most of it.
    """
    text, offset, words, likeness = example.text, 0, quote, 0.0
    ends = list(accumulate((len(word) + 1 for word in example.tokens), initial=0))
    for number in range(MAX_OCCURRENCES):
        match = locate(words, text[offset:], example.language)
        if match.span is None or (number and match.kind == "near"):
            return
        span = Span(match.span.start + offset, match.span.end + offset)
        passage = text[span.start : span.end]
        if not number:
            words, likeness = passage, match.likeness
        start, end = bisect_right(ends, span.start) - 1, bisect_left(ends, span.end)
        is_same = fold(passage, example.language).text.split() == fold(words, example.language).text.split()
        if is_same and is_whole(span, text) and span.end - span.start >= CUTOFF * (ends[end] - 1 - ends[start]):
            yield (start, end), likeness
        offset = ends[end]
        if offset >= len(text):
            return
