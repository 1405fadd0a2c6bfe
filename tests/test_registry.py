"""Registries: names taken once, owners named, targets imported when asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from figeval import hookimpl
from figeval.errors import DuplicateName, FigevalError, PluginError, UnknownName
from figeval.plugins import Host
from figeval.registry import Registry, fill, load_target, plain, target_name


def registry(*names: str) -> Registry[Any]:
    made: Registry[Any] = Registry("model", "figeval ls models")
    for name in names:
        made.add(name, name.upper, "core")
    return made


def test_things_come_back_by_name_and_in_order() -> None:
    made = registry("tfidf", "glove")
    assert made.get("glove")() == "GLOVE"
    assert [entry.name for entry in made] == ["tfidf", "glove"]
    assert len(made) == 2
    assert "glove" in made
    assert "word2vec" not in made


def test_an_unknown_name_comes_with_near_ones_and_where_to_look() -> None:
    with pytest.raises(UnknownName) as caught:
        registry("tfidf", "glove").get("tfdif")
    assert str(caught.value) == "unknown model 'tfdif'; did you mean 'tfidf'?; see `figeval ls models`"


def test_a_taken_name_is_refused_with_both_owners() -> None:
    made = registry("tfidf")
    with pytest.raises(DuplicateName) as caught:
        made.add("tfidf", str, "acme")
    assert str(caught.value) == "model 'tfidf' of acme is already registered by core; rename it"
    assert made.entry("tfidf").owner == "core"


def test_a_target_is_imported_when_asked_for() -> None:
    made = registry()
    made.add("dumps", "json:dumps", "core")
    made.add("later", "no_such_module:thing", "acme")
    assert made.get("dumps") is json.dumps
    with pytest.raises(PluginError, match=r"'no_such_module:thing' cannot be imported .*no_such_module"):
        made.get("later")


def test_a_target_that_is_not_there_is_named_with_near_ones() -> None:
    with pytest.raises(PluginError, match="module 'json' has no 'dmups'; did you mean 'dumps'"):
        load_target("json:dmups")


def test_a_bug_inside_a_plugin_keeps_its_traceback(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "buggy_module.py").write_text("None.no_such_attribute\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AttributeError, match="no_such_attribute"):
        load_target("buggy_module:anything")


@pytest.mark.parametrize(("target", "name"), [("package.module:function", "function"), (json.dumps, "dumps")])
def test_target_name(target: Any, name: str) -> None:
    assert target_name(target) == name


# ---- filling from plugins -------------------------------------------------------------------------------------------


def filled(*hooks: Callable[..., None]) -> tuple[Registry[Any], Host]:
    """A registry filled from plugins p0, p1 … with these `register_backends`."""
    host = Host()
    for number, function in enumerate(hooks):
        host.load(f"p{number}", "a test", lambda f=function: SimpleNamespace(register_backends=hookimpl(f)))
    made = registry()

    def add(name: str, target: Any, *, owner: str) -> None:
        made.add(name, target, owner)

    fill(host, "register_backends", add, plain)
    return made, host


def test_a_taken_name_costs_one_registration_only() -> None:
    def second(register: Any) -> None:
        register("a", str)
        register("b", str)

    made, host = filled(lambda register: register("a", int), second)
    assert {entry.name: entry.owner for entry in made} == {"a": "p0", "b": "p1"}
    assert host.plugins["p1"].problems == ["model 'a' of p1 is already registered by p0; rename it"]
    assert host.plugins["p0"].problems == []


def test_what_was_registered_before_a_failure_stays() -> None:
    def failing(register: Any) -> None:
        register("a", str)
        raise FigevalError("no licence; ask for one")

    made, host = filled(failing, lambda register: register("b", str))
    assert [entry.name for entry in made] == ["a", "b"]
    assert host.plugins["p0"].problems == ["register_backends: no licence; ask for one"]


def test_a_register_called_wrongly_is_a_problem_of_the_caller() -> None:
    made, host = filled(lambda register: register(), lambda register: register("b", str))
    assert [entry.name for entry in made] == ["b"]
    assert "TypeError" in host.plugins["p0"].problems[0]
