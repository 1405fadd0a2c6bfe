"""The LaTeX of every layout compiles, within the page: all layouts with stored runs in one document."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import figeval
from tests.cli.conftest import Cli
from tests.finished_runs import store
from tests.measured import MEASURED_FOLDER

pytestmark = pytest.mark.system

PACKAGES = r"""\usepackage[T1]{fontenc}
\usepackage{booktabs}
\usepackage{siunitx}
\usepackage{rotating}
\begin{document}
"""
ONE_COLUMN = r"\documentclass{article}"
TWO_COLUMNS = r"\documentclass[11pt,twocolumn]{article}\usepackage[a4paper,margin=2.5cm]{geometry}"  # as ACL's papers
HOSTILE_NAME = r"a_b & \input{x} % <script> $1^{} #~ 成語 “é”"
OVERFULL_BOX = re.compile(r"^Overfull \\[hv]box \(([\d.]+)pt too (?:wide|high)\)", re.MULTILINE)


def compile_floats(folder: Path, floats: Iterable[str], document: str = ONE_COLUMN) -> str:
    """Compile floats as one document and return the log."""
    if shutil.which("pdflatex") is None:
        pytest.fail("this test needs LaTeX: install the packages texlive-latex-recommended and texlive-science")
    body = "\\clearpage\n".join(floats)
    (folder / "tables.tex").write_text(f"{document}\n{PACKAGES}{body}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=240)
    log = (folder / "tables.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, log[-3000:]
    return log


def assert_on_the_page(log: str) -> None:
    assert not [width for width in OVERFULL_BOX.findall(log) if float(width) > 10]
    assert "Float too large" not in log


def runs_of(tasks: Iterable[str]) -> list[Path]:
    """Return the stored runs of models that have one of these tasks."""
    task_names = set(tasks)
    names = [f"{model}{ending}" for model in ("minilm", "tfidf", "random") for ending in ("", "-authors", "-published")]
    folders = [MEASURED_FOLDER / name for name in names if (MEASURED_FOLDER / name / "run.json").is_file()]
    return [folder for folder in folders if task_names & tasks_of(folder)]


@cache
def tasks_of(folder: Path) -> frozenset[str]:
    return frozenset(figeval.load(folder).tasks)


@pytest.mark.parametrize(
    ("document", "choices"),
    [
        (ONE_COLUMN, {}),
        (TWO_COLUMNS, {"intervals": True, "examples": True, "wide": True}),
    ],
    ids=["plain", "wide"],
)
def test_every_layout_compiles(cli: Cli, tmp_path: Path, document: str, choices: dict[str, Any]) -> None:
    _, *layouts = json.loads(cli("ls", "layouts", "--json").out)  # the first one is made from runs
    tables = [
        figeval.export(runs_of(layout["tasks"]), to="latex", layout=layout["name"], **choices) for layout in layouts
    ]
    assert len(tables) == 28
    assert_on_the_page(compile_floats(tmp_path, [text for text in tables if text], document))


def test_the_comparison_of_stored_runs_compiles(tmp_path: Path) -> None:
    folders = [MEASURED_FOLDER / name for name in ("minilm", "tfidf", "random")]
    tasks = ["epic_retrieval_seen", "epic_mcq", "impli_idioms_gold_ent"]
    text = figeval.export(
        folders, to="latex", layout="comparison", tasks=tasks, metrics=["acc", "mrr"], intervals=True, examples=True
    )
    assert text is not None
    assert r"\bfseries" in text
    assert r"$^{\dagger}$" in text
    assert_on_the_page(compile_floats(tmp_path, [text]))


@pytest.mark.parametrize("systems", [1, 5])
@pytest.mark.parametrize("layout", ["", "comparison"])
def test_tables_that_are_too_wide_or_long_are_split(layout: str, systems: int, tmp_path: Path) -> None:
    """All scores of five systems on all tasks, with both page widths: nothing is off the page."""
    names = ("minilm", "tfidf", "random", "minilm-published", "tfidf-published")
    folders = [MEASURED_FOLDER / name for name in names[:systems]]
    choices: dict[str, Any] = {"layout": layout, **({"intervals": True, "examples": True} if layout else {})}
    for document, is_wide in ((ONE_COLUMN, False), (TWO_COLUMNS, True)):
        text = figeval.export(folders, to="latex", wide=is_wide, **choices)
        assert text is not None
        assert_on_the_page(compile_floats(tmp_path, [text], document))


def test_hostile_names_compile(tmp_path: Path) -> None:
    """A name of a model can neither read files nor end the table, and letters without a glyph are named."""
    record = figeval.load(MEASURED_FOLDER / "minilm").record
    record.model.name = HOSTILE_NAME
    store(tmp_path / "run", record)
    tables = [
        figeval.export(tmp_path / "run", to="latex", layout=name, intervals=True)
        for name in ("epic_table_7", "impli_table_5", "comparison")
    ]
    floats = [text for text in tables if text]
    assert all("[U+6210]" in text and r"\input" not in text for text in floats)
    compile_floats(tmp_path, floats)
