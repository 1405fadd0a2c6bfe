"""The plugin host: one row per plugin, one line per problem, and nothing that a plugin does wrong stops the others."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from figeval import hookimpl, plugins
from figeval.errors import CapabilityError, FigevalError, PluginError
from figeval.plugins import HOOKS, Host


def plugin(**hooks: Callable[..., Any]) -> SimpleNamespace:
    """An object whose functions are hooks."""
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def hosting(*loaded: Any) -> Host:
    host = Host()
    for number, one in enumerate(loaded):
        host.load(f"p{number}", "a test", lambda one=one: one)
    return host


def problems(host: Host) -> dict[str, list[str]]:
    return {name: row.problems for name, row in host.plugins.items()}


def raising(error: BaseException) -> Callable[[], Any]:
    def imported() -> Any:
        raise error

    return imported


def test_the_hooks_are_those_of_the_contract() -> None:
    assert {"register_tasks", "register_metrics", "resolve_backend", "run_finished"} <= HOOKS
    assert "hookspec" not in HOOKS


@pytest.mark.parametrize("error", [ImportError("no x"), SyntaxError("bad"), SystemExit(3), RuntimeError("two\nlines")])
def test_whatever_an_import_raises_is_one_line(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    host = Host()
    host.load("broken", "a test", raising(error))
    assert len(host.plugins["broken"].problems) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("figeval: warning: plugin 'broken': not loaded: ")
    assert type(error).__name__ in line


def test_an_interrupt_is_no_problem_of_a_plugin() -> None:
    with pytest.raises(KeyboardInterrupt):
        Host().load("slow", "a test", raising(KeyboardInterrupt()))


def test_a_misspelt_hook_leaves_the_others_in_force() -> None:
    host = hosting(plugin(register_metrcs=lambda register: None, register_tasks=lambda register: None))
    (problem,) = problems(host)["p0"]
    assert problem.startswith("there is no hook 'register_metrcs'; did you mean 'register_metrics'")
    assert [name for name, _ in host.implementations("register_tasks")] == ["p0"]


def test_a_wrong_argument_is_told_with_the_right_ones() -> None:
    host = hosting(plugin(resolve_backend=lambda name, options: None, run_started=lambda run: None))
    assert problems(host) == {"p0": ["not loaded: hook 'resolve_backend' takes model, options, not 'name'"]}
    assert not list(host.implementations("run_started")), "a plugin is loaded whole or not at all"


def test_arguments_may_be_left_out() -> None:
    host = hosting(plugin(resolve_backend=lambda options: options["x"]))
    assert host.first("resolve_backend", model="m", options={"x": "found"}) == "found"
    assert problems(host) == {"p0": []}


def test_a_hook_may_have_a_name_of_its_own() -> None:
    def mine(run: Any) -> None:
        run.append("called")

    host = hosting(SimpleNamespace(mine=hookimpl(specname="run_started")(mine)))
    run: list[str] = []
    host.each("run_started", lambda _: {"run": run})
    assert run == ["called"]
    assert problems(host) == {"p0": []}


def test_a_wrapper_is_refused_rather_than_never_called() -> None:
    def run_started(run: Any) -> Any:
        yield

    host = hosting(SimpleNamespace(run_started=hookimpl(wrapper=True)(run_started)))
    assert "wrapper" in problems(host)["p0"][0]


def test_order_is_that_of_loading_unless_asked_for() -> None:
    def answering(answer: str, **options: bool) -> SimpleNamespace:
        return SimpleNamespace(resolve_backend=hookimpl(**options)(lambda model: answer))

    assert hosting(answering("a"), answering("b")).first("resolve_backend", model="", options={}) == "a"
    assert hosting(answering("a"), answering("b", tryfirst=True)).first("resolve_backend", model="", options={}) == "b"
    assert hosting(answering("a", trylast=True), answering("b")).first("resolve_backend", model="", options={}) == "b"


def test_a_hook_that_raises_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    broken = plugin(run_finished=lambda run: 1 / 0)
    host = hosting(broken, plugin(run_finished=lambda run: seen.append(run)))
    for _ in range(3):
        host.each("run_finished", lambda _: {"run": "done"})
    assert seen == ["done"] * 3
    assert problems(host) == {"p0": ["run_finished: ZeroDivisionError: division by zero"], "p1": []}
    assert len(capsys.readouterr().err.splitlines()) == 1, "the same problem is told once"


def test_the_first_answer_wins_and_a_broken_plugin_is_passed_over() -> None:
    host = hosting(plugin(resolve_backend=lambda model: 1 / 0), plugin(resolve_backend=lambda model: "yes"))
    assert host.first("resolve_backend", model="m", options={}) == "yes"
    assert "ZeroDivisionError" in problems(host)["p0"][0]
    assert hosting().first("resolve_backend", model="m", options={}) is None


def test_what_the_user_can_mend_reaches_the_user() -> None:
    def refuse(model: str) -> str:
        raise CapabilityError(f"{model} is no language model")

    host = hosting(plugin(resolve_backend=refuse), plugin(resolve_backend=lambda model: "yes"))
    with pytest.raises(FigevalError, match="no language model"):
        host.first("resolve_backend", model="m", options={})
    assert problems(host)["p0"] == []


def test_two_distributions_with_one_name_are_both_loaded() -> None:
    host = Host()
    for origin in ("acme 1.0", "other 2.0"):
        host.load("acme", origin, lambda: plugin(run_started=lambda run: None))
    assert [(row.name, row.origin) for row in host.plugins.values()] == [
        ("acme", "acme 1.0"),
        ("acme of other 2.0", "other 2.0"),
    ]
    assert len(list(host.implementations("run_started"))) == 2


def test_one_module_under_two_names_is_loaded_once() -> None:
    one = plugin(run_started=lambda run: None)
    host = hosting(one, one)
    assert problems(host) == {"p0": [], "p1": ["not loaded: the same plugin is already loaded as 'p0'"]}


def test_check_hooks_accepts_a_default_of_the_authors_own() -> None:
    plugins.check_hooks(plugin(register_tasks=lambda register, folder="mine": None))
    with pytest.raises(PluginError, match="takes register, not 'folder'"):
        plugins.check_hooks(plugin(register_tasks=lambda register, folder: None))


# ---- which plugins there are ----------------------------------------------------------------------------------------


def test_built_in_plugins_are_the_modules_of_two_folders() -> None:
    found = list(plugins.builtin_modules())
    assert {"figeval.builtin.tasks.mini", "figeval.builtin.plugins.baselines"} <= set(found)
    assert not [name for name in found if name.rpartition(".")[2].startswith("_")]


def test_the_environment_replaces_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIGEVAL_PLUGINS", " json , ,sys")
    assert [(name, origin) for name, origin, _ in plugins.installed()] == [
        ("json", "FIGEVAL_PLUGINS"),
        ("sys", "FIGEVAL_PLUGINS"),
    ]
    assert [imported().__name__ for _, _, imported in plugins.installed()] == ["json", "sys"]
    monkeypatch.setenv("FIGEVAL_PLUGINS", "")
    assert not list(plugins.installed())


def test_entry_points_are_read_with_their_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIGEVAL_PLUGINS", raising=False)
    point = importlib.metadata.EntryPoint("acme", "json", "figeval")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == "figeval" else [])
    ((name, origin, imported),) = plugins.installed()
    assert (name, origin, imported()) == ("acme", "entry point", sys.modules["json"])


def test_all_that_is_built_in_loads_without_a_problem() -> None:
    host = plugins.load([*plugins.builtin_modules()])
    assert not {name: row.problems for name, row in host.plugins.items() if row.problems}
