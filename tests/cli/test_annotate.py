"""`figeval annotate`: sheets of a run, filled in and scored."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.runs import finished


def read(file: Path) -> list[dict[str, str]]:
    """The rows of a sheet as a spreadsheet sees them."""
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8-sig"), newline="")))


def fill(file: Path, found: str) -> None:
    """Judge every text: only the one with this item number is unrelated."""
    lines = ["item,unrelated", *(f"{row['item']},{'yes' if row['item'] == found else 'no'}" for row in read(file))]
    file.write_text("\n".join(lines), "utf-8")


@pytest.mark.slow
def test_sheets_are_written_and_scored(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=8)
    asked = ("annotate", "sheets", "run", "--output", "sheets", "--annotators", "2", "--references", "--n", "5")
    assert "mini_narrative declares no error types; give --errors" in cli(*asked).complaint
    done = cli(*asked, "--errors", "unrelated")
    assert done.code == 0, done.err
    assert "10 texts for 5 examples of mini_narrative: sheet_1.csv, sheet_2.csv" in done.out
    assert "column to fill in with yes or no: unrelated" in done.out
    assert "already has sheets" in cli(*asked, "--errors", "unrelated").complaint

    untouched = cli("annotate", "score", "sheets")
    assert (untouched.code, untouched.out) == (0, "mini_narrative: nothing has been filled in yet\n")
    fill(tmp_path / "sheets" / "sheet_1.csv", "1")
    shown = cli("annotate", "score", "sheets")
    assert shown.code == 0, shown.err
    assert "mini_narrative: share of texts with an error" in shown.out
    assert "sheet_2.csv: 10 of 10 cells are empty and do not count as judgements" in shown.out
    assert "no alpha of 'unrelated': no text was judged by more than one annotator" in shown.out

    fill(tmp_path / "sheets" / "sheet_2.csv", "1")
    found = json.loads(cli("annotate", "score", "sheets", "--json").out)
    assert sorted(one["score"]["value"] for one in found["shares"]) == [0.0, 0.2]
    assert [(one["alpha"], one["texts"]) for one in found["agreement"]] == [(1.0, 10)]
    assert (found["key"]["task"], found["key"]["authors"]) == ("mini_narrative", ["echo", "reference"])
    alone = json.loads(cli("annotate", "score", "sheets", "sheets/sheet_2.csv", "--json").out)
    assert list(alone["empty"].values()) == [0]


def test_a_wrong_cell_is_one_line(cli: Cli, tmp_path: Path) -> None:
    finished(tmp_path / "run", "mini_narrative", model="echo", limit=2)
    cli("annotate", "sheets", "run", "--output", "sheets", "--errors", "not a narrative, off topic")
    file = tmp_path / "sheets" / "sheet_1.csv"
    assert list(read(file)[0])[-3:] == ["not a narrative", "off topic", "comment"]
    file.write_text("item,not a narrative,off topic\n1,no,perhaps", "utf-8")
    complaint = cli("annotate", "score", "sheets").complaint
    assert "sheet_1.csv, row 2, column 'off topic': 'perhaps' is neither yes nor no" in complaint
