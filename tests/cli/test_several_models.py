"""`figeval run` with several `--model`: one run each, of which none depends on the others."""

from __future__ import annotations

from pathlib import Path

import figeval
from tests.cli.conftest import Cli
from tests.processes import figeval as figeval_process

TASKS = ("run", "--tasks", "mini_fables", "--limit", "3")

PLUGIN = """\
import figeval


class Broken:
    deterministic_by_name = True

    def __init__(self, model):
        pass

    def score_pairs(self, requests):
        raise ValueError("broken")


@figeval.hookimpl
def register_backends(register):
    register("broken", "broken:Broken", "answers nothing")
"""


def models(*names: str) -> list[str]:
    return [word for name in names for word in ("--model", name)]


def test_each_model_has_the_run_that_it_has_alone(cli: Cli, tmp_path: Path) -> None:
    done = cli(*TASKS, *models("overlap", "random", "overlap"), "--output_path", "runs")
    assert done.code == 0
    assert sorted(folder.name for folder in (tmp_path / "runs").iterdir()) == ["overlap", "random"]
    assert cli(*TASKS, *models("overlap"), "--output_path", "alone").code == 0
    alone, among = (figeval.load(tmp_path / folder) for folder in ("alone", "runs/overlap"))
    assert alone.record.identity == among.record.identity
    assert [row["pred"] for row in alone.rows("mini_fables")] == [row["pred"] for row in among.rows("mini_fables")]


def test_the_same_command_computes_nothing_twice_and_another_model_may_join(cli: Cli, tmp_path: Path) -> None:
    command = (*TASKS, "--output_path", "runs")
    cli(*command, *models("overlap"), "--model", "random")
    files = [*(tmp_path / "runs").glob("*/predictions/*.jsonl")]
    before = [(file.read_bytes(), file.stat().st_mtime_ns) for file in files]
    assert cli(*command, *models("random", "tfidf", "overlap")).code == 0
    assert [(file.read_bytes(), file.stat().st_mtime_ns) for file in files] == before and len(files) == 2
    assert figeval.load(tmp_path / "runs" / "tfidf").complete


def test_without_a_folder_each_run_is_where_it_is_alone(cli: Cli, tmp_path: Path) -> None:
    cli(*TASKS, *models("overlap"))
    (alone,) = (tmp_path / "results" / "runs").iterdir()
    cli(*TASKS, *models("overlap", "random"))
    assert alone in (tmp_path / "results" / "runs").iterdir()
    assert len([*(tmp_path / "results" / "runs").iterdir()]) == 2


def test_what_is_wrong_with_a_model_is_its_own_line(cli: Cli, tmp_path: Path) -> None:
    done = cli(*TASKS, *models("ovrlap\x1b[2J", "random"), "--output_path", "runs")
    assert done.code == 2 and "\x1b" not in done.err
    (line,) = [line for line in done.err.splitlines() if line.startswith("figeval: ")]
    assert "ovrlap" in line and "did you mean 'overlap'" in line
    assert figeval.load(tmp_path / "runs" / "random").complete


def test_a_failed_task_of_a_model_is_no_success(tmp_path: Path, warm_start: None) -> None:
    (tmp_path / "broken.py").write_text(PLUGIN)
    command = (*TASKS, *models("broken", "random"), "--output_path", "runs")
    figeval_process(*command, cwd=tmp_path, code=1, PYTHONPATH=str(tmp_path), FIGEVAL_PLUGINS="broken")
    broken, random = (figeval.load(tmp_path / "runs" / name) for name in ("broken", "random"))
    assert not broken.complete and random.complete


def test_what_is_wrong_with_all_models_is_one_line(cli: Cli, tmp_path: Path) -> None:
    for wrong in (("--tasks", "nosuch"), ("--sample", "2"), ("--slurm", "job.sh", "--ray", "10.0.0.1:6379")):
        assert "figeval: " in cli(*TASKS, *models("overlap", "random"), "--output_path", "runs", *wrong).complaint
    assert not [*tmp_path.iterdir()]


def test_folders_are_told_apart_and_stay_inside(cli: Cli, tmp_path: Path) -> None:
    names = ("./a/b", "a-b", "A/b", "..", "../..", "/")
    done = cli(*TASKS, *models(*names, "random"), "--output_path", "runs")
    assert done.code == 2 and len([line for line in done.err.splitlines() if line.startswith("figeval: ")]) == 6
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_models_whose_folders_would_be_the_same_can_be_reordered(tmp_path: Path, warm_start: None) -> None:
    plugin = PLUGIN.replace('raise ValueError("broken")', "return [0.5] * len(requests)")
    entry = '    register("{}", "broken:Broken", "scores all alike")\n'
    (tmp_path / "broken.py").write_text(plugin + entry.format("ALIKE") + entry.format("alike"))
    variables = {"PYTHONPATH": str(tmp_path), "FIGEVAL_PLUGINS": "broken"}
    for names in (("alike", "ALIKE"), ("ALIKE", "alike")):
        figeval_process(*TASKS, *models(*names), "--output_path", "runs", cwd=tmp_path, **variables)
    runs = [figeval.load(folder) for folder in (tmp_path / "runs").iterdir()]
    assert sorted(run.record.model.name for run in runs) == ["ALIKE", "alike"]


def test_a_folder_that_is_a_run_is_no_folder_of_runs(cli: Cli) -> None:
    cli(*TASKS, *models("overlap"), "--output_path", "run")
    assert "--output_path" in cli(*TASKS, *models("overlap", "random"), "--output_path", "run").complaint
