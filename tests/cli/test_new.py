"""`figeval new`: what it writes is sound as it stands, and nothing is ever overwritten."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from figeval.testing import harness
from tests.cli.conftest import Cli
from tests.processes import figeval

TASK_TYPES = ("choice", "ranking", "pairs", "spans", "joint", "generation", "similarity")
TYPES_OF_PLUGINS = (
    "classification",
    "multilabel",
    "labelling",
    "rating",
    "pairwise",
)  # by plugins of figeval, each with its scaffold


def run_tests(folder: Path, python: Path | str = sys.executable) -> None:
    """pytest, as the author of the scaffold's new owner would start it."""
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", folder, folder],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", [*TASK_TYPES, *TYPES_OF_PLUGINS])
def test_a_new_task_is_valid(kind: str, cli: Cli, tmp_path: Path) -> None:
    assert cli("new", "task", "mine", "--type", kind).code == 0
    assert sorted(file.name for file in (tmp_path / "mine").iterdir()) == [
        ".figeval",
        "README.md",
        "mine.jinja",
        "mine.jsonl",
        "mine.task.yaml",
        *(["mine_train.jsonl"] if kind == "generation" else []),
        "test_mine.py",
    ]
    done = cli("validate", "mine/mine.task.yaml")
    assert done.code == 0, done.out
    assert re.search("test: [34] examples", done.out)
    assert done.out.splitlines()[-1] == "1 task, 0 errors, 0 warnings"
    model = ("--model", "overlap") if kind == "joint" else ()  # whose routes depend on the model
    out = cli("preview", "mine", "--include_path", "mine", *model).out
    assert out.count("not possible") == 0
    named_schema(tmp_path / "mine" / "mine.task.yaml").validate(yaml.safe_load(Path("mine/mine.task.yaml").read_text()))


def named_schema(file: Path) -> Draft7Validator:
    """The JSON Schema that a task file names in its first line, as editors find it."""
    first = file.read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    return Draft7Validator(json.loads((file.parent / first.partition("=")[2]).read_text(encoding="utf-8")))


@pytest.mark.slow
def test_new_tasks_pass_their_own_tests(cli: Cli, tmp_path: Path) -> None:
    for kind in (*TASK_TYPES, *TYPES_OF_PLUGINS):
        cli("new", "task", f"my_{kind}", "--type", kind, "--directory", tmp_path / "all" / kind)
    run_tests(tmp_path / "all")


@pytest.mark.parametrize("kind", [*TASK_TYPES, *TYPES_OF_PLUGINS])
def test_the_commands_in_the_readme_work(kind: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("new", "task", "mine", "--type", kind)
    monkeypatch.chdir(tmp_path / "mine")
    readme = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    commands = [line.split()[1:] for line in readme.splitlines() if line.startswith("    figeval ")]
    assert len(commands) == 3
    for command in commands:
        assert cli(*command).code == 0, command


@pytest.mark.slow
def test_a_new_plugin_installs_and_passes_its_own_tests(cli: Cli, tmp_path: Path) -> None:
    assert cli("new", "plugin", "acme_letters").code == 0
    folder = tmp_path / "acme_letters"
    python = environment(tmp_path / "env")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--editable", folder], check=True)
    (row,) = json.loads(figeval("ls", "plugins", "acme_letters", "--json", cwd=tmp_path / "env", python=python).stdout)
    assert row == {
        "name": "acme_letters",
        "origin": "acme_letters 0.1.0",
        "offers": ["backends", "tasks"],
        "problems": [],
    }
    run_tests(folder, python)


def test_a_new_plugin_of_every_type_is_valid_and_runs(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]
) -> None:
    """By the commands that `new plugin` names, but for pip; three of them have a model that answers in another way."""
    kinds = [*TASK_TYPES, *TYPES_OF_PLUGINS]
    tasks, runs = [], []
    for kind in kinds:
        *_, install_line, validate, run = cli("new", "plugin", f"acme_{kind}", "--type", kind).out.splitlines()
        assert install_line == f"next: pip install -e acme_{kind}"
        tasks += validate.split()[2:]
        (file,) = (tmp_path / f"acme_{kind}").rglob("*.task.yaml")
        named_schema(file).validate(yaml.safe_load(file.read_text()))
        runs += [run.split()[1:]] if kind in ("ranking", "joint", "labelling") else []
        monkeypatch.syspath_prepend(tmp_path / f"acme_{kind}")
    install(*(f"acme_{kind}" for kind in kinds))
    assert cli("validate", *tasks).out.splitlines()[-1] == "12 tasks, 0 errors, 0 warnings"
    for command in runs:
        assert cli(*command, "--no_baselines", "--output_path", tmp_path / command[-1]).code == 0, command


class Terminal(io.StringIO):
    """A terminal on which something is typed."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_asked_for_the_type_of_a_new_plugin(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal, and if nothing is typed, it is pairs."""
    for name, typed, kind in (("acme_one", "spam\nspans\n", "spans"), ("acme_two", "\n", "pairs")):
        monkeypatch.setattr("sys.stdin", Terminal(typed))
        out = cli("new", "plugin", name).out
        assert out.startswith("Type of the task (choice, ranking, pairs, ")
        assert (tmp_path / name / name / "tasks" / f"{name}_{kind}.task.yaml").is_file()
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "Type of" not in cli("new", "plugin", "acme_three").out
    assert (tmp_path / "acme_three/acme_three/tasks/acme_three_pairs.task.yaml").is_file()


