"""What `figeval annotate import` says about raters who answer twice, skip, leave the scale, or do not pay attention."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import figeval
from tests.cli.conftest import Cli
from tests.wings.annotation.served import export_items

Rows = list[dict[str, str]]
TEXTS = [f"Text {number}." for number in range(6)]


def attentive(folder: Path, row: dict[str, str]) -> dict[str, str]:
    """The row as a good rater fills it in, who does what attention checks ask for."""
    checks: dict[str, dict[str, str]] = json.loads((folder / "key.json").read_text("utf-8"))["checks"]
    number = int(row["item"])
    return row | checks.get(row["item"], {"fluency": str(1 + number % 5), "coherent": ["no", "yes"][number % 2]})


def write_rated_sheet(folder: Path, name: str, change: Callable[[Rows], Rows]) -> Path:
    """The sheet of a rater, filled in well and then changed."""
    text = (folder / "sheet_1.csv").read_bytes().decode("utf-8-sig")
    rows = change([attentive(folder, row) for row in csv.DictReader(io.StringIO(text, newline=""))])
    file = folder.parent / f"{name}.csv"
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def every(**labels: str) -> Callable[[Rows], Rows]:
    return lambda rows: [row | labels for row in rows]


def keep_rows(rows: Rows) -> Rows:
    return rows


def test_who_answered_twice_is_named_with_both_places(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *TEXTS)
    file = write_rated_sheet(folder, "kim", lambda rows: [*rows, rows[0] | {"fluency": "5"}])
    complaint = cli("annotate", "import", file, "--to", "items").complaint
    assert "kim.csv, row 8: kim judged item" in complaint
    assert "(first at" in complaint and "kim.csv, row 2); remove one of the two, or give --last" in complaint
    assert cli("annotate", "import", file, "--to", "items", "--last").code == 0
    stored = (tmp_path / "items" / "judgements.csv").read_text("utf-8-sig")
    assert stored.count("kim,fluency") == 6


def test_who_skipped_is_counted_by_name(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *TEXTS)
    lou = write_rated_sheet(folder, "lou", lambda rows: [row | {"fluency": ""} for row in rows[:4]] + rows[4:])
    max_ = write_rated_sheet(folder, "max", every(fluency="", coherent=""))
    done = cli("annotate", "import", write_rated_sheet(folder, "kim", keep_rows), lou, max_, "--to", "items")
    assert done.code == 0, done.err
    assert "16 cells without a label (lou: 4, max: 12), which do not count as judgements" in done.out
    assert "Agreement of 2 annotators" in done.out
    assert re.search(r"fluency +fleiss_kappa +\S+ +\S+ +2\n", done.out)  # of the texts with two ratings


def test_nobody_who_judged_is_no_zero(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *TEXTS)
    file = write_rated_sheet(folder, "kim", every(fluency="", coherent=""))
    assert "kim.csv: nothing has been judged yet" in cli("annotate", "import", file, "--to", "items").complaint


def test_six_on_a_scale_of_five_is_named_with_its_row(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *TEXTS)
    file = write_rated_sheet(folder, "kim", lambda rows: [*rows[:2], rows[2] | {"fluency": "6"}, *rows[3:]])
    complaint = cli("annotate", "import", file, "--to", "items").complaint
    assert "kim.csv, row 4: kim gave '6' for 'fluency', which is not on the scale 1, 2, 3, 4, 5" in complaint
    assert not (tmp_path / "items" / "judgements.csv").exists(), "nothing is stored of a refused file"


def test_raters_who_all_agree_on_one_label(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *TEXTS)
    files = [write_rated_sheet(folder, name, every(fluency="4", coherent="yes")) for name in ("kim", "lou")]
    done = cli("annotate", "import", *files, "--to", "items")
    assert done.code == 0, done.err
    assert "coherent: no cohen_kappa: all ratings of kim and lou are the same" in done.out
    assert "coherent: no fleiss_kappa, krippendorff_alpha: all ratings are the same" in done.out
    values = {tuple(line.split()[:3]) for line in done.out.splitlines()}
    assert {("fluency", "percent_agreement", "1.000"), ("coherent", "gwet_ac1", "1.000")} <= values
    assert ("coherent", "krippendorff_alpha", "–") in values


def test_who_fails_attention_checks_is_named_and_not_left_out(cli: Cli, tmp_path: Path) -> None:
    folder = export_items(tmp_path / "items", *TEXTS, checks=4)
    checks = json.loads((folder / "key.json").read_text("utf-8"))["checks"]
    wrong = {item: "1" if requested["fluency"] != "1" else "2" for item, requested in checks.items()}
    files = [
        write_rated_sheet(folder, "kim", keep_rows),
        write_rated_sheet(
            folder, "lou m", lambda rows: [row | {"fluency": wrong.get(row["item"], "1")} for row in rows]
        ),
        write_rated_sheet(
            folder, "max", lambda rows: [row | {"fluency": wrong.get(row["item"], "1"), "coherent": ""} for row in rows]
        ),
    ]
    done = cli("annotate", "import", *files, "--to", "items")
    assert "  kim: 8 of 8 answers to attention checks as requested\n" in done.out
    assert "  lou m: 4 of 8 answers to attention checks as requested\n" in done.out
    assert (
        "  max: 0 of 4 answers to attention checks as requested, 4 empty; --exclude max leaves this annotator out"
        in done.out
    )
    assert "Agreement of 3 annotators" in done.out
    without = cli("annotate", "import", "--to", "items", *files, "--exclude", "max", "--exclude", "lou m")
    assert "one annotator: no agreement" in without.out
    assert "did you mean 'max'" in cli("annotate", "import", *files, "--to", "items", "--exclude", "maxx").complaint


class Careless:
    """A judge that never reads an item."""

    deterministic_by_name = True

    def generate(self, requests: Sequence[figeval.Prompt]) -> list[str]:
        return ["?" for _ in requests]


def test_a_judge_who_fails_attention_checks(cli: Cli, tmp_path: Path) -> None:
    export_items(tmp_path / "items", *TEXTS, checks=4)
    judged = figeval.judge_items("items", Careless(), name="careless")
    assert "0 of 8 answers to attention checks as requested" in str(judged)
    assert judged.to_frame()["label"].isna().all()
    done = cli("annotate", "import", "--to", "items")
    assert done.code == 0, done.err
    warning = "judge careless: 0 of 8 answers to attention checks as requested; it may not understand the prompt"
    assert warning in done.out
    assert "judge careless (careless): 0 of 20 answers parsed" in done.out
    assert "no measurement of people" in done.out
