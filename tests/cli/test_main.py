"""The root command: exit codes, one-line errors, spellings of options, and readers who leave early."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest

from figeval import hookimpl
from figeval.cli.main import COMMANDS, Figeval, main
from figeval.cli.main import cli as root
from figeval.cli.run import run
from figeval.plugins import PluginManager
from tests.cli.conftest import Cli
from tests.finished_runs import finished


def test_help_lists_every_command(cli: Cli) -> None:
    done = cli("--help")
    assert done.code == 0
    for name in COMMANDS:
        assert f"  {name} " in done.out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_in_the_table_exists_and_has_help(name: str, cli: Cli) -> None:
    done = cli(name, "--help")
    assert done.code == 0
    assert done.out.startswith(f"Usage: figeval {name}")


def test_without_a_command_the_help_goes_to_stderr_as_it_is(cli: Cli) -> None:
    for arguments in ((), ("new",)):
        done = cli(*arguments)
        assert done.code == 2
        assert done.err.startswith("Usage: figeval")
        assert len(done.err.splitlines()) > 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rnu",), "there is no command 'rnu'; did you mean 'run'"),
        (("run", "--modle", "x"), "--model"),
        (("run", "--task", "mini"), "--tasks"),
        (("run", "--model", "tfidf"), "--tasks"),
        (("run", "--tasks", "mini", "--model", "tfidf", "--limit", "0"), "--limit"),
        (("run", "--tasks", "mini", "--model", "tfidf", "--batch_size", "many"), "--batch_size"),
        (("run", "--tasks", "mini", "--model", "tfidf", "--model_args", "seed"), "'seed' is not key=value"),
        (("run", "--tasks", "mini", "--model", "tfidf", "--model_args", "{"), "not a JSON object"),
        (("run", "--tasks", "mini", "--model", "tfidf", "--route", "choice"), "not TYPE=ROUTE"),
        (
            ("run", "--tasks", "mini", "--model", "tfidf", "--route", "choise=by_letter"),
            "unknown task type 'choise'; did you mean 'choice'?; see `figeval ls types`",
        ),
        (("ls", "tasks", "x", "y"), "unexpected extra argument"),
        (("preview",), "TASK"),
        (("run", "--tasks", "mini", "--ray"), "Option '--ray' requires an argument (see `figeval run --help`)"),
        (("run", "--tasks", "", "--model", "tfidf"), "no name is given; see `figeval ls tasks`"),
        (("run", "--tasks", " , ", "--model", "tfidf"), "no name is given; see `figeval ls tasks`"),
        *(
            (("run", "--tasks", "mini", "--model", "tfidf", flag, value), f"{value!r} is not a finite number")
            for flag in ("--threshold", "--temperature", "--max_cost")
            for value in ("nan", "inf")
        ),
        (("run", "--tasks", "mini", "--model", "tfidf", "--threshold", "1e999"), "is not a finite number"),
        (("train", "--task", "t", "--model", "m", "--output", "o", "--lr", "nan"), "finite number"),
        (("train", "--task", "t", "--model", "m", "--output", "o", "--warmup", "inf"), "finite number"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_cure(arguments: tuple[str, ...], words: str, cli: Cli) -> None:
    assert words in cli(*arguments).complaint


def test_a_library_that_wants_to_leave_is_no_success(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.runs.run.run", lambda *_: sys.exit(0))
    done = cli("run", "--tasks", "mini_fables", "--model", "overlap")
    assert done.code == 1
    assert "SystemExit: 0" in done.err


@pytest.mark.wing("comparison")
def test_the_same_holds_in_a_wing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.wings.comparison.api.compare", lambda *_, **__: sys.exit(0))
    done = cli("compare", "a", "b")
    assert done.code == 1
    assert "SystemExit: 0" in done.err


@pytest.mark.parametrize("spelling", ["--num_fewshot", "--num-fewshot"])
@pytest.mark.parametrize(
    "command", [("preview", "mini_pairs", "-n", "1"), ("run", "--tasks", "mini_pairs", "-m", "random")]
)
def test_underscores_and_hyphens_are_alike(command: tuple[str, ...], spelling: str, cli: Cli) -> None:
    assert cli(*command, spelling, "0").code == 0


def test_the_folder_of_a_run_and_of_a_training_may_be_given_by_either_name(cli: Cli, tmp_path: Path) -> None:
    assert cli("run", "--tasks", "mini_fables", "-m", "overlap", "--output", "run", "--num-fewshot", "0").code == 0
    assert (tmp_path / "run" / "run.json").exists()
    trained = cli("train", "--task", "mini_fablez", "--model", "minilm", "--output-path", "out")
    assert "unknown task 'mini_fablez'" in trained.err


def test_every_option_of_every_command_is_spelled_with_underscores() -> None:
    """A hyphen in a declaration would be one that `--num_fewshot` cannot reach."""
    for path, command in walk("figeval", root):
        for parameter in command.params:
            assert not [name for name in parameter.opts if "-" in name.lstrip("-")], (path, parameter.name)


def walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """(path, command) of a command and of all below it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(f"{path} {name}", inner)


