"""Beginnings and outlines of stories, by the rules of the published mo2st data (README.md)."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import TypeAlias

from .. import extras

Span: TypeAlias = tuple[int, int]  # start and end in a text, half-open, in characters

MARKS = {"zh": (6, frozenset("。，！？…：")), "": (9, frozenset(".,!?:"))}  # smallest index of the token; the marks
MAX_PHRASES, MAX_WORDS = 8, 8
MAX_SHARE = 0.25  # words of the outline / words of the story
DELIMITER = re.compile(r"[.!?,;:\t\\\"()'\u2019\u2013]|\s-\s")
NOT_OF_WORDS = re.compile(r"[^a-zA-Z0-9_+/-]")
NUMBER = re.compile(r"\d+\.?\d*|\.\d+")
WORD_OR_MARKS = re.compile(r"\w+|[^\w\s]+")  # NLTK's WordPunctTokenizer
LATIN_OR_DIGIT = re.compile(r"[A-Za-z0-9]")
ENDING_TAGS = frozenset({"m", "x", "uj", "ul", "mq", "u", "f"})
CONJUNCTION = "c"
MAX_QUANTIFIERS = 3  # in a phrase that is used as a regular expression; more may take exponential time


def beginning(text: str, language: str) -> tuple[int, int]:
    """Return the offsets at which the beginning of a story ends and its rest starts.

    The beginning ends with the first punctuation mark at or after a certain token. Tokens without a letter that follow
    it (closing quotation marks, blanks, digits) belong to neither part. Without such a mark, the whole story is the
    beginning.
    """
    min_index, marks = MARKS.get(language, MARKS[""])
    end, ended = 0, -1
    for number, token in enumerate(extras.segments(text)):
        if ended < 0:
            end += len(token)
            if number >= min_index and token in marks:
                ended = end
        elif any(character.isalpha() for character in token):
            return ended, end
        else:
            end += len(token)
    return (ended, len(text)) if ended >= 0 else (len(text), len(text))


def outline(text: str, language: str, stop_words: Collection[str] | None = None) -> list[Span]:
    """Return the phrases of an outline as spans of a story, in descending order of score.

    Phrases are taken from the story without its beginning; the span is that of a phrase's first occurrence. Outlines
    show them in lower case.

    Args:
        text: the story.
        language: `zh` is segmented by jieba's parts of speech, any other language by punctuation and stop words (RAKE).
        stop_words: words that end a phrase; None means the SMART stop list, or NLTK's list for `zh`.

    Raises:
        DataError: a package of the extra `storal`, or NLTK's Chinese stop list, is missing.
    """
    end, start = beginning(text, language)
    if language == "zh":
        chinese = extras.chinese_stop_words() if stop_words is None else stop_words
        candidates, count = _chinese(text, start, frozenset(chinese)), _jieba_length
    else:
        words = extras.smart_stop_words() if stop_words is None else tuple(stop_words)
        candidates, count = _rake(text, start, words), _word_count
    phrases = _best(candidates)
    total = count(f"{text[:end]} {text[start:]}")
    while phrases and sum(map(count, phrases)) > MAX_SHARE * total:
        phrases.popitem()
    return list(phrases.values())


def _best(candidates: Iterable[tuple[str, Span, float]]) -> dict[str, Span]:
    """Return the best phrases, none of which contains another, until eight have been counted, removed ones included."""
    phrases: dict[str, Span] = {}
    count = 0
    for phrase, span, score in sorted(candidates, key=lambda entry: -entry[2]):
        if score <= 1 or count == MAX_PHRASES:
            break
        if any(_occurs_in(phrase, other) for other in phrases):
            continue
        phrases = {other: other_span for other, other_span in phrases.items() if not _occurs_in(other, phrase)}
        phrases[phrase] = span
        count += 1
    return phrases


def _occurs_in(phrase: str, other: str) -> bool:
    """Search for a phrase as a regular expression, as the published script does, or as plain text if it is invalid."""
    if sum(map(phrase.count, "*+{")) > MAX_QUANTIFIERS:
        return phrase in other
    try:
        return _pattern(phrase).search(other) is not None
    except re.error:
        return phrase in other


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # "[[" may become a nested set
        return re.compile(phrase)


def _word_count(text: str) -> int:
    return len(WORD_OR_MARKS.findall(text))


def _jieba_length(text: str) -> int:
    return sum(not token.isspace() for token in extras.segments(text))


# ---- RAKE ------------------------------------------------------------------------------------------------------------


def _rake(text: str, start: int, stop_words: tuple[str, ...]) -> list[tuple[str, Span, float]]:
    """Return all different candidates in text order, with their first span and their score."""
    frequency: Counter[str] = Counter()
    degree: Counter[str] = Counter()
    spans: dict[str, Span] = {}
    for left, right in _candidates(text, start, _stop_pattern(stop_words)):
        phrase = text[left:right].lower()
        spans.setdefault(phrase, (left, right))
        words = _words(phrase)
        for word in words:
            frequency[word] += 1
            degree[word] += len(words) - 1
    return [
        (
            phrase,
            span,
            sum((degree[word] + frequency[word]) / frequency[word] for word in _words(phrase))
            if len(phrase.split()) <= MAX_WORDS
            else 0.0,
        )
        for phrase, span in spans.items()
    ]


def _candidates(text: str, start: int, stop: re.Pattern[str]) -> Iterator[Span]:
    """Yield the spans between delimiters and stop words."""
    for left, right in _between(text, start, len(text), DELIMITER):
        left, right = _strip_span(text, left, right)
        sentence = text[left:right]  # on its own, because the stop-word pattern looks at neighbouring characters
        for inner_left, inner_right in _between(sentence, 0, len(sentence), stop):
            span = _strip_span(text, left + inner_left, left + inner_right)
            if span[0] < span[1]:
                yield span


def _between(text: str, start: int, end: int, pattern: re.Pattern[str]) -> Iterator[Span]:
    for match in pattern.finditer(text, start, end):
        yield start, match.start()
        start = match.end()
    yield start, end


def _strip_span(text: str, left: int, right: int) -> Span:
    part = text[left:right]
    left += len(part) - len(part.lstrip())
    return left, left + len(part.strip())


@cache
def _stop_pattern(stop_words: tuple[str, ...]) -> re.Pattern[str]:
    if not stop_words:
        return re.compile(r"\|")
    by_letter: dict[str, list[str]] = {}  # in the order of the list; much faster than one long alternation
    for word in stop_words:
        by_letter.setdefault(word.casefold()[:1], []).append(rf"{re.escape(word)}(?![\w-])")
    words = "|".join(f"(?:{'|'.join(alternatives)})" for alternatives in by_letter.values())
    return re.compile(rf"\b(?:{words})|\|", re.IGNORECASE)


def _words(phrase: str) -> list[str]:
    return [word for word in NOT_OF_WORDS.split(phrase) if word and not NUMBER.fullmatch(word)]


# ---- Chinese ---------------------------------------------------------------------------------------------------------


def _chinese(text: str, start: int, stop_words: frozenset[str]) -> list[tuple[str, Span, float]]:
    """Return all different candidates: runs of tokens that end at a stop word or at an excluded part of speech."""
    frequency: Counter[str] = Counter()
    lengths: Counter[str] = Counter()
    runs: dict[str, tuple[Span, list[str]]] = {}
    for in_phrase, group in groupby(_tokens(text, start, stop_words), key=lambda token: token[2]):
        if not in_phrase:
            continue
        tokens = list(group)
        words = [word for word, _, _ in tokens]
        left = tokens[0][1]
        right = tokens[-1][1] + len(words[-1])
        runs.setdefault(text[left:right].lower(), ((left, right), words))
        for word in words:
            frequency[word] += 1
            lengths[word] += len(words)
    return [
        (phrase, span, sum(lengths[word] / frequency[word] for word in words) if len(words) <= MAX_WORDS else 0.0)
        for phrase, (span, words) in runs.items()
    ]


def _tokens(text: str, start: int, stop_words: frozenset[str]) -> Iterator[tuple[str, int, bool]]:
    """Yield jieba's tokens, with their start and whether they may be part of a phrase."""
    position = start
    for word, tag in extras.tagged_segments(text[start:]):
        ends = tag in ENDING_TAGS or tag == CONJUNCTION or LATIN_OR_DIGIT.search(word) is not None
        yield word, position, not (ends or word in stop_words)
        position += len(word)
