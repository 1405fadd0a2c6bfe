"""Examples in the docstrings of the public functions: they are Python, and call functions with options that exist.

The examples of docs/python.md and other pages are run by test_docs.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

import figeval

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
API = [name for name in figeval.__all__ if figeval._MODULES[name].startswith("figeval.api.")]
FUNCTIONS = [name for name in API if inspect.isfunction(getattr(figeval, name))]


def examples(name: str) -> Iterator[str]:
    yield from map(textwrap.dedent, BLOCK.findall(inspect.getdoc(getattr(figeval, name)) or ""))


def options(function: Any) -> set[str]:
    """Names of the keywords that a function takes, those of its `**options` included."""
    option_names = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            kind = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
            option_names |= set(getattr(importlib.import_module(function.__module__), kind).__annotations__)
        else:
            option_names.add(parameter.name)
    return option_names


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_an_example_with_options_that_exist(name: str) -> None:
    blocks = list(examples(name))
    assert blocks, "a function of the API has an example"
    called = []
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            function = node.func if isinstance(node, ast.Call) else None
            if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
                continue
            if function.value.id == "figeval":
                assert isinstance(node, ast.Call)
                called.append(function.attr)
                keyword_names = {keyword.arg for keyword in node.keywords}
                assert keyword_names <= options(getattr(figeval, function.attr)), block
    assert name in called


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_shown_and_documented(name: str) -> None:
    """What a function returns is named in its annotation, public, and says what it is."""
    returned = inspect.signature(getattr(figeval, name)).return_annotation
    for kind in set(re.findall(r"\b[A-Z]\w+", str(returned))) - {"None"}:
        if kind == "DataFrame":
            continue
        assert kind in figeval.__all__, f"{name} returns {kind}, which nobody can import"
        assert "__repr__" in vars(getattr(figeval, kind))


def test_every_argument_is_described() -> None:
    for name in FUNCTIONS:
        function = getattr(figeval, name)
        text = inspect.getdoc(function) or ""
        for parameter in inspect.signature(function).parameters:
            assert re.search(rf"^    {parameter}: ", text, re.MULTILINE) or name == "load", f"{name}: {parameter}"
