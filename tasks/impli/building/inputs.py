"""Readers of a build's input files: sentences with idioms or metaphorical words, and definitions of idioms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from figeval.data.row_files import RowFile, UserRow
from figeval.errors import DataError
from figeval.io.text import one_line, whole_number

from ..idioms import has_words

SENTENCE_FIELDS = ("sentence", "label", "idiom", "definition", "start", "end", "metaphor", "replacement", "id")
DEFINITION_FIELDS = ("idiom", "definition")
FIGURATIVE, LITERAL = "figurative", "literal"
SPELLINGS = {
    **dict.fromkeys(("figurative", "idiomatic", "metaphorical", "fig", "f", "i"), FIGURATIVE),
    **dict.fromkeys(("literal", "lit", "l"), LITERAL),
}
REMARK = re.compile(r"\s*\([^()]*\)")
SOMEBODY = re.compile(r"\bsomebody\b")
STRAIGHT_QUOTES = str.maketrans("’‘", "''")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A row of the file of sentences.

    Attributes:
        id: id of the row; its number if it has none.
        row: number of the row, counted from 1.
        text: the sentence, cleaned and on one line.
        label: `FIGURATIVE` or `LITERAL`: how the idiom or the metaphorical word is meant.
        idiom: dictionary form of the idiom; empty if it has to be found.
        definition: meaning of the idiom in this sentence; empty if it has to be looked up.
        span: characters of the idiom or of the metaphorical word, half-open; None if it has to be found.
        metaphor: the metaphorical word; empty in a row about an idiom.
        replacement: the literal word that can replace the metaphorical one.
    """

    id: str
    row: int
    text: str
    label: str
    idiom: str = ""
    definition: str = ""
    span: tuple[int, int] | None = None
    metaphor: str = ""
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class Sense:
    """A definition of an idiom and its row in the file; the row is 0 if the definition came with the sentence."""

    text: str
    row: int


def read_sentences(file: RowFile) -> Iterator[Sentence]:
    """Yield every sentence.

    A row with `metaphor` and `replacement` is about a metaphorical word; every other row is about an idiom.

    Raises:
        DataError: a row has no sentence, a missing or unknown label, an invalid span, a metaphor without a
            replacement, an idiom without a word, or the id of another row. The message names file, row and field.
    """
    locations: dict[str, str] = {}  # id → where the row is
    for row in file.rows():
        raw_text = row.text("sentence")
        identity = one_line(row.optional("id"), 200) or str(row.number)
        if (location := locations.setdefault(identity, row.where)) != row.where:
            raise row.error("id", f"{identity[:40]!r} is that of {location}, too")
        metaphor, replacement = (one_line(row.optional(name)) for name in ("metaphor", "replacement"))
        if bool(metaphor) != bool(replacement):
            missing = "replacement" if metaphor else "metaphor"
            raise row.error(missing, "is empty; a metaphorical word and its literal replacement belong together")
        text = one_line(raw_text)
        yield Sentence(
            id=identity,
            row=row.number,
            text=text,
            label=FIGURATIVE if metaphor and not row.optional("label") else _label(row),
            idiom="" if metaphor else _idiom(row, required=False),
            definition=one_line(row.optional("definition")),
            span=_span(row, raw_text, text),
            metaphor=metaphor,
            replacement=replacement,
        )


def _label(row: UserRow) -> str:
    label = row.text("label")
    if label.lower() not in SPELLINGS:
        raise row.error("label", f"is {label[:40]!r}; it must be {FIGURATIVE} or {LITERAL}")
    return SPELLINGS[label.lower()]


def _idiom(row: UserRow, *, required: bool) -> str:
    raw_idiom = row.text("idiom") if required else row.optional("idiom")
    name = REMARK.sub("", one_line(raw_idiom).translate(STRAIGHT_QUOTES)).strip(' .,;:!?"')
    if raw_idiom and not all(has_words(form) for form in name.split("|")):
        raise row.error(
            "idiom", f"is {raw_idiom[:40]!r}, which has no word to look for, since articles and pronouns do not count"
        )
    return SOMEBODY.sub("someone", name)


def _span(row: UserRow, raw_text: str, text: str) -> tuple[int, int] | None:
    numbers = row.optional("start"), row.optional("end")
    if not any(numbers):
        return None
    start, end = map(whole_number, numbers)
    if start is None or end is None or not start < end <= len(raw_text):
        span_text = f"{numbers[0][:20]!r} and {numbers[1][:20]!r}"
        raise row.error(
            "start",
            f"and 'end' are {span_text}; they must be positions in the sentence, from 0 to {len(raw_text)}, in order",
        )
    if raw_text != text:
        problem = "has control characters, line breaks or double spaces, so 'start' and 'end' are not positions in it"
        raise row.error("sentence", f"{problem}; remove them")
    return start, end


@dataclass(frozen=True)
class Glossary:
    """The definitions of idioms.

    Attributes:
        lines: forms of every idiom by its case-folded first form, separated by `|` as `Lexicon` reads them.
        senses: different definitions of every idiom by its case-folded first form, in file order.
    """

    lines: Mapping[str, str]
    senses: Mapping[str, tuple[Sense, ...]]

    def line(self, idiom: str) -> str:
        """Return all forms of an idiom, or the given form if it has no definition."""
        return self.lines.get(idiom.casefold(), idiom)

    def of(self, idiom: str) -> tuple[Sense, ...]:
        """Return the definitions of an idiom; there are none for an unknown idiom."""
        return self.senses.get(idiom.casefold(), ())


def read_definitions(file: RowFile) -> Glossary:
    """Return the different definitions of each idiom.

    Definitions that differ only in case, blanks and outer punctuation count as one. Further forms of an idiom follow
    after `|`.

    Raises:
        DataError: a row has no idiom, no definition or an idiom without a word, or there is no row.
    """
    lines: dict[str, str] = {}
    senses_by_name: dict[str, dict[str, Sense]] = {}
    for row in file.rows():
        idiom, definition = _idiom(row, required=True), one_line(row.text("definition"))
        name = idiom.partition("|")[0].strip().casefold()
        lines.setdefault(name, idiom)
        definition_key = definition.casefold().strip(" .,;:!?")
        senses_by_name.setdefault(name, {}).setdefault(definition_key, Sense(definition, row.number))
    if not senses_by_name:
        raise DataError(f"{file.path}: it contains no definitions")
    return Glossary(lines, {name: tuple(senses.values()) for name, senses in senses_by_name.items()})
