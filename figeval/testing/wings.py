"""Check that a wing, a plugin with commands, listings and views, keeps to the contract of its hooks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import click
from click.testing import CliRunner

from figeval.cli.main import CommandGroup, cli
from figeval.hooks import HOOKS
from figeval.plugins import PluginManager
from figeval.registry import a_type, fill, load_target, resolve
from figeval.reporting.grid import Result
from figeval.runs.harness import Harness
from figeval.testing.calls import asserting

TARGET = re.compile(r"[\w.]+:\w+")
LIST_EVERYTHING = """
import contextlib, io, sys
from figeval.cli.main import main
for words in (["--help"], ["ls"]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(words)
print(*(name for name in sys.modules if name.startswith(sys.argv[1] + ".")))
"""


def check_wing(plugin: ModuleType) -> None:
    """Check a wing: its hooks, commands, listings and views.

    * `figeval --help` and `figeval ls` import none of its modules but the one with the hooks.
    * Every `"module:attribute"` that it registers exists.
    * Each command, and each command of its groups, has a working `--help`.
    * Rows of its listings have a name, an owner and the columns that were declared, and JSON can represent them.
    * Its views are of type `figeval.Result`, can be printed, and JSON can represent them.

    Args:
        plugin: the module with the hooks.

    Raises:
        AssertionError: one of these does not hold; the message says what would be right.

    Example:
        ```python
        def test_the_wing():
            check_wing(figeval_hello)
        ```
    """
    manager = PluginManager()
    manager.load(plugin.__name__, "tested", lambda: plugin)
    _check_imports(plugin.__name__)
    _check_commands(manager)
    for hook in sorted(name for name in HOOKS if name.startswith("register_") and name != "register_commands"):
        for arguments in _registrations(manager, hook):
            _check_targets(arguments)
            if hook == "register_listings":
                _check_listing(**arguments)
            elif hook == "register_views":
                _check_view(**arguments)
    problems = manager.plugins[plugin.__name__].problems
    assert not problems, "; ".join(problems)


def _registrations(manager: PluginManager, hook: str) -> list[dict[str, Any]]:
    """Return the arguments of each call of `register` in a hook."""
    calls: list[dict[str, Any]] = []

    def add(*, owner: str, **arguments: Any) -> None:  # noqa: ARG001 - it is the tested plugin
        calls.append(arguments)

    def ignore(**_arguments: Any) -> None:
        """Accept a folder, whose files `figeval validate` checks."""

    fill(manager, hook, add, folder=ignore)
    return calls


def _check_imports(name: str) -> None:
    """Check in a fresh process that `--help` and `ls` import no module of the plugin."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    if not name.startswith("figeval."):
        variables["FIGEVAL_PLUGINS"] = name
    command = [sys.executable, "-c", LIST_EVERYTHING, name]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"`figeval --help` and `figeval ls` with the plugin {name!r} failed: {done.stderr}"
    modules = ", ".join(done.stdout.split())
    assert not modules, (
        f"`figeval --help` and `figeval ls` import {modules}; register names as 'module:attribute', and import within "
        "functions"
    )


def _check_targets(arguments: Mapping[str, Any]) -> None:
    for value in arguments.values():
        if isinstance(value, str) and TARGET.fullmatch(value):
            asserting(partial(load_target, value), value)


# ---- commands --------------------------------------------------------------------------------------------------------


def _check_commands(manager: PluginManager) -> None:
    root = _empty_groups("figeval", cli)
    groups = [group for _, group in _commands(root, "figeval")]
    manager.each("register_commands", lambda _: {"cli": root})
    for target, summary in root.lazy.values():
        assert summary, f"the command {target!r} has no summary for `figeval --help`"
        command = asserting(partial(load_target, target), target)
        assert isinstance(command, click.Command), f"{target!r} is {a_type(command)}; register a click command"
    for path, command in _commands(root, "figeval"):
        if command not in groups:
            _check_help(path, command)


def _empty_groups(name: str, group: CommandGroup) -> CommandGroup:
    """Return the groups to which plugins can add commands, without any commands."""
    root = CommandGroup(name)
    for inner_name, command in group.commands.items():
        if isinstance(command, CommandGroup):
            root.add_command(_empty_groups(inner_name, command))
    return root


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield (words, command) for all commands of a group and of its groups."""
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


def _check_help(path: str, command: click.Command) -> None:
    done = CliRunner().invoke(command, ["--help"], prog_name=path)
    assert done.exit_code == 0, f"`{path} --help` ended with {done.exit_code}: {done.exception or done.output}"
    assert command.help, f"`{path} --help` says nothing about the command; write a docstring"


# ---- listings and views ----------------------------------------------------------------------------------------------


def _check_listing(kind: str, rows: Callable[[Harness], Any] | str, columns: Sequence[str], summary: str) -> None:
    assert summary, f"the listing {kind!r} has no summary for `figeval ls`"
    promised = {"name", "owner", *columns}
    for row in asserting(lambda: list(resolve(rows)(Harness())), f"rows of {kind!r}"):
        assert isinstance(row, Mapping), f"a row of `figeval ls {kind}` is {a_type(row)}; yield mappings"
        missing = ", ".join(sorted(promised - row.keys()))
        assert not missing, f"a row of `figeval ls {kind}` has no {missing}; yield name, owner and all columns"
        asserting(partial(json.dumps, dict(row)), f"a row of `figeval ls {kind} --json`")


def _check_view(kind: str, names: Callable[[Harness], Any] | str, view: Callable[..., Any] | str) -> None:
    harness = Harness()
    for name in asserting(lambda: list(resolve(names)(harness)), f"names of {kind!r}"):
        result = asserting(partial(resolve(view), harness, name), f"the view of {name!r}")
        assert isinstance(result, Result), f"`figeval show {name}` gets {a_type(result)}; return a figeval.Result"
        asserting(partial(str, result), f"`figeval show {name}`")
        asserting(lambda result=result: json.dumps(result.to_dict()), f"`figeval show {name} --json`")  # type: ignore[misc]
