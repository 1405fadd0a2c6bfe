"""Registries: names taken once, owners named, targets imported when asked for."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from figeval import DuplicateName, FigevalError, PluginError, Registry, UnknownName, hookimpl, hooks
from figeval.registry import fill, load_target, signature_of, spell_call
from figeval.testing import harness
from tests.cli.conftest import Cli


def registry(*names: str) -> Registry[Any]:
    models: Registry[Any] = Registry("model", "figeval ls models")
    for name in names:
        models.add(name, name.upper, "core")
    return models


def test_things_come_back_by_name_and_in_order() -> None:
    models = registry("tfidf", "glove")
    assert models.get("glove")() == "GLOVE"
    assert [entry.name for entry in models] == ["tfidf", "glove"]
    assert len(models) == 2
    assert "glove" in models
    assert "word2vec" not in models


def test_an_unknown_name_comes_with_near_ones_and_where_to_look() -> None:
    with pytest.raises(UnknownName) as caught:
        registry("tfidf", "glove").get("tfdif")
    assert str(caught.value) == "unknown model 'tfdif'; did you mean 'tfidf'?; see `figeval ls models`"


def test_a_taken_name_is_refused_with_both_owners() -> None:
    models = registry("tfidf")
    with pytest.raises(DuplicateName) as caught:
        models.add("tfidf", str, "acme")
    assert str(caught.value) == "model 'tfidf' of acme is already registered by core; rename it"
    assert models.entry("tfidf").owner == "core"


def test_a_target_is_imported_when_asked_for() -> None:
    models = registry()
    models.add("dumps", "json:dumps", "core")
    models.add("later", "no_such_module:thing", "acme")
    assert models.get("dumps") is json.dumps
    with pytest.raises(PluginError, match=r"'no_such_module:thing' cannot be imported .*no_such_module"):
        models.get("later")


def test_a_target_that_is_not_there_is_named_with_near_ones() -> None:
    with pytest.raises(PluginError, match="module 'json' has no 'dmups'; did you mean 'dumps'"):
        load_target("json:dmups")


def test_a_bug_inside_a_plugin_keeps_its_traceback(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "buggy_module.py").write_text("None.no_such_attribute\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AttributeError, match="no_such_attribute"):
        load_target("buggy_module:anything")


# ---- filling from plugins -------------------------------------------------------------------------------------------


def fill_registry(*hooks: Callable[..., None]) -> tuple[Registry[Any], Any]:
    """A registry filled from plugins p0, p1 … with these `register_backends`."""
    manager = harness().manager
    for number, function in enumerate(hooks):
        manager.load(f"p{number}", "a test", lambda f=function: SimpleNamespace(register_backends=hookimpl(f)))
    return Registry.collect(manager, "register_backends", "model", "figeval ls models"), manager


def test_a_taken_name_costs_one_registration_only() -> None:
    def second(register: Any) -> None:
        register("a", str)
        register("b", str)

    models, manager = fill_registry(lambda register: register("a", int), second)
    assert {entry.name: entry.owner for entry in models} == {"a": "p0", "b": "p1"}
    assert manager.plugins["p1"].problems == ["model 'a' of p1 is already registered by p0; rename it"]
    assert manager.plugins["p0"].problems == []


def test_what_was_registered_before_a_failure_stays() -> None:
    def failing(register: Any) -> None:
        register("a", str)
        raise FigevalError("no licence; ask for one")

    models, manager = fill_registry(failing, lambda register: register("b", str))
    assert [entry.name for entry in models] == ["a", "b"]
    assert manager.plugins["p0"].problems == ["register_backends: no licence; ask for one"]


def test_a_register_called_wrongly_is_a_problem_of_the_caller() -> None:
    models, manager = fill_registry(lambda register: register(), lambda register: register("b", str))
    assert [entry.name for entry in models] == ["b"]
    (problem,) = manager.plugins["p0"].problems
    assert problem == (
        "register_backends: missing a required argument: 'name'; call register(name, factory, summary='')"
    )


def test_a_wrong_argument_of_a_register_is_named_with_the_right_one() -> None:
    def misspelling(register: Any) -> None:
        register("a", str, sumary="a string")
        register("b", str)

    models, manager = fill_registry(misspelling)
    assert [entry.name for entry in models] == ["b"], "it costs that one registration"
    (problem,) = manager.plugins["p0"].problems
    assert "unexpected keyword argument 'sumary'; did you mean 'summary'?; call register(name, factory" in problem


def test_a_method_that_a_register_does_not_have() -> None:
    models, manager = fill_registry(lambda register: register.folder("x"))
    assert "register of register_backends has no method 'folder'" in manager.plugins["p0"].problems[0]
    assert not len(models)


def test_a_name_that_is_none() -> None:
    _, manager = fill_registry(lambda register: (register(3, str), register("", str)))
    assert [problem.partition(": ")[2] for problem in manager.plugins["p0"].problems] == [
        "the name of a model must be a string, not an int",
        "the name of a model must not be empty",
    ]


def test_what_is_registered_may_be_broken_in_any_way() -> None:
    def add(file: Any, *, owner: str) -> None:
        raise ValueError("no such thing")

    def registering(register: Any) -> None:
        register(1)
        seen.append("went on")

    seen: list[str] = []
    manager = harness().manager
    manager.load("p", "a test", lambda: SimpleNamespace(register_presets=hookimpl(registering)))
    fill(manager, "register_presets", add)
    assert manager.plugins["p"].problems == ["register_presets: ValueError: no such thing"]
    assert seen == ["went on"]


# ---- whose things are preferred, and whose names they are -----------------------------------------------------------


def registering(*names: str, **options: bool) -> SimpleNamespace:
    def register_backends(register: Any) -> None:
        for name in names:
            register(name, str)

    return SimpleNamespace(register_backends=hookimpl(**options)(register_backends))


def collect_models(*plugins: Any) -> tuple[list[tuple[str, str]], Any]:
    manager = harness().manager
    for number, module in enumerate(plugins):
        manager.load(f"p{number}", "a test", lambda module=module: module)
    models: Registry[Any] = Registry.collect(manager, "register_backends", "model", "figeval ls models")
    return [(entry.name, entry.owner) for entry in models], manager


def test_things_are_in_the_order_of_loading() -> None:
    names, _ = collect_models(registering("b", "a"), registering("c"))
    assert names == [("b", "p0"), ("a", "p0"), ("c", "p1")]


def test_a_plugin_that_says_so_is_preferred_and_one_that_wants_is_last() -> None:
    names, _ = collect_models(
        registering("z", trylast=True),
        registering("a"),
        registering("b", tryfirst=True),
        registering("d", "c", tryfirst=True),
    )
    assert [name for name, _ in names] == ["d", "c", "b", "a", "z"]


def test_preference_takes_no_name_from_anybody() -> None:
    names, manager = collect_models(registering("a"), registering("a", "b", tryfirst=True))
    assert names == [("b", "p1"), ("a", "p0")]
    assert manager.plugins["p1"].problems == ["model 'a' of p1 is already registered by p0; rename it"]
    assert not manager.plugins["p0"].problems


# ---- one signature, told in four places -----------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parent.parent / "docs/plugins.md"
REGISTERING = sorted(hook for hook in hooks.HOOKS if hook.startswith("register_") and hook != "register_commands")
OF_WINGS = {"register_learners": "training", "register_presets": "training", "register_layouts": "exporters"}
CALLED_BY = {"register_exporters": ("export", "nowhere", "--to", "csv")}


def methods_of(hook: str) -> list[str]:
    """`__call__` and what else the registrar of a hook has."""
    annotation = inspect.signature(getattr(hooks, hook)).parameters["register"].annotation
    registrar = getattr(hooks, annotation)
    return ["__call__", *(name for name in vars(registrar) if not name.startswith("_"))]


def calls(hook: str) -> list[str]:
    """How the registrar of a hook is called, spelled out; of another hook how it is called itself."""
    if hook not in REGISTERING:
        return [spell_call(inspect.signature(getattr(hooks, hook)), hook)]
    return [
        spell_call(signature_of(hook, method), "register" if method == "__call__" else f"register.{method}")
        for method in methods_of(hook)
    ]


@pytest.mark.parametrize("hook", sorted(hooks.HOOKS))
def test_the_docstring_says_how_it_is_called(hook: str) -> None:
    docstring = " ".join((getattr(hooks, hook).__doc__ or "").split())
    for call in calls(hook):
        assert f"`{call}`" in docstring


@pytest.mark.parametrize("hook", sorted(hooks.HOOKS))
def test_the_documentation_says_how_it_is_called(hook: str) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{hook}`")]
    for call in calls(hook):
        assert f"`{call}`" in row


def test_the_documentation_lists_the_hooks_in_their_order() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), flags=re.MULTILINE)
    assert [hook for hook in vars(hooks) if hook in hooks.HOOKS] == [hook for hook in listed if hook in hooks.HOOKS]


@pytest.mark.parametrize(
    "hook", [pytest.param(hook, marks=pytest.mark.wing(*filter(None, [OF_WINGS.get(hook)]))) for hook in REGISTERING]
)
def test_what_receives_the_call_takes_what_the_registrar_declares(
    hook: str, install: Callable[..., None], cli: Cli
) -> None:
    received: list[Any] = []
    spy = ModuleType("spy")
    setattr(spy, hook, hookimpl(lambda register: received.append(register)))
    install(spy)
    cli(*CALLED_BY.get(hook, ("ls", "plugins")))
    register = received[0]
    for method in methods_of(hook):
        takes = inspect.signature(register.methods[method]).parameters
        declared = signature_of(hook, method).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
            assert [name for name in takes if name != "owner"] == list(declared)
        assert "owner" in takes
