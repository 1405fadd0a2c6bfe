"""The floor of a trained model: a second one, trained on a probe of the task, whose score stands beside."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import figeval
from figeval import FigevalError, Harness, RunConfig, RunRecord, TaskRecord, TrainError
from figeval.cli.main import cli
from figeval.io.observer import Observer
from figeval.records.schema import BaselineRecord, LanguageRecord, OverlapRecord
from figeval.records.training import floor_in
from figeval.runs.run import run
from figeval.runs.score import summarize
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.pipeline import complete_training
from figeval.wings.training.sweep import Sweep
from figeval.wings.training.train_folder import Progress, TrainFolder
from tests import finished_runs, trainings
from tests.plugins.tiny import Workshop
from tests.wings.training.test_sweep import Heard

NAMES = ["chance", "no_query", "no_query_trained"]
FLOOR_TASK = trainings.TASK.replace("tiny_retrieval", "tiny_floored") + "floor: no_query\n"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Weights are compared byte for byte, and sums depend on how threads share them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Workshop(tmp_path_factory.mktemp("models"))("bert", "Model")
    (folder / "figeval.json").write_text('{"kind": "encoder", "pooling": "mean"}', encoding="utf-8")
    return folder


Configure = Callable[..., TrainConfig]


@pytest.fixture
def configured(model: Path, tmp_path: Path) -> Configure:
    """A training on a task with a floor, which may be changed."""

    def configure(output: Path, **changes: Any) -> TrainConfig:
        config = trainings.config(model, tmp_path / "tasks", output, **{"task": "tiny_floored", **changes})
        (tmp_path / "tasks" / "floored.task.yaml").write_text(FLOOR_TASK, encoding="utf-8")
        return config

    return configure


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with its floor; copy it before you change it."""
    folder = tmp_path_factory.mktemp("floored")
    config = trainings.config(model, folder / "tasks", folder / "out", task="tiny_floored", floor=True)
    (folder / "tasks" / "floored.task.yaml").write_text(FLOOR_TASK, encoding="utf-8")
    complete_training(config, Heard())
    return folder / "out"


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of that model and its floor without its runs."""
    shutil.copytree(trained, tmp_path / "out", ignore=shutil.ignore_patterns("runs"))
    return tmp_path / "out"


def run_trained(config: TrainConfig, model: Path, output: Path, **changes: Any) -> RunRecord:
    """A run of the task that the model was trained on."""
    settings = {"tasks": (config.task,), "model": str(model), "device": "cpu", "output_path": output, **changes}
    run_config = RunConfig(include_path=config.include_path, **settings)
    return run(run_config, Harness(include=config.include_path), Observer())[0]


def names(task: TaskRecord) -> list[str]:
    return [baseline.baseline for baseline in task.baselines]


def change_declaration(file: Path, **about: object) -> None:
    """Rewrite what figeval.json says of a training; None takes a key away."""
    declared = json.loads(file.read_text(encoding="utf-8"))
    declared["about"] = {key: value for key, value in (declared["about"] | about).items() if value is not None}
    file.unlink()  # the file of the checkpoint stays as it is
    file.write_text(json.dumps(declared), encoding="utf-8")


# ---- training --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_model_is_trained_and_its_score_stands_beside(configured: Configure, tmp_path: Path) -> None:
    """It is what a run of the second model on the probe gives."""
    heard, config = Heard(), configured(tmp_path / "out", floor=True)
    record = complete_training(config, heard)
    assert record is not None and heard.began_at == [0, 0]
    task, probe = record.tasks
    assert (names(task), names(probe)) == (NAMES, NAMES[2:])
    declared = json.loads((tmp_path / "out" / "floor" / "figeval.json").read_text(encoding="utf-8"))
    assert (declared["about"]["probe"], declared["about"]["task"]) == ("no_query", "tiny_floored")
    assert not (tmp_path / "out" / "floor" / "runs").exists(), "it is evaluated beside its model"
    alone = run_trained(config, tmp_path / "out" / "floor", tmp_path / "alone")
    assert task.baselines[-1].scores == probe.baselines[0].scores == alone.tasks[1].scores
    assert task.baselines[-1].weights and not any(baseline.weights for baseline in task.baselines[:-1])
    assert {score.seen for score in task.baselines[-1].scores} == {"trained"}


@pytest.mark.slow
def test_the_model_itself_is_as_without_a_floor(configured: Configure, trained: Path, tmp_path: Path) -> None:
    complete_training(configured(tmp_path / "alone", evaluate=()), Heard())
    assert (tmp_path / "alone" / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert (tmp_path / "alone" / "model.safetensors").read_bytes() != (
        trained / "floor" / "model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_a_finished_training_gets_its_floor_later_and_nothing_is_done_twice(
    configured: Configure, tmp_path: Path
) -> None:
    first = complete_training(configured(tmp_path / "out"), Heard())
    assert first is not None and names(first.tasks[0]) == NAMES[:2]
    later, again = Heard(), Heard()
    record = complete_training(configured(tmp_path / "out", floor=True), later)
    assert record is not None and names(record.tasks[0]) == NAMES
    assert later.began_at == [0]
    completed = complete_training(configured(tmp_path / "out", floor=True), again)
    assert completed is not None and again.began_at == []
    assert [task.baselines for task in completed.tasks] == [task.baselines for task in record.tasks]


@pytest.mark.slow
def test_a_floor_that_was_cut_off_goes_on(configured: Configure, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):  # the second of its two steps, after two of the model
        complete_training(configured(tmp_path / "out", floor=True, checkpoint_every=1), Heard(cut=4))
    assert floor_in(tmp_path / "out") is None, "half a floor is none"
    rest = Heard()
    record = complete_training(configured(tmp_path / "out", floor=True, checkpoint_every=1), rest)
    assert (rest.began_at, rest.steps) == ([1], 1)
    assert record is not None and names(record.tasks[0]) == NAMES


@pytest.mark.slow
def test_every_seed_has_a_floor_and_no_combination_of_a_grid_has(configured: Configure, tmp_path: Path) -> None:
    Sweep(configured(tmp_path / "seeds", floor=True, evaluate=()), Heard(), str).train_seeds([3, 5])
    assert [(tmp_path / "seeds" / f"seed-{seed}" / "floor" / "config.json").is_file() for seed in (3, 5)] == [True] * 2
    _, best = Sweep(configured(tmp_path / "grid", floor=True), Heard(), str).train_grid({"lr": ["1e-3", "1e-2"]})
    assert not list((tmp_path / "grid").glob("*/floor"))
    Sweep(configured(tmp_path / "grid", floor=True, evaluate=()), Heard(), str).train_seeds([1], best)
    assert [file.parent.name for file in (tmp_path / "grid").glob("*/floor")] == ["seed-1"]


@pytest.mark.slow
def test_the_best_of_a_grid_gets_a_floor(configured: Configure, tmp_path: Path) -> None:
    config = configured(tmp_path / "out")
    options = {name: getattr(config, name) for name in ("task", "model", "output")}
    arguments = options | {"include_path": config.include_path[0]}
    words = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
    small = ["--batch_size=8", "--max_steps=2", "--device=cpu", "--head_args=pooling=mean", "--evaluate=", "--floor"]
    result = CliRunner().invoke(cli, ["train", *words, *small, "--grid", "lr=1e-3,1e-2"])
    assert result.exit_code == 0, result.output
    best = json.loads((tmp_path / "out" / "grid.json").read_text(encoding="utf-8"))["best"]
    assert [file.parent.name for file in (tmp_path / "out").glob("*/floor")] == [best]


@pytest.mark.slow
def test_a_floor_of_augmented_examples_has_nothing_added(configured: Configure, model: Path, tmp_path: Path) -> None:
    """Without a query there is nothing to search by, in training as in a run."""
    augment = {"add": "neighbours", "k": 2, "retriever": f"encoder:{model}"}
    record = complete_training(configured(tmp_path / "out", floor=True, augment=augment), Heard())
    assert record is not None and names(record.tasks[0]) == NAMES
    assert not any(warning for task in record.tasks for warning in task.warnings if "augment" in warning)


def test_a_floor_that_cannot_be_is_refused_before_anything_is_trained(configured: Configure, tmp_path: Path) -> None:
    plain = configured(tmp_path / "out", task="tiny_retrieval", floor=True)
    words = r"--floor: tiny_retrieval has no floor; write `floor:` in its file \(no_query, shuffled_query\)"
    with pytest.raises(TrainError, match=words):
        complete_training(plain, Heard())
    with pytest.raises(TrainError, match=words):
        Sweep(plain, Heard(), str).train_grid({"lr": ["1e-3", "1e-2"]})
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="a model trained on a probe is itself a floor"):
        configured(tmp_path / "out", floor=True, probe="no_query")


@pytest.mark.parametrize("head", ["mlm", "infill"])
def test_a_head_that_answers_nothing_has_no_floor(head: str, configured: Configure, tmp_path: Path) -> None:
    words = f"--floor: --head {head} learns from plain texts and cannot answer tiny_floored, .*leave out"
    with pytest.raises(TrainError, match=words):
        complete_training(configured(tmp_path / "out", head=head, head_args={}, floor=True), Heard())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("obstacle", ["a file", "foreign", "another seed"])
def test_a_floor_that_has_no_place_is_refused_before_the_first_step(
    obstacle: str, configured: Configure, tmp_path: Path
) -> None:
    config = configured(tmp_path / "out", floor=True, checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        complete_training(config, Heard(cut=2))
    floor_folder = tmp_path / "out" / "floor"
    if obstacle == "another seed":
        complete_training(configured(floor_folder, probe="no_query", seed=7, evaluate=()), Heard())
    elif obstacle == "foreign":
        floor_folder.mkdir()
        (floor_folder / "letter.txt").touch()
    else:
        floor_folder.touch()
    heard = Heard()
    with pytest.raises(TrainError, match=r"floor (is|contains) .*; move it away or choose another --output"):
        complete_training(config, heard)
    assert heard.began_at == []


# `python -c` with an event of Python and the end of the path that it makes: the process is killed before the last of
# so many such events.
KILL_PROGRAM = """
import os, signal, sys
event, end, times, *arguments = sys.argv[1:]
left = int(times)
def kill(name, args):
    global left
    if name == event and os.fsdecode(args[1]).endswith(end):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill)
