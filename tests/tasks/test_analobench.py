"""AnaloBench: the reader on files of our own, what is no question, and counts on the real files."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from figeval import DataError
from tests.sources import Row, read_rows

SENTENCES = ["Haste fell.", "The hare ran and lost.", "Pride cracked.", "A vain king was bald.", "Rain came."]
OPTIONS = "A. Pride cracked.\nB. The hare ran and lost.\nC. Rain came.\nD. A vain king was bald."
CHOICE = {"Index": "0", "Sentence": "Haste fell.", "Options": OPTIONS, "Label": "B"}
BANK = {"Index": "0", "Sentence": "Haste fell.", "Options": "3,1,2", "Indices": "2"}


def write_table(file: Path, rows: Sequence[dict[str, str]], delimiter: str = ",") -> None:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def read_task(task: str, folder: Path, **changes: str) -> list[Row]:
    """The rows of a task whose only question (T1) or first query (T2) has these changes."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    clusters = [{"cluster": str(number // 2), "sentence": sentence} for number, sentence in enumerate(SENTENCES)]
    write_table(data / "clusters.tsv", clusters, "\t")
    write_table(
        data / "stories-10.csv", [{**cluster, "story": f"Once: {cluster['sentence']} \n"} for cluster in clusters]
    )
    changed = {key: value for key, value in changes.items() if key in CHOICE}
    for size in ("Subset", "Full"):
        write_table(data / f"AnaloBench-T1-{size}-S1.csv", [CHOICE | changed])
    other_items = [{**BANK, "Index": str(n), "Sentence": sentence} for n, sentence in enumerate(SENTENCES[1:], 1)]
    write_table(data / "AnaloBench-T2-Base.csv", [BANK | changes if "Indices" in changes else BANK, *other_items])
    return read_rows(f"analobench:{task}", folder)


def test_the_options_are_taken_apart(tmp_path: Path) -> None:
    (row,) = read_task("t1", tmp_path)
    assert row["options"] == ("Pride cracked.", "The hare ran and lost.", "Rain came.", "A vain king was bald.")
    assert (row["gold"], row["cluster"]) == (1, "cluster 0")


def test_longer_stories_stand_in_the_place_of_sentences(tmp_path: Path) -> None:
    (row,) = read_task("t1_s10", tmp_path)
    assert row["story"] == "Once: Haste fell."
    assert row["options"][1] == "Once: The hare ran and lost."


def test_a_bank_is_in_the_published_order(tmp_path: Path) -> None:
    row = read_task("t2", tmp_path)[0]
    assert row["candidates"] == (SENTENCES[3], SENTENCES[1], SENTENCES[2])
    assert row["relevant"] == [1]
    assert read_task("t2_s10", tmp_path)[0]["candidates"][0] == f"Once: {SENTENCES[3]}"


@pytest.mark.parametrize(
    ("task", "changes", "words"),
    [
        ("t1", {"Label": "E"}, "row 0, field 'Label': 'E' is not one of A, B, C, D"),
        ("t1", {"Options": "A. x\nC. y"}, "row 0, field 'Options': expected four options A. to D., found 'A C'"),
        ("t1_s10", {"Sentence": "Unheard of."}, "row 0: a sentence is not among the 5 of the other file"),
        ("t2", {"Indices": ""}, "row 0, field 'Indices': no story of the bank is relevant; leave the query out"),
        ("t2", {"Indices": "4"}, r"row 0, field 'Indices': value 1 is not a number from 1 to 3 \('4'\)"),
        ("t2", {"Indices": "1,x"}, r"field 'Indices': value 2 is not a number from 1 to 3 \('x'\)"),
        ("t2", {"Indices": "1", "Options": "3,9"}, r"field 'Options': value 2 is not a number from 0 to 4 \('9'\)"),
        ("t3", {}, "analobench has no task 't3'; did you mean 't"),
    ],
)
def test_what_is_no_question_is_one_line(tmp_path: Path, task: str, changes: Any, words: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        read_task(task, tmp_path, **changes)
    assert "\n" not in str(caught.value)


def test_the_real_files(real_data: str) -> None:
    rows_of_task = {task: read_rows(f"analobench:{task}") for task in ("t1", "t1_full", "t2", "t2_s10")}
    assert {task: len(rows) for task, rows in rows_of_task.items()} == {
        "t1": 340,
        "t1_full": 2460,
        "t2": 340,
        "t2_s10": 340,
    }
    assert {len({row["cluster"] for row in rows}) for rows in rows_of_task.values()} == {47}
    assert {len(row["candidates"]) for row in rows_of_task["t2"]} == {200}
    sizes = Counter(row["cluster"] for row in rows_of_task["t2"])
    of = {row["story"]: row["cluster"] for row in rows_of_task["t2"]}
    for row in rows_of_task["t2"]:  # exactly the other stories of its cluster are right
        assert {of[row["candidates"][index]] for index in row["relevant"]} == {row["cluster"]}
        assert len(row["relevant"]) == sizes[row["cluster"]] - 1
    itself = [row["id"] for row in rows_of_task["t1"] if row["story"] in row["options"]]
    assert itself == ["152", "163", "168", "188", "192"]
