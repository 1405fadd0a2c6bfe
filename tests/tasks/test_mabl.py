"""MABL: minimal pairs on files of our own, the means over languages, and counts on the real files."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from figeval import DataError
from tests.sources import Row, read_rows

GOOD_ROWS = [
    ("Her mind is a sieve", "She forgets", "She remembers", "0"),
    ("Her mind is a vault", "She forgets", "She remembers", "1"),
    ("The road is a snake", "It winds", "It is straight", "0"),
    ("The road is a ruler", "It winds", "It is straight", "1"),
    ("His hands are sieves", "he  forgets", "He remembers", "0"),
    ("Her mind  is a VAULT", "It leaks", "It holds", "1"),
]
COLUMNS = ("startphrase", "ending1", "ending2", "labels")
LANGUAGES = ("hi", "id", "jv", "kn", "su", "sw", "yo")


def table(folder: Path, rows: Sequence[Sequence[str]], columns: Sequence[str] = COLUMNS) -> Path:
    """A folder in which every language has these rows, the columns in this order."""
    for name in LANGUAGES:
        file = folder / f"langdata/{name}.csv"
        file.parent.mkdir(exist_ok=True)
        with file.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.DictWriter(opened, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(dict(zip(COLUMNS, row, strict=True)) for row in rows)
    return folder


def of(folder: Path | None, name: str) -> list[Row]:
    return read_rows(f"mabl:{name}", folder)


def test_two_rows_that_follow_one_another_are_a_pair(tmp_path: Path) -> None:
    rows = of(table(tmp_path, GOOD_ROWS), "hi")
    assert [row["pair"] for row in rows] == ["hi-0", "hi-0", "hi-2", "hi-2", "hi-4", "hi-4"]
    assert [row["gold"] for row in rows] == [0, 1] * 3
    assert rows[0] == {
        "id": "hi-0",
        "language": "hi",
        "phrase": "Her mind is a sieve",
        "endings": ("She forgets", "She remembers"),
        "gold": 0,
        "pair": "hi-0",
        "cluster": "hi-0",
    }


def test_pairs_with_a_phrase_or_their_endings_in_common_are_a_cluster(tmp_path: Path) -> None:
    rows = of(table(tmp_path, GOOD_ROWS), "kn")
    assert [row["cluster"] for row in rows] == ["kn-0", "kn-0", "kn-2", "kn-2", "kn-0", "kn-0"]


def test_languages_take_turns_pair_by_pair(tmp_path: Path) -> None:
    rows = of(table(tmp_path, GOOD_ROWS), "all")
    assert [row["id"] for row in rows[:16:2]] == [*(f"{name}-0" for name in LANGUAGES), "hi-2"]
    assert len(rows) == 7 * len(GOOD_ROWS)


def test_columns_are_read_by_the_header(tmp_path: Path) -> None:
    mixed = table(tmp_path, GOOD_ROWS, ("labels", "ending2", "startphrase", "ending1"))
    assert [row["endings"] for row in of(mixed, "jv")] == [(row[1], row[2]) for row in GOOD_ROWS]


def test_rows_without_a_partner_shift_the_pairs_behind_them(tmp_path: Path) -> None:
    """Row 84 of Swahili has none."""
    rows = of(table(tmp_path, [*GOOD_ROWS[:2] * 42, ("Alone", "a", "b", "0"), *GOOD_ROWS[2:4]]), "sw")
    assert [row["pair"] for row in rows[82:]] == ["sw-82", "sw-82", None, "sw-85", "sw-85"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [GOOD_ROWS[0], GOOD_ROWS[0]],
            "rows 0 and 1, field 'labels': both are 0; the rows of a minimal pair have opposite",
        ),
        (GOOD_ROWS[:3], "row 2: it has no partner"),
        ([("a", "b", "c", "yes"), GOOD_ROWS[1]], "row 0, field 'labels': 'yes' is neither 0 nor 1"),
    ],
)
def test_what_is_no_pair_is_one_line(tmp_path: Path, rows: list[Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        of(table(tmp_path, rows), "id")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="row 0: there is no column 'ending2'; the header has startphrase"):
        of(table(tmp_path, GOOD_ROWS, ("startphrase", "ending1", "labels")), "yo")


def test_a_language_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mabl has no language 'xx'; it has all, hi, id"):
        of(table(tmp_path, GOOD_ROWS), "xx")


def test_the_real_files(real_data: str) -> None:
    rows = of(None, "all")
    sizes = Counter(row["language"] for row in rows)
    assert sizes == {"hi": 1000, "id": 1140, "jv": 600, "kn": 1198, "su": 600, "sw": 1098, "yo": 730}
    assert [row["id"] for row in rows if row["pair"] is None] == ["sw-84", "sw-793"]
    endings: dict[str, list[frozenset[str]]] = {}
    for row in rows:
        if row["pair"] is not None:
            endings.setdefault(row["pair"], []).append(frozenset(" ".join(ending.split()) for ending in row["endings"]))
    unequal = Counter(pair[:2] for pair, (ending, other) in endings.items() if ending != other)
    assert sum(unequal.values()) < 0.01 * len(endings), unequal  # so pairs are the right ones, in Swahili, too
    assert (len(of(None, "en")), len(of(None, "en_train"))) == (1094, 1458)
    digest = json.dumps([row["gold"] for row in rows])
    assert digest.count("0") == digest.count("1") == 3183