from figeval.cli.main import main
main(arguments)
"""
FULL_DISK_PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from figeval.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "ending",
    [
        "os.rename /out/training/step-000002 1",
        "os.rename /out/training/record.json 1",
        "os.rename /out/floor/training/progress.json 1",
        "os.link /out/floor/model.safetensors 1",
        "os.rename /out/figeval.json 2",  # with the held-out score
        "the disk is full",
    ],
)
def test_whatever_ends_it_the_same_command_gives_the_same(
    ending: str, configured: Configure, trained: Path, warm: Path, tmp_path: Path
) -> None:
    """Killed in the first model, after it, in the second one, while that is put in its place, and at the very end."""
    config = configured(tmp_path / "out", floor=True)
    options = {
        "task": config.task,
        "model": config.model,
        "output": tmp_path / "out",
        "include_path": tmp_path / "tasks",
    }
    arguments = [f"--{name}={value}" for name, value in options.items()]
    small = ["--batch_size=8", "--max_steps=2", "--device=cpu", "--head_args=pooling=mean", "--lr=0.01", "--floor"]
    full = ending == "the disk is full"
    script = [FULL_DISK_PROGRAM] if full else [KILL_PROGRAM, *ending.split()]
    done = subprocess.run(
        [warm / "python", "-c", *script, "train", *arguments, *small],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == (2 if full else -signal.SIGKILL), done.stderr
    if full:
        assert done.stderr.splitlines()[-1].startswith(
            f"figeval: no space left for {tmp_path / 'out'}; what was written"
        )
    complete_training(config, Heard())
    assert outcome(tmp_path / "out") == outcome(trained)


def outcome(folder: Path) -> dict[str, Any]:
    """Weights, seen examples, history and scores of a model and its floor."""
    record = json.loads((folder / "runs" / "tiny_floored" / "run.json").read_text(encoding="utf-8"))
    both = (folder, folder / "floor")
    histories = [(folder / "training" / "history.jsonl").read_text().splitlines() for folder in both]
    return {
        "files": [(folder / name).read_bytes() for folder in both for name in ("model.safetensors", "seen.txt")],
        "history": [[sorted(json.loads(line)) for line in lines] for lines in histories],
        "scores": [(task["scores"], task["baselines"], task["warnings"]) for task in record["tasks"]],
    }


def test_the_history_has_the_scores_before_they_are_committed(
    configured: Configure, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two lost them: what is noted and not committed is forgotten, and computed again."""
    commit = TrainFolder.commit

    def cut(folder: TrainFolder, progress: Progress) -> None:
        commit(folder, progress)
        raise KeyboardInterrupt

    config = configured(tmp_path / "out", evaluate=())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TrainFolder, "commit", cut)
        complete_training(config, Heard())
    complete_training(config, Heard())
    lines = [folder / "training" / "history.jsonl" for folder in (tmp_path / "out", trained)]
    scores = [[line for line in map(json.loads, file.read_text().splitlines()) if "scores" in line] for file in lines]
    assert scores[0] == scores[1] != []


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_a_floor_that_was_trained_by_hand_may_be_moved_to_its_place(
    configured: Configure, copied: Path, tmp_path: Path
) -> None:
    """Also one whose figeval.json does not say yet on which probe it was trained."""
    shutil.rmtree(copied / "floor")
    config = configured(tmp_path / "by_hand", probe="no_query", evaluate=())
    complete_training(config, Heard())
    change_declaration(tmp_path / "by_hand" / "figeval.json", probe=None)
    (tmp_path / "by_hand").rename(copied / "floor")
    task, probe = run_trained(config, copied, tmp_path / "run").tasks
    assert names(task) == NAMES
    assert not probe.warnings or "other settings" not in " ".join(probe.warnings)


