"""docs/life_of_an_example.md names what really runs: its files and functions, in the order of their first calls."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterator
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
SCORES, REST, WORDS, _ = re.split(
    r"^## What else runs\n|^## When the model replies in words\n|^## What this page leaves out\n",
    TEXT,
    flags=re.MULTILINE,
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


def functions_of(file: Path) -> set[str]:
    """The functions and methods that a file defines, by qualified name."""

    def visit(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield f"{prefix}{child.name}"
            elif isinstance(child, ast.ClassDef):
                yield from visit(child, f"{prefix}{child.name}.")

    return set(visit(ast.parse(file.read_text(encoding="utf-8")), ""))


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


@pytest.fixture(scope="module")
def calls_for_scores(tmp_path_factory: pytest.TempPathFactory) -> list[Stop]:
    """The calls of the command that the page begins with."""
    (command,) = re.findall(r"^\$ figeval (run .*)$", TEXT, re.MULTILINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("life"))
        calls = calls_of(lambda: exit_code(*shlex.split(command)))
        assert Path("runs/life/run.json").is_file()
    return calls


def test_the_functions_are_called_in_this_order(calls_for_scores: list[Stop]) -> None:
    assert not misplaced_stops(stops(SCORES), calls_for_scores)


def test_the_page_names_every_file_in_which_a_function_runs(calls_for_scores: list[Stop]) -> None:
    linked = {(PAGE.parent / link).resolve() for link in re.findall(r"\]\((\.\./[^)]+\.py)\)", REST)}
    product = [ROOT / folder for folder in ("figeval", "plugins", "tasks")]
    files = {stop.file for stop in calls_for_scores if any(map(stop.file.is_relative_to, product))}
    assert {stop.file for stop in stops(SCORES)} | linked == files


def test_another_order_would_be_noticed(calls_for_scores: list[Stop]) -> None:
    page_stops = stops(SCORES)
    for index in range(1, len(page_stops)):
        exchanged = [*page_stops[: index - 1], page_stops[index], page_stops[index - 1], *page_stops[index + 1 :]]
        assert misplaced_stops(exchanged, calls_for_scores)
    assert misplaced_stops([Stop(ROOT / "figeval" / "errors.py", "near")], calls_for_scores)


def test_replies_in_words_are_read_in_this_order(tmp_path: Path) -> None:
    def run() -> None:
        figeval.run("mini_proverbs", FakeGenerator(), limit=3, baselines=False, output_path=tmp_path / "run")

    assert not misplaced_stops(stops(WORDS), calls_of(run))


def test_a_reader_opens_few_files() -> None:
    files = {stop.file for stop in stops(SCORES)}
    core = {file for file in files if file.is_relative_to(ROOT / "figeval")}
    assert len(core) <= MAX_STOPS
    assert len(files - core) == 1  # the model


@pytest.mark.parametrize("stop", dict.fromkeys(stops(SCORES) + stops(WORDS)), ids=str)
def test_the_function_is_in_this_file(stop: Stop) -> None:
    assert stop.name in functions_of(stop.file)


def test_links_lead_where_they_say() -> None:
    for shown, link in re.findall(r"\[`([^`]+)`\]\(([^)]+)\)", TEXT):
        target = (PAGE.parent / link).resolve()
        assert target.is_file(), link
        assert str(target).endswith(f"/{shown}"), link
