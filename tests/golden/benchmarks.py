"""Golden commands on the real data of benchmarks, and their expected outcomes.

As in `cases.py`, but an outcome has no sentence of the data: what a command printed and the files that it wrote are
digests. A case that is `shown` prints nothing but names and numbers, and these lines are kept. `data` are the folders
of the mirror that a case needs, `modules` the optional packages, `texts` the lines of files that its
commands read. `python -m tests.golden.freeze_benchmarks` writes the outcomes; `tests/test_golden_benchmarks.py`
compares them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

from figeval.language.word_forms import open_wordnet
from tests.golden.cases import Case, Tree, lines_of, steady
from tests.golden.digests import digest, digest_record, digest_text
from tests.golden.stage import GOLDEN_FOLDER, Models, Stage

BENCHMARKS = GOLDEN_FOLDER / "benchmarks"
NUMERIC_COMMANDS = ("run",)  # commands that print only names and numbers
NLTK_ROOTS = ("nltk/packages", "oewn/nltk_root")
DURATION = re.compile(r"\b\d+:\d\d:\d\d\b")
FINGERPRINT = re.compile(r"(?<=/)[0-9a-f]{16}\b")  # of a folder in the cache


@dataclass(frozen=True)
class BenchmarkCase(Case):
    """A case that reads the real data of benchmarks."""

    data: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    shown: bool = False
    slow: bool = False

    def missing(self, mirror: Path) -> list[str]:
        """What this case needs and does not find."""
        folders = [name for name in self.data if not (mirror / name).is_dir()]
        return folders + [name for name in self.modules if find_spec(name) is None]


@dataclass
class MirroredStage(Stage):
    """A stage with benchmark data; `{mirror}` in a command stands for their folder."""

    mirror: Path = Path()

    def filled(self, text: str) -> str:
        return super().filled(text.replace("{mirror}", str(self.mirror)))

    def emptied(self, text: str) -> str:
        placed = super().emptied(text.replace(str(self.mirror), "{mirror}"))
        return DURATION.sub("{time}", FINGERPRINT.sub("{fingerprint}", placed))


def files() -> list[Path]:
    """The files with cases."""
    return sorted(BENCHMARKS.glob("*.json"))


def cases() -> list[BenchmarkCase]:
    """All cases of all files."""
    read = {file: json.loads(file.read_text("utf-8"))["cases"] for file in files()}
    return [BenchmarkCase(file=file, **case) for file, file_cases in read.items() for case in file_cases]


def outcomes(case: BenchmarkCase, folder: Path, models: Models, mirror: Path) -> list[Tree]:
    """Run the commands of a case and return what came out of each."""
    stage = MirroredStage(folder, models, environment=case.environment, mirror=mirror)
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in case.texts.items():
        (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
    with data_of(case, mirror):
        return [outcome(command, stage, shown=case.shown) for command in case.commands]


@contextmanager
def data_of(case: BenchmarkCase, mirror: Path) -> Iterator[None]:
    """Let commands find the mirror, and NLTK its data in the folders of the case and nowhere else."""
    roots = [str(mirror / root) for root in NLTK_ROOTS if root in case.data]
    with patch.dict(os.environ, {"FIGEVAL_DATA_MIRROR": str(mirror), "NLTK_DATA": os.pathsep.join(roots)}):
        if not roots:
            yield
            return
        import nltk

        open_wordnet.cache_clear()
        try:
            with patch.object(nltk.data, "path", roots):
                yield
        finally:
            open_wordnet.cache_clear()  # other tests in this process have no WordNet


def outcome(command: list[str], stage: Stage, *, shown: bool) -> Tree:
    """Run a command: its exit code, what it printed, and the files that it wrote or changed."""
    before = {file: file.read_bytes() for file in written(stage.out)}
    done = stage.figeval(command)
    text = read_output(done.out, stage, shown=shown or command[0] in NUMERIC_COMMANDS)
    result: dict[str, Tree] = {"code": done.code, "printed": text}
    if done.code not in (0, 1):
        result["complaint"] = steady(lines_of(done.err)[-1:], stage)
    changed = [file for file in written(stage.out) if before.get(file) != file.read_bytes()]
    result["files"] = {str(file.relative_to(stage.out)): digest(file, stage) for file in changed}
    return result


def read_output(text: str, stage: Stage, *, shown: bool) -> Tree:
    """What a command printed, or its digest unless it may be shown."""
    if shown:
        return steady(lines_of(text), stage)
    return digest_record(text, stage) if text.startswith(("{\n", "[\n")) else digest_text(text, stage)


def written(folder: Path) -> Sequence[Path]:
    """The files in a folder and the folders below it."""
    return sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else ()
