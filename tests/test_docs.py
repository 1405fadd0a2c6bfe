"""Documentation that runs. Each page is followed from top to bottom in an empty folder of its own:

* a block after `<!-- file: NAME -->` is written to that file;
* in a `console` block what stands behind `$ ` is run, and must end with exit code 0; every other line must be found
  in what it prints, `…` standing for anything;
* a `python` block that is no file is run after the page's earlier ones; each line of the block after
  `<!-- output: … -->` must be found in what it prints, `…` standing for anything;
* `<!-- needs: real data -->` skips a block where the benchmarks are not at hand, `<!-- needs: NLTK's data -->` also
  where those are not, `<!-- needs: smollm2 -->` where that model is not installed, `<!-- untested: WHY -->` always.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from figeval import Harness
from tests.cli.conftest import Cli
from tests.wings_here import absent, wings_in

ROOT = Path(__file__).resolve().parent.parent
LONG_PAGES = {  # pages that take more than two seconds
    f"docs/{name}.md"
    for name in (
        *(
            "annotation",
            "augmentation",
            "board",
            "clusters",
            "contamination",
            "data",
            "disagreement",
            "exports",
            "first_benchmark",
            "getting_started",
            "how_do_i",
            "llm",
            "paper",
            "plugins",
        ),
        *("python", "report", "statistics", "surprisal", "task_types", "training", "wings"),
    )
}
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    *(
        f"docs/{name}.md"
        for name in (
            "annotation",
            "architecture",
            "augmentation",
            "board",
            "check",
            "clusters",
            "contamination",
            "data",
            "disagreement",
            "engines",
            "exports",
            "first_benchmark",
            "getting_started",
            "glossary",
            "how_do_i",
            "life_of_an_example",
            "llm",
            "paper",
            "plugins",
            "python",
            "report",
            "results",
            "statistics",
            "surprisal",
            "task_types",
            "training",
            "trust",
            "wings",
        )
    ),
)
BLOCK = re.compile(
    r"(?P<notes>(?:^<!--[^\n]*-->\n)*)"  # comments right above it
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
NOTE = re.compile(r"<!-- (file|needs|output|untested): (.*?) -->")
LINK = re.compile(r"\]\((?!https?://)(?P<page>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
PAGES_WITH_LINKS = sorted(
    file
    for pattern in ("*.md", "docs/**/*.md", "tasks/*/*.md", "results/README.md", "bench/README.md")
    for file in ROOT.glob(pattern)
)


@dataclass(frozen=True)
class Block:
    """A fenced block, where it begins, and what its comments say."""

    line: int
    language: str
    text: str
    notes: dict[str, str]


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page; every fence must belong to one."""
    assert 2 * len(BLOCK.findall(page)) == len(re.findall(r"^```", page, flags=re.MULTILINE))
    for match in BLOCK.finditer(page):
        line = page.count("\n", 0, match.start()) + 1
        yield Block(line, match["language"], match["text"], dict(NOTE.findall(match["notes"])))