def test_a_bug_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.plugins.plugin_manager", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["ls", "tasks"])


def to_nobody(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and stderr of a command whose output is read by nobody any more."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "figeval", *map(str, arguments)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_reader_who_has_enough_is_no_failure_and_no_traceback(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "mini_proverbs")
    assert to_nobody("ls", "tasks") == (141, "")
    assert to_nobody("show", run) == (141, "")
    assert to_nobody("compare", run, run) == (141, "")


def test_a_library_that_wants_to_leave_still_shows_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("figeval.plugins.plugin_manager", lambda: sys.exit(0))
    with pytest.raises(SystemExit) as ended:
        main(["ls", "tasks"])
    assert ended.value.code == 1
    assert "SystemExit: 0" in capsys.readouterr().err


@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC])
def test_no_permission_and_no_room_are_one_line(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(code, "Refused", "/there")

    monkeypatch.setattr(root, "main", refuse)
    with pytest.raises(SystemExit) as left:
        main(["ls", "tasks"])
    assert left.value.code == 2
    assert capsys.readouterr().err == "figeval: Refused: '/there'; give another path\n"


def test_a_plugins_command_takes_no_name_that_another_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Figeval("figeval")

    @root.group()
    def build() -> None:
        """Ours."""

    def commands(text: str) -> Callable[[click.Group], None]:
        def register_commands(cli: click.Group) -> None:
            for name in ("run", "build", f"{text}_only", "shared"):
                cli.add_command(click.Command(name, help=text))
            cli.commands["build"].add_command(click.Command("keywords", help=text))
            other_group = cli.group("more")(lambda: None) if text == "first" else cli.commands["more"]
            other_group.add_command(click.Command("inner", help=text))

        return register_commands

    manager = PluginManager()
    for name in ("first", "second"):
        plugin = ModuleType(name)
        plugin.register_commands = hookimpl(commands(name))  # type: ignore[attr-defined]
        manager.load(name, "a test", lambda plugin=plugin: plugin)
    monkeypatch.setattr("figeval.plugins.plugin_manager", lambda: manager)

    root.extend()
    taken = "is already registered by {}; rename it".format
    assert manager.plugins["first"].problems == [
        f"command 'run' of first {taken('figeval')}",
        f"command 'build' of first {taken('figeval')}",
    ]
    assert manager.plugins["second"].problems == [
        f"command 'run' of second {taken('figeval')}",
        f"command 'build' of second {taken('figeval')}",
        f"command 'shared' of second {taken('first')}",
        f"command 'build keywords' of second {taken('first')}",
        f"command 'more inner' of second {taken('first')}",
    ]
    warnings = capsys.readouterr().err.splitlines()
    assert warnings[0] == f"figeval: warning: plugin 'first': command 'run' of first {taken('figeval')}"
    assert len(warnings) == 7
    assert root.get_command(click.Context(root), "run") is run
    assert root.commands["build"] is build
    assert {"first_only", "second_only"} <= set(root.commands)
    assert root.commands["shared"].help == "first"
    root.add_command(click.Command("later"))  # no plugin registers now
    assert "later" in root.commands


@pytest.mark.parametrize(
    ("left_with", "code", "err"), [(9, 9, ""), (0, 0, ""), (None, 0, ""), ("nothing to do", 1, "nothing to do\n")]
)
@pytest.mark.parametrize("words", [["leaving"], ["parting", "leaving"], ["build", "leaving"]])
def test_the_exit_status_of_a_plugins_command(
    left_with: object,
    code: int,
    err: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figeval_cli = Figeval("figeval")
    figeval_cli.group("build")(lambda: None)

    def register_commands(cli: click.Group) -> None:
        leaving = click.Command("leaving", callback=lambda: sys.exit(left_with))  # type: ignore[arg-type]
        for group in (cli, cli.group("parting")(lambda: None), cli.commands["build"]):
            group.add_command(leaving)  # type: ignore[attr-defined]

    plugin = ModuleType("p")
    plugin.register_commands = hookimpl(register_commands)  # type: ignore[attr-defined]
    manager = PluginManager()
    manager.load("p", "a test", lambda: plugin)
    monkeypatch.setattr("figeval.plugins.plugin_manager", lambda: manager)
    monkeypatch.setattr("figeval.cli.main.cli", figeval_cli)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == code
    assert capsys.readouterr().err == err
