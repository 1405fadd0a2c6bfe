"""What figeval exports: every name can be had, and type checkers and the documentation know the same ones."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import figeval

ROOT = Path(__file__).resolve().parent.parent


def stubbed() -> dict[str, str]:
    """Name → module of what the stub exports."""
    tree = ast.parse((ROOT / "figeval/__init__.pyi").read_text())
    found = {}
    for statement in tree.body:
        assert isinstance(statement, ast.ImportFrom), "the stub has nothing but imports"
        for alias in statement.names:
            assert alias.asname == alias.name, "without `as` a type checker takes the name for private"
            found[alias.name] = str(statement.module)
    return found


def test_type_checkers_know_the_same_names_from_the_same_modules() -> None:
    assert stubbed() == figeval._MODULES


@pytest.mark.parametrize("name", figeval.__all__)
def test_every_name_can_be_had(name: str) -> None:
    assert getattr(figeval, name) is not None
    assert name in dir(figeval)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'figeval' has no attribute 'Txet'"):
        figeval.Txet  # noqa: B018


@pytest.mark.parametrize("name", figeval._REMOVED)
def test_a_name_that_is_gone_says_what_to_use(name: str) -> None:
    with pytest.raises(ImportError, match=rf"^figeval has no '{name}' since 0\.2; ") as caught:
        exec(f"from figeval import {name}")
    (used,) = re.findall(r"figeval\.(\w+)", str(caught.value))
    assert used in figeval.__all__
    assert name not in dir(figeval)


@pytest.mark.parametrize("page", ["docs/plugins.md", "docs/statistics.md", "docs/task_types.md"])
def test_the_documentation_for_plugin_authors_imports_what_is_public(page: str) -> None:
    text = (ROOT / page).read_text()
    modules = set(re.findall(r"^\s*from (figeval[\w.]*) import", text, flags=re.MULTILINE))
    assert modules <= {"figeval", "figeval.testing", "figeval.testing.fakes", "figeval.cli.main"}
    lines = re.findall(r"^\s*from figeval import (.*)$", text, flags=re.MULTILINE)
    assert lines
    assert {name for line in lines for name in line.split(", ")} <= set(figeval.__all__)
