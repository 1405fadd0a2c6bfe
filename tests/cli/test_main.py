"""The root command: exit codes, one-line errors, spellings of options, and readers who leave early."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, listed_commands
from tests.finished_runs import finished
from tests.processes import figeval

COMMANDS = ["run", "score", "ls", "rescore", "show", "preview", "data", "validate", "new", "schema", "doctor"]


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
        (("build", "storal", "--pairs", "x"), "`figeval benchmark build`"),
        (("diagnose",), "`figeval benchmark diagnose`"),
        (("labels", "run", "--json"), "`figeval show RUN --labels`"),
        (("benchmark", "buidl"), "did you mean 'build'"),
        (("show", "run", "--lables"), "--labels"),
        (("show", "mini_pairs", "--annotators"), "no run was found"),
        (("run", "--tasks", "mini", "--ray"), "Option '--ray' requires an argument (see `figeval run --help`)"),
        (("run", "--tasks", "", "--model", "tfidf"), "no name is given; see `figeval ls tasks`"),
        (("run", "--tasks", " , ", "--model", "tfidf"), "no name is given; see `figeval ls tasks`"),
        *(
            (("run", "--tasks", "mini", "--model", "tfidf", "--max_cost", value), f"{value!r} is not a finite number")
            for value in ("nan", "inf", "1e999")
        ),
        (("run", "--tasks", "mini", "--model", "tfidf", "--temperature", "2"), "--set temperature=2"),
        (("run", "--tasks", "mini", "--model", "tfidf", "--set", "threshold"), "'threshold' is not key=value"),
        (("run", "--tasks", "mini", "--model", "tfidf", "--set", "threshold=none"), "threshold"),
        (("train", "--task", "t", "--model", "m", "--output", "o", "--lr", "nan"), "finite number"),
        (("train", "--task", "t", "--model", "m", "--output", "o", "--warmup", "inf"), "finite number"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_the_cure(arguments: tuple[str, ...], words: str, cli: Cli) -> None:
    assert words in cli(*arguments).complaint


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


def test_every_option_of_every_command_is_spelled_with_underscores(cli: Cli) -> None:
    """A hyphen in a declaration would be one that `--num_fewshot` cannot reach."""
    pages = dict(help_pages(cli))
    assert len(pages) > 30
    for path, page in pages.items():
        assert not re.findall(r"^  (?:-\w, )*--(?!help-all)\w+-\S*", page, re.MULTILINE), path


def help_pages(cli: Cli, *path: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a command and its help, and those of all commands below it."""
    page = cli(*path, "--help").out
    yield " ".join(path), cli(*path, "--help-all").out if "--help-all" in page else page
    for name in listed_commands(page):
        if name != "lm-eval":  # its flags are lm-eval's own
            yield from help_pages(cli, *path, name)


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


# ---- commands of plugins --------------------------------------------------------------------------------------------

PLUGIN = """
import sys
import click
from figeval import hookimpl

@hookimpl
def register_commands(cli):
    for name in ("run", "benchmark", f"{__name__}_only", "shared"):
        cli.add_command(click.Command(name, help=__name__, callback=lambda: print(__name__)))
    cli.add_command(click.Command("keywords", help=__name__), "benchmark build keywords")
    cli.add_lazy_command(f"{__name__}_lazy", "json:loads", "Imported later.", heading="Look")
    more = cli.group("more")(lambda: None) if __name__ == "first" else cli.commands["more"]
    more.add_command(click.Command("inner", help=__name__))
"""
LEAVING_PLUGIN = """
import json
import os
import sys
import click
from figeval import hookimpl

def leave():
    sys.exit(json.loads(os.environ["LEFT_WITH"]))

def refuse():
    raise OSError(json.loads(os.environ["LEFT_WITH"]), "Refused", "/there")

def leave_model(model=""):
    sys.exit(0)

@hookimpl
def register_backends(register):
    register("leaving", leave_model, "a library that wants to exit")

@hookimpl
def register_commands(cli):
    leaving = click.Command("leaving", callback=leave)
    for group in (cli, cli.group("parting")(lambda: None), cli.commands["benchmark"].commands["build"]):
        group.add_command(leaving)
    cli.add_command(click.Command("broken", callback=lambda: 1 / 0))
    cli.add_command(click.Command("refused", callback=refuse))
"""


