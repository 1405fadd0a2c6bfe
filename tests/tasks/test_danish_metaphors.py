"""The Danish metaphors: the reader on workbooks of our own, what is no row, and counts on the real files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest

from figeval import DataError
from tests.sources import Row, read_rows

WORD_HEADER = (
    "No.",
    "Related to the hard work of farming (incl reference to animals, handcraft, cultivating the land)",
    "POS",
    "Definition of metaphorical meaning (up to 50 characters)",
    "Corpus example",
    "Cultural-specific means it does not exist in English with exactly the same picture or the same meaning",
)
WORDS = (
    WORD_HEADER,
    (None, "Farming:"),
    (1, "spade", "Noun", "overført  dum_x000D_\n person", "Din\xa0spade\xa0!", "Cultural-specific"),
    (2, "rive", "Verb", "(overført) samle", None, None),
    (None, "Misc"),
    (3, "sky", "Noun", "overført en tåget og uklar forestilling om noget so", "en sky", None),
    (4, "Sky", "Adj", "samle", "på en sky", None),
)
EXPRESSION_HEADER = (
    "Rækkefølge",
    "Udtryk",
    "Citat",
    "DDO-definition (op til 50 tegn)",
    "Overført/talemåde",
    "Engelsk",
    "Label",
    "Emne",
)
EXPRESSIONS = (
    ("Metadata",),
    EXPRESSION_HEADER,
    (1, "grave et hul", "Han grov et hul", "gøre noget dumt", "ofø", "nej", "x", "lan"),
    (2, "regn er vand", "Husk: regn er vand", "sådan er det", "talemåde", "ja", None, None),
)


def read_part(folder: Path, part: str, rows: Sequence[Sequence[object]]) -> list[Row]:
    """The rows of a part whose workbook has these."""
    file, sheet = {
        "words": ("DanishSingleWordMetaphors.xlsx", "SingleWordMetaphors"),
        "expressions": ("DanishFixedExpressions.xlsx", "org_data_with_meta"),
    }[part]
    workbook = openpyxl.Workbook()
    workbook.active.title = sheet
    for row in rows:
        workbook.active.append(row)
    workbook.save(folder / file)
    return read_rows(f"danish_metaphors:{part}", folder)


def test_words_are_read_with_their_group_and_cleaned(tmp_path: Path) -> None:
    rows = read_part(tmp_path, "words", WORDS)
    assert [(row["id"], row["definition"], row["cut"], row["domain"]) for row in rows] == [
        ("words-1", "dum person", "no", "farming"),
        ("words-2", "samle", "no", "farming"),
        ("words-3", "en tåget og uklar forestilling om noget so", "yes", "other"),
        ("words-4", "samle", "no", "other"),
    ]
    assert [row["example"] for row in rows] == ["Din spade !", "", "en sky", "på en sky"]
    assert [row["culture_specific"] for row in rows] == ["yes", "no", "no", "no"]
    assert [row["cluster"] for row in rows] == ["words-1", "words-2", "words-3", "words-2"]


def test_expressions_have_two_header_rows_and_codes(tmp_path: Path) -> None:
    rows = read_part(tmp_path, "expressions", EXPRESSIONS)
    codes = [(row["kind"], row["culture_specific"], row["domain"]) for row in rows]
    assert codes == [("figurative", "yes", "farming"), ("saying", "no", "other")]


@pytest.mark.parametrize(
    ("number", "row", "words"),
    [
        (1, (None, "Fishing:"), "a row without a number that names no group, but 'Fishing:'"),
        (1, (None, "Farming:", "Noun"), "a row without a number that names no group"),
        (2, ("one", *WORDS[2][1:]), "'one' is no number"),
        (2, (1, "spade", "Noun", None, "Din spade", None), "is empty"),
        (2, (1, None, "Noun", "dum", "Din spade", None), "is empty"),
        (2, (1, "spade", "Pron", "dum", "Din spade", None), "kind: 'Pron' is none of 'Noun', 'Verb'"),
        (2, (1, "spade", "Noun", "dum", "Din spade", "yes"), "culture_specific: 'yes' is none of"),
        (0, (*WORD_HEADER[:5], "Cultural"), "there is no column 'Cultural-specific means"),
    ],
)
def test_a_row_of_another_form_is_one_line(number: int, row: Sequence[object], words: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"SingleWordMetaphors:.*{words}") as caught:
        read_part(tmp_path, "words", [*WORDS[:number], row, *WORDS[number + 1 :]])
    assert "\n" not in str(caught.value)


def test_an_unknown_part_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="danish_metaphors has no part 'word'; did you mean 'words'"):
        read_rows("danish_metaphors:word", tmp_path)


def test_the_real_files(real_data: str) -> None:
    words, expressions = (read_rows(f"danish_metaphors:{part}") for part in ("words", "expressions"))
    assert len(words) == len(expressions) == 75
    for rows in (words, expressions):
        assert Counter(row["culture_specific"] for row in rows) == {"yes": 50, "no": 25}
        assert not any("_x000" in text or "\xa0" in text for row in rows for text in row.values())
    assert Counter(row["domain"] for row in words) == {"farming": 28, "seafaring": 19, "modesty": 7, "other": 21}
    assert [sum(row["cut"] == "yes" for row in rows) for rows in (words, expressions)] == [33, 41]
    assert len({row["cluster"] for row in words}) == 71
