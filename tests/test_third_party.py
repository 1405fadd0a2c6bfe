"""A distribution of its own brings tasks, a model and a metric; a broken one costs one warning and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from tests.processes import beside, figeval

ACME = Path(__file__).parent / "third_party" / "figeval_acme"
pytestmark = pytest.mark.usefixtures("warm_start")


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder into which the example distribution is installed, to be put on PYTHONPATH."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(ACME)], check=True)
    return str(target)


@pytest.mark.slow
def test_its_tasks_model_and_metric_make_a_run(acme: str, tmp_path: Path) -> None:
    command = ("run", "--tasks", "acme", "--model", "acme_trigrams", "--output_path", "out")
    done = figeval(*command, cwd=tmp_path, PYTHONPATH=acme)
    assert "acme: acme_trigrams has done 2 of 2 tasks" in done.stderr
    assert "has done" not in done.stdout
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
    assert record["macro"] == []  # its tasks are of two types


def test_its_model_answers_built_in_tasks_with_its_options(acme: str, tmp_path: Path) -> None:
    command = ("run", "--tasks", "mini_fables", "--model", "acme_trigrams", "--model_args", "size=2", "-o", "out")
    figeval(*command, cwd=tmp_path, PYTHONPATH=acme)
    assert json.loads((tmp_path / "out/run.json").read_text())["model"]["options"] == {"size": 2}


@pytest.mark.slow
def test_its_tasks_take_a_built_in_model_and_its_own_template(acme: str, tmp_path: Path) -> None:
    program = (
        "from figeval.runs import Harness\n"
        "from figeval.prompts import load_template\n"
        "task = Harness().catalogue.tasks.get('acme_senses')\n"
        "template = load_template(task.template, task.folder)\n"
        "print(template.render('context', {'query': 'Q'}) + template.render('continuation', {'option': 'O'}))\n"
    )
    command, found_at = [sys.executable, "-c", program], {"PYTHONPATH": beside(acme)}
    done = subprocess.run(command, env=found_at, cwd=tmp_path, capture_output=True, text=True, check=True)
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


@pytest.mark.slow
def test_its_own_tests_pass(acme: str) -> None:
    command, found_at = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"], {"PYTHONPATH": beside(acme)}
    done = subprocess.run(command, env=found_at, cwd=ACME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# ---- broken plugins -------------------------------------------------------------------------------------------------

HEAD = "from figeval import ChoiceExample, hookimpl, task\n"
TASK = """
@task(name="{name}", type="choice")
def made():
    yield ChoiceExample(id="1", query="good morning", options=("good", "bad"), gold=0)
"""
HOOK = "@hookimpl\ndef {name}({arguments}):\n    {body}\n"


def hook(name: str, body: str, arguments: str = "register") -> str:
    return HOOK.format(name=name, body=body, arguments=arguments)


KIND = """
from figeval import Route, TaskType
class Kind(TaskType):
    name = "{name}"
    Example = ChoiceExample
    routes = {routes}
