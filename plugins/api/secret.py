r"""Remove a key from texts, in whatever form a server or a model writes it.

A model that is asked for its key, or a server that quotes the request, may write it with `%2D`, in capitals, with
characters between the letters that nobody sees, or in base64. Whoever reads the record could turn all of these back.

A text is read in a few ways, each of which undoes what it can, and is searched for the key; ordinary text is never
masked, since the whole key must occur. Covered are

* capitals, wide and mathematical letters and other compatible characters (NFKC), invisible characters and colours;
* anything but letters and digits between the characters, if the key has a digit;
* escapes of URLs, HTML, JSON, Python, C (octal too), Markdown and quoted-printable, also of some characters only;
* the numbers of the characters, binary, octal, decimal or hexadecimal, whatever stands between them;
* base64, base32 and hexadecimal, also of a longer text that contains the key;
* each of them backwards.

Not covered are letters of other scripts that only look the same, ciphers, compression, other bases, and codes of codes.
"""

from __future__ import annotations

import base64
import html
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from figeval.io.text import SEQUENCE

MIN_CHARS = 12  # of a key; a shorter one, such as `none`, is no secret
MASK = "[key]"
MAX_ASCII = 0x7F
INVISIBLE = "\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
INVISIBLE += "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffd\ud800-\udfff\U0001bca0-\U0001bca3"
INVISIBLE += "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
"""Controls, halves of surrogate pairs, and Unicode's `Default_Ignorable_Code_Point`."""
INVISIBLE_PATTERN = f"(?:{SEQUENCE.pattern})|[{INVISIBLE}]"
BLANK = rf"{INVISIBLE_PATTERN}|[\s\u2800]|\\[nrt]"  # a line break also as JSON writes it
ESCAPE = (
    r"%(?:25)*+(?P<url>[0-9A-Fa-f]{2})|(?:\\{1,2}|%)u(?P<json>[0-9A-Fa-f]{4})|\\{1,2}u\{(?P<braces>[0-9A-Fa-f]{1,6})\}"
    r"|\\{1,2}U(?P<long>[0-9A-Fa-f]{8})|\\{1,2}x(?:(?P<byte>[0-9A-Fa-f]{2})|\{(?P<perl>[0-9A-Fa-f]{1,6})\})"
    r"|&\#0*+(?P<html>[0-9]{2,7}(?=;)|[0-9]{2,3});?|&\#[xX]0*+(?P<hex>[0-9A-Fa-f]{2,6}(?=;)|[0-9A-Fa-f]{2});?"
    r"|&(?P<name>[A-Za-z][A-Za-z0-9]{1,31});|\\{1,2}(?:0(?=[01][0-7]{2}))?(?P<octal>[01][0-7]{2})"
)
"""A character as URLs, JSON and Python, HTML, and C write it."""
QUOTED = r"=(?P<byte>[0-9A-Fa-f]{2})|=(?=\r?\n)"  # quoted-printable; apart, since keys may have an equals sign
BASES = {"binary": 2, "octal": 8, "decimal": 10, "html": 10}  # of the digits in a group; others are hexadecimal
NUMBERS = tuple(  # a character by its number, and anything else
    re.compile(rf"(?<![0-9A-WYZa-wyz])0*(?P<{name}>{digits})(?![0-9A-Za-z])|[^{alphabet}]+|[{alphabet}]")
    for name, digits, alphabet in (
        ("binary", "1[01]{5,6}", "0-9"),
        ("octal", "[0-7]{2,3}", "0-9"),
        ("decimal", "[0-9]{2,3}", "0-9"),
        ("hex", "[0-9A-Fa-f]{2}", "0-9A-Fa-f"),
    )
)
PUNCTUATION = r"[\W_]"
MARKDOWN = r"\\(?P<plain>[!-/:-@\[\]-`{-~])"  # a backslash before punctuation
IGNORED = re.compile(rf"[{INVISIBLE}\s\u2800]")
OCTETS = ("url", "byte")  # groups of `ESCAPE` with a byte; beyond ASCII it is a part of a character


class Lookalikes(dict[int, str]):
    """For `str.translate`: a character → the small ASCII character that it is a form of, or itself.

    Wide and mathematical letters, superscripts and the like are compatible characters of Unicode (NFKC).
    """

    def __missing__(self, code: int) -> str:
        form = unicodedata.normalize("NFKC", chr(code)).lower()
        self[code] = form if len(form) == 1 and form.isascii() else chr(code)
        return self[code]


