"""The files by which lm-eval finds our tasks, and the two commands around them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from figeval import DataError, Harness, TaskError
from tests.cli.conftest import Cli
from tests.plugins.lm_eval_bridge.both import in_lm_eval, load_tasks, stubs
from tests.plugins.tiny import Workshop
from tests.processes import figeval
from tests.runs.conftest import write_task
from tests.test_import_cost import HEAVY_LIBRARIES, imported_modules

ACME = Path(__file__).parents[2] / "third_party" / "figeval_acme" / "src"


def manager(*folders: Path) -> Any:
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=[str(folder) for folder in folders], include_defaults=False)


# ---- what there is a stub for ----------------------------------------------------------------------------------------


def test_every_task_and_suite_that_a_model_of_lm_eval_can_answer() -> None:
    stub_folder = {file.stem: file.read_text(encoding="utf-8") for file in stubs().glob("*.yaml")}
    catalogue = Harness().catalogue
    answered = {entry.name for entry in catalogue.tasks if entry.load().type not in {"similarity", "joint"}}
    assert {f"figeval_{name}" for name in answered} <= set(stub_folder)
    assert not {name for entry in catalogue.tasks if (name := f"figeval_{entry.name}") in stub_folder} - {
        f"figeval_{name}" for name in answered
    }
    assert {f"figeval_{entry.name}" for entry in catalogue.suites} <= set(stub_folder)
    assert {"figeval_mini_proverbs_by_letter", "figeval_mini_pairs_by_label_word", "figeval_impli_in_words"} <= set(
        stub_folder
    )
    assert all(name.startswith("figeval_") for name in stub_folder)
    assert "tag:" not in "".join(stub_folder.values()), "lm-eval replaces a tag that is there already"


def test_lm_eval_loads_every_one_of_them(real_data: str) -> None:
    folder = stubs()
    index = manager(folder)
    assert set(index.all_tasks) == {file.stem for file in folder.glob("*.yaml")}
    members = load_tasks(index, "figeval_impli")
    assert len(members) == 9
    assert set(members) < set(index.all_tasks), "in a suite, a task has the name that it has alone"
    everything = load_tasks(index, *(file.stem for file in folder.glob("*.yaml") if "class:" in file.read_text()))
    for name, task in everything.items():
        assert task.task_name == name
        assert task.aggregation().keys() == task.higher_is_better().keys()
        assert not any(scorer.metrics for scorer in getattr(task, "scorers", ())), "metrics of lm-eval's own"
        assert task.get_config("num_fewshot") is None


def test_another_set_of_tasks_makes_another_folder(tmp_path: Path, own_home: Path) -> None:
    write_task(tmp_path, "own")
    plain, with_tasks = stubs(), stubs(tmp_path)
    assert plain.parent == with_tasks.parent == own_home / "lm-eval"
    assert plain != with_tasks
    assert (with_tasks / "figeval_own.yaml").is_file()
    assert not (plain / "figeval_own.yaml").exists()
    before = {file: file.stat().st_mtime_ns for file in plain.iterdir()}
    assert stubs() == plain
    assert {file: file.stat().st_mtime_ns for file in plain.iterdir()} == before
    assert {folder.name for folder in plain.parent.iterdir()} == {plain.name, with_tasks.name}, (
        "nothing half made is left"
    )


def test_two_that_would_have_one_name(tmp_path: Path) -> None:
    write_task(tmp_path, "own")
    write_task(tmp_path, "own_by_letter")
    with pytest.raises(TaskError, match="two tasks or suites would be called 'figeval_own_by_letter'"):
        stubs(tmp_path)


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FIGEVAL_HOME", str(tmp_path / "file"))
    with pytest.raises(TaskError, match=r"cannot write .*; set FIGEVAL_HOME"):
        stubs()


@pytest.mark.slow
def test_they_are_made_without_lm_eval(tmp_path: Path) -> None:
    (modules,) = imported_modules(tmp_path, "lm-eval stubs").values()
    assert not modules & (HEAVY_LIBRARIES - {"scipy"})


# ---- tasks that something is wrong with ------------------------------------------------------------------------------


def test_no_train_split_to_show_examples_from(tmp_path: Path, workshop: Workshop) -> None:
    write_task(tmp_path, "own")
    file = tmp_path / "own.task.yaml"
    file.write_text(file.read_text().replace(', train: "jsonl:own.jsonl"', ""))
    with pytest.raises(TaskError, match="own has no train split"):
        in_lm_eval({"pretrained": str(workshop("gpt2", "LMHeadModel"))}, "own", stubs(tmp_path), num_fewshot=1)


def test_data_that_is_broken(tmp_path: Path) -> None:
    write_task(tmp_path, "own", row3={"id": "own0"})
    task = load_tasks(manager(stubs(tmp_path)), "figeval_own")["figeval_own"]
    with pytest.raises(DataError, match="rows 1 and 4 have the same id"):
        task.test_docs()


def test_answers_that_are_no_numbers_are_no_zeros(workshop: Workshop) -> None:
    """lm-eval itself calls such a model one that always picks the first option."""
    import torch
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=str(workshop("gpt2", "LMHeadModel")), device="cpu")
    with torch.no_grad():
        lm.model.transformer.ln_f.weight.fill_(float("nan"))
    in_their_run, _ = in_lm_eval(lm, "mini_fables", stubs(), limit=3)
    assert in_their_run.metrics == [{}, {}, {}]
    assert in_their_run.predictions == [None, None, None]


# ---- lm-eval's own command line --------------------------------------------------------------------------------------


# `lm-eval …`, which reads all of its own tasks, and then a task manager without ours: all in one process, because they
# read 14,000 files, which take seconds to parse and are therefore parsed once.
BESIDE_ITS_OWN = """
import json, pickle, sys
from pathlib import Path
import yaml
import lm_eval.tasks
from lm_eval.__main__ import cli_evaluate

