"""docs/life_of_an_example.md names what really runs: its files and functions, in the order of their first calls."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import figeval
from figeval.testing.fakes import FakeGenerator
from tests.cli.conftest import exit_code

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "life_of_an_example.md"
TEXT = PAGE.read_text(encoding="utf-8")
SCORES, WORDS, _ = re.split(
    r"^## When the model replies in words\n|^## What this page leaves out\n", TEXT, flags=re.MULTILINE
)
STATION = re.compile(r"^(?:\d+\.|\*) [\w ,]*\[`(?P<path>[^`]+)`\]\((?P<link>[^)]+)\): (?P<names>`.+`)$", re.MULTILINE)
ITEM = re.compile(r"^(?:\d+\.|\*) ", re.MULTILINE)
MAX_STOPS = 14  # files of the core that a reader opens to follow one example to its score


@dataclass(frozen=True, order=True)
class Stop:
    """A function or method, and the file that it is in."""

    file: Path
    name: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}: {self.name}"


def stops(section: str) -> list[Stop]:
    """The functions that a section names, in its order; every item of its lists must name some."""
    assert len(STATION.findall(section)) == len(ITEM.findall(section)) > 0
    return [
        Stop((PAGE.parent / match["link"]).resolve(), name)
        for match in STATION.finditer(section)
        for name in re.findall(r"`([^`]+)`", match["names"])
    ]


def calls_of(run: Callable[[], object]) -> list[Stop]:
    """What is called between the loaded model and the stored score, in the order of first calls.

    The call of a function that is made inside another one counts for the outer one.
    """
    first_calls: dict[Stop, None] = {}
    within = False

    def observe(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal within
        name = frame.f_code.co_qualname
        if name == "_Session.do" and event in {"call", "return"}:
            within = event == "call"
        if (
            within and event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        ):  # a function, not a class's body
            first_calls.setdefault(Stop(Path(frame.f_code.co_filename), name.partition(".<locals>")[0]))

    before = sys.getprofile()
    sys.setprofile(observe)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list({Stop(stop.file.resolve(), stop.name): None for stop in first_calls})


def misplaced_stops(stops_of_page: list[Stop], calls: list[Stop]) -> list[str]:
    """The functions that are not called, or whose first call comes before that of the function named before them."""
    indices = {stop: index for index, stop in enumerate(calls)}
    wrong = [f"{stop} is not called" for stop in stops_of_page if stop not in indices]
    called = [stop for stop in stops_of_page if stop in indices]
    return wrong + [
        f"{later} is called before {earlier}"
        for earlier, later in pairwise(called)
        if indices[later] < indices[earlier]
    ]


def test_the_functions_are_called_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = re.findall(r"^\$ figeval (run .*)$", TEXT, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    calls = calls_of(lambda: exit_code(*shlex.split(command)))
    assert Path("runs/life/run.json").is_file()
    assert not misplaced_stops(stops(SCORES), calls)


def test_replies_in_words_are_read_in_this_order(tmp_path: Path) -> None:
    def run() -> None:
        figeval.run("mini_proverbs", FakeGenerator(), limit=3, baselines=False, output_path=tmp_path / "run")

    assert not misplaced_stops(stops(WORDS), calls_of(run))


def test_a_reader_opens_few_files() -> None:
    files = {stop.file for stop in stops(SCORES)}
    core = {file for file in files if file.is_relative_to(ROOT / "figeval")}
    assert len(core) <= MAX_STOPS
    assert len(files - core) == 1  # the model
