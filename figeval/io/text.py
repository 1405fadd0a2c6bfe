"""Functions that make text from outside safe to store, and to print on a terminal.

Servers, models and other people's records may contain text that no file can hold (half of a surrogate pair), that a
terminal obeys (escape sequences, C1 controls) or that it shows in another order than stored (bidirectional overrides;
Unicode Technical Report 36, section 2.5). Writers of a format escape its special characters themselves. Whole numbers
in flags, environment variables and headers are parsed here, too, numbers are worded, and similar names are found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time
from difflib import get_close_matches
from typing import Any, TypeVar

T = TypeVar("T")

SURROGATE = re.compile("[\ud800-\udfff]")
DIGITS = re.compile(r"[0-9]{1,18}")
# ECMA-48: control strings (OSC, DCS, SOS, PM, APC) with their content, control sequences, other escapes. Bounded,
# so that a string that is never closed neither swallows the rest of the text nor takes long.
SEQUENCE = re.compile(
    "(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\\\|\x9c)"
    "|(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"
    "|\x1b[ -/]{0,16}[0-~]"
)
CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f"  # except tab and line feed
BIDI = "\u202a-\u202e\u2066-\u2069"  # embeddings, overrides and isolates; marks (LRM, RLM) reorder no other text
FORMULA = ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠")
# What a spreadsheet would compute with an effect: a formula that calls a function or refers to another sheet, document
# or program (DDE), perhaps behind blanks and quotation marks, which spreadsheets remove. Emoticons such as ;-) and sums
# are not among them.
EFFECTIVE = r"""(?:[^\S\n]|["'\u200b\ufeff]){0,64}[=+\-@＝＋－＠](?:[^;\n]*?(?:\w[ \t]*[(（]|[!！#|]["'$]{0,64}\w))"""
AFTER_BREAK = re.compile(f"(?:(?<=;)|(?<=\n)(?![+-][ \t]))(?={EFFECTIVE})")  # `- `: an item of a list
ESCAPED = re.compile(f"(?<=[;\n])'(?={EFFECTIVE})")
UNSAFE = re.compile(f"[{CONTROL}{BIDI}\u2028\u2029]")


def valid(text: str) -> str:
    """Replace each lone half of a surrogate pair by U+FFFD; two halves that belong together become one character."""
    if SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(text: str) -> str:
    """Remove what cannot be stored or printed: lone surrogates, escape sequences, controls, invisible direction marks.

    Tabs and line feeds stay.
    """
    text = valid(text)
    if UNSAFE.search(text) is None:
        return text
    return UNSAFE.sub("", SEQUENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def one_line(text: str, longest: int | None = None) -> str:
    """Return clean text with single blanks for all white space, cut after `longest` characters."""
    line = " ".join(clean(text).split())
    return line if longest is None or len(line) <= longest else line[:longest] + "…"


def whole_number(text: str) -> int | None:
    """Return the number that a text spells in at most 18 ASCII digits, or None for any other text.

    `str.isdigit` is not enough: it is also true for `²`, and for more digits than `int` converts.
    """
    return int(text) if DIGITS.fullmatch(text) else None


def pluralize(n: int, noun: str) -> str:
    """Return a number with a noun in singular or plural, e.g. `1 error`, `2,000 errors`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def time_text(value: datetime) -> str:
    """Return a date, or a date with its time if that is not midnight, as `2024-01-31 12:30:00`."""
    return str(value.date()) if value.timetz() == time() else value.isoformat(" ")


def csv_cell(value: T) -> T | str:
    """Return a cell that is safe in a spreadsheet (OWASP, CSV Injection); numbers stay numbers.

    A text that a spreadsheet would take for a formula gets an apostrophe in front. Spreadsheets in some locales split
    even quoted cells of a file with commas at semicolons and line breaks, so the rest of a text after one of these gets
    an apostrophe, too, but only if it would be a formula that can do something.
    """
    if not isinstance(value, str):
        return value
    text = clean(value)
    return AFTER_BREAK.sub("'", f"'{text}" if text.lstrip("'").startswith(FORMULA) else text)


def csv_text(cell: str) -> str:
    """Return the text of a cell that `csv_cell` made, without its apostrophes."""
    text = cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(FORMULA) else cell
    return ESCAPED.sub("", text)


def clean_json(value: T, mend: Callable[[str], str] = clean) -> T:
    """Return a JSON value with all texts in it (keys included) mended; other values stay unchanged."""
    clean_value: Any = value
    if isinstance(value, str):
        clean_value = mend(value)
    elif isinstance(value, Mapping):
        clean_value = {clean_json(key, mend): clean_json(part, mend) for key, part in value.items()}
    elif isinstance(value, list | tuple):
        clean_value = [clean_json(part, mend) for part in value]
    result: T = clean_value
    return result


def shown_json(text: str) -> str:
    r"""Return JSON that is safe to print on a terminal: what `clean` would remove is escaped like `\u001b`."""

    def escaped(match: re.Match[str]) -> str:
        units = match.group().encode("utf-16-be")
        return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))

    return UNSAFE.sub(escaped, text)


def near(name: str, names: Iterable[str], cutoff: float = 0.5) -> str:
    """Return `; did you mean 'a' or 'b'?` with up to three similar names, or "" if none reaches `cutoff` (0 to 1).

    The name itself, which may be known elsewhere, is not among them.
    """
    spelled = {spelling.lower(): spelling for spelling in map(str, names) if spelling != name}
    matches = get_close_matches(name.lower(), spelled, n=3, cutoff=cutoff)
    return f"; did you mean {' or '.join(repr(spelled[match]) for match in matches)}?" if matches else ""
