"""Sheets for annotators and their scores: what they hide, what they count, and how far people agree."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import figeval
from figeval import AnnotationItems, Harness, OptionError
from tests.cli.conftest import Cli, Outcome
from tests.wings.annotation.served import export_texts

REFERENCE = "reference"
ERRORS = ("not a moral", "unrelated")
TASK = """
name: {name}
type: generation
data: {{test: "jsonl:rows.jsonl", train: "jsonl:rows.jsonl"}}
fields:
  id: row.id
  inputs: {{story: row.story, hints: row.hints}}
  references: [row.moral]
  meta: {{theme: row.theme}}
cluster: theme
baselines: []
error_types: [not a moral, unrelated]
"""


@pytest.fixture
def task_folder(tmp_path: Path) -> Path:
    """A folder with two tasks of ten stories each."""
    rows = [
        {
            "id": f"s{n}",
            "story": f"Story {n}.",
            "hints": ["amber", f"fox {n}"],
            "moral": f"Moral {n}.",
            "theme": f"t{n // 2}",
        }
        for n in range(10)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name in ("fables", "legends"):
        (tmp_path / f"{name}.task.yaml").write_text(TASK.format(name=name), "utf-8")
    return tmp_path


@pytest.fixture
def run(task_folder: Path) -> Callable[..., Path]:
    """`run("name", text=…)`: a run of a model of this name that has written `text(id)` for each story."""

    def make(name: str, *tasks: str, text: Callable[[str], str | None] | None = None, **settings: Any) -> Path:
        settings = {"model": "echo", "tasks": tasks or ("fables",), "output_path": task_folder / name, **settings}
        figeval.run(include_path=task_folder, **settings)
        folder = task_folder / name
        record = json.loads((folder / "run.json").read_text("utf-8"))
        record["model"]["name"] = name.partition("+")[0]
        for task in record["tasks"] if text else ():
            file = folder / task["predictions"]
            task["predictions_sha256"] = None
            lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
            for line in lines:
                line["pred"] = text(line["id"])
                line["status"] = "refusal" if line["pred"] is None else "ok"
            file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        (folder / "run.json").write_text(json.dumps(record), "utf-8")
        return folder

    return make


@pytest.fixture
def sheets(cli: Cli, task_folder: Path) -> Callable[..., Outcome]:
    """`sheets(run, …)`: the command that writes sheets of all texts of these runs, by default into `sheets`."""

    def write(*runs: Path, output: str = "sheets", n: int = 99, **flags: Any) -> Outcome:
        words = [word for flag, value in flags.items() for word in (f"--{flag}", value) if value is not True]
        words += [f"--{flag}" for flag, value in flags.items() if value is True]
        arguments = ("--output", task_folder / output, "--n", n, "--include_path", task_folder)
        return cli("annotate", "sheets", *runs, *arguments, *words)

    return write


@pytest.fixture
def key_of_texts(sheets: Callable[..., Outcome], task_folder: Path) -> Callable[..., Any]:
    """`key_of_texts(run, …)`: the key of the sheets that this writes."""

    def write(*runs: Path, output: str = "sheets", **flags: Any) -> Any:
        done = sheets(*runs, output=output, **flags)
        assert done.code == 0, done.err
        return AnnotationItems.load(task_folder / output).key

    return write


def scores(cli: Cli, folder: Path, *files: Path) -> Any:
    """Return the scores of filled-in sheets."""
    done = cli("annotate", "score", folder, *files, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def read_sheet_rows(file: Path) -> list[dict[str, str]]:
    """The rows of a sheet as a spreadsheet sees them."""
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"), newline="")))


def fill(file: Path, judge: Callable[[dict[str, str]], Mapping[str, str]], delimiter: str = ",") -> Path:
    """Fill in a sheet and save it as a spreadsheet would."""
    rows = [row | dict(judge(row)) for row in read_sheet_rows(file)]
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(rows[0]), delimiter=delimiter, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    file.write_bytes(stream.getvalue().encode("utf-8-sig"))
    return file


def share(shares: Any, error_type: str, author: str) -> Any:
    return next(
        error_share
        for error_share in shares["shares"]
        if (error_share["error_type"], error_share["author"]) == (error_type, author)
    )


# ---- sheets ----------------------------------------------------------------------------------------------------------


def test_sheets_show_texts_and_inputs_and_hide_whose_they_are(run: Any, key_of_texts: Any, tmp_path: Path) -> None:
    runs = run("anna", text=lambda key: f"A of {key}"), run("ben", text=lambda key: f"B of {key}")
    key = key_of_texts(*runs, annotators=2)
    first, second = (read_sheet_rows(tmp_path / "sheets" / name) for name in key.sheets)
    assert list(first[0]) == ["item", "story", "hints", "text", "not a moral", "unrelated", "comment"]
    assert sorted(row["item"] for row in first) == sorted(row["item"] for row in second) == sorted(key.items)
    assert [row["item"] for row in first] != [row["item"] for row in second]
    for row in first:
        item = key.items[row["item"]]
        assert row["text"] == f"{item.author[0].upper()} of {item.example}"
        assert (row["story"], row["hints"]) == (f"Story {item.example[1:]}.", f"amber; fox {item.example[1:]}")
        assert row["not a moral"] == row["unrelated"] == row["comment"] == ""
    numbers = [int(number) for number, item in key.items.items() if item.author == "anna"]
    assert len(numbers) == 10
    assert numbers != sorted(range(1, 11))  # the number does not tell the author
    assert "anna" not in (tmp_path / "sheets" / "sheet_1.csv").read_text("utf-8-sig")
    assert "of s" not in (tmp_path / "sheets" / "key.json").read_text("utf-8")


def test_everything_is_drawn_from_the_seed(run: Any, key_of_texts: Any, tmp_path: Path) -> None:
    folder = run("anna")

    def drawn(name: str, seed: int) -> list[bytes]:
        key_of_texts(folder, output=name, n=4, seed=seed, references=True, annotators=2)
        return [file.read_bytes() for file in sorted((tmp_path / name).iterdir())]

    assert drawn("one", 0) == drawn("two", 0) != drawn("three", 1)


def test_references_are_mixed_in_as_a_control(run: Any, key_of_texts: Any, tmp_path: Path) -> None:
    key = key_of_texts(run("anna"), n=4, references=True)
    assert Counter(item.author for item in key.items.values()) == {"anna": 4, REFERENCE: 4}
    for row in read_sheet_rows(tmp_path / "sheets" / "sheet_1.csv"):
        item = key.items[row["item"]]
        assert item.author != REFERENCE or row["text"] == f"Moral {item.example[1:]}."


def test_texts_of_all_runs_are_for_the_same_examples(run: Any, key_of_texts: Any) -> None:
    items = key_of_texts(run("anna", limit=6), run("ben"), n=4).items.values()
    examples = [{item.example for item in items if item.author == author} for author in ("anna", "ben")]
    assert examples[0] == examples[1]
    assert len(examples[0]) == 4
    assert examples[0] <= {f"s{n}" for n in range(6)}


def test_what_was_not_written_is_counted_and_not_shown(run: Any, key_of_texts: Any) -> None:
    lazy = {"s1": None, "s2": " "}
    key = key_of_texts(run("anna", text=lambda key: lazy.get(key, "A text.")), run("ben"))
    assert key.not_written == {"anna": 2}
    assert Counter(item.author for item in key.items.values()) == {"anna": 8, "ben": 10}


def test_models_of_one_name_are_told_apart_by_their_runs(run: Any, key_of_texts: Any) -> None:
    authors = key_of_texts(run("anna"), run("anna+again", seed=1)).authors
    assert len(set(authors)) == 2
    assert all(author.startswith("anna (") for author in authors)


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2", "@SUM(A1)", "\t=1", "＝1", '=HYPERLINK("http://x","y")']


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_text_is_a_formula(formula: str, run: Any, sheets: Any, cli: Cli, task_folder: Path) -> None:
    rows = (task_folder / "rows.jsonl").read_text("utf-8")
    (task_folder / "rows.jsonl").write_text(rows.replace('"Story 1."', json.dumps(formula)), "utf-8")
    error = formula.partition(",")[0].strip()  # commas separate error types
    assert sheets(run("anna", text=lambda _: formula), errors=error).code == 0
    file = task_folder / "sheets" / "sheet_1.csv"
    cells = next(csv.reader(io.StringIO(file.read_bytes().decode("utf-8-sig"), newline="")))
    (row,) = (row for row in read_sheet_rows(file) if formula in row["story"])
    cells += row.values()
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    assert sum(error in cell for cell in cells) == 3
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t＝"))]
    complaint = cli("annotate", "score", task_folder / "sheets").complaint
    assert "nothing has been filled in yet" in complaint, "the column is found although its name is protected"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *((text, text) for text in ("a, b", '"', "two\nlines", "1;2", "語é", "item", "don't")),
        *(("a\r\n;b", "a\n;b"), ("'=x", "''=x"), ("=1;2", "'=1;2")),
    ],
)
def test_any_text_comes_back_from_a_sheet(
    text: str, cell: str, run: Any, key_of_texts: Any, cli: Cli, task_folder: Path
) -> None:
    task_file = task_folder / "fables.task.yaml"
    task_file.write_text(task_file.read_text("utf-8").replace("{story: row.story, hints:", "{text: row.story, item:"))
    key = key_of_texts(run("anna", text=lambda _: text, limit=1))
    (row,) = read_sheet_rows(task_folder / "sheets" / "sheet_1.csv")
    assert (row["input text"], row["input item"], row["item"]) == ("Story 0.", "amber; fox 0", "1")
    assert row["text"] == cell
    fill(task_folder / "sheets" / "sheet_1.csv", lambda row: {"unrelated": "yes"})
    assert share(scores(cli, task_folder / "sheets"), "unrelated", key.authors[0])["score"]["value"] == 1.0


def test_sheets_that_may_be_filled_in_are_not_written_over(run: Any, sheets: Any) -> None:
    folder = run("anna")
    assert sheets(folder).code == 0
    words = "already has sheets, which may have been filled in; choose another --output"
    assert words in sheets(folder, seed=1).complaint


def test_sheets_that_were_interrupted_are_completed(
    run: Any, sheets: Any, key_of_texts: Any, task_folder: Path
) -> None:
    folder, texts = task_folder / "sheets", run("anna")
    key = key_of_texts(texts, annotators=2)
    second_sheet = (folder / "sheet_2.csv").read_bytes()
    (folder / "sheet_2.csv").unlink()
    fill(folder / "sheet_1.csv", lambda row: {"unrelated": "yes"})
    filled = (folder / "sheet_1.csv").read_bytes()
    assert key_of_texts(texts, annotators=2) == key
    assert ((folder / "sheet_1.csv").read_bytes(), (folder / "sheet_2.csv").read_bytes()) == (filled, second_sheet)
    (folder / "sheet_2.csv").unlink()
    assert "already has sheets" in sheets(texts, annotators=2, seed=1).complaint


@pytest.mark.parametrize("errors", ["story", "unrelated,unrelated", "item"])
def test_error_types_are_columns_of_their_own(errors: str, run: Any, sheets: Any, task_folder: Path) -> None:
    complaint = sheets(run("anna"), errors=errors).complaint
    assert "is blank, given twice, or one of the other columns" in complaint
    assert not (task_folder / "sheets").exists()


# ---- runs that make no sheets ----------------------------------------------------------------------------------------


def test_a_task_is_named_where_runs_share_several(run: Any, sheets: Any, key_of_texts: Any) -> None:
    both = run("anna", "fables", "legends")
    words = "share several tasks with written texts: fables, legends; give --task"
    assert words in sheets(both).complaint
    assert key_of_texts(both, task="legends").task == "legends"
    assert "share no 'legend' with written texts; did you mean 'legends'" in sheets(both, task="legend").complaint
    assert "share no task with written texts" in sheets(run("ben"), run("carl", "legends")).complaint


def test_training_texts_that_stand_in_are_no_written_ones(run: Any, sheets: Any) -> None:
    complaint = sheets(run("anna", model="overlap")).complaint
    assert "a route that answers with training texts does not count" in complaint


def test_other_data_than_those_of_the_run_are_refused(run: Any, sheets: Any, task_folder: Path) -> None:
    folder = run("anna")
    changed = (task_folder / "rows.jsonl").read_text("utf-8").replace("Story 3.", "Another story.")
    (task_folder / "rows.jsonl").write_text(changed, "utf-8")
    assert "examples of fables changed since this run was made" in sheets(folder).complaint


def test_the_same_run_twice_is_refused(run: Any, sheets: Any) -> None:
    folder = run("anna")
    assert "the same run is given twice" in sheets(folder, folder).complaint


# ---- filled-in sheets ------------------------------------------------------------------------------------------------


@pytest.fixture
def written(run: Any, key_of_texts: Any, task_folder: Path) -> tuple[Path, Any]:
    """Two sheets with the texts of two models and the references, ten of each, and their key."""
    return task_folder / "sheets", key_of_texts(run("anna"), run("ben"), references=True, annotators=2)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_shares_and_intervals_are_by_model_and_cluster(written: tuple[Path, Any], delimiter: str, cli: Cli) -> None:
    folder, key = written
    files = [folder / name for name in key.sheets]
    bad = {number for number, item in key.items.items() if item.author == "anna" and item.example in ("s0", "s1", "s4")}
    doubted = {number for number, item in key.items.items() if item.author == "ben" and item.example == "s0"}
    fill(files[0], lambda row: {"unrelated": "Yes" if row["item"] in bad | doubted else " no "}, delimiter)
    fill(files[1], lambda row: {"unrelated": "x" if row["item"] in bad else "0"}, delimiter)
    shares = scores(cli, folder)
    anna, ben = (share(shares, "unrelated", author)["score"] for author in ("anna", "ben"))
    assert (anna["value"], anna["n"], anna["clusters"], anna["higher_is_better"]) == (0.3, 10, 5, False)
    assert (ben["value"], ben["n"]) == (0.05, 10)  # one of two annotators in one of ten
    assert anna["low"] < 0.3 < anna["high"]
    assert share(shares, "unrelated", REFERENCE)["score"]["value"] == 0.0
    assert share(shares, "not a moral", "anna")["score"]["value"] is None
    assert shares["empty"] == dict.fromkeys(map(str, files), 30)
    assert shares["cells"] == 60


def test_a_sheet_may_be_saved_as_a_workbook(written: tuple[Path, Any], cli: Cli, tmp_path: Path) -> None:
    folder, key = written
    files = [
        fill(folder / name, lambda row: {"unrelated": "yes" if row["item"] == "1" else "no"}) for name in key.sheets
    ]
    workbook = openpyxl.Workbook()
    for row in csv.reader(io.StringIO(files[0].read_text("utf-8-sig"), newline="")):
        workbook.active.append([int(cell) if cell.isdecimal() else cell for cell in row])
    workbook.save(tmp_path / "sheet_1.xlsx")
    shares = [scores(cli, folder, first, files[1])["shares"] for first in (files[0], tmp_path / "sheet_1.xlsx")]
    assert shares[0] == shares[1]


def test_an_empty_cell_is_no_judgement(written: tuple[Path, Any], cli: Cli) -> None:
    folder, key = written
    anna = [number for number, item in key.items.items() if item.author == "anna"]
    answers = dict(zip(anna[:4], ("yes", "yes", "yes", "no"), strict=True))
    fill(folder / "sheet_1.csv", lambda row: {"unrelated": answers.get(row["item"], "")})
    shares = scores(cli, folder, folder / "sheet_1.csv")
    unrelated = share(shares, "unrelated", "anna")
    assert (unrelated["score"]["value"], unrelated["score"]["n"], unrelated["texts"]) == (0.75, 4, 10)
    assert shares["empty"] == {str(folder / "sheet_1.csv"): 56}
    assert {score["why"] for score in shares["agreement"]} == {"no text was judged by more than one annotator"}


def test_rows_may_be_sorted_and_left_out(written: tuple[Path, Any], cli: Cli) -> None:
    folder, _ = written
    rows = sorted(read_sheet_rows(folder / "sheet_1.csv"), key=lambda row: row["text"])[:5]
    lines = ["comment,unrelated,not a moral,item", *(f'"a, b",y,n,{row["item"]}' for row in rows), ",,,"]
    (folder / "sheet_1.csv").write_text("\n".join(lines), "utf-8")
    judged = scores(cli, folder, folder / "sheet_1.csv")["shares"]
    for error_type, value in zip(ERRORS, (0.0, 1.0), strict=True):
        judged_scores = [error["score"] for error in judged if error["error_type"] == error_type]
        assert sum(score["n"] for score in judged_scores) == 5
        assert {score["value"] for score in judged_scores if score["n"]} == {value}


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_spreadsheets_write_the_delimiter_of_the_users_language(
    quoting: Any, delimiter: str, tmp_path: Path, cli: Cli
) -> None:
    file = tmp_path / "sheet.csv"
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, quoting=quoting)
        writer.writerows(
            [("item", "text", "bad"), ("1", 'He said,"Go; away"\tand left', "yes"), ("2", "a" * 200_000, "no")]
        )
    assert yes_and_no(scores(cli, write_key(tmp_path, 2), file))


def yes_and_no(shares: Any) -> bool:
    """Whether one of two texts was judged to be bad."""
    (bad,) = shares["shares"]
    return (bad["score"]["value"], bad["score"]["n"]) == (0.5, 2)


def test_one_sheet_is_one_annotator(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "sheet.csv"
    file.write_text("item,bad\n1,yes")
    again = tmp_path / ".." / tmp_path.name / "sheet.csv"
    assert "is given twice" in cli("annotate", "score", write_key(tmp_path, 1), file, again).complaint


def write_key(folder: Path, n: int) -> Path:
    """Write a key of texts by one author."""
    items = {str(number): {"author": "anna", "example": f"s{number}", "cluster": None} for number in range(1, n + 1)}
    about = {"task": "t", "error_types": ["bad"], "authors": ["anna"], "not_written": {}, "seed": 0, "sheets": []}
    (folder / "key.json").write_text(json.dumps({**about, "items": items}), "utf-8")
    return folder


def agreement_of(cli: Cli, folder: Path, judgements: Sequence[Sequence[str]]) -> Any:
    """The agreement of sheets with these judgements, an annotator each."""
    files = []
    for annotator, labels_of_annotator in enumerate(judgements):
        lines = ["item,bad", *(f"{number},{cell}" for number, cell in enumerate(labels_of_annotator, 1))]
        files.append(folder / f"{annotator}.csv")
        files[-1].write_text("\n".join(lines), "utf-8")
    (agreement,) = scores(cli, write_key(folder, len(judgements[0])), *files)["agreement"]
    return agreement


def krippendorff(judgements: Sequence[Sequence[str]]) -> float | None:
    """Alpha by pairs of values: observed over expected disagreement (Krippendorff 2011, for nominal data)."""
    units = [[cell for cell in column if cell] for column in zip(*judgements, strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]
    if len(set(values)) < 2:
        return None
    observed = sum(sum(label != other for label in unit for other in unit) / (len(unit) - 1) for unit in units) / len(
        values
    )
    expected = sum(label != other for label in values for other in values) / len(values) / (len(values) - 1)
    return 1 - observed / expected


def test_alpha_agrees_with_an_independent_computation(cli: Cli, tmp_path: Path) -> None:
    generator = random.Random(1)
    for _ in range(60):
        n, annotators = generator.randint(1, 12), generator.randint(1, 4)
        judgements = [generator.choices(["yes", "no", "no", ""], k=n) for _ in range(annotators)]
        agreement, expected = agreement_of(cli, tmp_path, judgements), krippendorff(judgements)
        assert agreement["alpha"] == (None if expected is None else pytest.approx(expected))
        assert bool(agreement["why"]) == (expected is None)
        assert agreement["texts"] == sum(sum(map(bool, column)) > 1 for column in zip(*judgements, strict=True))


@pytest.mark.parametrize(
    ("judgements", "alpha", "reason"),
    [
        ((["no", "no"], ["no", "no"]), None, "all judgements are the same"),
        ((["no", ""], ["", "yes"]), None, "no text was judged by more than one annotator"),
        ((["no", "yes"], ["no", "yes"]), 1.0, ""),
    ],
)
def test_agreement_of_which_nothing_is_known(
    judgements: Any, alpha: float | None, reason: str, cli: Cli, tmp_path: Path
) -> None:
    agreement = agreement_of(cli, tmp_path, judgements)
    assert (agreement["alpha"], agreement["why"]) == (alpha, reason)


def test_items_keep_inputs_that_are_named_like_columns(tmp_path: Path) -> None:
    texts = [("anna", "s1", {"text": "Given.", "story": "Told."}, "Written.")]
    export_texts(tmp_path / "items", texts, {"fluent": "yes/no"}, to="label_studio")
    (task,) = json.loads((tmp_path / "items" / "tasks.json").read_text("utf-8"))
    assert task["data"] == {"item": "1", "input_text": "Given.", "story": "Told.", "text": "Written."}
    with pytest.raises(OptionError, match="already has items"):
        export_texts(tmp_path / "items", texts, {"fluent": "yes/no"}, to="label_studio")


def test_every_sheet_has_the_same_items_in_another_order(tmp_path: Path) -> None:
    texts = [("anna", f"s{n}", {"story": "Told."}, f"Text {n}.") for n in range(9)]
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        export_texts(tmp_path / name, texts, {"fluent": "1-5"}, annotators=2, seed=seed, checks=2)
    files = [sorted((tmp_path / name).iterdir()) for name in ("one", "two", "three")]
    first, second, third = ([file.read_bytes() for file in files_of_annotator] for files_of_annotator in files)
    assert first == second != third
    first, second = ([row["item"] for row in read_sheet_rows(tmp_path / "one" / f"sheet_{n}.csv")] for n in (1, 2))
    assert first != second
    assert sorted(first) == sorted(second)
    key = AnnotationItems.load(tmp_path / "one").key
    assert len(key.checks) == 2
    assert not key.checks.keys() & key.items.keys()
    for row in read_sheet_rows(tmp_path / "one" / "sheet_1.csv"):
        if row["item"] in key.checks:
            assert row["text"].endswith(f"fluent: {key.checks[row['item']]['fluent']}.")


SHEET = "item;bad\n1;yes\n2;no\n"


@pytest.mark.parametrize(
    "content",
    [
        SHEET.encode(),
        f"sep=;\r\n{SHEET}".encode(),
        SHEET.replace("\n", "\r").encode(),
        SHEET.encode("utf-16"),
        gzip.compress(SHEET.encode(), mtime=0),
    ],
)
def test_a_sheet_is_read_as_other_tables_are(content: bytes, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "sheet.csv").write_bytes(content)
    assert yes_and_no(scores(cli, write_key(tmp_path, 2), tmp_path / "sheet.csv"))


BAD_SHEETS = [
    ("item,bad\n1,maybe", r"sheet.csv, row 2, column 'bad': 'maybe' is neither yes nor no"),
    ("item,bad\n1,yes\n2,-", r"sheet.csv, row 3, column 'bad': '-' is neither yes nor no"),
    ('item,bad,text\n1,yes,"two\nlines"\n2,2,', r"row 3, column 'bad': '2' is neither yes nor no"),
    ("item,bad\n9,yes", r"sheet.csv, row 2, column 'item': item '9' does not belong to this set of sheets"),
    ("item,bad\n1,yes\n1,no", r"sheet.csv, row 3, column 'item': item '1' appears twice"),
    ("bad,item\nyes", r"sheet.csv, row 2, column 'item': item '' does not belong to this set of sheets"),
    ("item,bed\n1,yes", r"sheet.csv: there must be exactly one column 'bad'; did you mean 'bed'"),
    ("item,bad,bad\n1,yes,no", r"sheet.csv: there must be exactly one column 'bad'"),
    ("item,bad\n1,yes,no", r"sheet.csv, row 2: it has 3 cells, but the first row has 2; check the quotes"),
    ("", r"sheet.csv: there must be exactly one column 'item'"),
    ('item,bad\n1,"yes', r"sheet.csv is not a CSV file"),
    ("item,bäd\n".encode("latin-1"), r"sheet.csv:1: byte 0xe4 .* is not utf-8; convert"),
    (None, r"sheet.csv cannot be read \(No such file or directory\)"),
]


@pytest.mark.parametrize(("content", "message"), BAD_SHEETS, ids=[message for _, message in BAD_SHEETS])
def test_bad_sheets_are_told_in_one_line(content: str | bytes | None, message: str, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "sheet.csv"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert re.search(message, cli("annotate", "score", write_key(tmp_path, 2), file).complaint)


@pytest.mark.parametrize("content", [None, "{", '{"task": "t"}'])
def test_a_folder_without_a_key_is_refused(content: str | None, tmp_path: Path, cli: Cli) -> None:
    if content is not None:
        (tmp_path / "key.json").write_text(content, "utf-8")
    words = "give the folder that `figeval annotate export` or `sheets` wrote"
    assert words in cli("annotate", "score", tmp_path).complaint


def test_storal_has_error_types_of_its_own() -> None:
    tasks = Harness().catalogue.tasks
    assert tasks.get("storal_st2mo_en").error_types == ("not a moral", "unrelated", "conflicting", "others")
    assert tasks.get("storal_mo2st_zh").error_types == ("not a story", "unrelated", "conflicting", "others")
