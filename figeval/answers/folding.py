"""The plainest spelling of a text, in which replies are compared with options, labels and quotations.

Case, canonical and compatibility forms, runs of white space, quotation marks and dashes do not matter, nor do
characters without an appearance of their own, tatweel, signs of tone in Armenian words and whether a Malayalam chillu
or Thai sara am is one character. Each character knows the stretch of the original text that it stems from, because
answers are stretches of texts as they were given.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from figeval.language.words import SYLLABLE, TATWEEL, TONE_SIGNS, UNSPACED, normalize, unify_spelling, without_invisible
from figeval.types import Span

_SAME = str.maketrans(
    dict.fromkeys('“”„‟«»‹›「」『』″"‘’‚‛ʼʻ´`′\u055a', "'")
    | dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys(TONE_SIGNS, "")
    | {"\n": " "}
)

# Words of ASCII between single blanks are folded at once, everything else by white space and grapheme clusters. The
# last character before another one that is not ASCII may be part of a cluster.
_PLAIN = re.compile(r"[!-~]*(?:[ \n][!-~]+)*")
_PART = regex.compile(
    rf"(?P<plain>[!-~]+(?: [!-~]+)*(?=[\x00-\x7f]|\Z))|(?P<blank>\s+)|{SYLLABLE}(?:[{TATWEEL}]\p{{M}}*+)*+", regex.V1
)
_NEEDLESS_BLANK = regex.compile(rf"(?<={UNSPACED}\p{{M}}*) | (?={UNSPACED})", regex.V1)
_LETTER_OR_MARK = regex.compile(r"[\p{L}\p{N}\p{M}]")
_INNER = regex.compile(r"[\p{L}\p{N}](?:.*[\p{L}\p{N}\p{M}])?", regex.DOTALL)
_SELECTOR = regex.compile(r"\p{Variation_Selector}+")
_PICTURE = regex.compile(r"\p{Extended_Pictographic}|\p{Regional_Indicator}")


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in its plainest spelling.

    Attributes:
        text: the spelling, decomposed (NFKD).
        starts: for each of its characters, where the stretch of the original text begins that it stems from.
        ends: for each of its characters, where that stretch ends.
    """

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def span(self, start: int, end: int) -> Span:
        """Return the span of the original text from which a stretch of the folded text was made."""
        return Span(self.starts[start], self.ends[end - 1])

    def is_edge(self, index: int) -> bool:
        """Return whether a stretch may begin or end at an index: not within a cluster, but within "…", spelt "..."."""
        if not 0 < index < len(self.text) or self.starts[index - 1] != self.starts[index]:
            return True
        is_one_character = self.ends[index] - self.starts[index] == 1
        return is_one_character and not _LETTER_OR_MARK.match(self.text, index)

    def without_inner_blanks(self) -> Folded:
        """Return the text without the blanks beside letters of scripts that need none, such as Chinese."""
        if self.text.isascii():
            return self
        blanks = {match.start() for match in _NEEDLESS_BLANK.finditer(self.text)}
        if not blanks:
            return self
        indices = [index for index in range(len(self.text)) if index not in blanks]
        text = "".join(self.text[index] for index in indices)
        return Folded(text, [self.starts[index] for index in indices], [self.ends[index] for index in indices])


@lru_cache(maxsize=256)
def fold(text: str, language: str = "") -> Folded:
    """Return a text in its plainest spelling; `language` is a BCP 47 tag, for the rules of case, or empty."""
    if _PLAIN.fullmatch(text):
        return Folded(normalize(text.translate(_SAME), language), range(len(text)), range(1, len(text) + 1))
    folded: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for part in _PART.finditer(text):
        start, end = part.span()
        if part["plain"] is not None:
            folded.append(normalize(part.group().translate(_SAME), language))  # as long as the original
            starts += range(start, end)
            ends += range(start + 1, end + 1)
            continue
        plain = " " if part["blank"] is not None else _fold_cluster(part.group(), language)
        if plain and not (plain == " " and folded and folded[-1][-1] == " "):
            folded.append(plain)
            starts += [start] * len(plain)
            ends += [end] * len(plain)
    return Folded("".join(folded), starts, ends)


@lru_cache(maxsize=8192)
def _fold_cluster(cluster: str, language: str) -> str:
    spelt = unify_spelling(cluster)
    # Joiners and tags make other emoji.
    shown = _SELECTOR.sub("", spelt) if _PICTURE.search(cluster) else without_invisible(spelt)
    plain = unicodedata.normalize("NFKD", shown.translate(_SAME))
    return unicodedata.normalize("NFKD", normalize(plain, language))


def bare(text: str) -> str:
    """Return a text without the characters at its ends that belong to no word; empty if there is no word in it."""
    match = _INNER.search(text)
    return match.group() if match else ""
