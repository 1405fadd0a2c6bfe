"""What a build reads: sentences with idioms or metaphorical words, and definitions of idioms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from figeval.data.row_file import RowFile, UserRow
from figeval.errors import DataError
from figeval.text import one_line, whole_number

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
SPOKEN = str.maketrans("’‘", "''")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A row of the file of sentences.

    Attributes:
        id: the row's own, else its number.
        row: the number, counted from 1.
        text: cleaned, on one line.
        label: `FIGURATIVE` or `LITERAL`: how the idiom, or the metaphorical word, is meant.
        idiom: its dictionary form; empty where it is to be found.
        definition: what the idiom means in this sentence; empty where that is to be looked up.
        span: characters of the idiom or of the metaphorical word, half-open; None where it is to be found.
        metaphor: the metaphorical word; empty in a row about an idiom.
        replacement: the literal word that may stand in its place.
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
    """A definition of an idiom and the row of the file that has it; 0 where the sentence brought it along."""

    text: str
    row: int


def read_sentences(file: RowFile) -> Iterator[Sentence]:
    """Yield every sentence.

    A row with `metaphor` and `replacement` is about a metaphorical word; every other one is about an idiom.

    Raises:
        DataError: a row has no sentence, no label or an unknown one, a span that is none, a metaphor without
            replacement, an idiom without a word, or the id of another row. The message names file, row and field.
    """
    rows: dict[str, int] = {}
    for row in file.rows():
        given = row.text("sentence")
        identity = one_line(row.optional("id"), 200) or str(row.number)
        if identity in rows:
            raise row.error("id", f"{identity[:40]!r} is that of row {rows[identity]}, too")
        rows[identity] = row.number
        metaphor, replacement = (one_line(row.optional(name)) for name in ("metaphor", "replacement"))
        if bool(metaphor) != bool(replacement):
            missing = "replacement" if metaphor else "metaphor"
            raise row.error(missing, "is empty; a metaphorical word and its literal replacement belong together")
        text = one_line(given)
        yield Sentence(
            id=identity,
            row=row.number,
            text=text,
            label=FIGURATIVE if metaphor and not row.optional("label") else _label(row),
            idiom="" if metaphor else _idiom(row, required=False),
            definition=one_line(row.optional("definition")),
            span=_span(row, given, text),
            metaphor=metaphor,
            replacement=replacement,
        )


def _label(row: UserRow) -> str:
    given = row.text("label")
    if given.lower() not in SPELLINGS:
        raise row.error("label", f"is {given[:40]!r}; it is {FIGURATIVE} or {LITERAL}")
    return SPELLINGS[given.lower()]


def _idiom(row: UserRow, *, required: bool) -> str:
    given = row.text("idiom") if required else row.optional("idiom")
    name = REMARK.sub("", one_line(given).translate(SPOKEN)).strip(' .,;:!?"')
    if given and not all(has_words(form) for form in name.split("|")):
        raise row.error("idiom", f"is {given[:40]!r}, which has no word to look for; articles and pronouns are none")
    return SOMEBODY.sub("someone", name)


def _span(row: UserRow, given: str, text: str) -> tuple[int, int] | None:
    numbers = row.optional("start"), row.optional("end")
    if not any(numbers):
        return None
    start, end = map(whole_number, numbers)
    if start is None or end is None or not start < end <= len(given):
        read = f"{numbers[0][:20]!r} and {numbers[1][:20]!r}"
        raise row.error("start", f"and 'end' are {read}; they are places in the sentence, 0 to {len(given)}, in order")
    if given != text:
        spoiled = "has control characters, line breaks or double blanks, so 'start' and 'end' are no places in it"
        raise row.error("sentence", f"{spoiled}; remove them")
    return start, end


@dataclass(frozen=True)
class Glossary:
    """The definitions of idioms.

    Attributes:
        lines: of every idiom its forms, the first one before `|`, as `Lexicon` reads them.
        senses: first form in small letters → different definitions, in the order of the file.
    """

    lines: Mapping[str, str]
    senses: Mapping[str, tuple[Sense, ...]]

    def line(self, idiom: str) -> str:
        """Return all forms of an idiom; of one that has no definition the form that is given."""
        return self.lines.get(idiom.casefold(), idiom)

    def of(self, idiom: str) -> tuple[Sense, ...]:
        """Return the definitions of an idiom, none of an unknown one."""
        return self.senses.get(idiom.casefold(), ())


def read_definitions(file: RowFile) -> Glossary:
    """Return the different definitions of each idiom.

    Definitions are the same if they differ in case, blanks and outer punctuation only. Further forms of an idiom stand
    behind `|`.

    Raises:
        DataError: a row has no idiom, no definition or an idiom without a word, or there is no row.
    """
    lines: dict[str, str] = {}
    found: dict[str, dict[str, Sense]] = {}
    for row in file.rows():
        idiom, definition = _idiom(row, required=True), one_line(row.text("definition"))
        name = idiom.partition("|")[0].strip().casefold()
        lines.setdefault(name, idiom)
        folded = definition.casefold().strip(" .,;:!?")
        found.setdefault(name, {}).setdefault(folded, Sense(definition, row.number))
    if not found:
        raise DataError(f"{file.path}: there is no definition in it")
    return Glossary(lines, {name: tuple(senses.values()) for name, senses in found.items()})
