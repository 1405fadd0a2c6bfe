"""Search a reply for given texts, such as options or the words of labels.

Spelling does not matter (`figeval.answers.folding`), nor do blanks and punctuation between words. A text is found only
where it begins and ends at the borders of a word or, in scripts without blanks, of a grapheme cluster: "art" is not
found in "artist", पान not in पानी, and 👩 not in 👩‍👩‍👧. Arabic, Hebrew and Syriac words may be written with vowels in
one text and without them in the other, and numbers in the digits of another script.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import TypeAlias

import regex

from figeval.answers.folding import Folded, fold
from figeval.language.words import UNSPACED, find_words, is_boundary, is_unspaced, normalize

Pieces: TypeAlias = tuple[tuple[str, ...], ...]

APART = r"[^\p{L}\p{N}\p{M}]+"
"""Pattern of what stands between the words of a text."""

_CASES = "Ii\u0307\u0301"  # a language that folds this otherwise has its own rules of case
# What Korean attaches to a word: particles, and the forms of the copula.
_PARTICLE = regex.compile(
    r"(?:은|는|이|가|을|를|의|에|에서|에게|께|로|으로|와|과|랑|이랑|도|만|까지|부터|보다|처럼|라|이?라고|이?라는|이?란|이?다|"
    r"입니다|예요|이에요|에요|이?네요|이?야|임|인|이?며|이?고|이?지만|이지|이?므로|이?라서|였습니다|이었습니다|일|번)(?!\p{sc=Hangul})"
)
_HANGUL = regex.compile(r"\p{sc=Hangul}")
_INNER_APOSTROPHE = regex.compile(r"(?<=[\p{L}\p{M}])['’‘\uff07\u055a\u02bb\u02bc](?=\p{L})")
_LETTER = regex.compile(r"[\p{L}\p{N}]")
_DIGIT = regex.compile(r"\p{Nd}")
_ASCII_DIGIT = regex.compile("[0-9]")
_LETTER_WITH_MARKS = regex.compile(r"[\p{L}\p{N}](?P<marks>\p{M}*)")
# Signs of vowels, of doubled letters and of recitation, not those that make other letters of alef, waw and yeh.
_VOWELLED = (
    r"[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u0652\u0656-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    r"\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a]*+"
)
_VOWELS = regex.compile(_VOWELLED.removesuffix("*+"))
_CONSONANT = regex.compile(r"[\p{sc=Arabic}\p{sc=Hebrew}\p{sc=Syriac}]")
_SPACED_LETTER = regex.compile(rf"[[\p{{L}}\p{{N}}]--{UNSPACED}--\p{{sc=Hangul}}]", regex.V1)


@dataclass(frozen=True, slots=True)
class Mention:
    """A place where a reply mentions a text, `reply[start:end]`, and the indexes of the texts with these words."""

    start: int
    end: int
    indexes: frozenset[int]


Finder: TypeAlias = Callable[[str], list[Mention]]


def find_pieces(text: str, language: str = "") -> Pieces:
    """Return the words of a text in its plainest spelling.

    Words without anything between them, as in Chinese, form one piece. A text without words is one piece of one word.
    """
    folded = fold(text, language).text
    words = [(word.start, word.end) for word in find_words(folded)]
    if not words:
        return ((folded.strip(),),)
    pieces: list[list[str]] = []
    for (_, previous_end), (start, end) in pairwise([(-1, -1), *words]):
        first, *later_parts = folded[start:end].split("'")  # some replies leave the apostrophe out
        if start > previous_end:
            pieces.append([])
        pieces[-1].append(first)
        pieces += [[part] for part in later_parts]
    return tuple(map(tuple, pieces))


@lru_cache(maxsize=256)
def text_finder(texts: tuple[tuple[str, int], ...], language: str = "", between: str = APART) -> Finder:
    """Return a function that finds the mentions of texts in a reply, from left to right.

    Of overlapping mentions, the first counts, and the longest of those that begin at one place. In scripts without
    blanks, a longer one counts that begins within the first.

    Args:
        texts: each text and its index, which several may share.
        language: BCP 47 tag of the texts, for the rules of case. A reply may follow those of other languages too.
        between: pattern of what may stand between the words of a text.
    """
    searches = [
        (rules, [*_searches_by_words(texts, rules, between), *_searches_by_spelling(texts, rules)])
        for rules in _case_rules(language)
    ]
    looser_searches = [
        ("", list(search)) for search in (_searches_by_consonants(texts, between), _searches_by_digits(texts, between))
    ]

    def find(reply: str) -> list[Mention]:
        mentions = list(_found_by(searches, reply))
        mentions += [mention for mention in _found_by(looser_searches, reply) if not _overlaps(mention, mentions)]
        return _without_overlaps(_without_cut_words(mentions, reply), reply)

    return find


def _found_by(searches: Sequence[tuple[str, Sequence[_Search]]], reply: str) -> Iterator[Mention]:
    for rules, of_texts in searches:
        if of_texts:
            folded = fold(reply, rules)
            for search in of_texts:
                if search.beginning in folded.text:
                    yield from search.find(reply, folded)


def _overlaps(mention: Mention, mentions: Sequence[Mention]) -> bool:
    return any(mention.start < other.end and other.start < mention.end for other in mentions)


@dataclass(frozen=True, slots=True)
class _Search:
    beginning: str
    pattern: regex.Pattern[str]
    indexes_of: Callable[[str], frozenset[int]]  # of the texts that a match may be
    fits: Callable[[str, int, int], bool]

    def find(self, reply: str, folded: Folded) -> Iterator[Mention]:
        match = self.pattern.search(folded.text)
        while match:
            start, end = match.span()
            span = folded.span(start, end)
            is_whole = folded.is_edge(start) and folded.is_edge(end) and self.fits(reply, span.start, span.end)
            if is_whole and (indexes := self.indexes_of(match.group())):
                yield Mention(span.start, span.end, indexes)
            match = self.pattern.search(folded.text, end if is_whole else start + 1)


@lru_cache(maxsize=256)
def identity_finder(texts: tuple[tuple[str, int], ...], language: str = "") -> Callable[[str], frozenset[int]]:
    """Return a function that finds the indexes of the texts that a reply consists of.

    The strictest comparison that finds any counts: texts that differ in punctuation or case only are told apart if the
    reply spells one of them exactly.
    """
    tables = []
    for spell in _SPELLINGS:
        table: dict[str, frozenset[int]] = {}
        for text, index in texts:
            spelling = spell(text, language)
            table[spelling] = table.get(spelling, frozenset()) | {index}
        tables.append(table)
    lengths = [len(spelling) for table in tables for spelling in table] or [0]
    shortest, longest = min(lengths), max(lengths)

    def find(reply: str) -> frozenset[int]:
        reply = reply.strip()
        factor = 1 if reply.isascii() else MOST_CHARS_FOR_ONE
        if not reply or not shortest <= factor * len(reply) <= factor * factor * longest:
            return frozenset()
        spelt = (table.get(spell(reply, language)) for spell, table in zip(_SPELLINGS, tables, strict=True))
        return next((indexes for indexes in spelt if indexes), frozenset())

    return find


MOST_CHARS_FOR_ONE = 4  # a decomposed letter with two marks and a joiner
_SPELLINGS: tuple[Callable[[str, str], str], ...] = (
    lambda text, _: unicodedata.normalize("NFC", text.strip()),
    lambda text, language: normalize(text.strip(), language),
    lambda text, language: fold(text, language).text.strip(),
    lambda text, language: _with_ascii_digits(fold(text, language).text.strip()),
)


def _case_rules(language: str) -> tuple[str, ...]:
    return (language, "") if normalize(_CASES, language) != normalize(_CASES) else ("",)


def _group_names(texts: Sequence[tuple[str, int]], language: str) -> dict[Pieces, list[tuple[str, int]]]:
    grouped: dict[Pieces, list[tuple[str, int]]] = {}
    for text, index in texts:
        pieces = find_pieces(text, language)
        if pieces[0][0]:
            grouped.setdefault(pieces, []).append((text, index))
    return grouped


def _searches_by_words(texts: Sequence[tuple[str, int]], language: str, between: str) -> Iterator[_Search]:
    for pieces, of_words in _group_names(texts, language).items():
        pattern = between.join(" ?".join(map(regex.escape, piece)) for piece in pieces)
        beginning = pieces[0][0]
        fits = _fits_word if _LETTER.search(beginning) else _fits_symbol
        yield _Search(beginning, regex.compile(pattern), _always(index for _, index in of_words), fits)


def _searches_by_spelling(texts: Sequence[tuple[str, int]], language: str) -> Iterator[_Search]:
    """Yield searches that tell texts with the same words apart, such as C, C++ and C#."""
    for of_words in _group_names(texts, language).values():
        spellings: dict[str, set[int]] = {}
        for text, index in of_words:
            spellings.setdefault(fold(text, language).text.strip(), set()).add(index)
        if len(spellings) > 1:
            for spelling, indexes in spellings.items():
                yield _Search(spelling, regex.compile(regex.escape(spelling)), _always(indexes), _fits_word)