def test_a_floor_with_other_settings_is_warned_of(configured: Configure, copied: Path, tmp_path: Path) -> None:
    shutil.rmtree(copied / "floor")
    complete_training(configured(copied / "floor", probe="no_query", evaluate=(), seed=7, lr=0.02), Heard())
    record = run_trained(configured(copied), copied, tmp_path / "run")
    assert "no_query_trained was trained with different settings from the model's: seed, lr" in record.tasks[1].warnings


@pytest.mark.parametrize("about", [{"task": "tiny_again"}, {"probe": "shuffled_query"}])
def test_a_model_of_another_task_or_probe_is_no_floor(
    about: dict[str, str], configured: Configure, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change_declaration(copied / "floor" / "figeval.json", **about)
    assert names(run_trained(configured(copied), copied, tmp_path / "run").tasks[0]) == NAMES[:2]
    assert "so it is not a floor of tiny_floored; move it away and train one with --floor" in capsys.readouterr().err


@pytest.mark.slow
def test_a_floor_that_has_changed_is_asked_again(configured: Configure, copied: Path, tmp_path: Path) -> None:
    config = configured(copied)
    before = run_trained(config, copied, tmp_path / "run").tasks[0].baselines
    assert run_trained(config, copied, tmp_path / "run").tasks[0].baselines == before
    shutil.rmtree(copied / "floor")
    assert run_trained(config, copied, tmp_path / "run").tasks[0].baselines == before, "what was measured stays"
    complete_training(configured(copied / "floor", probe="no_query", evaluate=(), seed=1), Heard())
    after = run_trained(config, copied, tmp_path / "run").tasks[0].baselines
    assert [baseline.baseline for baseline in after] == NAMES
    assert after[:2] == before[:2] and after[2].weights != before[2].weights


def test_a_floor_is_left_out_with_the_baselines(configured: Configure, copied: Path, tmp_path: Path) -> None:
    record = run_trained(configured(copied), copied, tmp_path / "run", baselines=False, probes=True)
    assert [task.task for task in record.tasks][:2] == ["tiny_floored", "tiny_floored@no_query"]
    assert not any(task.baselines for task in record.tasks)


def test_a_floor_that_cannot_be_opened_costs_its_own_score_alone(
    configured: Configure, copied: Path, tmp_path: Path
) -> None:
    (copied / "floor" / "model.safetensors").unlink()
    record = run_trained(configured(copied), copied, tmp_path / "run")
    assert record.status == "complete"
    assert names(record.tasks[0]) == NAMES[:2]
    assert any("no_query_trained has no scores" in warning for warning in record.tasks[1].warnings)
    (copied / "floor" / "figeval.json").unlink()
    (copied / "floor" / "figeval.json").write_text("{", encoding="utf-8")
    with pytest.raises(FigevalError, match="restore it, or train the model again"):
        run_trained(configured(copied), copied, tmp_path / "broken")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("floor/figeval.json", "[]"),
        ("floor/figeval.json", '{"about": [1]}'),
        ("floor/figeval.json", '{"about": {"task": "tiny_floored", "probe": ["\\u001b[31m"]}}'),
        ("figeval.json", '{"kind": "encoder", "pooling": "mean", "about": {"augment": [1], "trained_from": "x"}}'),
        ("floor/training/record.json", "[]"),
        ("floor/training/record.json", '{"config": "text"}'),
        ("training/record.json", '{"config": null}'),
    ],
)
def test_a_damaged_file_is_one_line(
    file: str, content: str, configured: Configure, copied: Path, tmp_path: Path
) -> None:
    (copied / file).unlink()
    (copied / file).write_text(content, encoding="utf-8")
    with pytest.raises(FigevalError, match=f"{file}.*; restore it, or train the model again") as raised:
        run_trained(configured(copied), copied, tmp_path / "run")
    assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value)


