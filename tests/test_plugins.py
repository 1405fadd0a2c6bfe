"""The plugin manager: one row per plugin, one line per problem; no broken plugin stops the others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pluggy
import pytest

from figeval import CapabilityError, FigevalError, hookimpl
from figeval.testing import harness
from tests.cli.conftest import Cli
from tests.processes import figeval

CORE = "figeval.defaults"  # the plugin with figeval's own kinds of tasks, which every harness has


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("speechless")


class Leaving(BaseException):
    """Neither an Exception nor a SystemExit."""


def plugin(**functions: Callable[..., Any]) -> SimpleNamespace:
    """An object whose functions are hooks."""
    return SimpleNamespace(**{name: hookimpl(function) for name, function in functions.items()})


def hosting(*loaded: Any) -> Any:
    """The plugin manager of a harness with these plugins, p0, p1 …"""
    manager = harness().manager
    for number, module in enumerate(loaded):
        manager.load(f"p{number}", "a test", lambda module=module: module)
    return manager


def problems(manager: Any) -> dict[str, list[str]]:
    return {name: row.problems for name, row in manager.plugins.items() if name != CORE}


def implementers(manager: Any, hook: str) -> list[str]:
    return [name for name, _ in manager.implementations(hook) if name != CORE]


def raising(error: BaseException) -> Callable[[], Any]:
    def imported() -> Any:
        raise error

    return imported


@pytest.mark.parametrize(
    "error", [ImportError("no x"), SyntaxError("bad"), SystemExit(3), RuntimeError("two\nlines"), Leaving("it all")]
)
def test_whatever_an_import_raises_is_one_line(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    manager = hosting()
    manager.load("broken", "a test", raising(error))
    assert len(manager.plugins["broken"].problems) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("figeval: warning: plugin 'broken': not loaded: ")
    assert type(error).__name__ in line


def test_an_interrupt_is_no_problem_of_a_plugin() -> None:
    with pytest.raises(KeyboardInterrupt):
        hosting().load("slow", "a test", raising(KeyboardInterrupt()))


def test_a_misspelt_hook_leaves_the_others_in_force() -> None:
    manager = hosting(plugin(register_metrcs=lambda register: None, register_tasks=lambda register: None))
    (problem,) = problems(manager)["p0"]
    assert problem.startswith("there is no hook 'register_metrcs'; did you mean 'register_metrics'")
    assert implementers(manager, "register_tasks") == ["p0"]


def test_a_wrong_argument_is_told_with_the_right_ones() -> None:
    manager = hosting(plugin(resolve_backend=lambda name, options: None, run_started=lambda run: None))
    assert problems(manager) == {"p0": ["not loaded: hook 'resolve_backend' takes model, options, not 'name'"]}
    assert not list(manager.implementations("run_started")), "a plugin is loaded whole or not at all"


def test_arguments_may_be_left_out() -> None:
    manager = hosting(plugin(resolve_backend=lambda options: options["x"]))
    assert manager.first("resolve_backend", model="m", options={"x": "found"}) == "found"
    assert problems(manager) == {"p0": []}


def test_a_hook_may_have_a_name_of_its_own() -> None:
    def mine(run: Any) -> None:
        run.append("called")

    manager = hosting(SimpleNamespace(mine=hookimpl(specname="run_started")(mine)))
    run: list[str] = []
    manager.each("run_started", lambda _: {"run": run})
    assert run == ["called"]
    assert problems(manager) == {"p0": []}


def test_a_wrapper_is_refused_rather_than_never_called() -> None:
    def run_started(run: Any) -> Any:
        yield

    manager = hosting(SimpleNamespace(run_started=hookimpl(wrapper=True)(run_started)))
    assert "wrapper" in problems(manager)["p0"][0]


def marking(hook: str, **options: bool) -> SimpleNamespace:
    """A plugin with one empty hook."""
    return SimpleNamespace(**{hook: hookimpl(**options)(lambda: None)})


NO_MARK, TRY_FIRST, TRY_LAST = {}, {"tryfirst": True}, {"trylast": True}
ORDERS = [
    ([NO_MARK, NO_MARK, NO_MARK], [2, 1, 0]),
    ([TRY_FIRST, NO_MARK, NO_MARK], [0, 2, 1]),
    ([TRY_FIRST, TRY_FIRST, NO_MARK], [1, 0, 2]),
    ([NO_MARK, NO_MARK, TRY_LAST], [1, 0, 2]),
    ([TRY_LAST, NO_MARK, TRY_LAST, TRY_FIRST], [3, 1, 0, 2]),
]


class Specification:
    @staticmethod
    @pluggy.HookspecMarker("figeval")
    def run_started(run: Any) -> None: ...


@pytest.mark.parametrize(("marks", "order"), ORDERS)
def test_hooks_are_called_in_the_order_of_pluggy(marks: list[dict[str, bool]], order: list[int]) -> None:
    manager = hosting(*(marking("run_started", **mark) for mark in marks))
    assert implementers(manager, "run_started") == [f"p{index}" for index in order]
    reference = pluggy.PluginManager("figeval")
    reference.add_hookspecs(Specification)
    called: list[int] = []
    for index, mark in enumerate(marks):
        function = hookimpl(**mark)(lambda index=index: called.append(index))
        reference.register(SimpleNamespace(run_started=function))
    reference.hook.run_started(run=None)
    assert called == order


def test_registration_hooks_are_called_in_the_order_of_loading_whatever_they_prefer() -> None:
    manager = hosting(*(marking("register_metrics", **mark) for mark in (NO_MARK, TRY_FIRST, TRY_LAST, NO_MARK)))
    assert implementers(manager, "register_metrics") == ["p0", "p1", "p2", "p3"]
    assert manager.preference("register_metrics") == ["p1", "p0", "p3", "p2"]


def test_an_installed_plugin_answers_before_a_built_in_one() -> None:
    def answering(answer: str | None, **options: bool) -> SimpleNamespace:
        return SimpleNamespace(resolve_backend=hookimpl(**options)(lambda model: answer))

    def first(*loaded: Any) -> Any:
        return hosting(*loaded).first("resolve_backend", model="", options={})

    assert first(answering("built in"), answering("installed")) == "installed"
    assert first(answering("built in"), answering(None)) == "built in"
    assert first(answering("built in", tryfirst=True), answering("installed")) == "built in"
    assert first(answering("built in"), answering("installed", trylast=True)) == "built in"


def test_a_hook_that_raises_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    broken = plugin(run_finished=lambda run: 1 / 0)
    manager = hosting(broken, plugin(run_finished=lambda run: seen.append(run)))
    for _ in range(3):
        manager.each("run_finished", lambda _: {"run": "done"})
    assert seen == ["done"] * 3
    assert problems(manager) == {"p0": ["run_finished: ZeroDivisionError: division by zero"], "p1": []}
    assert len(capsys.readouterr().err.splitlines()) == 1, "the same problem is told once"


def test_the_first_answer_wins_and_a_broken_plugin_is_passed_over() -> None:
    manager = hosting(plugin(resolve_backend=lambda model: "yes"), plugin(resolve_backend=lambda model: 1 / 0))
    assert manager.first("resolve_backend", model="m", options={}) == "yes"
    assert "ZeroDivisionError" in problems(manager)["p1"][0]
    assert hosting().first("resolve_backend", model="m", options={}) is None


def test_what_the_user_can_mend_reaches_the_user() -> None:
    def refuse(model: str) -> str:
        raise CapabilityError(f"{model} is no language model")

    manager = hosting(plugin(resolve_backend=lambda model: "yes"), plugin(resolve_backend=refuse))
    with pytest.raises(FigevalError, match="no language model"):
        manager.first("resolve_backend", model="m", options={})
    assert problems(manager)["p1"] == []


def test_a_package_that_an_installed_plugin_misses_is_no_answer() -> None:
    def needing(model: str) -> str:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    manager = hosting(plugin(resolve_backend=lambda model: "yes"), plugin(resolve_backend=needing))
    assert manager.first("resolve_backend", model="m", options={}) == "yes"
    manager = hosting()
    manager.load("own", "built in", lambda: plugin(resolve_backend=needing))
    with pytest.raises(FigevalError, match="figeval\\[hf\\]"):
        manager.first("resolve_backend", model="m", options={})


# ---- what a plugin may do wrong -------------------------------------------------------------------------------------


def test_an_exception_that_cannot_be_printed_is_one_line() -> None:
    def run_started() -> None:
        raise Mute

    manager = hosting(plugin(run_started=run_started))
    manager.each("run_started", lambda _: {"run": None})
    manager.load("broken", "a test", raising(Mute()))
    shown = "Mute: (its message cannot be shown: __str__ raised ValueError)"
    assert problems(manager) == {"p0": [f"run_started: {shown}"], "broken": [f"not loaded: {shown}"]}


def test_an_interrupt_in_a_hook_is_no_problem_of_a_plugin() -> None:
    def run_started() -> None:
        raise KeyboardInterrupt

    manager = hosting(plugin(run_started=run_started, resolve_backend=run_started))
    with pytest.raises(KeyboardInterrupt):
        manager.each("run_started", lambda _: {"run": None})
    with pytest.raises(KeyboardInterrupt):
        manager.first("resolve_backend", model="", options={})


def generator(register: Any) -> Any:
    yield register


async def coroutine(register: Any) -> None: ...


async def async_generator(register: Any) -> Any:
    yield register


@pytest.mark.parametrize("function", [generator, coroutine, async_generator])
def test_a_hook_whose_body_would_never_run_is_refused(function: Callable[..., Any]) -> None:
    (problem,) = problems(hosting(plugin(register_tasks=function)))["p0"]
    assert problem.startswith("not loaded: hook 'register_tasks' is a ")
    assert "whose body would never run" in problem


@pytest.mark.parametrize(("function", "kind"), [(generator, "generator"), (coroutine, "coroutine")])
def test_a_hook_that_returns_something_unrun_is_told(function: Callable[..., Any], kind: str) -> None:
    manager = hosting(plugin(run_started=lambda run: function(run), resolve_backend=lambda model: function(model)))
    manager.each("run_started", lambda _: {"run": None})
    assert manager.first("resolve_backend", model="m", options={}) is None
    message = f"returned a {kind}, whose body never ran; write a plain function"
    assert problems(manager)["p0"] == [f"run_started: {message}", f"resolve_backend: {message}"]


def test_a_hook_that_changes_the_working_folder_does_not_change_it_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()

    def moving() -> Any:
        os.chdir("elsewhere")
        return plugin(run_started=lambda: os.chdir("elsewhere"), resolve_backend=lambda: os.chdir("elsewhere"))

    manager = hosting()
    manager.load("p", "a test", moving)
    assert Path.cwd() == tmp_path
    manager.each("run_started", lambda _: {"run": None})
    manager.first("resolve_backend", model="m", options={})
    assert Path.cwd() == tmp_path
    assert problems(manager) == {"p": []}


def test_a_folder_that_is_gone_is_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert problems(hosting(plugin(run_started=lambda: None))) == {"p0": []}


def test_what_a_plugin_prints_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def printing() -> Any:
        print("imported")
        return plugin(run_started=lambda: print("started"), resolve_backend=lambda: print("resolved"))

    manager = hosting()
    manager.load("p", "a test", printing)
    manager.each("run_started", lambda _: {"run": None})
    manager.first("resolve_backend", model="m", options={})
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "imported\nstarted\nresolved\n")


def test_two_distributions_with_one_name_are_both_loaded() -> None:
    manager = hosting()
    for origin in ("acme 1.0", "other 2.0"):
        manager.load("acme", origin, lambda: plugin(run_started=lambda run: None))
    assert [(row.name, row.origin) for row in manager.plugins.values() if row.name != CORE] == [
        ("acme", "acme 1.0"),
        ("acme of other 2.0", "other 2.0"),
    ]
    assert len(list(manager.implementations("run_started"))) == 2


def test_one_module_under_two_names_is_loaded_once() -> None:
    module = plugin(run_started=lambda run: None)
    manager = hosting(module, module)
    assert problems(manager) == {"p0": [], "p1": ["not loaded: the same plugin is already loaded as 'p0'"]}


def test_a_hook_may_have_an_argument_of_its_own_with_a_default() -> None:
    manager = hosting(
        plugin(register_tasks=lambda register, folder="mine": None),
        plugin(register_tasks=lambda register, folder: None),
    )
    assert problems(manager)["p0"] == []
    assert "takes register, not 'folder'" in problems(manager)["p1"][0]


# ---- which plugins there are ----------------------------------------------------------------------------------------


def test_built_in_plugins_load_without_a_problem(cli: Cli) -> None:
    rows = json.loads(cli("ls", "plugins", "--json").out)
    names = {row["name"] for row in rows}
    assert {"figeval.builtin.tasks.mini", "figeval.builtin.plugins.baselines"} <= names
    assert not [name for name in names if name.rpartition(".")[2].startswith("_")]
    assert not {row["name"]: row["problems"] for row in rows if row["problems"]}


def test_the_environment_replaces_entry_points(tmp_path: Path, warm_start: None) -> None:
    """Those of a distribution are in test_third_party_types.py."""
    for variable, names in ((" json , ,decimal", ["json", "decimal"]), ("", [])):
        listed = json.loads(figeval("ls", "plugins", "--json", cwd=tmp_path, FIGEVAL_PLUGINS=variable).stdout)
        assert [row["name"] for row in listed if row["origin"] == "FIGEVAL_PLUGINS"] == names