def _always(indexes: Iterable[int]) -> Callable[[str], frozenset[int]]:
    same = frozenset(indexes)
    return lambda _: same


def _searches_by_consonants(texts: Sequence[tuple[str, int]], between: str) -> Iterator[_Search]:
    """Yield searches for Arabic, Hebrew and Syriac texts whose signs of vowels are in the text only, or the reply only.

    A match may be each of the texts whose signs it does not contradict.
    """
    grouped: dict[Pieces, list[tuple[str, int]]] = {}
    for text, index in texts:
        if _CONSONANT.search(text):
            pieces = tuple(tuple(_VOWELS.sub("", word) for word in piece) for piece in find_pieces(text))
            grouped.setdefault(pieces, []).append((fold(text).text, index))
    for pieces, spelt in grouped.items():
        words = [[_VOWELLED.join(map(regex.escape, word)) + _VOWELLED for word in piece] for piece in pieces]
        pattern = between.join(" ?".join(piece) for piece in words)
        yield _Search(pieces[0][0][:1], regex.compile(pattern), partial(_compatible, tuple(spelt)), _fits_word)


def _searches_by_digits(texts: Sequence[tuple[str, int]], between: str) -> Iterator[_Search]:
    """Yield searches for texts with digits that a reply writes in other numerals, such as 3 for ٣, ३ or ๓."""
    grouped: dict[Pieces, set[int]] = {}
    for text, index in texts:
        if _DIGIT.search(text):
            pieces = tuple(tuple(map(_with_ascii_digits, piece)) for piece in find_pieces(text))
            grouped.setdefault(pieces, set()).add(index)
    for pieces, indexes in grouped.items():
        spelt = between.join(" ?".join(map(regex.escape, piece)) for piece in pieces)
        pattern = _ASCII_DIGIT.sub(lambda digit: rf"[\p{{Nd}}&&\p{{nv={digit[0]}}}]", spelt)
        yield _Search("", regex.compile(pattern, regex.V1), _always(indexes), _fits_word)


