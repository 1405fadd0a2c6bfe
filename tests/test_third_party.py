"""A distribution of its own brings tasks, a model and a metric; a broken one costs one warning and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import figeval

ACME = Path(__file__).parent / "third_party" / "figeval_acme"


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder into which the example distribution is installed, to be put on PYTHONPATH."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(ACME)], check=True)
    return str(target)


def test_its_tasks_model_and_metric_make_a_run(acme: str, tmp_path: Path) -> None:
    figeval("run", "--tasks", "acme", "--model", "acme_trigrams", "--output_path", "out", cwd=tmp_path, PYTHONPATH=acme)
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert record["status"] == "complete"
    senses, similes = record["tasks"]
    assert {score["metric"]: score["n"] for score in senses["scores"]} == {
        "acc": 12,
        "acme_margin": 12,
        "acc_strict": 6,
    }
    assert senses["scores"][0]["clusters"] == 6
    assert {score["metric"] for score in similes["scores"]} == {"acc", "balanced_acc"}
    assert record["model"]["fingerprint"] == "acme_trigrams/1/3"
    assert record["macro"] == []  # its tasks are of two protocols


def test_its_model_answers_built_in_tasks_with_its_options(acme: str, tmp_path: Path) -> None:
    command = ("run", "--tasks", "mini_fables", "--model", "acme_trigrams", "--model_args", "size=2", "-o", "out")
    figeval(*command, cwd=tmp_path, PYTHONPATH=acme)
    assert json.loads((tmp_path / "out/run.json").read_text())["model"]["options"] == {"size": 2}


def test_its_tasks_take_a_built_in_model_and_its_own_template(acme: str, tmp_path: Path) -> None:
    program = (
        "from figeval.evaluation import Harness\n"
        "from figeval.prompts import load_template\n"
        "task = Harness().catalogue.tasks.get('acme_senses')\n"
        "template = load_template(task.template, task.folder)\n"
        "print(template.render('context', {'query': 'Q'}) + template.render('continuation', {'option': 'O'}))\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env={"PYTHONPATH": acme}, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "Q\nIn other words: O\n"


def test_it_is_listed(acme: str, tmp_path: Path) -> None:
    tasks = figeval("ls", "tasks", "acme", cwd=tmp_path, PYTHONPATH=acme)
    assert "acme_senses" in tasks.stdout
    assert "acme_similes" in tasks.stdout
    plugins = figeval("ls", "plugins", cwd=tmp_path, PYTHONPATH=acme)
    assert "figeval-acme 0.3.0" in plugins.stdout
    assert not plugins.stderr


def test_without_it_nothing_of_it_is_there(acme: str, tmp_path: Path) -> None:
    tasks = figeval("ls", "tasks", "--json", cwd=tmp_path, PYTHONPATH=acme, FIGEVAL_PLUGINS="")
    assert "acme" not in tasks.stdout


def test_its_own_tests_pass(acme: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, env={"PYTHONPATH": acme}, cwd=ACME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# ---- broken plugins -------------------------------------------------------------------------------------------------

HEAD = "from figeval import ChoiceExample, hookimpl, task\n"
TASK = """
@task(name="{name}", protocol="choice")
def made():
    yield ChoiceExample(id="1", query="good morning", options=("good", "bad"), gold=0)
"""
HOOK = "@hookimpl\ndef {name}({arguments}):\n    {body}\n"


def hook(name: str, body: str, arguments: str = "register") -> str:
    return HOOK.format(name=name, body=body, arguments=arguments)


# name → (source, what its one warning must say)
BROKEN = {
    "bad_import": ("import no_such_module_anywhere\n", ("not loaded", "no_such_module_anywhere")),
    "bad_exit": ("import sys\nsys.exit(3)\n", ("not loaded", "SystemExit")),
    "bad_task": (
        HEAD + TASK.format(name="mini_fables") + hook("register_tasks", "register(made)"),
        ("task 'mini_fables'", "bad_task", "figeval.builtin.tasks.mini", "rename"),
    ),
    "bad_suite": (
        HEAD + TASK.format(name="mini") + hook("register_tasks", "register(made)"),
        ("'mini'", "bad_suite", "figeval.builtin.tasks.mini", "rename"),
    ),
    "bad_backend": (
        HEAD + hook("register_backends", "register('overlap', dict)"),
        ("model 'overlap'", "bad_backend", "figeval.builtin.plugins.baselines", "rename"),
    ),
    "bad_metric": (
        HEAD + hook("register_metrics", "register('acc', len)"),
        ("metric 'acc'", "bad_metric", "figeval.defaults", "rename"),
    ),
    "bad_hook": (
        HEAD + hook("register_taks", "register(1)"),
        ("no hook 'register_taks'", "did you mean 'register_tasks'"),
    ),
    "bad_argument": (
        HEAD + hook("register_tasks", "register(1)", "registry"),
        ("hook 'register_tasks' takes register, not 'registry'", "did you mean 'register'"),
    ),
    "bad_yaml": (
        HEAD + "from importlib.resources import files\n" + hook("register_tasks", "register.folder(files(__name__))"),
        ("wrong.task.yaml", "unknown key 'metrcs'", "did you mean 'metrics'"),
    ),
    "bad_call": (HEAD + hook("register_tasks", "1 / 0"), ("register_tasks: ZeroDivisionError",)),
}
GOOD = HEAD + TASK.format(name="good_task") + hook("register_tasks", "register(made)")
YAML = """
name: {name}
protocol: choice
{key}: [acc]
data: {{test: "jsonl:rows.jsonl"}}
fields: {{id: row.n, query: row.q, options: row.o, gold: 0}}
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of plugins that are all broken but the last."""
    folder = tmp_path_factory.mktemp("broken")
    for name, (source, _) in {**BROKEN, "good": (GOOD, ())}.items():
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(source)
    (folder / "bad_yaml/wrong.task.yaml").write_text(YAML.format(name="yaml_wrong", key="metrcs"))
    (folder / "bad_yaml/right.task.yaml").write_text(YAML.format(name="yaml_right", key="metrics"))
    (folder / "bad_yaml/rows.jsonl").write_text('{"n": 1, "q": "good morning", "o": ["good", "bad"]}\n')
    return folder


def environment(broken: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(broken), "FIGEVAL_PLUGINS": ",".join([*BROKEN, "good"])}


def test_each_broken_plugin_is_one_warning_and_one_row(broken: Path, tmp_path: Path) -> None:
    done = figeval("ls", "plugins", "--json", cwd=tmp_path, **environment(broken))
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    warnings = done.stderr.splitlines()
    assert len(warnings) == len(BROKEN), done.stderr
    for name, (_, words) in BROKEN.items():
        (warning,) = [line for line in warnings if line.startswith(f"figeval: warning: plugin {name!r}: ")]
        (problem,) = rows[name]["problems"]
        assert warning.endswith(problem)
        for word in words:
            assert word in problem, f"{name}: {problem}"
    assert not rows["good"]["problems"]


def test_everything_else_works(broken: Path, tmp_path: Path) -> None:
    command = ("run", "--tasks", "good_task,yaml_right,mini_fables", "--model", "overlap", "--output_path", "out")
    figeval(*command, cwd=tmp_path, **environment(broken))
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert {task["task"]: (task["status"], task["n"]) for task in record["tasks"]} == {
        "good_task": ("done", 1),
        "yaml_right": ("done", 1),
        "mini_fables": ("done", 20),
    }
