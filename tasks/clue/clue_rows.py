"""Reader of CLUE: `clue:concept`, `clue:unit` and `clue:type`, both languages in turn.

The two files have the same 120 units in the same order: 30 single words, 30 idioms, 30 similes, 30 proverbs, each with
a concept and a sentence. CLUE has no wrong options, so `concept` builds them from the concepts of other units whose
concepts have the same form (`CIRCLES`). The options of a unit are the concepts at the steps 0, 1, 4 and 6 of its circle
from the unit on. So every concept is the right option once and a wrong one three times; and since all differences
between two steps differ, no two concepts are offered together more often than once. A rule that reads no question
gains nothing from how often a concept occurs, or beside which others. Units of which one could be said to have the
other's concept are more than six steps apart. Both languages have the same options at the same positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache, partial

from figeval.data import DataContext, Row
from figeval.data.row_files import read_rows
from figeval.errors import DataError
from figeval.io.text import near

PARTS = ("concept", "unit", "type")
UNITS_PER_TYPE = 30
TYPES = ("simplex", "idiom", "simile", "proverb")  # in the order of the files
COLUMNS = {  # language → columns of unit, type, concept and sentence
    "en": ("CFU", "Type", "Concept", "Context"),
    "es": ("CFU", "Tipo", "Concepto", "Contexto"),
}
TYPE_NAMES = {
    "en": dict(zip(TYPES, TYPES, strict=True)),
    "es": dict(zip(("palabra simple", "modismo", "símil", "proverbio"), TYPES, strict=True)),
}
STEPS = (0, 1, 4, 6)  # a Golomb ruler
# Units, numbered from 0 in the order of the files.
CIRCLES: tuple[tuple[int, ...], ...] = (
    # actions, said with single words and idioms
    (*(10, 51, 49, 33, 16, 21, 42, 36, 4, 41, 43, 53, 44, 50, 23, 5, 15, 40, 38, 52, 13, 39, 29, 28, 57, 37),),
    # what is no action, said with single words and idioms
    (
        *(24, 18, 25, 22, 8, 2, 9, 56, 48, 59, 26, 58, 12, 54, 34, 7, 1, 46, 14, 27, 20, 0, 47, 45, 17, 31),
        *(11, 19, 3, 6, 35, 55, 30, 32),
    ),
    # similes
    (
        *(81, 85, 74, 89, 64, 63, 84, 65, 73, 72, 68, 66, 76, 62, 75, 61, 78, 88, 79, 82, 69, 86, 60, 83, 80),
        *(77, 87, 67, 71, 70),
    ),
    # proverbs
    (
        *(107, 115, 104, 92, 97, 113, 95, 93, 118, 116, 100, 108, 105, 109, 101, 111, 103, 98, 96, 112, 90),
        *(106, 114, 99, 117, 91, 110, 119, 94, 102),
    ),
)


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Yield the rows of a part, a unit in English and then in Spanish, types in turn.

    Raises:
        DataError: there is no such part, or a file is not as described above.
    """
    if path not in PARTS:
        raise DataError(f"clue has no part {path!r:.40}{near(path, PARTS)}; it has {', '.join(PARTS)}")
    units = [read_units(language, context) for language in COLUMNS]
    # A unit of each type in turn, so that with --limit all types have equally many rows.
    numbers = (position + UNITS_PER_TYPE * index for position in range(UNITS_PER_TYPE) for index in range(len(TYPES)))
    for number in numbers:
        for rows in units:
            yield {**rows[number], **_options(number, rows), "candidates": tuple(row["unit"] for row in rows)}


def read_units(language: str, context: DataContext) -> list[Row]:
    """Return the units of a language, in file order.

    Raises:
        DataError: a column is missing, a cell is empty or no type, or there are not 30 units of every type in turn.
    """
    file = context.fetch("clue", f"clue_{language}.xlsx")
    rows = [_read_unit(row, number, language, str(file)) for number, row in enumerate(read_rows(file, "xlsx"))]
    expected = [name for name in TYPES for _ in range(UNITS_PER_TYPE)]
    if [row["type"] for row in rows] != expected:
        raise DataError(f"clue: {file}: expected {UNITS_PER_TYPE} units of each of {', '.join(TYPES)} in this order")
    return rows


def _read_unit(row: Row, number: int, language: str, file: str) -> Row:
    location = f"clue: {file}, row {number}"
    texts = []
    for column in COLUMNS[language]:
        if column not in row:
            raise DataError(f"{location}: there is no column {column!r}; the header has {', '.join(row)}")
        texts.append(" ".join(str(row[column] or "").split()))
        if not texts[-1]:
            raise DataError(f"{location}, field {column!r}: it is empty")
    unit, kind, concept, sentence = texts
    if kind not in TYPE_NAMES[language]:
        raise DataError(f"{location}: {kind!r:.40} is no type; the types are {', '.join(TYPE_NAMES[language])}")
    return {
        "id": f"{language}-{number}",
        "item": f"item-{number}",
        "number": number,
        "language": language,
        "unit": unit,
        "type": TYPE_NAMES[language][kind],
        "concept": concept,
        "sentence": sentence,
    }


# ---- options ---------------------------------------------------------------------------------------------------------


def _options(number: int, rows: Sequence[Row]) -> Row:
    """Return the options of a unit and the index of the right one."""
    numbers = option_numbers()[number]
    return {"options": tuple(rows[option]["concept"] for option in numbers), "gold": numbers.index(number)}


@cache
def option_numbers() -> dict[int, tuple[int, ...]]:
    """Return, for every unit, those whose concepts are its options; each index is equally often the right one."""
    by_unit: dict[int, tuple[int, ...]] = {}
    for circle in CIRCLES:
        for index in range(len(circle)):
            number, *wrong = (circle[(index + step) % len(circle)] for step in STEPS)
            wrong.sort(key=partial(_draw, number))
            gold = len(by_unit) % len(STEPS)
            by_unit[number] = (*wrong[:gold], number, *wrong[gold:])
    return by_unit


def _draw(number: int, option: int) -> bytes:
    """Return bytes that have nothing to do with the data."""
    return hashlib.sha256(f"clue {number} {option}".encode()).digest()