@pytest.mark.slow
def test_other_weights_in_the_place_of_those_of_the_floor_have_no_score(
    configured: Configure, copied: Path, tmp_path: Path
) -> None:
    weights = copied / "floor" / "model.safetensors"
    weights.unlink()
    shutil.copy(copied / "model.safetensors", weights)
    record = run_trained(configured(copied), copied, tmp_path / "run")
    assert names(record.tasks[0]) == NAMES[:2]
    reason = "no_query_trained has no scores: the weights in .*floor are not those that were trained there; restore"
    assert any(re.search(reason, warning) for warning in record.tasks[1].warnings)
    weights.unlink()
    weights.mkdir()
    assert names(run_trained(configured(copied), copied, tmp_path / "folder").tasks[0]) == NAMES[:2]


@pytest.mark.slow
def test_worker_processes_answer_and_the_floor_is_asked_once(
    configured: Configure, copied: Path, warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(warm / "python"))  # starts the workers
    config = configured(copied)
    alone, by_two_processes = (run_trained(config, copied, tmp_path / f"run{n}", processes=n) for n in (1, 2))
    assert by_two_processes.tasks[0].baselines == alone.tasks[0].baselines


def test_a_floor_stands_beside_every_language_and_the_unseen_examples() -> None:
    """Summing up a run again, as `figeval rescore` does, keeps it there."""

    def baseline(name: str, value: float) -> BaselineRecord:
        return BaselineRecord(baseline=name, weights="ab" * 32, scores=[finished_runs.score(value=value)])

    def overlap(*baselines: BaselineRecord) -> OverlapRecord:
        return OverlapRecord(trained=1, chosen=0, rest=39, scores=[finished_runs.score()], baselines=list(baselines))

    def language(*baselines: BaselineRecord) -> LanguageRecord:
        return LanguageRecord(language="en", scores=[finished_runs.score()], baselines=list(baselines))

    task = finished_runs.task("t", languages=[language()], overlap=overlap(), baselines=[])
    probe = finished_runs.task(
        "t@no_query",
        kind="probe",
        of="t",
        variant="no_query",
        is_floor=True,
        baselines=[baseline("no_query_trained", 0.7)],
        languages=[language(baseline("no_query_trained", 0.6))],
        overlap=overlap(baseline("no_query_trained", 0.8)),
    )
    record = finished_runs.run(task, probe)
    for _ in range(2):
        summarize(record, ["t"], Harness())
        assert task.overlap is not None
        for scored, value in ((task, 0.7), (task.languages[0], 0.6), (task.overlap, 0.8)):
            assert [baseline.baseline for baseline in scored.baselines] == NAMES[1:]
            assert scored.baselines[1].scores[0].value == value