"""
# name → (source, what its one warning must say)
BROKEN_PLUGINS = {
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
    "bad_task_type": (
        HEAD + TASK.replace("choice", "choise").format(name="mistyped") + hook("register_tasks", "register(made)"),
        ("mistyped: unknown task type 'choise'", "did you mean 'choice'"),
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
    "bad_str": (
        "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\nraise Mute\n",
        ("not loaded: Mute", "__str__ raised ValueError"),
    ),
    "bad_base": ("class Leaving(BaseException): ...\nraise Leaving('all')\n", ("not loaded: Leaving: all",)),
    "bad_generator": (HEAD + hook("register_tasks", "yield"), ("'register_tasks' is a generator",)),
    "bad_coroutine": (
        HEAD + "@hookimpl\nasync def register_tasks(register): ...\n",
        ("'register_tasks' is a coroutine", "not `async def`"),
    ),
    "bad_wrapper": (
        HEAD + "@hookimpl(wrapper=True)\ndef register_tasks(register):\n    return (yield)\n",
        ("'register_tasks' is a wrapper", "write a plain function"),
    ),
    "bad_keyword": (
        HEAD + hook("register_metrics", "register('mine', len, task_type=['choice'])"),
        ("unexpected keyword argument 'task_type'", "did you mean 'task_types'", "call register(name, function"),
    ),
    "bad_type_name": (
        HEAD + KIND.format(name="choice", routes="()") + hook("register_task_types", "register(Kind)"),
        ("task type 'choice' of bad_type_name is already registered by figeval.defaults; rename it",),
    ),
    "bad_type_class": (
        HEAD + hook("register_task_types", "register(ChoiceExample)"),
        ("register_task_types: register(task_type) takes a subclass of figeval.TaskType, not", "ChoiceExample"),
    ),
    "bad_type_example": (
        HEAD
        + "from figeval import TaskType\nclass Kind(TaskType):\n    name = 'k'\n    Example = dict\n"
        + hook("register_task_types", "register(Kind)"),
        ("Kind.Example is <class 'dict'>; make it a dataclass that derives from figeval.Example",),
    ),
    "bad_type_nameless": (
        HEAD
        + "from figeval import TaskType\nclass Kind(TaskType): ...\n"
        + hook("register_task_types", "register(Kind)"),
        ("the task type Kind has no `name`; add it as a class attribute",),
    ),
    "bad_type_metrics": (
        HEAD
        + KIND.format(name="measured", routes="()")
        + "    metrics = ('acc',)\n"
        + hook("register_task_types", "register(Kind)"),
        ("Kind.metrics lists 'acc'; create it with figeval.metric(name, target)",),
    ),
    "bad_type_module": (
        HEAD + hook("register_task_types", "register('nowhere.kind:Kind', 'nowhere')"),
        ("task type 'nowhere' of bad_type_module: 'nowhere.kind:Kind' cannot be imported", "No module named 'nowhere'"),
    ),
    "bad_type_renamed": (
        HEAD
        + KIND.format(name="before", routes="()")
        + hook("register_task_types", "register(__name__ + ':Kind', 'after')"),
        ("task type 'after' of bad_type_renamed is named 'before'; register it under that name",),
    ),
    "bad_type_route": (
        HEAD
        + KIND.format(name="routed", routes="(Route(name='by_guess', start=len, needs=frozenset({'score_pair'})),)")
        + hook("register_task_types", "register(Kind)"),
        ("task type 'routed': route 'by_guess' needs 'score_pair'", "did you mean 'score_pairs'"),
    ),
    "bad_route": (
        HEAD
        + "from figeval import Route\n"
        + hook("register_routes", "register('choice', Route(name='by_guess', start=len, needs=frozenset({'embeds'})))"),
        ("register_routes: route 'by_guess' needs 'embeds'", "did you mean 'embed'"),
    ),
    "bad_call": (HEAD + hook("register_tasks", "1 / 0"), ("register_tasks: ZeroDivisionError",)),
}
GOOD_PLUGIN = (
    "import os\nprint('good morning')\nos.chdir('/')\n"  # bad manners, and no harm
    + HEAD
    + TASK.format(name="good_task")
    + hook("register_tasks", "register(made)")
    + hook("run_started", "print(run.status); os.chdir('/')", "run")
)
YAML = """
name: {name}
type: choice
{key}: [acc]
data: {{test: "jsonl:rows.jsonl"}}
fields: {{id: row.n, query: row.q, options: row.o, gold: 0}}
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of plugins that are all broken but the last."""
    folder = tmp_path_factory.mktemp("broken")
    for name, (source, _) in {**BROKEN_PLUGINS, "good": (GOOD_PLUGIN, ())}.items():
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(source)
    (folder / "bad_yaml/wrong.task.yaml").write_text(YAML.format(name="yaml_wrong", key="metrcs"))
    (folder / "bad_yaml/right.task.yaml").write_text(YAML.format(name="yaml_right", key="metrics"))
    (folder / "bad_yaml/rows.jsonl").write_text('{"n": 1, "q": "good morning", "o": ["good", "bad"]}\n')
    return folder


def environment(broken: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(broken), "FIGEVAL_PLUGINS": ",".join([*BROKEN_PLUGINS, "good"])}


def test_each_broken_plugin_is_one_warning_and_one_row(broken: Path, tmp_path: Path) -> None:
    done = figeval("ls", "plugins", "--json", cwd=tmp_path, **environment(broken))
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    warnings = [line for line in done.stderr.splitlines() if line != "good morning"]
    assert len(warnings) == len(BROKEN_PLUGINS), done.stderr
    for name, (_, words) in BROKEN_PLUGINS.items():
        (warning,) = [line for line in warnings if line.startswith(f"figeval: warning: plugin {name!r}: ")]
        (problem,) = rows[name]["problems"]
        assert warning.endswith(problem)
        for word in words:
            assert word in problem, f"{name}: {problem}"
    assert not rows["good"]["problems"]


FORGETFUL_TYPE = """
from figeval import ChoiceExample, TaskType, hookimpl, task