def environment(folder: Path) -> Path:
    """A virtual environment that sees all that is installed here: what is installed there stays there."""
    venv.create(folder, with_pip=False, symlinks=True)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site_packages = sysconfig.get_path("purelib")
    site_packages_of_environment = Path(sysconfig.get_path("purelib", vars=scheme))
    (site_packages_of_environment / "here.pth").write_text(f"import site; site.addsitedir({site_packages!r})\n")
    return folder / "bin" / "python"


def test_nothing_is_overwritten_and_nothing_half_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "test_mine.py").write_text("mine")
    complaint = cli("new", "task", "mine").complaint
    assert "mine/test_mine.py exists already and nothing was written" in complaint
    assert "choose another --directory" in complaint
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["test_mine.py"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("task", "My-Task"), "'My-Task' is not a valid name; use lower-case letters"),
        (("plugin", "2fast"), "'2fast' is not a valid name"),
        (("task", "mini_pairs"), "'mini_pairs' is a task of figeval.builtin.tasks.mini; choose another name"),
        (("task", "impli"), "'impli' is a suite of figeval.builtin.tasks.impli; choose another name"),
        (("plugin", "json"), "Python module or keyword 'json' already"),
        (("plugin", "class"), "Python module or keyword 'class' already"),
        (("plugin", "mine", "--type", "chioce"), "unknown task type 'chioce'; did you mean 'choice'"),
        (("task", "mine", "--type", "chioce"), "unknown task type 'chioce'; did you mean 'choice'"),
        (("task", "mine", "--directory", "a_file/mine"), "cannot write a_file/mine/"),
        (("tsk", "mine"), "'tsk'"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a_file").write_text("")
    assert words in cli("new", *arguments).complaint
    assert [file.name for file in tmp_path.iterdir() if file.name != "home"] == ["a_file"]


def test_every_task_type_has_a_scaffold() -> None:
    kinds = [entry.load() for entry in harness().task_types]
    assert {kind.name for kind in kinds} == set(TASK_TYPES)
    folders = {entry.name for entry in (files("figeval.task_types") / "scaffold").iterdir()}
    assert folders == {kind.scaffold.name for kind in kinds} == set(TASK_TYPES)
    for kind in kinds:
        assert {file.name for file in kind.scaffold.iterdir()} >= {"NAME.task.yaml.in", "NAME.jsonl.in"}, kind.name


SCAFFOLD = """
from dataclasses import dataclass
from pathlib import Path

from figeval import Example, TaskType, hookimpl


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceExample(Example):
    pass


class Prices(TaskType[PriceExample]):
    name = "prices"
    Example = PriceExample
    folder = Path(__file__).parent


@hookimpl
def register_task_types(register):
    register(Prices)
"""


@pytest.fixture
def scaffold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[..., None]) -> Path:
    """The scaffold of a task type `prices`, still empty."""
    (tmp_path / "prices_plugin.py").write_text(SCAFFOLD)
    folder = tmp_path / "scaffold" / "prices"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "prices_plugin", raising=False)
    install("prices_plugin")
    return folder


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a tip of $5", "NAME.jsonl.in: Invalid placeholder in string: line 1, col 10; write $$ for a dollar sign"),
        ("a tip of $five", "NAME.jsonl.in: there is no $five; write $$ for a dollar sign"),
    ],
)
def test_a_dollar_sign_in_a_scaffold(text: str, complaint: str, scaffold: Path, cli: Cli, tmp_path: Path) -> None:
    (scaffold / "NAME.jsonl.in").write_text(text)
    assert complaint in cli("new", "task", "zed", "--type", "prices").complaint
    assert not (tmp_path / "zed").exists()
    (scaffold / "NAME.jsonl.in").write_text("$name: a tip of $$5")
    assert cli("new", "task", "zed", "--type", "prices").code == 0
    assert (tmp_path / "zed" / "zed.jsonl").read_text() == "zed: a tip of $5"


def test_the_next_step_names_a_file_that_is_there(scaffold: Path, cli: Cli) -> None:
    (scaffold / "NAME.jsonl.in").write_text("")
    assert "next:" not in cli("new", "task", "zed", "--type", "prices").out
    assert [path.name for path in Path("zed").iterdir()] == ["zed.jsonl"]  # all others would be of a task file
    (scaffold / "NAME_hard.task.yaml.in").write_text("name: $name")
    out = cli("new", "task", "zed", "--type", "prices", "--directory", "my tasks").out
    assert out.splitlines()[-1] == "next: figeval validate 'my tasks/zed_hard.task.yaml'"
    readme = Path("my tasks/README.md").read_text()
    assert "    figeval validate zed_hard.task.yaml\n" in readme
    written = {str(path.relative_to("my tasks")) for path in Path("my tasks").rglob("*") if path.is_file()}
    assert written - set(re.findall("`(.*?)`", readme)) == {"README.md"}
    assert 'HERE / "zed_hard.task.yaml"' in Path("my tasks/test_zed.py").read_text()
