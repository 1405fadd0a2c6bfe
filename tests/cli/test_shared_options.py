"""What commands of wings share: options, printed results, and files that are written safely."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import figeval
from tests.cli.conftest import Cli


class Greeting(figeval.Result):
    """One cell with a control character, and a note."""

    @property
    def grids(self) -> Sequence[figeval.Grid]:
        return [figeval.Grid(("greeting",), [("good\x1b[31m morning",)])]

    def notes(self) -> list[str]:
        return ["at six"]

    def to_dict(self) -> dict[str, Any]:
        return {"greeting": "good\x1b[31m morning"}


@click.command()
@figeval.shared_options("seed", "json", "budget")
def greet(seed: int, as_json: bool, max_cost: float | None, max_tokens: int | None) -> None:
    assert (seed, max_cost, max_tokens) == (3, 0.5, None)
    figeval.print_result(Greeting(), as_json=as_json)


def test_options_are_those_of_other_commands() -> None:
    listed = CliRunner().invoke(greet, ["--help"]).output
    assert listed.index("--seed") < listed.index("--json") < listed.index("--max_cost")
    assert CliRunner().invoke(greet, ["--max_cost", "nan"]).exit_code == 2


def test_a_result_is_printed_without_control_characters() -> None:
    arguments = ["--seed", "3", "--max_cost", "0.5"]
    assert CliRunner().invoke(greet, arguments).output == "greeting\ngood morning\n  at six\n"
    printed = CliRunner().invoke(greet, [*arguments, "--json"]).output
    assert "\x1b" not in printed
    assert json.loads(printed) == Greeting().to_dict()


def test_an_option_that_is_not_shared() -> None:
    with pytest.raises(figeval.PluginError, match="no 'sead'; did you mean 'seed'"):
        figeval.shared_options("sead")


def test_a_file_of_a_run_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(figeval.OptionError, match=r"--page .*run\.json would replace a record"):
        figeval.write_output("text", tmp_path / "run.json", option="--page")
    figeval.write_output({"a.txt": "text", "deep/b.txt": b"bytes"}, tmp_path / "pages")
    assert (tmp_path / "pages/deep/b.txt").read_bytes() == b"bytes"


# ---- pages of help ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "headings"),
    [
        ("run", ["What to run", "Models", "Prompts", "Speed and machines", "Output"]),
        pytest.param(
            "train", ["What to train", "Optimization", "Selection and evaluation"], marks=pytest.mark.wing("training")
        ),
    ],
)
def test_help_shows_the_common_flags_under_headings_and_help_all_shows_all(
    command: str, headings: list[str], cli: Cli
) -> None:
    short, full = (cli(command, flag).out for flag in ("--help", "--help-all"))
    for page in (short, full):
        positions = [page.index(f"\n{heading}:\n") for heading in headings]
        assert positions == sorted(positions)
    flags, all_flags = (set(re.findall(r"^  (?:-\w, )*(--[\w-]+)", page, re.MULTILINE)) for page in (short, full))
    assert flags < all_flags and len(flags - {"--help", "--help-all"}) <= 13
    assert len(all_flags) > 40
    assert "--help-all" in short and cli(command, "--help_all").out == full


@pytest.mark.parametrize(
    ("command", "headings"),
    [
        pytest.param(
            "export", "Output, Texts of the examples, Tables of papers and of comparisons, LaTeX", id="export"
        ),
        pytest.param("compare", "What is compared, Tests", id="compare"),
        pytest.param("annotate export", "Output, What is judged, Annotators, Battles", id="annotate export"),
        pytest.param("annotate import", "Judgements, Results", id="annotate import"),
    ],
)
def test_flags_of_commands_of_wings_stand_under_headings(command: str, headings: str, cli: Cli) -> None:
    page = cli(*command.split(), "--help").out
    assert re.findall(r"^(\w.*):$", page, re.MULTILINE) == [*headings.split(", "), "Options"]
    assert set(re.findall(r"^  (?:-\w, )*--(\w+)", page.partition("\nOptions:\n")[2], re.MULTILINE)) <= {
        *("json", "latex", "help")
    }


def test_arguments_are_not_among_the_options(cli: Cli) -> None:
    assert cli("preview", "--help").out.count("TASK...") == 1


def test_help_without_hidden_flags_has_one_page(cli: Cli) -> None:
    assert "--help-all" not in cli("doctor", "--help").out