class Kind(TaskType):
    name = "forgetful"
    Example = ChoiceExample
    def from_json(self, stored):
        return str(stored)

@task(name="forgotten", type="forgetful", metrics=(), baselines=())
def made():
    for number in range(3):
        yield ChoiceExample(id=str(number), query="good morning", options=("good", "bad"), gold=0)

@hookimpl
def register_task_types(register):
    register(Kind)

@hookimpl
def register_tasks(register):
    register(made)
"""


def test_validate_finds_a_task_type_that_does_not_read_back_what_it_stores(tmp_path: Path) -> None:
    (tmp_path / "forgetful.py").write_text(FORGETFUL_TYPE)
    environment = {"PYTHONPATH": str(tmp_path), "FIGEVAL_PLUGINS": "forgetful"}
    done = figeval("validate", "forgotten", cwd=tmp_path, code=2, **environment)
    assert done.stdout.count("0 is stored as 0, which from_json reads as '0'") == 1  # said once, of three rows
    assert "task type 'forgetful'" in done.stdout


def test_a_broken_task_says_why_it_cannot_be_run(broken: Path, tmp_path: Path) -> None:
    command = ("run", "--tasks", "mistyped", "--model", "overlap", "--output_path", "out")
    done = figeval(*command, cwd=tmp_path, code=2, **environment(broken))
    assert "mistyped: unknown task type 'choise'; did you mean 'choice'?" in done.stderr


def test_everything_else_works(broken: Path, tmp_path: Path) -> None:
    command = ("run", "--tasks", "good_task,yaml_right,mini_fables", "--model", "overlap", "--output_path", "out")
    figeval(*command, cwd=tmp_path, **environment(broken))
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert {task["task"]: (task["status"], task["n"]) for task in record["tasks"]} == {
        "good_task": ("done", 1),
        "yaml_right": ("done", 1),
        "mini_fables": ("done", 20),
    }


# ---- broken models --------------------------------------------------------------------------------------------------

MODEL = """
from figeval import hookimpl

class Model:
    def __init__(self, model):
        {made}
    def score_pairs(self, requests):
        return {answer}
    def fingerprint(self):
        {fingerprint}
    def describe(self):
        {described}
    def close(self):
        {closed}

class Unknown:
    def score_pairs(self, requests):
        return [0.0 for _ in requests]

class Named(Unknown):
    deterministic_by_name = True
    def __init__(self, model, size=1): ...

@hookimpl
def register_backends(register):
    register("mine", Model)
    register("unknown", lambda model: Unknown())
    register("named", Named)
    register("built", dict)
