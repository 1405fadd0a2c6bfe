"""Text from outside can be stored, and a terminal or a spreadsheet that shows it does nothing else."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval.io.text import UNSAFE, clean, clean_json, csv_cell, csv_text, one_line, shown_json, valid
from tests.cli.conftest import Cli
from tests.finished_runs import run, score, store, task

ODD_CHARACTERS = "\x1b\x9b\x07\x00[]0123;mJ\\PX\n\r\t\u202e\u2066\ud83d\ude00\x85\u2028ab"
HOSTILE_TEXTS = st.text(st.one_of(st.sampled_from(ODD_CHARACTERS), st.characters()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain – 谚语 😀\n\ttext", "plain – 谚语 😀\n\ttext"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1b]0;a title\x07shown", "shown"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\device", "device"),
        ("\x1b]never closed", "never closed"),
        ("a\rb\r\nc\x00\x08\x7f", "a\nb\nc"),
        ("abc\u202edef\u2066", "abcdef"),
        ("\ud83d\ude00 \ud83d \ude00", "😀 \ufffd \ufffd"),
        ("line\u2028break", "linebreak"),
    ],
)
def test_what_is_left_of_a_text(text: str, expected: str) -> None:
    assert clean(text) == expected


@given(HOSTILE_TEXTS)
def test_a_clean_text_is_harmless_and_stays_as_it_is(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert UNSAFE.search(cleaned) is None
    assert clean(cleaned) == cleaned
    assert "\n" not in one_line(text)
    assert valid(text) == text or any("\ud800" <= letter <= "\udfff" for letter in text)


@given(st.dictionaries(HOSTILE_TEXTS, st.lists(HOSTILE_TEXTS | st.integers() | st.none())))
def test_json_for_a_terminal_says_the_same(value: dict) -> None:
    value = clean_json(value, valid)
    text = shown_json(json.dumps(value, ensure_ascii=False))
    assert UNSAFE.search(text) is None
    assert json.loads(text) == value


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\x1b[0m=1", "＝1"])
def test_no_cell_is_a_formula(text: str) -> None:
    assert csv_cell(text)[0] not in "=+-@\t\r＝"


@pytest.mark.parametrize(
    "formula",
    [
        '=HYPERLINK("http://x","y")',
        "=cmd|'/C calc'!A0",
        "+1+cmd|' /C calc'!A0",
        "-2+3+cmd|'/C calc'!$A$0",
        "@SUM(1+1)*cmd|'/C calc'!A0",
        "@SUM (1)",
        "\t=WEBSERVICE(A1)",
        "＝HYPERLINK（1）",
        "='file:///etc/[x]Sheet1'!A1",
        "\x1b[0m=NOW()",
        ' =HYPERLINK("http://x")',
        '"=HYPERLINK(""http://x"")"',
        "'=NOW()",
        "\u00a0=SUM(A1)",
        "\u200b=SUM(A1)",
        "=cmd|x",
        "=cmd|'/C calc'!'A0'",
        "='file:///etc/x'#$Sheet1.A1",
    ],
)
def test_no_formula_after_a_semicolon_has_an_effect(formula: str) -> None:
    assert csv_cell(f"a;{formula};b").split(";")[1][0] == "'"
    assert csv_text(csv_cell(f"a;{formula};b")) == clean(f"a;{formula};b")
    assert csv_cell(f"a\n{formula}\nb").split("\n")[1][0] == "'"
    assert csv_text(csv_cell(f"a\n{formula}\nb")) == clean(f"a\n{formula}\nb")


@pytest.mark.parametrize(
    "text",
    [
        "wink ;-) and on",
        ";-P",
        "x;=) y!",
        "one;- two",
        "1;-1;+2;=3",
        "a;@anna hello!",
        "see;\n- this (or that)",
        "so; - well",
    ],
)
def test_a_text_with_semicolons_stays_as_it_is(text: str) -> None:
    assert csv_cell(text) == text == csv_text(text)


def test_many_semicolons_take_no_time() -> None:
    assert csv_cell("x" + ";-" * 200_000) == "x" + ";-" * 200_000
    assert csv_cell("x;-" + "y" * 200_000).startswith("x;-y")


@given(HOSTILE_TEXTS)
def test_a_cell_is_read_as_the_text_that_was_written(text: str) -> None:
    text = clean(text)
    assert csv_text(csv_cell(text)) == text


@pytest.mark.parametrize("text", ["=1+1", "-1", "@x", "a=b", "", "'", "'tis", "don't", "'=1", "''-1"])
def test_a_cell_is_read_back(text: str) -> None:
    assert csv_text(csv_cell(text)) == text


def test_numbers_stay_numbers() -> None:
    assert [csv_cell(value) for value in (-0.5, 3, None, True, "0.5", "a=b")] == [-0.5, 3, None, True, "0.5", "a=b"]


def test_sequences_that_never_end_take_no_time() -> None:
    assert clean("\x1b]" * 200_000).count("\x1b") == 0


# ---- the records of others ------------------------------------------------------------------------------------------

EVIL_TEXT = "=cmd|'/C calc'!A0 \x1b[2J\x1b]0;pwned\x07\x9b1m[red]x[/] :x:\u202e <img src=x> ![p](http://x) `a|b`"
SHOWN_TEXT = "=cmd|'/C calc'!A0 [red]x[/] :x: <img src=x> ![p](http://x) `a|b`"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    task_fields = {"warnings": [EVIL_TEXT], "error": EVIL_TEXT, "status": "failed", "scores": [score(EVIL_TEXT)]}
    record = run(task("proverbs", **task_fields), warnings=[EVIL_TEXT])
    record.model.name = record.model.backend = EVIL_TEXT
    return store(tmp_path / "run", record)


@pytest.mark.parametrize("arguments", [("show",), ("export", "--to", "latex"), ("export", "--to", "markdown")])
def test_a_foreign_record_says_nothing_to_the_terminal(arguments: tuple[str, ...], foreign: Path, cli: Cli) -> None:
    done = cli(*arguments, foreign)
    assert done.code == 0
    assert UNSAFE.search(done.out + done.err) is None
    assert "calc" in done.out


def test_a_foreign_record_on_a_real_terminal(foreign: Path) -> None:
    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=400)
    figeval.load(foreign).print(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert SHOWN_TEXT in text, "neither markup nor an emoji"
    assert "\x1b[2J" not in text
    assert "\x9b" not in text


def test_a_warning_of_a_plugin_says_nothing_to_the_terminal() -> None:
    program = (
        "import sys, warnings\n"
        "from figeval.cli.main import main\n"
        "try:\n"
        "    main(['--version'])\n"
        "finally:\n"
        "    warnings.warn(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, EVIL_TEXT], capture_output=True, text=True, check=True)
    assert SHOWN_TEXT in done.stderr
    assert UNSAFE.search(done.stderr) is None


def test_a_foreign_record_in_a_spreadsheet_and_on_a_page(foreign: Path, cli: Cli) -> None:
    row, *_ = csv.DictReader(io.StringIO(cli("export", foreign, "--to", "csv").out))
    assert row["model"] == f"'{SHOWN_TEXT}"
    assert row["value"] == "0.25"
    page = cli("export", foreign, "--to", "markdown").out
    assert "<img" not in page
    assert "![p](" not in page
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1


def test_half_a_surrogate_pair_in_a_record_is_read(foreign: Path) -> None:
    file = foreign / "run.json"
    content = json.loads(file.read_text())
    content["model"]["description"] = {"answered_as": ["served \ud800"], "\udfff": 1}
    file.write_text(json.dumps(content))
    assert figeval.load(foreign).record.model.description == {"answered_as": ["served \ufffd"], "\ufffd": 1}
