"""BibTeX entries in which no text of a file can be a command, or end the entry."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from figeval import Citation
from figeval.reporting.tex import printable

VENUE_FIELDS = {
    "article": "journal",
    "book": "publisher",
    "inproceedings": "booktitle",
    "mastersthesis": "school",
    "misc": "howpublished",
}
ACCENTS = {"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0307": ".", "\u0308": '"'}
ACCENTS |= {"\u0306": "u ", "\u030a": "r ", "\u030b": "H ", "\u030c": "v ", "\u0327": "c ", "\u0328": "k "}
LETTERS = {"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "ß": "ss", "ı": "i"}
MARKS = {"–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''"}
INNER_CAPITAL = re.compile(r"(?<![\\A-Za-z])[A-Za-z0-9]+[A-Z][A-Za-z0-9]*")
# Of the languages of benchmarks; styles that set titles in lower case keep the capitals of words in braces.
LANGUAGES = re.compile(r"\b(Arabic|Chinese|Danish|English|Persian|Spanish)\b")
SMALL_WORDS = {"a", "an", "and", "in", "is", "of", "on", "the", "to"}
OTHERS = "others"
MAX_LETTERS = 2000  # of a field; BibTeX reads at most 20,000


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry; `fields` are in LaTeX."""

    type: str
    key: str
    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, citation: Citation, note: str = "") -> Entry:
        """Return the entry of a publication."""
        fields = {
            "author": " and ".join(map(_name, citation.authors)),
            "title": _title(citation.title),
            VENUE_FIELDS[citation.type]: field_text(citation.venue),
            "volume": str(citation.volume or ""),
            "year": str(citation.year or ""),
            "url": citation.url,
            "note": field_text(note),
        }
        return cls(citation.type, citation_key(citation), tuple((name, text) for name, text in fields.items() if text))

    @classmethod
    def of_text(cls, text: str) -> Entry:
        """Return the entry of a text that says what to cite; `key` is what styles sort it by."""
        key = _slug(text[:40])
        return cls("misc", key, (("key", key), ("note", field_text(text))))

    def format(self, key: str) -> str:
        """Return the entry with this key."""
        return "".join([f"@{self.type}{{{key},\n", *(f"  {name} = {{{text}}},\n" for name, text in self.fields), "}\n"])


def bibliography(entries: Iterable[Entry]) -> str:
    """Return each entry once; a number tells equal keys apart."""
    by_key: dict[str, Entry] = {}
    for entry in dict.fromkeys(entries):
        key, number = entry.key, 2
        while key in by_key:
            key, number = f"{entry.key}-{number}", number + 1
        by_key[key] = entry
    return "\n".join(entry.format(key) for key, entry in by_key.items())


def citation_key(citation: Citation) -> str:
    """Return e.g. `ghosh-srivastava-2022-epic`: authors, year, and the first word of the title that says something."""
    surnames = [_slug(author.partition(",")[0]) for author in citation.authors]
    authors = surnames if len(surnames) <= 2 and OTHERS not in surnames else [surnames[0], "etal"]
    words = [word for word in _slug(citation.title).split("-") if len(word) > 1 and word not in SMALL_WORDS]
    return "-".join(filter(None, (*authors, str(citation.year or ""), *words[:1]))) or "entry"


def field_text(text: str) -> str:
    """Return a text in LaTeX whose braces are balanced for BibTeX, which counts escaped ones, too."""
    escaped = printable(text[:MAX_LETTERS]).replace(r"\{", r"\textbraceleft{}").replace(r"\}", r"\textbraceright{}")
    return "".join(map(_letter, escaped))


def _letter(letter: str) -> str:
    """Return a letter in ASCII, as BibTeX sorts and abbreviates by bytes."""
    if letter in LETTERS:
        return f"{{\\{LETTERS[letter]}}}"
    decomposed = unicodedata.normalize("NFD", letter)
    if len(decomposed) == 2 and decomposed[0].isascii() and decomposed[1] in ACCENTS:
        return f"{{\\{ACCENTS[decomposed[1]]}{decomposed[0]}}}"
    return MARKS.get(letter, letter)


def _name(author: str) -> str:
    """Return an author; a name that has no comma is that of an organisation, and braces keep it whole."""
    if author == OTHERS:
        return author
    parts = [field_text(part) for part in author.split(", ")]
    if len(parts) == 1 or re.search(r"\band\b|^\W*$", author):
        return f"{{{', '.join(parts)}}}"
    return ", ".join(parts)


def _title(title: str) -> str:
    """Return a title in which braces keep the capitals that styles would otherwise lower."""
    return LANGUAGES.sub(r"{\1}", INNER_CAPITAL.sub(r"{\g<0>}", field_text(title)))


def _slug(text: str) -> str:
    ascii_text = "".join(LETTERS.get(letter, letter) for letter in text[:MAX_LETTERS])
    letters = unicodedata.normalize("NFKD", ascii_text).encode("ascii", "ignore").decode().lower()
    return "-".join(re.findall("[a-z0-9]+", letters))[:80] or "entry"