"""
FAIR_BODIES = {
    "made": "self.seen = model",
    "answer": "[float(len(one.left)) for one in requests]",
    "fingerprint": "return '1'",
    "described": "return {'device': 'cpu'}",
    "closed": "self.seen = ''",
}


@dataclass(frozen=True)
class Tried:
    """A run of a model made of pieces of code."""

    folder: Path

    def run(self, *arguments: str, code: int = 0, model: str = "mine", **pieces: str) -> tuple[str, dict[str, Any]]:
        """What it says on stderr, and its record, empty where none was written."""
        (self.folder / "mymodel.py").write_text(MODEL.format(**{**FAIR_BODIES, **pieces}))
        rmtree(self.folder / "__pycache__", ignore_errors=True)  # it may be of another text of the same second
        environment = {"PYTHONPATH": str(self.folder), "FIGEVAL_PLUGINS": "mymodel"}
        command = ("run", "--tasks", "mini_fables,mini_pairs", "--model", model, "-o", "out", *arguments)
        done = figeval(*command, cwd=self.folder, code=code, **environment)
        assert "Traceback" not in done.stdout + done.stderr
        file = self.folder / "out/run.json"
        return done.stderr, json.loads(file.read_text()) if file.exists() else {}


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    return Tried(tmp_path)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("{one: 1.0 for one in requests}", "Model.score_pairs returned a dict; return a list or an array"),
        ("{float(len(one.left)) for one in requests}", "Model.score_pairs returned a set"),
        ("'1' * len(requests)", "Model.score_pairs returned a str"),
        ("(1.0 for one in requests[1:])", "outputs for"),
        ("None", "Model.score_pairs returned None"),
    ],
)
def test_answers_without_an_order_fail_the_task_in_one_line(answer: str, message: str, tried: Tried) -> None:
    _, record = tried.run(code=1, answer=answer)
    for task in record["tasks"]:
        assert task["status"] == "failed"
        assert message in task["error"]
        assert "\n" not in task["error"]


def test_a_generator_of_the_right_length_is_an_answer(tried: Tried) -> None:
    _, record = tried.run(answer="(float(len(one.left)) for one in requests)")
    assert [task["status"] for task in record["tasks"]] == ["done", "done"]


@pytest.mark.parametrize(
    ("fingerprint", "message"),
    [
        ("return ''", "fingerprint() of model 'mine' returned an empty text; return a text that changes"),
        ("return None", "fingerprint() of model 'mine' returned None"),
        ("return 1 / 0", "fingerprint() of model 'mine' raised ZeroDivisionError"),
        ("raise SystemExit(3)", "fingerprint() of model 'mine' raised SystemExit"),
    ],
)
def test_a_fingerprint_that_says_nothing_is_refused_before_anything_is_asked(
    fingerprint: str, message: str, tried: Tried
) -> None:
    error, record = tried.run(code=2, fingerprint=fingerprint)
    (line,) = error.splitlines()
    assert line.startswith(f"figeval: {message}")
    assert not record


def test_a_model_without_a_fingerprint_is_refused_with_the_cure(tried: Tried) -> None:
    error, record = tried.run(code=2, model="unknown")
    (line,) = error.splitlines()
    assert line.startswith("figeval: model 'unknown' has no fingerprint")
    assert "method fingerprint()" in line
    assert "deterministic_by_name = True" in line
    assert not record


def test_a_model_that_is_known_by_its_name_and_options_goes_on_only_with_these(tried: Tried) -> None:
    _, record = tried.run("--model_args", "size=2", model="named")
    assert record["model"]["fingerprint"] == 'named: {"size": 2}'
    tried.run("--model_args", "size=2", model="named")
    error, _ = tried.run("--model_args", "size=3", model="named", code=2)
    assert "contains another run" in error


def test_a_changed_model_goes_on_with_no_run_of_the_old_one(tried: Tried) -> None:
    tried.run()
    error, _ = tried.run(code=2, fingerprint="return '2'")
    assert "the weights of mine have changed since (1 before, 2 now)" in error


def test_a_factory_that_cannot_be_asked_what_it_takes(tried: Tried) -> None:
    error, _ = tried.run(code=2, model="built")
    assert "the factory of model 'built' is a type; register a class or a function" in error


MUTE_OBJECT = "type('Mute', (), {'__str__': lambda self: 1 / 0, '__repr__': lambda self: 1 / 0})()"


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ("return 1 / 0", "describe() of model 'mine' raised ZeroDivisionError"),
        ("return 3", "describe() of model 'mine' raised TypeError"),
        (f"return {{'device': {MUTE_OBJECT}}}", "describe() of model 'mine' raised ZeroDivisionError"),
        ("raise SystemExit(3)", "describe() of model 'mine' raised SystemExit"),
    ],
)
def test_a_description_that_fails_costs_a_warning_and_no_answers(described: str, message: str, tried: Tried) -> None:
    _, record = tried.run(described=described)
    assert record["status"] == "complete"
    (warning,) = record["model"]["description"]["warnings"]
    assert warning.startswith(message)


@pytest.mark.parametrize("closed", ["1 / 0", "raise SystemExit(3)"])
def test_a_model_that_cannot_be_closed_costs_one_warning(closed: str, tried: Tried) -> None:
    error, record = tried.run(closed=closed)
    assert record["status"] == "complete"
    (warning,) = [line for line in error.splitlines() if line.startswith("figeval: warning: ")]
    assert warning.startswith("figeval: warning: close() of model 'mine' raised ")


def test_a_model_that_prints_and_moves_about_does_no_harm(tried: Tried) -> None:
    moving = "import os; os.chdir('/'); print('moved')"
    pieces = {"made": moving, "closed": moving, "described": f"{moving}; return {{}}"}
    error, record = tried.run(answer="[print('asked') or float(len(one.left)) for one in requests]", **pieces)
    assert record["status"] == "complete"
    assert "moved" in error
    assert "asked" in error
