"""Metaphor-Paraphrase: the reader on files of our own, and counts on the real ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from figeval import DataError
from tests.sources import Row, read_rows

SMALL_CORPUS = """
The night was a coat \n A dark night covered us#4\n The night had sleeves # 1\n
\nThe  Night was a coat.\n It was dark.#3\n It was light.#1\n
Fear is a fog\n We see less when we fear\n
Joy is a coin\n It is metal#1\n It is round#1\n
###*###
"""


def rows_of(path: str, folder: Path, text: str = SMALL_CORPUS) -> list[Row]:
    """The rows of a corpus whose file holds this text."""
    (folder / "file.txt").write_text(text, encoding="utf-8")
    return read_rows(f"metaphor_paraphrase:{path}", folder / "file.txt")


def test_pairs_have_grades_and_sets_with_one_metaphor_are_one_cluster(tmp_path: Path) -> None:
    rows = rows_of("corpus", tmp_path)
    assert [row["id"] for row in rows] == ["1-1", "1-2", "2-1", "2-2", "3-1", "4-1", "4-2"]
    assert [row["grade"] for row in rows] == [4, 1, 3, 1, None, 1, 1]
    assert [row["set"] for row in rows][:4] == ["set 1"] * 4
    assert (rows[1]["metaphor"], rows[1]["candidate"]) == ("The night was a coat", "The night had sleeves")


def test_a_ranking_needs_all_grades_and_one_above_the_lowest(tmp_path: Path) -> None:
    rows = rows_of("corpus/sets", tmp_path)
    assert [(row["id"], row["gains"]) for row in rows] == [("1", {0: 3, 1: 0}), ("2", {0: 2, 1: 0})]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A\nb#5\n", "lit2met_corpus.txt:2, field 'grade': '5' is not on the scale 1, 2, 3, 4"),
        ("A\nb#\n", "field 'grade': '' is not on the scale"),
        ("A\n\nB\nc#1\n", "lit2met_corpus.txt:1: a metaphor without candidates"),
        ("a#1\nb#2\n", "lit2met_corpus.txt:1: a set begins with a grade"),
    ],
)
def test_what_is_no_set_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words.replace("(", r"\(")):
        rows_of("lit2met", tmp_path, text)


def test_an_unknown_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no rows 'corpsu'; did you mean 'corpus'"):
        rows_of("corpsu", tmp_path)


def test_the_real_files(real_data: str) -> None:
    counts = {
        path: Counter(row["grade"] for row in read_rows(f"metaphor_paraphrase:{path}"))
        for path in ("corpus", "lit2met")
    }
    assert counts == {
        "corpus": {1: 202, 2: 171, 3: 153, 4: 218, None: 4},
        "lit2met": {1: 221, 2: 144, 3: 147, 4: 208},
    }
    sets = read_rows("metaphor_paraphrase:corpus/sets")
    assert (len(sets), len({row["set"] for row in sets})) == (184, 182)
    assert {len(row["candidates"]) for row in sets} == {4}
