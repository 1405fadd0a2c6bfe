"""Folders that an earlier figeval left, finished and half-finished: today's commands read them, and go on with them or
refuse in one line.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from figeval import FigevalError
from tests.cli.conftest import Cli, Outcome
from tests.golden.keep import KEPT_FOLDER, Writer, resumed_contamination, resumed_judge, resumed_run

MOST_BYTES = 200_000
READING = (
    "show finished",
    "show finished --by figure",
    "show interrupted",
    "show trained",
    "compare finished other",
    "compare finished other stories --json",
    "compare finished interrupted",
    "difficulty finished other",
    "verify finished",
    "verify other --json",
    "verify stories",
    "verify interrupted",
    "rescore finished",
    "rescore interrupted",
    "export finished other stories --to csv",
    "export finished interrupted --to lm_eval --output exported",
    "report finished other interrupted --output report.html --no_plots",
    "board finished other stories --output site",
    "checklist finished other",
    "annotate import --to items --run stories",
    "annotate import --to half_judged",
    "annotate judge half_judged --judge overlap",
)
WINGS = {  # by the command that they have
    **dict.fromkeys(("compare", "difficulty"), "comparison"),
    **dict.fromkeys(("report", "board"), "report"),
    "verify": "verify",
    "export": "exporters",
    "checklist": "checklist",
    "annotate": "annotation",
}
REFUSED_COMMANDS = {"rescore finished", "compare finished interrupted", "annotate judge half_judged --judge overlap"}


@pytest.fixture
def cli_in_copies(cli: Cli, tmp_path: Path) -> Cli:
    """The command line in a folder with copies of what was kept."""
    shutil.copytree(KEPT_FOLDER, tmp_path, dirs_exist_ok=True)
    return cli


def orderly(done: Outcome) -> bool:
    """Whether a command did its work, or refused in one line."""
    refused = done.code == 2 and (done.err.count("figeval: ") == 1 or "problem" in done.out)
    return (done.code == 0 or refused) and "Traceback" not in done.out + done.err


def with_wing(line: str) -> Any:
    """A command line as a parameter, with the mark of the wing that it needs."""
    wing = WINGS.get(line.split()[0])
    return pytest.param(line, marks=[pytest.mark.wing(wing)] if wing else [])


@pytest.mark.parametrize("command", [with_wing(line) for line in READING])
def test_commands_read_what_was_kept(command: str, cli_in_copies: Cli) -> None:
    done = cli_in_copies(*command.split())
    assert orderly(done), (done.code, done.out, done.err)
    assert (done.code == 2) == (command in REFUSED_COMMANDS), (done.code, done.out, done.err)


@pytest.mark.parametrize(
    ("resumed", "folder", "questions", "left"),
    [
        (resumed_run, "interrupted", 68, 48),
        (resumed_judge, "half_judged", 20, 4),
        (resumed_contamination, "half_measured", 22, 10),
    ],
)
@pytest.mark.usefixtures("cli_in_copies")
def test_what_was_interrupted_goes_on(
    resumed: Callable[[Path, Writer], Any], folder: str, questions: int, left: int, tmp_path: Path
) -> None:
    model = Writer()
    try:
        resumed(tmp_path / folder, model)
    except FigevalError as refused:
        assert "\n" not in str(refused), refused
        assert model.asked == 0
    else:
        assert model.asked == left < questions


@pytest.mark.usefixtures("cli_in_copies")
def test_a_resumed_run_is_as_if_it_had_not_been_interrupted(tmp_path: Path) -> None:
    resumed = resumed_run(tmp_path / "interrupted", Writer())
    uninterrupted = resumed_run(tmp_path / "whole", Writer())
    for task in uninterrupted.tasks:
        assert resumed.predictions(task).equals(uninterrupted.predictions(task))


def test_what_is_kept_is_small_and_half_of_it_is_unfinished() -> None:
    files = [file for file in KEPT_FOLDER.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES
    assert not [file for file in files if file.suffix in {".safetensors", ".bin", ".pt", ".lock"}]
    status = {
        folder: json.loads((KEPT_FOLDER / folder / "run.json").read_text("utf-8"))["status"]
        for folder in ("finished", "interrupted")
    }
    assert status == {"finished": "complete", "interrupted": "running"}
