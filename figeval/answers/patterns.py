"""Patterns of tables of words in many languages, and the letters that make a word in a pattern."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LETTERS = r"0-9A-Za-z_\u00c0-\u024f\u0300-\u0dff\u0f00-\u0fff\u10a0-\u177f\u1800-\u1fff"
"""Letters, digits and marks of scripts with blanks between words, for a character class."""
_JOINED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff\uac00-\ud7af]")  # no blanks, or particles
_MARKED = re.compile("[\u0900-\u0dff]")  # scripts whose words end with marks, where \b finds no word ends


def phrases(table: str, *marks: str, words: Sequence[str] = ()) -> str:
    """Return a pattern that matches any entry of a table or any mark.

    Entries match as whole words only, provided that their script separates words. Those in other scripts than Latin are
    not even tried where a text is ASCII, for speed.

    Args:
        table: One language per line: its code, then its entries. An entry is a regular expression without groups, in
            which `_` stands for white space.
        *marks: Regular expressions that match within words, too.
        words: Further entries as plain text.
    """
    entries = [entry.replace("_", r"\s+") for line in _compose(table).splitlines() for entry in line.split()[1:]]
    entries += [r"\s+".join(map(re.escape, _compose(word).split())) for word in words if word.strip()]
    joined = [entry for entry in entries if _JOINED.search(entry)]
    marked = [entry for entry in entries if _MARKED.search(entry) and entry not in joined]
    spaced = [entry for entry in entries if entry not in (*joined, *marked)]
    in_ascii = [
        _with_boundaries([entry for entry in spaced if entry[0].isascii()], r"\b", r"\b"),
        *(entry for entry in joined if entry[0].isascii()),
        *marks,
    ]
    in_others = [
        _with_boundaries([entry for entry in spaced if not entry[0].isascii()], r"\b", r"\b"),
        _with_boundaries(marked, rf"(?<![{LETTERS}])", rf"(?![{LETTERS}])"),
        *(entry for entry in joined if not entry[0].isascii()),
    ]
    return _either([*in_ascii, _with_boundaries(list(filter(None, in_others)), r"(?=[^\x00-\x7f])", "")])


def _compose(text: str) -> str:
    return unicodedata.normalize("NFKC", text.strip())  # as the replies are


def _with_boundaries(patterns: Sequence[str], before: str, after: str) -> str:
    return before + _either(patterns) + after if patterns else ""


def _either(patterns: Sequence[str]) -> str:
    return f"(?:{'|'.join(filter(None, patterns))})"
