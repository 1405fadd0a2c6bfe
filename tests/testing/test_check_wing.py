"""`check_wing` accepts every built-in wing, and says what is wrong with a broken one."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from figeval.testing import check_wing
from tests.wings_here import ROOT

WINGS = sorted(file.parent.name for file in (ROOT / "figeval/wings").glob("[a-z]*/__init__.py"))


@pytest.mark.parametrize("name", WINGS)
def test_the_built_in_wings_keep_to_the_contract(name: str) -> None:
    check_wing(import_module(f"figeval.wings.{name}"))


# ---- broken ones -----------------------------------------------------------------------------------------------------

WING = """
import click
from figeval import Grid, Result, hookimpl
{top}

@hookimpl
def register_commands(cli):
    cli.add_lazy_command("greet", "{name}.inner:{command}", "{summary}")

@hookimpl
def register_listings(register):
    register("greetings", "{name}.inner:rows", {columns}, "for greet")

@hookimpl
def register_views(register):
    register("greeting", "{name}.inner:names", "{name}.inner:{view}")
"""
WING_MODULE = """
import click
from figeval import Grid, Result

@click.group()
def greet():
    "Greet."

@greet.command(help={help!r})
@click.option("--loud", is_flag=True, callback={callback})
def twice(loud):
    pass

NUMBER = 3

def rows(harness):
    yield {row}

def names(harness):
    return ["good morning"]

class View(Result):
    def __init__(self, harness, name):
        self.name = name

    @property
    def grids(self):
        return [Grid(("greeting",), [{cells}])]

    def to_dict(self):
        return {content}

def sentence(harness, name):
    return name
"""
RIGHT_PARTS = {
    "top": "",
    "command": "greet",
    "summary": "Greet.",
    "columns": "('name', 'language', 'owner')",
    "view": "View",
    "help": "Greet twice.",
    "callback": "None",
    "row": "{'name': 'salve', 'language': 'la', 'owner': 'me'}",
    "cells": "(self.name,)",
    "content": "{'name': self.name}",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, ""),
        ({"top": "from {name} import inner"}, "`figeval --help` and `figeval ls` import wing_1.inner"),
        ({"top": "@hookimpl\ndef register_viws(register): ..."}, "no hook 'register_viws'"),
        ({"command": "gret"}, "has no 'gret'"),
        ({"command": "NUMBER"}, "is an int; register a click command"),
        ({"summary": ""}, "has no summary"),
        ({"help": ""}, "`figeval greet twice --help` says nothing"),
        ({"row": "('salve', 'la')"}, "is a tuple; yield mappings"),
        ({"row": "{'name': 'salve', 'owner': 'me'}"}, "has no language"),
        ({"row": "{'name': 'salve', 'owner': 'me', 'language': {1}}"}, "greetings --json"),
        ({"columns": "('name', 'language')", "row": "{'name': 'salve', 'language': 'la'}"}, "has no owner"),
        ({"view": "sentence"}, "gets a str; return a figeval.Result"),
        ({"view": "Wiew"}, "has no 'Wiew'"),
        ({"cells": "(self.nane,)"}, "show good morning` raised AttributeError"),
        ({"content": "{1, 2}"}, "show good morning --json"),
    ],
)
def test_what_is_wrong_is_named(
    change: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    name = f"wing_{request.node.callspec.indices['change']}"
    values = {**RIGHT_PARTS, **change}
    values["top"] = values["top"].format(name=name)
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(WING.format(name=name, **values))
    (tmp_path / name / "inner.py").write_text(WING_MODULE.format(**values))
    monkeypatch.syspath_prepend(tmp_path)
    plugin = import_module(name)
    monkeypatch.setattr("figeval.testing.wings._check_imports", lambda _: None) if not values[
        "top"
    ] and change else None
    try:
        if not message:
            check_wing(plugin)
            return
        with pytest.raises(AssertionError) as caught:
            check_wing(plugin)
        assert message in str(caught.value)
    finally:
        for module in [module for module in sys.modules if module.partition(".")[0] == name]:
            del sys.modules[module]