@dataclass
class Session:
    """The folder of a page, a shell that stays open between its blocks, and the Python of earlier blocks."""

    folder: Path
    commands: Path  # the folder of a `figeval` and a `python` that are quick to start
    variables: list[str] = field(default_factory=list)
    python: str = ""
    printed: str = ""  # by the last Python
    skipped: str = ""  # why something was left out

    def follow(self, block: Block) -> None:
        actions = {"file": self.write, "output": self.output, "console": self.console, "python": self.script}
        kind = next((kind for kind in ("file", "output") if kind in block.notes), block.language)
        action = actions.get(kind)
        if action is not None:
            action(block)

    def lacks_wing(self, text: str) -> bool:
        """Whether a command or Python uses a wing that is not here; what follows may need its results."""
        reason = absent(wings_in(text))
        self.skipped = self.skipped or reason
        return bool(reason)

    def write(self, block: Block) -> None:
        file = self.folder / block.notes["file"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")

    def console(self, block: Block) -> None:
        for command, expected in commands(block.text):
            if self.lacks_wing(command):
                continue
            if command.startswith("export "):  # holds for the page's later commands too
                self.variables.append(command)
                if command.startswith("export PYTHONPATH=") and (path := os.environ.get("PYTHONPATH")):
                    self.variables.append(f"export PYTHONPATH=$PYTHONPATH:{path}")  # this checkout may be on it
                continue
            printed = self.run(["bash", "-euo", "pipefail", "-c", "\n".join([*self.variables, command])], command)
            for line in expected:
                self.require_line(line, printed, command)

    @staticmethod
    def require_line(line: str, printed: str, name: str) -> None:
        pattern = ".*".join(re.escape(" ".join(part.split())) for part in line.split("…"))
        assert re.search(pattern, printed), f"{name} did not print\n{line}\nbut\n{printed}"

    def output(self, block: Block) -> None:
        for line in filter(str.strip, block.text.splitlines()):
            self.require_line(line, self.printed, "the Python of this page")

    def script(self, block: Block) -> None:
        if self.lacks_wing(self.python + block.text):
            return
        self.python += block.text
        self.printed = self.run([str(self.commands / "python"), "-c", self.python], "the Python of this page")

    def run(self, command: list[str], name: str) -> str:
        """What a command prints, blanks squeezed."""
        path = os.pathsep.join([str(self.commands), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "COLUMNS": "160", "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return re.sub(r"[ \t]+", " ", done.stdout + done.stderr)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """(command, lines that it must print)."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *printed = part.splitlines()
        yield command, [line for line in printed if line.strip()]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG_PAGES else name for name in PAGES]
)
def test_the_page_runs(name: str, warm: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    session = Session(tmp_path / "page", warm)
    session.folder.mkdir()
    for block in blocks((ROOT / name).read_text(encoding="utf-8")):
        if "untested" in block.notes or ("needs" in block.notes and not at_hand(block.notes["needs"], request)):
            continue
        try:
            session.follow(block)
        except AssertionError as error:
            if session.skipped:
                pytest.skip(f"line {block.line}, after a part that {session.skipped}")
            raise AssertionError(f"{name}, line {block.line}: {error}") from None


def at_hand(need: str, request: pytest.FixtureRequest) -> bool:
    """Whether a block has what it needs."""
    needs: dict[str, Callable[[], object]] = {
        "smollm2": lambda: request.getfixturevalue("smollm2"),
        "real data": lambda: request.getfixturevalue("real_data"),
        "NLTK's data": lambda: request.getfixturevalue("real_data") if "NLTK_DATA" in os.environ else pytest.skip(),
    }
    try:
        needs[need]()
    except pytest.skip.Exception:
        return False
    return True


@cache
def anchors(page: Path) -> frozenset[str]:
    """What can stand behind `#` in a link to a page: its headings, spelled as GitHub does."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings)


@pytest.mark.parametrize("page", PAGES_WITH_LINKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_its_links_lead_somewhere(page: Path) -> None:
    for link in LINK.finditer(page.read_text(encoding="utf-8")):
        target = page.parent / link["page"] if link["page"] else page
        assert target.exists(), link[0]
        assert not link["anchor"] or link["anchor"] in anchors(target), link[0]


BENCHMARK_PAGES = sorted((*ROOT.glob("tasks/*/README.md"), ROOT / "docs/results.md"))


@pytest.mark.parametrize("page", BENCHMARK_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_benchmark_page_exist_with_their_options_and_tasks(page: Path, cli: Cli) -> None:
    """Most of them take too long to be run; those that repeat the papers' tables are (test_results_page.py)."""
    catalogue = Harness().catalogue
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in re.findall(r"(?:^ {4}|`)figeval ([a-z][^`\n]+)", text, re.MULTILINE):
        words = [word for word in shlex.split(line, comments=True) if word != "…"]
        assert cli(*words, "--help").code == 0, line
        for option, names in pairwise(words):
            if option in ("--task", "--tasks") and names.islower() and "--include_path" not in words:
                assert all(name in catalogue.tasks or name in catalogue.suites for name in names.split(",")), line
