"""CLUE: the reader on workbooks of our own, the design of the options, and counts on the real files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from figeval import DataError
from tests.sources import Row, read_rows

TYPES = ("simplex", "idiom", "simile", "proverb")
NAMES = {"en": TYPES, "es": ("palabra simple", "modismo", "símil", "proverbio")}
HEADERS = {"en": ("CFU", "Type", "Concept", "Context"), "es": ("CFU", "Tipo", "Concepto", "Contexto")}
# Units, numbered from 0, of which one could be said to have the other's concept. They are never options together.
SIMILAR = """
0-3 1-2 1-3 1-6 4-26 4-51 5-16 7-48 8-19 8-20 9-20 9-30 9-34 10-15 10-38 11-18 12-24 12-55 13-25 13-50 15-36
16-23 16-39 16-40 16-52 18-19 18-26 18-27 19-24 19-25 19-26 19-27 19-54 20-25 20-30 21-40 21-57 23-39 24-56
25-27 26-27 29-44 29-53 32-54 33-43 33-53 34-55 34-56 35-47 35-48 36-37 36-38 37-38 37-41 38-41 38-49 43-57
45-59 47-58 49-50 50-51 55-56 63-71 63-82 68-70 69-70 69-73 69-81 69-85 72-86 77-78 77-84 78-84 79-87 87-89
90-107 90-116 90-119 91-98 91-101 91-116 93-102 93-106 94-95 94-106 95-101 95-102 95-106 97-105 97-109 97-110
97-111 97-117 99-100 99-115 100-115 102-106 103-113 103-118 104-111 105-110 105-112 107-116 109-117 110-111
110-112 112-113 112-118 116-119
"""
Change = Callable[[list[list[Any]]], None]


def write_workbooks(folder: Path, change: Change = lambda _rows: None) -> None:
    """Write both files with units of our own; `change` changes the rows of the English one."""
    from openpyxl import Workbook

    for language, header in HEADERS.items():
        workbook = Workbook()
        sheet = workbook.active
        assert sheet is not None
        rows: list[list[Any]] = [list(header)]
        for number in range(120):
            kind = NAMES[language][number // 30]
            rows.append([f"unit {number}", kind, f" concept\u00a0{number} ", f"Sentence {number}."])
        if language == "en":
            change(rows)
        for row in rows:
            sheet.append(row)
        workbook.save(folder / f"clue_{language}.xlsx")


def read_part(part: str, folder: Path, change: Change = lambda _rows: None) -> list[Row]:
    """The rows of a part of these workbooks."""
    write_workbooks(folder, change)
    return read_rows(f"clue:{part}", folder)


def test_a_unit_stands_in_both_languages_and_types_take_turns(tmp_path: Path) -> None:
    rows = read_part("unit", tmp_path)
    assert [row["id"] for row in rows[:4]] == ["en-0", "es-0", "en-30", "es-30"]
    assert [row["type"] for row in rows[:8:2]] == list(TYPES)
    assert rows[0]["concept"] == "concept 0"  # without blanks at the edges, and with plain ones inside
    assert rows[2]["candidates"][rows[2]["number"]] == rows[2]["unit"]
    assert len(rows) == 240


def test_options_show_nothing_without_the_question(tmp_path: Path) -> None:
    rows = read_part("concept", tmp_path)
    english, spanish = rows[::2], rows[1::2]
    assert [row["options"] for row in english] == [row["options"] for row in spanish]  # concepts here have no language
    assert Counter(row["gold"] for row in english) == dict.fromkeys(range(4), 30)
    assert all(row["options"][row["gold"]] == row["concept"] for row in rows)
    numbers = [tuple(int(option.split()[1]) for option in row["options"]) for row in english]
    assert set(Counter(number for options in numbers for number in options).values()) == {4}  # right once, wrong thrice
    pairs = Counter(frozenset(pair) for options in numbers for pair in combinations(options, 2))
    assert set(pairs.values()) == {1}
    assert not {"{}-{}".format(*sorted(pair)) for pair in pairs} & set(SIMILAR.split())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[0].__setitem__(2, "Meaning"), "row 0: there is no column 'Concept'; the header has CFU"),
        (lambda rows: rows[5].__setitem__(3, "  "), "row 4, field 'Context': it is empty"),
        (lambda rows: rows[5].__setitem__(1, "idioms"), "row 4: 'idioms' is no type; the types are simplex, idiom"),
        (lambda rows: rows.pop(), "expected 30 units of each of simplex, idiom, simile, proverb"),
        (lambda rows: rows.insert(1, rows.pop(60)), "expected 30 units of each of simplex"),
    ],
)
def test_a_file_of_another_form_is_one_line(change: Change, words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_part("type", tmp_path, change)
    assert "\n" not in str(caught.value)


def test_an_unknown_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="clue has no part 'concepts'; did you mean 'concept'"):
        read_part("concepts", tmp_path)


def test_the_real_files(real_data: str) -> None:
    rows = read_rows("clue:concept")
    assert Counter((row["language"], row["type"]) for row in rows) == {
        (language, kind): 30 for language in HEADERS for kind in TYPES
    }
    assert all(len(set(row["options"])) == 4 for row in rows)
    assert len({row["sentence"] for row in rows}) == 240
