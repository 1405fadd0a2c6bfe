"""`figeval annotate`: sheets of a run, filled in and scored."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Cli
from tests.finished_runs import finished


def read_sheet_rows(file: Path) -> list[dict[str, str]]:
    """The rows of a sheet as a spreadsheet sees them."""
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"), newline="")))


def fill(file: Path, unrelated_item: str) -> None:
    """Judge every text: only the one with this item number is unrelated."""
    lines = [
        "item,unrelated",
        *(f"{row['item']},{'yes' if row['item'] == unrelated_item else 'no'}" for row in read_sheet_rows(file)),
    ]
    file.write_text("\n".join(lines), "utf-8")


@pytest.mark.usefixtures("real_data")
def test_runs_without_a_text_are_refused(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "storal_st2mo_en", model="echo", limit=2, baselines=False)  # there are no keywords
    assert "nothing to judge" in cli("annotate", "export", "run", "--output", "items").complaint
    assert not (tmp_path / "items").exists()


@pytest.mark.slow
def test_sheets_are_written_and_scored(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=8)
    arguments = ("annotate", "sheets", "run", "--output", "sheets", "--annotators", "2", "--references", "--n", "5")
    assert "mini_narrative declares no error types; give --errors" in cli(*arguments).complaint
    done = cli(*arguments, "--errors", "unrelated")
    assert done.code == 0, done.err
    assert "10 texts for 5 examples of mini_narrative: sheet_1.csv, sheet_2.csv" in done.out
    assert "column to fill in with yes or no: unrelated" in done.out
    assert "already has sheets" in cli(*arguments, "--errors", "unrelated").complaint

    untouched = cli("annotate", "score", "sheets")
    assert "mini_narrative: nothing has been filled in yet" in untouched.complaint
    fill(tmp_path / "sheets" / "sheet_1.csv", "1")
    shown = cli("annotate", "score", "sheets")
    assert shown.code == 0, shown.err
    assert "mini_narrative: share of texts with an error" in shown.out
    assert "sheet_2.csv: 10 of 10 cells are empty and do not count as judgements" in shown.out
    assert "no alpha of 'unrelated': no text was judged by more than one annotator" in shown.out

    fill(tmp_path / "sheets" / "sheet_2.csv", "1")
    human_results = json.loads(cli("annotate", "score", "sheets", "--json").out)
    assert sorted(share["score"]["value"] for share in human_results["shares"]) == [0.0, 0.2]
    assert [(agreement["alpha"], agreement["texts"]) for agreement in human_results["agreement"]] == [(1.0, 10)]
    assert (human_results["key"]["task"], human_results["key"]["authors"]) == ("mini_narrative", ["echo", "reference"])
    alone = json.loads(cli("annotate", "score", "sheets", "sheets/sheet_2.csv", "--json").out)
    assert list(alone["empty"].values()) == [0]


def test_a_wrong_cell_is_one_line(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    cli("annotate", "sheets", "run", "--output", "sheets", "--errors", "not a narrative, off topic")
    file = tmp_path / "sheets" / "sheet_1.csv"
    assert list(read_sheet_rows(file)[0])[-3:] == ["not a narrative", "off topic", "comment"]
    file.write_text("item,not a narrative,off topic\n1,no,perhaps", "utf-8")
    complaint = cli("annotate", "score", "sheets").complaint
    assert "sheet_1.csv, row 2, column 'off topic': 'perhaps' is neither yes nor no" in complaint


# ---- export and import -----------------------------------------------------------------------------------------------


def judge(file: Path, **labels: str) -> None:
    """Give every item of a sheet these labels, and save it as a spreadsheet would."""
    rows = [{**row, **labels} for row in read_sheet_rows(file)]
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.slow
def test_texts_are_exported_and_judgements_imported(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=6)
    arguments = ("annotate", "export", "run", "--output", "items", "--annotators", "2", "--references", "--n", "4")
    assert "mini_narrative declares no criteria; give --criteria, e.g. fluency=1-5" in cli(*arguments).complaint
    assert "neither name=scale nor a task with criteria" in cli(*arguments, "--criteria", "mini_narrative").complaint
    assert (
        "'text' is given twice, or is one of the other columns" in cli(*arguments, "--criteria", "text=1-5").complaint
    )
    assert "'label' is given twice" in cli(*arguments, "--criteria", "label=1-5").complaint
    assert "'5-1' is not a scale" in cli(*arguments, "--criteria", "fluency=5-1").complaint
    done = cli(*arguments, "--criteria", "fluency=1-5,coherent=yes/no")
    assert done.code == 0, done.err
    assert "8 items and 2 attention checks of mini_narrative: sheet_1.csv, sheet_2.csv" in done.out
    assert "already has items" in cli(*arguments, "--criteria", "fluency=1-5").complaint
    rows = read_sheet_rows(tmp_path / "items" / "sheet_1.csv")
    assert list(rows[0]) == ["item", "proverb", "keywords", "text", "fluency", "coherent", "comment"]
    assert sum(row["text"].startswith("This item checks your attention.") for row in rows) == 2
    assert "echo" not in (tmp_path / "items" / "sheet_1.csv").read_text("utf-8-sig").split()

    assert "nothing has been judged yet" in cli("annotate", "import", "--to", "items").complaint
    judge(tmp_path / "items" / "sheet_1.csv", fluency="4", coherent="yes")
    judge(tmp_path / "items" / "sheet_2.csv", fluency="6")
    complaint = cli("annotate", "import", "--to", "items").complaint
    assert "sheet_2.csv, row 2: sheet_2 gave '6' for 'fluency', which is not on the scale 1, 2, 3, 4, 5" in complaint
    judge(tmp_path / "items" / "sheet_2.csv", fluency="2")
    shown = cli("annotate", "import", "--to", "items", "--run", "run", "--pairs")
    assert shown.code == 0, shown.err
    for table in ("judgements", "Agreement of 2 annotators", "Agreement of pairs", "Differences", "Correlation"):
        assert table in shown.out
    assert "answers to attention checks as requested" in shown.out
    assert "10 cells without a label" in shown.out
    human_results = json.loads(cli("annotate", "import", "items/judgements.csv", "--to", "items", "--json").out)
    means = {(system["criterion"], system["system"]): system["score"]["value"] for system in human_results["systems"]}
    assert means[("fluency", "echo")] == means[("fluency", "reference")] == 3.0
    assert means[("coherent", "echo")] == 1.0
    table = cli("export", "--to", "latex", "--layout", "storal_table_8", "--measured", "items").complaint
    assert "--measured has no number for storal_table_8; its columns (part and metrics) are storal_st2mo_zh" in table
    alone = cli("annotate", "import", "--to", "items", "--exclude", "sheet_2", "--json").out
    assert json.loads(alone)["annotators"] == ["sheet_1"]
    stored = (tmp_path / "items" / "judgements.csv").read_bytes()
    assert b"sheet_2" in stored
    again = ("annotate", "import", "items/judgements.csv", "--to", "items", "--exclude", "sheet_1", "--json")
    assert json.loads(cli(*again).out)["annotators"] == ["sheet_2"]
    assert (tmp_path / "items" / "judgements.csv").read_bytes() == stored
    assert (
        "no annotator is called 'sheet_3'"
        in cli("annotate", "import", "--to", "items", "--exclude", "sheet_3").complaint
    )


def test_each_import_replaces_only_its_annotators(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    assert cli("annotate", "export", "run", "--criteria", "fluency=1-5", "--checks", "0", "--output", "items").code == 0

    def imported(name: str, label: int) -> dict[str, Any]:
        rows = "".join(f"{item},{name},{label}\n" for item in (1, 2))
        (tmp_path / "x.csv").write_text(f"item,annotator,label\n{rows}", "utf-8")
        done = cli("annotate", "import", "x.csv", "--to", "items", "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    imported("@anna", 5)
    imported_results = imported("=ben", 1)
    assert (imported_results["annotators"], imported_results["judgements"]) == (["=ben", "@anna"], 4)
    imported_results = imported("@anna", 3)
    assert (imported_results["annotators"], imported_results["judgements"]) == (["=ben", "@anna"], 4)
    assert imported_results["systems"][0]["score"]["value"] == 2.0


def test_an_interrupted_export_is_resumed(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    arguments = ("annotate", "export", "run", "--criteria", "fluency=1-5", "--annotators", "2", "--output", "items")
    assert cli(*arguments).code == 0
    before = (tmp_path / "items" / "sheet_2.csv").read_bytes()
    judge(tmp_path / "items" / "sheet_1.csv", fluency="4")
    judged = (tmp_path / "items" / "sheet_1.csv").read_bytes()
    assert "already has items" in cli(*arguments).complaint
    (tmp_path / "items" / "sheet_2.csv").unlink()
    assert "already has items" in cli(*arguments, "--seed", "1").complaint
    assert cli(*arguments).code == 0
    assert (tmp_path / "items" / "sheet_2.csv").read_bytes() == before
    assert (tmp_path / "items" / "sheet_1.csv").read_bytes() == judged
    (tmp_path / "items" / "key.json").unlink()  # kept elsewhere
    assert "already has items" in cli(*arguments).complaint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"authors": []}, "authors"),
        ({"criteria": []}, "key.json names no criteria"),
    ],
)
def test_an_edited_key(changes: dict[str, Any], message: str, cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=1)
    assert cli("annotate", "export", "run", "--criteria", "fluency=1-5", "--checks", "0", "--output", "items").code == 0
    key = json.loads((tmp_path / "items" / "key.json").read_text("utf-8"))
    (tmp_path / "items" / "key.json").write_text(json.dumps(key | changes), "utf-8")
    judge(tmp_path / "items" / "sheet_1.csv", fluency="4")
    assert message in cli("annotate", "import", "--to", "items").complaint
    huge = {"criteria": [{"name": "fluency", "labels": ["4", "5", "9" * 400]}]}
    (tmp_path / "items" / "key.json").write_text(json.dumps(key | huge), "utf-8")
    done = cli("annotate", "import", "--to", "items", "--run", "run", "--json")
    assert (done.code, json.loads(done.out)["systems"][0]["score"]["value"]) == (0, None)


def test_label_studio_gets_tasks_and_a_configuration(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=3)
    arguments = ("annotate", "export", "run", "--to", "label_studio", "--criteria", "on topic=yes/no", "--output", "ls")
    assert "Label Studio distributes the items itself" in cli(*arguments, "--annotators", "2").complaint
    assert cli(*arguments, "--checks", "0").code == 0
    tasks = json.loads((tmp_path / "ls" / "tasks.json").read_text("utf-8"))
    assert [list(task["data"]) for task in tasks] == [["item", "proverb", "keywords", "text"]] * 3
    config = ElementTree.parse(tmp_path / "ls" / "config.xml").getroot()
    headline, *shown = [element.get("value") for element in config.iter("Text")]
    assert str(headline).startswith("Read each item as a whole, then judge its text on one criterion: on topic. ")
    assert shown == ["$proverb", "$keywords", "$text"]
    (choices,) = config.iter("Choices")
    assert (choices.get("name"), choices.get("toName"), choices.get("choice")) == ("on_topic", "shown_text", "single")
    judged = {"from_name": "on_topic", "type": "choices", "value": {"choices": ["yes"]}}
    export = [{**task, "annotations": [{"id": 1, "completed_by": 7, "result": [judged]}]} for task in tasks]
    (tmp_path / "export.json").write_text(json.dumps(export), "utf-8")
    human_results = json.loads(cli("annotate", "import", "export.json", "--to", "ls", "--json").out)
    assert [system["score"]["value"] for system in human_results["systems"]] == [1.0]


def test_annotators_are_told_what_to_do(cli: Cli, tmp_path: Path) -> None:
    arguments = ("annotate", "export", "--task", "mini_proverbs", "--n", "2", "-o")
    assert cli(*arguments, "default").code == 0
    instructions = (tmp_path / "default" / "instructions.txt").read_text("utf-8")
    task, criterion, filling = instructions.strip().split("\n\n")
    assert task == "Choose the proverb that fits best, and answer with its letter."
    assert criterion == "answer (A, B, C, D, E)"
    assert filling.startswith("Write one of the labels in brackets into each of these columns.")

    (tmp_path / "guide.md").write_bytes("\ufeff# Read\r\n\r\nBoth *parts*.\x1b[31m\n".encode())
    for name, option in (("path", "guide.md"), ("at", "@guide.md"), ("text", "# Read\n\nBoth *parts*.")):
        assert cli(*arguments, name, "--instructions", option).code == 0
        key = json.loads((tmp_path / name / "key.json").read_text("utf-8"))
        assert key["instructions"] == "# Read\n\nBoth *parts*."
    done = cli(*arguments, "nothing", "--instructions", "")
    assert "instructions.txt" not in done.out
    assert not (tmp_path / "nothing" / "instructions.txt").exists()
    for missing in ("guide", "@two words"):
        complaint = cli(*arguments, "none", "--instructions", missing).complaint
        assert "give --instructions a text of several words, or a file with it" in complaint
    assert not (tmp_path / "none").exists()


def test_annotators_are_told_what_labels_mean(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    export = ("annotate", "export", "run", "--checks", "0")
    meanings = {"1-5": ["a higher number means more"], "yes/no": ["yes if the criterion applies"], "bad/good": []}
    for number, (scale, means) in enumerate(meanings.items()):
        assert cli(*export, "--criteria", f"fluency={scale}", "-o", str(number)).code == 0
        instructions = json.loads((tmp_path / str(number) / "key.json").read_text("utf-8"))["instructions"]
        assert [meaning for every in meanings.values() for meaning in every if meaning in instructions] == means
    assert cli(*export, "--criteria", "epic_narrative_unseen", "-o", "described").code == 0
    instructions = (tmp_path / "described" / "instructions.txt").read_text("utf-8")
    assert "each criterion separately" in instructions and "higher number" not in instructions, (
        "the descriptions say what numbers mean"
    )


def test_sheets_of_errors_say_what_to_look_for(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    arguments = ("annotate", "sheets", "run", "--errors")
    done = cli(*arguments, "rude,off topic", "-o", "two")
    assert "two/instructions.txt tells annotators what to do" in done.out
    first, *columns, filling = (tmp_path / "two" / "instructions.txt").read_text("utf-8").strip().split("\n\n")
    assert "whether its text has it: rude, off topic. A text may have several" in first
    assert columns == ["rude (no, yes)", "off topic (no, yes)"]
    assert "Leave a cell empty only if you cannot decide" in filling
    cli(*arguments, "rude", "-o", "one", "--instructions", "Mark what hurts.")
    assert (tmp_path / "one" / "instructions.txt").read_text("utf-8").startswith("Mark what hurts.\n\nrude (no, yes)\n")
    assert "instructions" not in cli(*arguments, "rude", "-o", "none", "--instructions", "").out
    assert not (tmp_path / "none" / "instructions.txt").exists()
    assert "no_file" in cli(*arguments, "rude", "-o", "bad", "--instructions", "no_file").complaint
    assert not (tmp_path / "bad").exists()


def test_criteria_of_a_preset_are_described(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    arguments = (
        "annotate",
        "export",
        "run",
        "--criteria",
        "epic_narrative_unseen",
        "--to",
        "label_studio",
        "--checks",
        "0",
    )
    assert cli(*arguments, "-o", "ls", "--instructions", "It costs $5 a text.").code == 0
    instructions = (tmp_path / "ls" / "instructions.txt").read_text("utf-8").split("\n\n")
    assert instructions[0] == "It costs $5 a text."
    assert [line.partition(" (1, 2, 3, 4, 5): ")[0] for line in instructions[1:]] == [
        *("relatedness", "interestingness", "fluency", "overall")
    ]
    config = ElementTree.parse(tmp_path / "ls" / "config.xml").getroot()
    assert next(element.get("value") for element in config.iter("Text")) == "It costs \u2060$\u20605 a text.", (
        "$5 would be a field"
    )
    small = [element.get("value") for element in config.iter("Header") if element.get("size") == "6"]
    assert small == [line.partition(": ")[2].strip() for line in instructions[1:]]


def test_a_key_from_before_there_were_instructions(cli: Cli, tmp_path: Path) -> None:
    cli("annotate", "export", "--task", "mini_proverbs", "--n", "2", "--checks", "0", "-o", "items")
    file = tmp_path / "items" / "key.json"
    key = json.loads(file.read_text("utf-8"))
    del key["instructions"]
    for criterion in key["criteria"]:
        del criterion["description"]
    file.write_text(json.dumps(key), "utf-8")
    judge(tmp_path / "items" / "sheet_1.csv", answer="A")
    done = cli("annotate", "import", "--to", "items", "--pairs")
    assert done.code == 0, done.err
    assert "one annotator: no agreement" in done.out
    assert "Agreement" not in done.out
    assert "krippendorff" not in done.out


def test_people_answer_the_questions_of_a_choice_task(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_proverbs", limit=60)
    done = cli("annotate", "export", "--task", "mini_proverbs", "--n", "5", "--checks", "1", "--output", "mcq")
    assert done.code == 0, done.err
    key = json.loads((tmp_path / "mcq" / "key.json").read_text("utf-8"))
    rows = read_sheet_rows(tmp_path / "mcq" / "sheet_1.csv")
    assert list(rows[0]) == ["item", "question", *"ABCDE", "answer", "comment"]
    assert set(key["gold"]) | set(key["checks"]) == {row["item"] for row in rows}
    lines = ["item,annotator,label", *(f"{item},kim,{letter}" for item, letter in key["gold"].items())]
    (tmp_path / "kim.csv").write_text("\n".join(lines), "utf-8")
    human_results = json.loads(cli("annotate", "import", "kim.csv", "--to", "mcq", "--run", "run", "--json").out)
    assert [(system["system"], system["score"]["value"]) for system in human_results["systems"]] == [("people", 1.0)]
    assert {correlation["metric"] for correlation in human_results["correlations"]} >= {"acc of overlap"}
    assert (
        "kim: 0 of 0 answers to attention checks as requested, 1 empty"
        in cli("annotate", "import", "kim.csv", "--to", "mcq").out
    )
    measured = json.loads((tmp_path / "mcq" / "measured.json").read_text("utf-8"))
    for number in measured["numbers"]:
        number["part"] = "epic_mcq"  # whose table has a column for it
    (tmp_path / "own.json").write_text(json.dumps(measured), "utf-8")
    table = cli("export", "--to", "latex", "--layout", "epic_table_10", "--measured", "own.json").out
    assert r"people & 100.0 & {--} \\" in table
    assert "Give the runs" in cli("annotate", "export", "--output", "x").err


def test_agreement_on_answers_stands_beside_people_s_accuracy(cli: Cli, tmp_path: Path) -> None:
    cli("annotate", "export", "--task", "mini_proverbs", "--n", "5", "--checks", "0", "--output", "mcq")
    gold = json.loads((tmp_path / "mcq" / "key.json").read_text("utf-8"))["gold"]
    first, *rest = gold.items()
    wrong = (first[0], "A" if first[1] != "A" else "B")
    answers = [("kim", first), ("lee", wrong), *((name, item) for name in ("kim", "lee") for item in rest)]
    lines = ["item,annotator,label", *(f"{item},{name},{letter}" for name, (item, letter) in answers)]
    (tmp_path / "answers.csv").write_text("\n".join(lines), "utf-8")
    assert cli("annotate", "import", "answers.csv", "--to", "mcq").code == 0
    measured = json.loads((tmp_path / "mcq" / "measured.json").read_text("utf-8"))
    for number in measured["numbers"]:
        number["part"] = "epic_mcq"
    (tmp_path / "people.json").write_text(json.dumps(measured), "utf-8")
    table = cli("export", "--to", "latex", "--layout", "epic_table_10", "--measured", "people.json").out
    assert r"people & 90.0 & {--} \\" in table
    assert re.search(r"people & 0\.800 & 0\.\d\d & 0\.\d\d ", table)


def test_items_may_be_the_ids_of_a_run(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=4)
    row = (tmp_path / "run" / "predictions" / "mini_narrative.jsonl").read_text("utf-8").splitlines()[0]
    (tmp_path / "x.csv").write_text(f"item,annotator,label\n{json.loads(row)['id']},kim,4\n", "utf-8")
    output = cli("annotate", "import", "x.csv", "--run", "run").out
    assert "the scale is that of the labels that occur; if it is another one, give it: --criteria" in " ".join(
        output.split()
    )
    human_results = json.loads(
        cli("annotate", "import", "x.csv", "--run", "run", "--criteria", "fluency=1-5", "--json").out
    )
    assert human_results["inferred"] == {}
    assert [
        (system["criterion"], system["system"], system["score"]["value"]) for system in human_results["systems"]
    ] == [("fluency", "echo", 4.0)]
    assert "give --to FOLDER" in cli("annotate", "import", "x.csv").complaint
    assert "has no task 'x'" in cli("annotate", "import", "x.csv", "--run", "run", "--task", "x").complaint


def test_a_criterion_named_like_the_agreement_on_another_one(cli: Cli, tmp_path: Path) -> None:
    """What import writes, export can read."""
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    criteria = "fluency=yes/no,fluency kappa=yes/no"
    arguments = (
        "annotate",
        "export",
        "run",
        "--criteria",
        criteria,
        "--annotators",
        "2",
        "--checks",
        "0",
        "-o",
        "items",
    )
    assert cli(*arguments).code == 0
    for sheet, labels in (("sheet_1.csv", ("yes", "no")), ("sheet_2.csv", ("yes", "no"))):
        rows = read_sheet_rows(tmp_path / "items" / sheet)
        for row, label in zip(rows, labels, strict=True):
            row["fluency"] = row["fluency kappa"] = label
        with (tmp_path / "items" / sheet).open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    assert cli("annotate", "import", "--to", "items").code == 0
    numbers = json.loads((tmp_path / "items" / "measured.json").read_text("utf-8"))["numbers"]
    assert sorted({number["metric"] for number in numbers}) == ["fluency", "fluency_kappa", "fluency_kappa_kappa"]
    assert [number.get("rule") for number in numbers if number["metric"] == "fluency_kappa"] == [None]
