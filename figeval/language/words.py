"""Divide texts of every language into words, for metrics, floors, lexical models, extractors and digests.

Words are those of Unicode Standard Annex 29 (section 4), of letters and digits only, with the tailoring that it invites
implementations to make: marks, joiners and soft hyphens belong to the letter before them (rule WB4); an apostrophe, a
middle dot, the Hebrew geresh and gershayim and the Armenian signs of tone join the letters on both sides; full stops,
commas, colons and underscores join nothing ("3.14" is two words).

In scripts that are written without blanks between words (Han, kana, Thai, Lao, Khmer, Myanmar, Javanese ...), each
grapheme cluster (section 3) is a word, unless the task names a segmenter: a library that knows the words of a language.
A text may mix scripts; the segmenter divides only the runs in its own.

Words are compared in NFC and full case folding, with the rules of the language where it has its own (i without and with
a dot), and without signs of tone, tatweel and characters that have no appearance of their own (soft hyphens, joiners,
direction marks). Thai and Lao sara am and the chillus of Malayalam are the same in one character and in parts.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple
from unicodedata import normalize as unicode_form

import regex

from figeval.errors import TaskError

NOTION = "uax29"  # in records, for `words`

# These belong to the character before them (rules WB4, GB9 and GB9a).
_ATTACHED = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}\p{GCB=Extend}\p{GCB=SpacingMark}]"
# Letters of the scripts without blanks. Line breaking (UAX 14) knows some by its classes for South East Asia (SA) and
# for scripts that break between syllables (AK, AP, AS).
_UNSPACED = (
    r"[[\p{L}\p{N}]&&[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{sc=Bopomofo}\p{sc=Yi}\p{sc=Tangut}\p{sc=Nushu}"
    rf"\p{{sc=Khitan_Small_Script}}\p{{lb=SA}}\p{{lb=AK}}\p{{lb=AP}}\p{{lb=AS}}]--{_ATTACHED}]"
)
UNSPACED = _UNSPACED  # for the patterns of other modules
_APOSTROPHE_LETTERS = "\u02bb\u02bc"  # of Uzbek oʻ, Hawaiian ʻokina, Ukrainian пʼять, which many write with ' or ’
_SPACED = rf"[[\p{{L}}\p{{N}}]--[{_APOSTROPHE_LETTERS}]--{_UNSPACED}--{_ATTACHED}]"
_LETTERS = rf"(?:{_SPACED}{_ATTACHED}*+)++"
# Of Thai and Lao sara am, if it is spelt as two characters, the second.
_SARA_AA = r"(?:(?<=\u0e4d[\u0e48-\u0e4b]?)\u0e32|(?<=\u0ecd[\u0ec8-\u0ecb]?)\u0eb2)"
SYLLABLE = rf"\X\p{{M}}*+(?:{_SARA_AA}\p{{M}}*+)?+"
"""Pattern of a grapheme cluster, with the few vowel signs that UAX 29 parts from it (Myanmar aa, Thai sara am)."""
TONE_SIGNS = "\u055b\u055c\u055e"  # of emphasis, exclamation and question, above a vowel of an Armenian word
# Between letters, as in don't, l’amour, col·lecció, צה״ל; " joins letters of Hebrew only, which typists write for ״.
_JOINT = (
    rf"(?:['’\uff07\u055a{_APOSTROPHE_LETTERS}·\u05F3\u05F4{TONE_SIGNS}]"
    r"|(?<=\p{sc=Hebrew}\p{M}*)\"(?=\p{sc=Hebrew}))"
)

# Latin, Greek and Cyrillic without marks and joiners of their own, with the common punctuation: most texts, which a
# simple pattern divides ten times faster. İ and ŉ are not among them: their folding has a mark, an apostrophe.
_PLAIN = re.compile(
    "[\x00-\xac\xae-\xb6\xb8-\u012f\u0131-\u0148\u014a-\u02ba\u02bd-\u02ff\u0370-\u0373\u0375-\u0482"
    "\u048a-\u052f\u2013-\u2026\u20ac]*+"
)
_PLAIN_LETTERS = regex.compile(r"[\p{L}\p{N}]++")
_PLAIN_WORD = regex.compile(r"[\p{L}\p{N}]++(?:['’][\p{L}\p{N}]++)*+")
_WORD = regex.compile(rf"(?P<spaced>{_LETTERS}(?:{_JOINT}{_LETTERS})*+)|(?:(?={_UNSPACED}){SYLLABLE})++", regex.V1)
_NOT_LETTERS = regex.compile(rf"[^\p{{L}}\p{{N}}\p{{M}}]+|(?<![\p{{L}}\p{{N}}\p{{M}}{_ATTACHED}])\p{{M}}+", regex.V1)
_UNSPACED_RUN = regex.compile(rf"((?:(?={_UNSPACED}){SYLLABLE})++)", regex.V1)
_JOINTS = regex.compile("['’·\u05f3\u05f4\"]")
_INVISIBLE = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
_CLUSTER = regex.compile(r"\X")
_CLUSTERS = regex.compile(SYLLABLE)
_INNER = rf"[{TONE_SIGNS}{_APOSTROPHE_LETTERS}]"  # where no word may be cut, unlike at an apostrophe
_WITHIN = regex.compile(
    rf"(?<={_SPACED}{_ATTACHED}*{_INNER}?){_SPACED}|(?<={_SPACED}{_ATTACHED}*){_INNER}(?={_SPACED})"
    rf"|(?<=[\p{{L}}\p{{N}}]{_ATTACHED}*)\p{{M}}",
    regex.V1,
)
# Vowel signs that \X parts from their letter.
_VOWEL_SIGN = regex.compile(rf"(?<=[\p{{L}}\p{{N}}]{_ATTACHED}*)\p{{M}}|{_SARA_AA}", regex.V1)
_DIVIDING_SIGNS = dict.fromkeys(map(ord, "\u0f0b\u0f0c\u1361"), " ")
_SPACES = dict.fromkeys(map(ord, "\u1361\u200b"), " ")
_SAME_SIGN = str.maketrans(f"’\uff07\u055a{_APOSTROPHE_LETTERS}״", "'''''\"", TONE_SIGNS)

# Spellings of the same text that Unicode does not make equal: letters drawn out (Arabic, N'Ko), Malayalam chillus and
# Thai and Lao sara am in parts.
TATWEEL = "\u0640\u07fa"
_TATWEEL = re.compile(f"[{TATWEEL}]+")
_CHILLUS = dict(zip("\u0d23\u0d28\u0d30\u0d32\u0d33\u0d15", "\u0d7a\u0d7b\u0d7c\u0d7d\u0d7e\u0d7f", strict=True))
_CHILLU_IN_PARTS = re.compile(f"([{''.join(_CHILLUS)}])\u0d4d\u200d")
_SARA_AM_IN_PARTS = tuple(
    (re.compile(f"([{tones}]?){nikhahit}([{tones}]?){aa}|{am}([{tones}])"), am)
    for tones, nikhahit, aa, am in (
        ("\u0e48-\u0e4b", "\u0e4d", "\u0e32", "\u0e33"),
        ("\u0ec8-\u0ecb", "\u0ecd", "\u0eb2", "\u0eb3"),
    )
)

_DOTLESS = frozenset({"tr", "az", "crh", "gag"})  # I is the capital of ı, and İ of i
_DOTLESS_CAPITAL = regex.compile(r"I(?!\P{ccc=0}*\u0307)")
_DOTTED_CAPITAL = regex.compile(r"I(?P<marks>\P{ccc=0}*?)\u0307")
_LITHUANIAN_DOT = regex.compile(r"(?<=\p{Soft_Dotted}\P{ccc=0}*)\u0307")  # i keeps its dot below an accent


class Word(NamedTuple):
    """A word in the form in which words are compared, and its place in the original text: `text[start:end]`."""

    text: str
    start: int
    end: int


# ---- words ----------------------------------------------------------------------------------------------------------


def find_words(text: str, language: str = "", segmenter: str = "") -> Iterator[Word]:
    """Yield the words of a text in order, without blanks and punctuation.

    Args:
        text: any text, which may mix scripts.
        language: BCP 47 tag, for the rules of case; empty if unknown.
        segmenter: name in `SEGMENTERS`, for scripts without blanks; empty for grapheme clusters.

    Raises:
        TaskError: the library of the segmenter is missing.
    """
    divide, text = open_segmenter(segmenter), _with_apostrophes(text, language)
    if _PLAIN.fullmatch(text):
        for match in _PLAIN_WORD.finditer(text):
            yield Word(_comparison_form(match.group(), language), *match.span())
        return
    for match in _WORD.finditer(text):
        start, end = match.span()
        if match["spaced"] is not None:
            if compared := _comparison_form(match.group(), language):  # empty if it is nothing but a tatweel
                yield Word(compared, start, end)
            continue
        for part in divide(match.group()):
            yield Word(_comparison_form(part, language), start, start + len(part))
            start += len(part)


def split_words(text: str, language: str = "", segmenter: str = "", *, joined: bool = True) -> list[str]:
    """Return the words of a text in the form in which they are compared; see `find_words`.

    Without `joined`, apostrophes and the like divide words ("don't" is two), as in scikit-learn's tokenizer.
    """
    text = _with_apostrophes(text, language)
    if _PLAIN.fullmatch(text):
        words: list[str] = (_PLAIN_WORD if joined else _PLAIN_LETTERS).findall(_comparison_form(text, language))
        return words
    word_texts = [word.text for word in find_words(text, language, segmenter)]
    return word_texts if joined else [part for word in word_texts for part in _JOINTS.split(word) if part]


def split_tokens(text: str, segmenter: str = "") -> list[str]:
    """Return what stands between white space, as it is; runs of letters of scripts without blanks are divided further.

    Punctuation stays with the letters before or after it, except beside such runs, where characters without an
    appearance, such as the zero width spaces of Khmer, are left out. The signs that divide words in Ethiopic and
    syllables in Tibetan are white space.
    """
    if _PLAIN.fullmatch(text):
        return text.split()
    tokens: list[str] = []
    divide = open_segmenter(segmenter)
    for token in text.translate(_DIVIDING_SIGNS).split():
        before, *rest = _UNSPACED_RUN.split(token)
        if not rest:
            tokens.append(before)
            continue
        parts = [before]
        for run, after in zip(rest[::2], rest[1::2], strict=True):
            parts += [*divide(run), after]
        tokens += filter(None, (_INVISIBLE.sub("", part) for part in parts))
    return tokens


def is_unspaced(word: str) -> bool:
    """Return whether a word begins with a letter of a script without blanks."""
    return _UNSPACED_RUN.match(word) is not None


def is_mostly_unspaced(text: str) -> bool:
    """Return whether most letters of a text are of scripts without blanks."""
    unspaced = sum(map(len, _UNSPACED_RUN.findall(text)))
    return unspaced > 0 and 2 * unspaced > len(letters(text))


def letters(text: str, language: str = "") -> str:
    """Return the letters and digits of a text with their marks, in the form in which words are compared.

    Texts with equal letters differ at most in blanks, punctuation, case, invisible characters or the Unicode form of
    their accents.
    """
    text_letters: str = _NOT_LETTERS.sub("", _comparison_form(text, language))
    return text_letters


def normalize(text: str, language: str = "") -> str:
    """Return a text in NFC and full case folding, with the rules of the language for i and its dot.

    It is as the Unicode Standard defines canonical caseless matching (section 3.13, D145), so ß equals ss. The parts of
    a text with two spellings are spelt alike (`unify_spelling`).
    """
    code = primary(language)
    if code not in _DOTLESS and text.isascii():
        return text.lower()
    text = unicode_form("NFD", unify_spelling(text))
    if code in _DOTLESS:
        text = _DOTTED_CAPITAL.sub(r"i\g<marks>", _DOTLESS_CAPITAL.sub("ı", text))
    elif code == "lt":
        text = _LITHUANIAN_DOT.sub("", text.casefold())
    return unicode_form("NFC", text.casefold())


def unify_spelling(text: str) -> str:
    """Return a text without tatweel, and with each Malayalam chillu and Thai or Lao sara am as one character.

    Such spellings look the same and mean the same, but no Unicode form makes them equal.
    """
    if text.isascii():
        return text
    text = _CHILLU_IN_PARTS.sub(lambda match: _CHILLUS[match[1]], _TATWEEL.sub("", text))
    for pattern, am in _SARA_AM_IN_PARTS:
        text = pattern.sub(rf"\1\2\3{am}", text)
    return text


def _with_apostrophes(text: str, language: str) -> str:
    """Return a text with ’ for ‘, at the same places.

    Many languages write an apostrophe letter so; in English it begins quotations.
    """
    return text.replace("‘", "’") if "‘" in text and primary(language) not in ("", "en") else text


def _comparison_form(text: str, language: str) -> str:
    folded = normalize(text, language)
    return folded if folded.isascii() else without_invisible(folded).translate(_SAME_SIGN)


def comparable(text: str, language: str = "") -> str:
    """Return a whole text in the form in which words are compared, with its punctuation.

    The Ethiopic word space and the zero width space, which separates words in Khmer and Thai, are blanks.
    """
    return _comparison_form(_with_apostrophes(text, language).translate(_SPACES), language)


def without_invisible(text: str) -> str:
    """Return a text without characters that have no appearance of their own, such as joiners and direction marks."""
    visible: str = text if text.isascii() else _INVISIBLE.sub("", text)
    return visible


def primary(language: str) -> str:
    """Return the language of a BCP 47 tag without script and region, e.g. zh of zh-Hant."""
    return language.partition("-")[0].lower()


# ---- places ---------------------------------------------------------------------------------------------------------


def is_cluster_boundary(text: str, index: int) -> bool:
    """Return whether a text may be cut before `text[index]` without dividing a grapheme cluster."""
    if not 0 < index < len(text):
        return True
    if text[index - 1].isascii() and text[index].isascii():
        return text[index - 1 : index + 1] != "\r\n"
    cluster = _CLUSTER.match(text, index - 1)  # ends at the next boundary, which depends on all that precedes
    return cluster is not None and cluster.end() == index and _VOWEL_SIGN.match(text, index) is None


def is_boundary(text: str, index: int) -> bool:
    """Return whether a text may be cut before `text[index]`, so that neither a cluster nor a word is divided.

    A grapheme cluster (a letter with its marks, an emoji of several characters) is never divided, a word not within a
    run of its letters and digits; it may be cut at an apostrophe, and scripts without blanks between all clusters. Both
    ends of the text are boundaries.
    """
    if not 0 < index < len(text):
        return True
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return not (before.isalnum() and after.isalnum()) and before + after != "\r\n"
    return is_cluster_boundary(text, index) and _WITHIN.match(text, index) is None


# ---- the words of a task ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """The arguments of `find_words` for the texts of one language."""

    language: str = ""
    segmenter: str = ""


@dataclass(frozen=True, slots=True)
class TaskWords:
    """Divide the texts of a task into words, for models of words, whose requests name no language.

    Attributes:
        reading: how texts are divided, if the task has one language; otherwise, how texts of no example are.
        by_text: reading of each text of an example, if the task has several languages.
    """

    reading: Reading = Reading()
    by_text: Mapping[str, Reading] = field(default_factory=dict)

    def split(self, text: str, *, joined: bool = True) -> list[str]:
        """Return the words of a text; see `split_words`."""
        reading = self.reading_of(text)
        return split_words(text, reading.language, reading.segmenter, joined=joined)

    def reading_of(self, text: str) -> Reading:
        return self.by_text.get(text, self.reading)


def notion_of(segmenters: Iterable[str]) -> str:
    """Return what a word is, for records: `uax29`, followed by the segmenters with the versions of their libraries.

    Raises:
        TaskError: the library of a segmenter is missing.
    """
    used = []
    for name in dict.fromkeys(segmenters):
        open_segmenter(name)
        used.append(f"{name} {version(SEGMENTERS[name].distribution)}")
    return " + ".join((NOTION, *used))


# ---- segmenters -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segmenter:
    """A library that divides texts of a language into words.

    Attributes:
        languages: the languages whose words it knows, as the first parts of their tags.
        scripts: regular expression of the letters that it is given, in runs.
        module: module of the library.
        distribution: name under which the library is installed.
        extra: the extra of figeval that installs it.
        start: function of the module → function of a run that returns its words, which together are the run.
    """

    languages: tuple[str, ...]
    scripts: str
    module: str
    distribution: str
    extra: str
    start: Callable[[Any], Callable[[str], Sequence[str]]]


def _start_jieba(jieba: Any) -> Callable[[str], Sequence[str]]:
    jieba.setLogLevel(logging.WARNING)
    tokenizer = jieba.Tokenizer()  # of its own, unaffected by user dictionaries
    return lambda run: tokenizer.lcut(run)


def _start_mecab(mecab: Any) -> Callable[[str], Sequence[str]]:
    tagger = mecab.Tagger(f"{import_module('ipadic').MECAB_ARGS} -Owakati")
    return lambda run: tagger.parse(run).split()


def _start_pythainlp(pythainlp: Any) -> Callable[[str], Sequence[str]]:
    return lambda run: pythainlp.word_tokenize(run, engine="newmm")


SEGMENTERS = {
    "jieba": Segmenter(("zh", "cmn", "yue"), r"\p{scx=Han}", "jieba", "jieba", "zh", _start_jieba),
    "mecab": Segmenter(
        ("ja",), r"[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}]", "MeCab", "mecab-python3", "ja", _start_mecab
    ),
    "pythainlp": Segmenter(("th",), r"\p{sc=Thai}", "pythainlp.tokenize", "pythainlp", "th", _start_pythainlp),
}


def knows(segmenter: str, language: str) -> bool:
    return primary(language) in SEGMENTERS[segmenter].languages


def check_segmenter(segmenter: str, language: str) -> None:
    """Raise `ValueError` if there is no such segmenter, or if it does not know the words of the language."""
    if segmenter not in SEGMENTERS:
        raise ValueError(f"no segmenter is called {segmenter!r:.80}; choose one of {', '.join(SEGMENTERS)}")
    if not knows(segmenter, language):
        for_these = " and ".join(SEGMENTERS[segmenter].languages)
        raise ValueError(f"the segmenter {segmenter!r} is for texts in {for_these}, not in {language}")


@cache
def open_segmenter(segmenter: str) -> Callable[[str], Sequence[str]]:
    """Return the function that divides a run of a script without blanks into words.

    Raises:
        TaskError: its library is missing.
    """
    if not segmenter:
        divide_by_cluster: Callable[[str], Sequence[str]] = _CLUSTERS.findall
        return divide_by_cluster
    chosen = SEGMENTERS[segmenter]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes and imports that newer versions of Python deprecate
            divide = chosen.start(import_module(chosen.module))
    except ImportError as error:
        raise TaskError(
            f"the segmenter {segmenter!r} needs a library that is missing ({error}): "
            f"pip install 'figeval[{chosen.extra}]'"
        ) from error
    runs = regex.compile(rf"(?P<known>(?:(?={chosen.scripts}){SYLLABLE})++)|{SYLLABLE}", regex.V1)
    return lambda text: [
        part
        for match in runs.finditer(text)
        for part in (divide(match.group()) if match["known"] else (match.group(),))
    ]
