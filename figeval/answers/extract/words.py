"""Patterns for given words and texts, whatever their script."""

from __future__ import annotations

import re

LETTERS = r"0-9A-Za-z_\u00c0-\u024f\u0370-\u1fff"  # of scripts that put blanks between words, for a character class
_NO_BLANKS = re.compile("[\u0900-\u0eff\u3040-\u9fff\uac00-\ud7af]")  # scripts in which \b does not find word ends
_JOINED = re.compile("[\u0e00-\u0eff\u3040-\u9fff\uac00-\ud7af]")


def pieces(text: str) -> list[str]:
    """The words of a text, casefolded; the text itself if it has none."""
    return re.findall(r"[^\W_]+", text.casefold()) or [text.strip().casefold()]


def pattern_of(text: str, joint: str = r"[\W_]+") -> str:
    """The text with any punctuation between its words, and not within a longer word."""
    parts = re.findall(r"[^\W_]+", text) or [text.strip()]
    before = "" if not parts[0] or _JOINED.match(parts[0][0]) else rf"(?<![{LETTERS}])"
    after = "" if not parts[-1] or _JOINED.match(parts[-1][-1]) else rf"(?![{LETTERS}])"
    return before + joint.join(map(re.escape, parts)) + after


def alternatives(texts: list[str], joint: str = r"[\W_]+") -> re.Pattern[str]:
    """Any of the texts, the longest first: one may contain another. Never matches if there is none."""
    ordered = sorted((text for text in texts if text.strip()), key=len, reverse=True)
    return re.compile("|".join(pattern_of(text, joint) for text in ordered) or r"(?!)", re.IGNORECASE)


def phrases(table: str, *marks: str) -> str:
    """Any entry of the table as a whole word, where the script shows word ends, or any of the `marks`.

    An entry is a regular expression without groups in which `_` stands for a blank; the first word of a line is its
    language and no entry.
    """
    entries = [entry.replace("_", r"\s+") for line in table.strip().splitlines() for entry in line.split()[1:]]
    words = [entry for entry in entries if not _NO_BLANKS.search(entry)]
    joined = [entry for entry in entries if _NO_BLANKS.search(entry)]
    whole = rf"\b(?:{'|'.join(words)})\b" if words else r"(?!)"  # one look for a word's beginning, not one per entry
    return "(?:" + "|".join([whole, *joined, *marks]) + ")"