def _with_ascii_digits(text: str) -> str:
    spelt: str = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0], digit[0])), text)
    return spelt


def _compatible(spelt: Sequence[tuple[str, int]], match: str) -> frozenset[int]:
    """Return the indexes of texts that spell no letter with other vowels than a match does."""
    vowels = _vowels_by_letter(match)
    return frozenset(
        index
        for text, index in spelt
        if all(
            signs <= text_signs or text_signs <= signs
            for signs, text_signs in zip(vowels, _vowels_by_letter(text), strict=False)
        )
    )


def _vowels_by_letter(text: str) -> list[frozenset[str]]:
    return [frozenset(_VOWELS.findall(match["marks"])) for match in _LETTER_WITH_MARKS.finditer(text)]


def _without_cut_words(mentions: list[Mention], reply: str) -> list[Mention]:
    """Return the mentions without those that begin or end at an apostrophe within a word that is mentioned whole."""
    if len(mentions) < 2:
        return mentions
    inner = {edge for match in _INNER_APOSTROPHE.finditer(reply) for edge in match.span()}
    return [
        mention
        for mention in mentions
        if not any(
            other.start < edge < other.end
            for edge in (mention.start, mention.end)
            if edge in inner
            for other in mentions
        )
    ]


def _without_overlaps(mentions: list[Mention], reply: str) -> list[Mention]:
    mentions_apart: list[Mention] = []
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end, len(mention.indexes))):
        if not mentions_apart or mention.start >= mentions_apart[-1].end:
            mentions_apart.append(mention)
        elif _is_likelier(mention, mentions_apart[-1], reply):
            mentions_apart[-1] = mention
    return mentions_apart


def _is_likelier(later: Mention, earlier: Mention, reply: str) -> bool:
    """Return whether the later of two overlapping mentions is the longer word of a script without blanks.

    答えはいいえ has いいえ in it, and はい only by chance.
    """
    goes_further = later.end > earlier.end and later.end - later.start > earlier.end - earlier.start
    return goes_further and is_unspaced(reply[later.start : later.end])


# ---- borders --------------------------------------------------------------------------------------------------------


def _fits_word(text: str, start: int, end: int) -> bool:
    return is_boundary(text, start) and (is_boundary(text, end) or _is_before_particle(text, end))


def _is_before_particle(text: str, end: int) -> bool:
    if not _HANGUL.match(text, end):
        return False
    return bool(_PARTICLE.match(text, end)) or not _HANGUL.match(text, end - 1)


def _fits_symbol(text: str, start: int, end: int) -> bool:
    """Return whether a mention without letters is neither a part of a row of the same sign nor within a word."""
    if not (is_boundary(text, start) and is_boundary(text, end)):
        return False
    neighbours = ((text[start], text[start - 1 : start]), (text[end - 1], text[end : end + 1]))
    return all(
        sign != neighbour and (unicodedata.category(sign) == "So" or not _SPACED_LETTER.match(neighbour))
        for sign, neighbour in neighbours
    )
