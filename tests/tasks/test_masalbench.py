"""MasalBench: the reader on files of our own, what is no question, and counts on the real files."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import DataError
from tests.sources import Row, read_rows

DIALOGUE = "سارا: باران می‌آید؟\nمریم: هر که بامش بیش: برفش بیشتر."
INSTRUCTION = "یک گزینه را انتخاب کنید.\n\nفقط حرف آن."
CONTEXT = {
    "Question": f"{INSTRUCTION}\n\nمکالمه:\n{DIALOGUE}\n\nسؤال:\nمریم با این ضرب‌المثل چه منظوری داشت؟\n\n"
    "گزینه‌ها:\nالف) یک\nب) دو\nج) سه\nد) چهار",
    "Answer Key": "{'الف': 'Irrelevant', 'ب': 'Literal Trap', 'ج': 'Correct', 'د': 'Plausible but Wrong'}",
}
CROSS = {
    "Question": f"{INSTRUCTION}\n\nضرب‌المثل فارسی:\nهر که بامش بیش، برفش بیشتر.\n\nسؤال:\nکدام؟\n\nگزینه‌ها:\n"
    "الف) Great roofs, great snow.\nب) Snow falls.",
    "Answer Key": "{'ب': 'Irrelevant', 'الف': 'Equivalent'}",
}
FILES = {"context": "contextualQuestions.csv", "cross": "crossCulturalQuestions.csv"}


def read_part(folder: Path, part: str, *rows: dict[str, str], columns: Sequence[str] = tuple(CONTEXT)) -> list[Row]:
    """The rows of a part whose file has these."""
    with (folder / FILES[part]).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return read_rows(f"masalbench:{part}", folder)


def test_a_dialogue_is_taken_apart(tmp_path: Path) -> None:
    (row,) = read_part(tmp_path, "context", CONTEXT)
    del row["location"]
    assert row == {
        "id": "context-0",
        "subject": DIALOGUE,
        "question": "مریم با این ضرب‌المثل چه منظوری داشت؟",
        "options": ("یک", "دو", "سه", "چهار"),
        "gold": 2,
        "kinds": ("irrelevant", "literal trap", "correct", "plausible but wrong"),
        "asked": "second speaker",
    }


def test_a_proverb_is_taken_apart_whatever_the_order_of_the_key(tmp_path: Path) -> None:
    other = {**CROSS, "Question": CROSS["Question"].replace("Great roofs, great snow.", "great roofs: great snow")}
    rows = read_part(tmp_path, "cross", CROSS, other)
    assert rows[0]["subject"] == "هر که بامش بیش، برفش بیشتر."
    assert [(row["gold"], row["kinds"]) for row in rows] == [(0, ("equivalent", "irrelevant"))] * 2
    assert {row["cluster"] for row in rows} == {"cross-0"}  # both have the same equivalent


@pytest.mark.parametrize(
    ("old", "new", "person"),
    [("سؤال:\nمریم", "سؤال:\nناهید", "another name"), ("سارا: ", "", "second speaker"), ("\nمریم:", "\n مریم:", None)],
)
def test_slips_in_names_are_kept_and_flagged(old: str, new: str, person: str | None, tmp_path: Path) -> None:
    (row,) = read_part(tmp_path, "context", {**CONTEXT, "Question": CONTEXT["Question"].replace(old, new)})
    assert row["asked"] == (person or "second speaker")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("مکالمه:", "گفتگو:", "expected an instruction and the heads .* found the heads سؤال: گزینه‌ها:"),
        (INSTRUCTION, "سؤال:\nx", "found the heads سؤال: مکالمه: سؤال: گزینه‌ها:"),
        (INSTRUCTION + "\n\n", "", "expected an instruction and the heads"),
        ("ج) سه", "ج سه", r"expected option ج\), found 'ج سه'"),
        ("ج) سه", "ج) ", r"expected option ج\), found 'ج\) '"),
        ("\nب) دو\nج) سه", "\nج) سه\nب) دو", r"expected option ب\), found 'ج\) سه'"),
        ("\nد) چهار", "", "expected a text and 4 options of one line, found 3 lines"),
        ("چهار", "چهار\nه) پنج", "expected a text and 4 options of one line, found 5 lines"),
        ("\nمریم: ", " ", "expected a dialogue of two lines, the second one after a name and a colon, found 1 lines"),
        (": برفش بیشتر.", " برفش.\nسارا: بله", "found 3 lines that end in 'سارا: بله'"),
        (" چه منظوری داشت؟", " چه گفت؟", "does not ask what somebody meant by the proverb"),
    ],
)
def test_a_question_of_another_form_is_one_line(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in CONTEXT["Question"]
    with pytest.raises(DataError, match=f"row 1, field 'Question': .*{words}") as caught:
        read_part(tmp_path, "context", CONTEXT, {**CONTEXT, "Question": CONTEXT["Question"].replace(old, new)})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "الف",
        "{'الف': 'Equivalent'}",
        "{'الف': 'Equivalent', 'ب': 'Equivalent'}",
        "{'الف': 'Irrelevant', 'ب': 'Irrelevant'}",
        "{'الف': 'Equivalent', 'ب': 'Nonsense'}",
        "{'الف': 'Equivalent', 'ب': 'Irrelevant', 'ج': 'Irrelevant'}",
        "{'الف': 'Irrelevant', 'الف': 'Equivalent', 'ب': 'Irrelevant'}",
        "{'الف': ['Equivalent'], 'ب': 'Irrelevant'}",
        "{['الف']: 'Equivalent', 'ب': 'Irrelevant'}",
        "dict(الف='Equivalent', ب='Irrelevant')",
        "__import__('os').getcwd()",
        "[" * 900,
        "{'الف': 'Equivalent', 'ب': 'Irrelevant'}" + " " * 2000,
    ],
)
def test_a_key_of_another_form_is_one_line(key: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"row 0, field 'Answer Key': expected \{letter: kind\}") as caught:
        read_part(tmp_path, "cross", {**CROSS, "Answer Key": key})
    assert "\n" not in str(caught.value)


@settings(max_examples=30)
@given(question=st.text(max_size=60), key=st.text(max_size=60))
def test_no_text_is_guessed_or_breaks_the_reader(
    question: str, key: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    row = {"Question": question + CROSS["Question"], "Answer Key": key}
    with pytest.raises(DataError):
        read_part(tmp_path_factory.getbasetemp(), "cross", row)


def test_a_missing_column_and_an_unknown_part_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="row 0: there is no column 'Answer Key'; the header has Question"):
        read_part(tmp_path, "cross", CROSS, columns=["Question"])
    with pytest.raises(DataError, match="masalbench has no part 'crosss'; did you mean 'cross'"):
        read_rows("masalbench:crosss", tmp_path)


def test_the_real_files(real_data: str) -> None:
    dialogues, proverbs = (read_rows(f"masalbench:{part}") for part in FILES)
    assert (len(dialogues), len(proverbs)) == (1000, 700)
    assert Counter(row["gold"] for row in dialogues) == {0: 255, 1: 250, 2: 256, 3: 239}
    assert Counter(row["gold"] for row in proverbs) == {0: 373, 1: 327}
    assert [row["id"] for row in dialogues if row["asked"] != "second speaker"] == ["context-620", "context-875"]
    assert len({row["cluster"] for row in proverbs}) == 539
    longest: list[Any] = [row["options"][row["gold"]] == max(row["options"], key=len) for row in dialogues]
    assert sum(longest) > 900