# ---- what people see -------------------------------------------------------------------------------------------------


def test_a_model_says_that_it_has_a_floor(trained: Path) -> None:
    training = figeval.Training(trained)
    assert training.floor is not None and training.floor.path == trained / "floor"
    assert training.floor.floor is None
    shown = CliRunner().invoke(cli, ["show", str(trained)]).output
    assert "its floor, trained on the probe no_query, is in the folder `floor`" in " ".join(shown.split())
    assert "its floor, trained on the probe no_query" in str(training)
    alone = CliRunner().invoke(cli, ["show", str(trained / "floor")]).output
    assert "trained on the probe no_query of tiny_floored" in " ".join(alone.split())
    assert "has a floor" not in alone


def test_tables_and_exports_show_it(trained: Path) -> None:
    model_name = str(trained / "runs" / "tiny_floored")
    shown = " ".join(CliRunner().invoke(cli, ["show", model_name], env={"COLUMNS": "250"}).output.split())
    assert "no_query_trained 0." in shown
    assert "no_query_trained: a second model, which was trained on this probe" in shown
    for kind in ("csv", "latex", "markdown"):
        exported = CliRunner().invoke(cli, ["export", model_name, "--to", kind]).output.replace("\\", "")
        assert "no_query_trained" in exported, kind
    assert "baseline_no_query_trained" in figeval.load(model_name).scores