@pytest.mark.usefixtures("warm_start")
def test_a_plugins_command_takes_no_name_that_another_has(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(PLUGIN)
    plugins = {"PYTHONPATH": str(tmp_path), "FIGEVAL_PLUGINS": "first,second"}
    done = figeval("ls", "plugins", "--json", cwd=tmp_path, **plugins)
    problems = {row["name"]: row["problems"] for row in json.loads(done.stdout)}
    taken = "is already registered by {}; rename it".format
    assert problems["first"] == [
        f"command 'run' of first {taken('figeval')}",
        f"command 'benchmark' of first {taken('figeval')}",
    ]
    assert problems["second"] == [
        f"command 'run' of second {taken('figeval')}",
        f"command 'benchmark' of second {taken('figeval')}",
        f"command 'shared' of second {taken('first')}",
        f"command 'benchmark build keywords' of second {taken('first')}",
        f"command 'more inner' of second {taken('first')}",
    ]
    warnings = done.stderr.splitlines()
    assert warnings[0] == f"figeval: warning: plugin 'first': command 'run' of first {taken('figeval')}"
    assert len(warnings) == 7
    page = figeval("--help", cwd=tmp_path, **plugins).stdout
    assert re.search(r"^  run +Run tasks with a model", page, re.MULTILINE)
    assert re.search(r"^  benchmark +Build, analyze", page, re.MULTILINE)
    assert re.search(r"^  first_only +first$", page, re.MULTILINE)
    assert re.search(r"^  second_only +second$", page, re.MULTILINE)
    assert page.index("\nLook:") < page.index("  first_lazy ") < page.index("\nPlugins:") < page.index("  first_only ")
    assert figeval("shared", cwd=tmp_path, **plugins).stdout == "first\n"


@pytest.mark.usefixtures("warm_start")
@pytest.mark.parametrize(
    ("left_with", "code", "err"), [(9, 9, ""), (0, 0, ""), (None, 0, ""), ("nothing to do", 1, "nothing to do\n")]
)
@pytest.mark.parametrize("words", [["leaving"], ["parting", "leaving"], ["benchmark", "build", "leaving"]])
def test_the_exit_status_of_a_plugins_command(
    left_with: object, code: int, err: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "leaver.py").write_text(LEAVING_PLUGIN)
    plugins = {"PYTHONPATH": str(tmp_path), "FIGEVAL_PLUGINS": "leaver", "LEFT_WITH": json.dumps(left_with)}
    assert figeval(*words, cwd=tmp_path, code=code, **plugins).stderr == err


@pytest.mark.usefixtures("warm_start")
@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("broken",), "ZeroDivisionError: division by zero"),
        (("run", "--tasks", "mini_fables", "--model", "leaving"), "SystemExit: 0"),
        (("preview", "mini_fables", "--model", "leaving"), "SystemExit: 0"),
    ],
    ids=["a bug", "a library that wants to leave", "a library in another command"],
)
def test_a_bug_and_an_exit_of_a_library_are_no_success_and_show_their_traceback(
    words: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    (tmp_path / "leaver.py").write_text(LEAVING_PLUGIN)
    done = figeval(*words, cwd=tmp_path, code=1, PYTHONPATH=str(tmp_path), FIGEVAL_PLUGINS="leaver")
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1] == problem


@pytest.mark.usefixtures("warm_start")
@pytest.mark.parametrize("code", [errno.EACCES, errno.ENOSPC])
def test_no_permission_and_no_room_are_one_line(code: int, tmp_path: Path) -> None:
    (tmp_path / "leaver.py").write_text(LEAVING_PLUGIN)
    plugins = {"PYTHONPATH": str(tmp_path), "FIGEVAL_PLUGINS": "leaver", "LEFT_WITH": str(code)}
    done = figeval("refused", cwd=tmp_path, code=2, **plugins)
    assert done.stderr == "figeval: Refused: '/there'; give another path\n"