load, parsed, own = yaml.load, {}, str(Path(lm_eval.tasks.__file__).parent)

def load_once(stream, Loader):
    name = str(getattr(stream, "name", ""))
    if not name.startswith(own):
        return load(stream, Loader=Loader)
    if name not in parsed:
        parsed[name] = pickle.dumps(load(stream, Loader=Loader))
    return pickle.loads(parsed[name])

def recorded(*arguments, **settings):
    managers.append(TaskManager(*arguments, **settings))
    return managers[-1]

yaml.load = load_once
managers, TaskManager = [], lm_eval.tasks.TaskManager
lm_eval.tasks.TaskManager = recorded
cli_evaluate()
(both,), plain = managers, TaskManager()
index = lambda manager: getattr(manager, "task_index", None) or manager._task_index  # private since 0.5
changed = [name for name, entry in index(plain).items() if index(both)[name] != entry]
told = {"plain": list(plain.all_tasks), "both": list(both.all_tasks), "changed": changed}
Path("tasks.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def beside_its_own(options: list[str], warm: Path, shared_folder: Path) -> Path:
    """The folder of a run of `lm-eval` with our stubs, made by whichever process needs it first."""
    folder = shared_folder / "beside-its-own"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            folder.mkdir()
            ours = figeval("lm-eval", "stubs", cwd=folder, python=warm / "python").stdout.strip()
            flags = [
                "--include_path",
                ours,
                "--tasks",
                "figeval_mini_pairs,figeval_mini_fables",
                "--output_path",
                "out",
            ]
            done = subprocess.run(
                [warm / "python", "-c", BESIDE_ITS_OWN, "run", *options, *flags],
                cwd=folder,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_none_of_lm_evals_own_tasks_groups_and_tags_changes(beside_its_own: Path) -> None:
    listing = json.loads((beside_its_own / "tasks.json").read_text())
    assert len(listing["plain"]) > 10_000
    names = {file.stem for file in stubs().glob("*.yaml")}
    assert not set(listing["plain"]) & names
    assert set(listing["both"]) == set(listing["plain"]) | names
    assert listing["changed"] == []


def results(folder: Path) -> dict[str, Any]:
    (file,) = folder.rglob("results_*.json")
    run_results: dict[str, Any] = json.loads(file.read_text())
    return run_results


@pytest.fixture(scope="module")
def options(workshop: Workshop) -> list[str]:
    folder = workshop("gpt2", "LMHeadModel", n_positions=512)
    return ["--model", "hf", "--model_args", f"pretrained={folder}", "--device", "cpu", "--limit", "5"]


@pytest.mark.slow
def test_figeval_lm_eval_run_hands_over_its_arguments_and_knows_our_model(
    options: list[str], warm_start: None, tmp_path: Path
) -> None:
    flags = ["--tasks", "figeval_mini", "--output_path", "out", "--log_samples", "--seed", "3"]
    ours = [flag if flag != "hf" else "figeval-hf" for flag in options]
    done = figeval("lm-eval", "run", *ours, *flags, cwd=tmp_path)
    assert "|figeval_mini_fables" in done.stdout.replace(" ", "").replace("-figeval", "figeval")
    run_results = results(tmp_path / "out")
    assert set(run_results["results"]) >= {"figeval_mini_proverbs", "figeval_mini_pairs", "figeval_mini_retrieval"}
    assert run_results["n-samples"]["figeval_mini_pairs"]["effective"] == 5
    assert run_results["config"]["fewshot_seed"] == 3
    assert run_results["results"]["figeval_mini_pairs"]["acc_stderr,none"] != "N/A"
    assert run_results["results"]["figeval_mini_pairs"]["acc_strict_stderr,none"] == "N/A"
    assert run_results["higher_is_better"]["figeval_mini_pairs"] == {"acc": True, "macro_f1": True, "acc_strict": True}
    assert run_results["versions"]["figeval_mini_pairs"] == 1
    about = run_results["configs"]["figeval_mini_pairs"]["figeval"]
    assert (about["task"], about["route"], about["template"]) == ("mini_pairs", "by_verbalizer", "impli/nli.en.jinja")
    (file,) = (tmp_path / "out").rglob("samples_figeval_mini_fables_*.jsonl")
    first = json.loads(file.read_text().splitlines()[0])
    assert set(first["doc"]) >= {"id", "query", "options", "gold"}
    assert first["target"] == str(first["doc"]["gold"])
    in_their_run, _ = in_lm_eval(
        {"pretrained": options[3].removeprefix("pretrained=")}, "mini_proverbs", stubs(), limit=5
    )
    for metric in ("acc", "acc_norm", "acc_pmi"):
        assert run_results["results"]["figeval_mini_proverbs"][f"{metric},none"] == in_their_run.numbers[metric]


@pytest.mark.slow
def test_stubs_on_lm_evals_own_command_line(beside_its_own: Path) -> None:
    """Beside all of lm-eval's own tasks."""
    assert set(results(beside_its_own / "out")["results"]) == {"figeval_mini_pairs", "figeval_mini_fables"}


@pytest.mark.slow
def test_tasks_of_plugins(options: list[str], warm_start: None, tmp_path: Path) -> None:
    path = os.pathsep.join([str(ACME), os.environ.get("PYTHONPATH", "")])
    flags = ["--tasks", "figeval_acme_senses", "--output_path", "out"]
    figeval("lm-eval", "run", *options, *flags, cwd=tmp_path, FIGEVAL_PLUGINS="figeval_acme", PYTHONPATH=path)
    assert "acc_strict,none" in results(tmp_path / "out")["results"]["figeval_acme_senses"]


# ---- its task list ---------------------------------------------------------------------------------------------------


@pytest.fixture
def managers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What lm-eval's command line made its TaskManager with, instead of a run."""
    created: list[dict[str, Any]] = []

    def refuse(**settings: Any) -> None:
        created.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("lm_eval.tasks"), "TaskManager", refuse)
    return created


@pytest.mark.parametrize(
    ("tasks", "defaults"),
    [("figeval_mini", False), ("figeval_mini_pairs,figeval_epic_*", False), ("arc_easy,figeval_mini", True)],
)
def test_its_own_tasks_are_read_only_when_they_are_asked_for(
    tasks: str, defaults: bool, managers: list[dict[str, Any]], cli: Cli
) -> None:
    cli("lm-eval", "run", "--model", "dummy", "--tasks", tasks, "--include_path", "theirs")
    ((created),) = managers
    assert created.get("include_defaults", True) is defaults
    assert created["include_path"] == [str(stubs()), "theirs"]


def test_a_config_file(managers: list[dict[str, Any]], tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "run.yaml").write_text(json.dumps({"tasks": ["figeval_mini_fables"], "include_path": "theirs"}))
    cli("lm-eval", "run", "--model", "dummy", "--config", tmp_path / "run.yaml")
    ((created),) = managers
    assert (created["include_defaults"], created["include_path"]) == (False, [str(stubs()), "theirs"])


def test_stubs_with_further_tasks_are_not_there_twice(managers: list[dict[str, Any]], tmp_path: Path, cli: Cli) -> None:
    write_task(tmp_path, "own")
    further_stubs = str(stubs(tmp_path))
    cli("lm-eval", "run", "--model", "dummy", "--tasks", "figeval_own", "--include_path", further_stubs)
    assert managers[0]["include_path"] == [further_stubs]


@pytest.mark.parametrize(
    ("model", "task", "words"),
    [
        ("dummy", "figeval_mini_proverb", "unknown task 'figeval_mini_proverb'; did you mean 'figeval_mini_proverbs'"),
        ("figeval_hf", "figeval_mini", "lm-eval has no model 'figeval_hf'; did you mean 'figeval-hf'"),
    ],
)
def test_a_task_or_a_model_that_nobody_has(model: str, task: str, words: str, cli: Cli) -> None:
    assert words in cli("lm-eval", "run", "--model", model, "--tasks", task).complaint


def test_help_is_lm_evals(cli: Cli) -> None:
    outcome = cli("lm-eval", "run", "--help")
    assert outcome.code == 0
    assert "--model_args" in outcome.out


# ---- what an installed figeval tells lm-eval -------------------------------------------------------------------------


@pytest.fixture
def entry_points() -> Callable[[str], dict[str, str]]:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    return lambda group: dict(project["entry-points"][group])


def test_entry_points(entry_points: Callable[[str], dict[str, str]]) -> None:
    assert [*entry_points("lm_eval.models")] == ["figeval-hf"]
    module, _, attribute = entry_points("lm_eval.models")["figeval-hf"].partition(":")
    assert getattr(import_module(module), attribute).__name__ == attribute
    package = import_module(entry_points("lm_eval.tasks")["figeval"])
    assert [Path(path) for path in package.__path__] == [stubs()]
