"""EuroEval's sets: rows of the shape that its documentation shows, in a folder and in the hub's cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import DataError
from tests.cli.conftest import Cli
from tests.sources import Row, read_rows

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OPTIONS = "a. gå hjem\nb. være glad\nc. tie stille\nd. arbejde hårdt"
DANISH = {"text": f"Hvad betyder udtrykket 'se 'lys' i mørket'?\nSvarmuligheder:\n{OPTIONS}", "label": "c"}
FAROESE = {"text": f"Hvat merkir orðafellið 'tvey ( trý) hús'?\nSvarmøguleikar:\n{OPTIONS}", "label": "a"}
NORWEGIAN = {
    "text": f"Complete the Nynorsk idiom:\ntre hus er _____\n\nSvaralternativer::\n{OPTIONS}",
    "label": "d",
    "language": "nno",
}
DUTCH = {
    "text": "Scenario: Jan zegt: a. ja, b. nee.\nEn hij gaat.\nWelk spreekwoord past hier het beste bij?\n"
    "a. Huizen vallen.\nb. Huizen staan.",
    "label": "b",
}
SETS = {
    "danske-talemaader": (DANISH, "se 'lys' i mørket", 2, ""),
    "faroese-metaphorical-explanations": (FAROESE, "tvey ( trý) hús", 0, ""),
    "idioms-no": (NORWEGIAN, "tre hus er", 3, "nynorsk"),
    "dutch-proverbs": (DUTCH, "Jan zegt: a. ja, b. nee.\nEn hij gaat.", 1, ""),
}


def write_set(folder: Path, rows: Sequence[Mapping[str, Any]], split: str = "test") -> Path:
    """Write the split of a set as the hub stores it."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def read_set(folder: Path, name: str, *rows: Mapping[str, Any]) -> list[Row]:
    """Read a set whose split `test` has these rows."""
    write_set(folder / "EuroEval" / f"{name}#test", rows)
    return read_rows(f"euroeval:{name}#test", folder)


@pytest.mark.parametrize("name", SETS)
def test_a_text_is_taken_apart(name: str, tmp_path: Path) -> None:
    row, subject, gold, variety = SETS[name]
    (question,) = read_set(tmp_path, name, row)
    lines = str(row["text"]).split("\n")
    options = tuple(line[3:] for line in lines if line[:3] in ("a. ", "b. ", "c. ", "d. "))
    parts = {"id": "test-0", "subject": subject, "options": options, "gold": gold, "variety": variety}
    assert question == {**parts, "cluster": "test-0"}


def test_questions_share_a_cluster_by_idiom_or_by_the_right_proverb(tmp_path: Path) -> None:
    other = {**DANISH, "label": "a"}
    assert [row["cluster"] for row in read_set(tmp_path, "danske-talemaader", DANISH, other)] == ["test-0"] * 2
    same_proverb = {**DUTCH, "text": DUTCH["text"].replace("Jan", "Piet")}
    clusters = [
        row["cluster"] for row in read_set(tmp_path, "dutch-proverbs", DUTCH, same_proverb, {**DUTCH, "label": "a"})
    ]
    assert clusters == ["test-0", "test-0", "test-2"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Hvad betyder udtrykket", "Hvad er", "does not have the form"),
        ("Svarmuligheder:", "Svar:", "does not have the form"),
        ("\nd. arbejde hårdt", "", "expected 4 options of one line each, found 3 lines"),
        ("hårdt", "hårdt\ne. sove", "expected 4 options of one line each, found 5 lines"),
        ("b. være", "b) være", "expected option b., found 'b\\) være"),
        ("b. være glad\nc. tie", "c. være glad\nb. tie", "expected option b., found 'c. være"),
        ("b. være glad", "b.  ", "expected option b., found 'b.  '"),
    ],
)
def test_a_text_of_another_form_is_one_line(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in DANISH["text"]
    with pytest.raises(DataError, match=f"row 2, field 'text': .*{words}") as caught:
        read_set(tmp_path, "danske-talemaader", DANISH, {**DANISH, "text": DANISH["text"].replace(old, new)})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("label", ["e", "ab", "", "A", "c "])
def test_a_label_that_is_no_letter_is_refused(label: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"field 'label': .* is none of the letters a, b, c, d"):
        read_set(tmp_path, "danske-talemaader", {**DANISH, "label": label})


def test_other_columns_sets_and_varieties_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a text in 'label'; the columns are text, answer"):
        read_set(tmp_path, "danske-talemaader", {"text": DANISH["text"], "answer": "c"})
    with pytest.raises(DataError, match="expected a text in 'label'"):
        read_set(tmp_path, "danske-talemaader", {**DANISH, "label": 2})
    with pytest.raises(DataError, match="'Samnorsk' is none of Bokmål, Nynorsk"):
        read_set(tmp_path, "idioms-no", {**NORWEGIAN, "text": NORWEGIAN["text"].replace("Nynorsk", "Samnorsk")})
    with pytest.raises(DataError, match="euroeval has no set 'idioms-nb'; did you mean 'idioms-no'"):
        read_set(tmp_path, "idioms-nb", NORWEGIAN)


@settings(max_examples=10)
@given(
    options=st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1), min_size=4, max_size=4
    )
)
def test_options_come_back_as_they_were_written(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    text = "Hvad betyder udtrykket 'x'?\nSvarmuligheder:\n" + "\n".join(
        f"{letter}. {option}" for letter, option in zip("abcd", options, strict=True)
    )
    (row,) = read_set(tmp_path_factory.mktemp("set"), "danske-talemaader", {"text": text, "label": "b"})
    assert row["options"] == tuple(options)


@pytest.fixture
def dutch_file(hub_cache: Path) -> Path:
    """The Dutch set in the hub's cache, as its only set."""
    folder = hub_cache / "datasets--EuroEval--dutch-proverbs"
    write_set(folder / "snapshots" / COMMIT, [DUTCH, {**DUTCH, "label": "a"}])
    (folder / ".no_exist" / COMMIT).mkdir(parents=True)
    (folder / ".no_exist" / COMMIT / "README.md").touch()  # the hub has no card
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    return folder / "snapshots" / COMMIT / "data" / "test-00000-of-00001.parquet"


def test_a_suite_runs_without_the_sets_that_are_not_here(dutch_file: Path, tmp_path: Path, cli: Cli) -> None:
    danish = write_set(write_set(tmp_path / "danish", [DANISH] * 3), [DANISH], "train")
    copy = f"EuroEval/danske-talemaader={danish}"
    outcome = cli("run", "--tasks", "euroeval", "--model", "chance", "--data", copy, "--output_path", "run")
    assert outcome.code == 0, outcome.err
    record = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    tasks = {task["task"]: task for task in record["tasks"] if "@" not in task["task"]}
    assert list(tasks) == ["euroeval_danish", "euroeval_dutch"]
    about = tasks["euroeval_dutch"]["settings"]["hub"]
    assert about["revision"] == COMMIT
    assert list(about["files"].values()) == [hashlib.sha256(dutch_file.read_bytes()).hexdigest()]
    assert "figeval data fetch hub:EuroEval/idioms-no#test" in outcome.out


def test_a_task_whose_set_is_not_here_is_one_line(dutch_file: Path, cli: Cli) -> None:
    complaint = cli("run", "--tasks", "euroeval_norwegian", "--model", "chance", "--output_path", "run").complaint
    assert "give a copy with --data EuroEval/idioms-no=FOLDER" in complaint
    assert cli("run", "--tasks", "euroeval_dutch", "--model", "overlap", "--output_path", "run").code == 0
