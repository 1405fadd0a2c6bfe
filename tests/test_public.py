"""What figeval exports: every name can be had, and type checkers and the documentation know the same ones."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import figeval

ROOT = Path(__file__).resolve().parent.parent


def stubbed_names() -> dict[str, str]:
    """Name → module of what the stub exports."""
    tree = ast.parse((ROOT / "figeval/__init__.pyi").read_text())
    signatures = {}
    for statement in tree.body:
        assert isinstance(statement, ast.ImportFrom), "the stub has nothing but imports"
        for alias in statement.names:
            assert alias.asname == alias.name, "without `as` a type checker takes the name for private"
            signatures[alias.name] = str(statement.module)
    return signatures


def test_type_checkers_know_the_same_names_from_the_same_modules() -> None:
    assert stubbed_names() == figeval._MODULES


@pytest.mark.parametrize("name", figeval.__all__)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(figeval, name) is not None
    assert name in dir(figeval)


@pytest.fixture
def without_comparison(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Return a function that runs Python where the folder of one wing is missing."""
    (tmp_path / "figeval/wings").mkdir(parents=True)
    for wing in (ROOT / "figeval/wings").iterdir():
        if wing.is_dir() and wing.name != "comparison":
            (tmp_path / "figeval/wings" / wing.name).symlink_to(wing)
    for entry in (ROOT / "figeval").iterdir():
        if entry.name != "wings":
            (tmp_path / "figeval" / entry.name).symlink_to(entry)
    shutil.copy(ROOT / "figeval/wings/__init__.py", tmp_path / "figeval/wings")
    (tmp_path / "figeval/__init__.py").unlink()
    shutil.copy(ROOT / "figeval/__init__.py", tmp_path / "figeval")
    return partial(python, tmp_path)


def python(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_a_name_of_a_wing_that_is_absent(without_comparison: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    listed = without_comparison("import figeval; print(*dir(figeval))").stdout.split()
    of_the_wing = {name for name, module in figeval._MODULES.items() if module.startswith("figeval.wings.comparison.")}
    assert {"compare", "Comparison"} <= of_the_wing
    assert set(listed) == set(figeval.__all__) - of_the_wing
    for program in ("import figeval; figeval.compare", "from figeval import compare"):
        error = without_comparison(program).stderr.splitlines()[-1]
        assert error == "ImportError: figeval.compare needs the folder figeval/wings/comparison, which is not installed"


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'figeval' has no attribute 'Txet'"):
        figeval.Txet  # noqa: B018


@pytest.mark.parametrize("page", ["docs/plugins.md", "docs/metrics.md", "docs/task_types.md"])
def test_the_documentation_for_plugin_authors_imports_what_is_public(page: str) -> None:
    text = (ROOT / page).read_text()
    modules = set(re.findall(r"^\s*from (figeval[\w.]*) import", text, flags=re.MULTILINE))
    assert modules <= {"figeval", "figeval.testing", "figeval.testing.fakes", "figeval.cli.main"}
    lines = re.findall(r"^\s*from figeval import (.*)$", text, flags=re.MULTILINE)
    assert lines
    assert {name for line in lines for name in line.split(", ")} <= set(figeval.__all__)