LOOKALIKES = Lookalikes(dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"), "-"))


def without_key(text: str, key: str) -> str:
    """Return a text without a key; one that is too short to be a secret stays."""
    if len(key) < MIN_CHARS:
        return text
    text = text.replace(key, MASK)
    for reading in searches_for(key):
        text = reading.mask(text)
    return text


@dataclass(frozen=True, slots=True)
class KeySearch:
    """A way to read a text, and what must not be found in it.

    Attributes:
        marks: pattern of what is left out, or stands for another character.
        folded: whether capitals, and characters that look alike, are the same.
        forms: forms of the key.
    """

    marks: re.Pattern[str]
    folded: bool
    forms: tuple[str, ...]

    def mask(self, text: str) -> str:
        """Return a text without the forms of the key; a text without any is only searched, which is fast."""
        visible = self.marks.sub(meaning, text)
        visible = visible.translate(LOOKALIKES) if self.folded else visible
        if not any(form in visible for form in self.forms):
            return text
        pieces, end = [], 0
        for start, stop in self._find_spans(text):
            if start >= end:
                pieces += [text[end:start], MASK]
                end = stop
        return "".join([*pieces, text[end:]])

    def _find_spans(self, text: str) -> list[tuple[int, int]]:
        """Return where the forms begin and end in a text, in order."""
        triples = [*characters(text, self.marks)]
        visible = "".join(character for character, _, _ in triples)
        visible = visible.translate(LOOKALIKES) if self.folded else visible
        spans = ((match.start(), match.end()) for form in self.forms for match in re.finditer(re.escape(form), visible))
        return sorted(
            ((triples[start][1], triples[stop - 1][2]) for start, stop in spans), key=lambda ends: (ends[0], -ends[1])
        )


def characters(text: str, marks: re.Pattern[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the characters that a text stands for, and where each begins and ends in it."""
    end = 0
    for match in marks.finditer(text):
        yield from ((text[index], index, index + 1) for index in range(end, match.start()))
        end = match.end()
        yield from ((character, match.start(), end) for character in meaning(match))
    yield from ((text[index], index, index + 1) for index in range(end, len(text)))


def meaning(match: re.Match[str]) -> str:
    """Return the visible text that an escape stands for, or "" for anything else, which is left out."""
    kind = match.lastgroup
    if kind is None:
        return ""
    if kind == "plain":
        return match[kind]
    if kind == "name":
        meant = html.unescape(match[0])
    else:
        code = int(match[kind], BASES.get(kind, 16))
        meant = "" if code > sys.maxunicode or (kind in OCTETS and code > MAX_ASCII) else chr(code)
    return IGNORED.sub("", meant)


@cache
def searches_for(key: str) -> tuple[KeySearch, ...]:
    """Return the ways in which a text is read.

    Blanks between characters are left out only if the key has a digit: words of a text, put together, may be a
    placeholder such as `notneededhere`.
    """
    has_digit = any(map(str.isdigit, key))
    separators = BLANK if has_digit else INVISIBLE_PATTERN
    plain = both_ways(key.translate(LOOKALIKES))
    in_base32 = in_base(base64.b32encode, 5, key) | in_base(base64.b32hexencode, 5, key)
    encoded_forms = both_ways(key.encode().hex(), *map(str.lower, in_base32))
    searches = [
        KeySearch(re.compile(f"{MARKDOWN}|{separators}"), folded=True, forms=plain),
        KeySearch(re.compile(f"{ESCAPE}|{MARKDOWN}|{separators}"), folded=True, forms=plain),
        KeySearch(re.compile(f"{QUOTED}|{separators}"), folded=True, forms=plain),
        KeySearch(re.compile(BLANK), folded=True, forms=encoded_forms),
        KeySearch(re.compile(BLANK), folded=False, forms=both_ways(*in_base64(key))),
        *(KeySearch(numbers, folded=True, forms=plain) for numbers in NUMBERS),
    ]
    letters = re.sub(PUNCTUATION, "", plain[0])
    if has_digit and len(letters) >= MIN_CHARS:
        searches.append(KeySearch(re.compile(f"{ESCAPE}|{PUNCTUATION}"), folded=True, forms=both_ways(letters)))
    return tuple(searches)


def both_ways(*texts: str) -> tuple[str, ...]:
    """Return texts and what they are backwards."""
    return (*texts, *(text[::-1] for text in texts))


def in_base64(key: str) -> set[str]:
    """Return what a key looks like in base64, whatever is coded before and after it."""
    return in_base(base64.b64encode, 3, key) | in_base(base64.urlsafe_b64encode, 3, key)


def in_base(encode: Callable[[bytes], bytes], group: int, key: str) -> set[str]:
    """Return what a key looks like in a code of `group` bytes, whatever is coded before and after it.

    Each form is given to its last character that depends on the key alone, and to the end of its last whole group.
    """
    bits = {3: 6, 5: 5}[group]  # of a character
    forms = set()
    for offset in range(group):
        text = bytes(offset) + key.encode()
        code = encode(text).decode().rstrip("=")
        first = -(-offset * 8 // bits)
        forms |= {code[first : len(text) * 8 // bits], code[first : len(text) // group * group * 8 // bits]}
    return forms
