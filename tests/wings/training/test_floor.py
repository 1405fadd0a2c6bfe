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

import figeval
from figeval import FigevalError, FigevalWarning, RunRecord, TrainError
from tests import trainings
from tests.cli.conftest import Cli
from tests.plugins.tiny import Workshop
from tests.trainings import optimizer_steps

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


Settings = Callable[..., dict[str, Any]]


def floored(model: Path, folder: Path, output: Path, **changes: Any) -> dict[str, Any]:
    """The settings of a training on a task with a floor."""
    settings = trainings.settings(model, folder, output, **{"task": "tiny_floored", **changes})
    (folder / "floored.task.yaml").write_text(FLOOR_TASK, encoding="utf-8")
    return settings


@pytest.fixture
def settings(model: Path, tmp_path: Path) -> Settings:
    """Such settings, of a training into the folder `out` or another one."""
    return lambda output="out", **changes: floored(model, tmp_path / "tasks", tmp_path / output, **changes)


@pytest.fixture
def train(settings: Settings) -> Callable[..., figeval.Training]:
    """Train with such settings."""
    return lambda output="out", **changes: trainings.train(**settings(output, **changes))


@pytest.fixture(scope="module")
def trained(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with its floor; copy it before you change it."""
    folder = tmp_path_factory.mktemp("floored")
    return trainings.train(**floored(model, folder / "tasks", folder / "out", floor=True)).path


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A copy of that model and its floor without its runs."""
    shutil.copytree(trained, tmp_path / "out", ignore=shutil.ignore_patterns("runs"))
    return tmp_path / "out"


@pytest.fixture
def run_trained(settings: Settings, tmp_path: Path) -> Callable[..., RunRecord]:
    """Run the task that a model was trained on."""

    def run(model: Path, output: str = "run", **changes: Any) -> RunRecord:
        folder = settings()["include_path"]
        options = {"include_path": folder, "device": "cpu", "output_path": tmp_path / output}
        return figeval.run("tiny_floored", model, **options | changes).record

    return run


def names(task: Any) -> list[str]:
    return [baseline.baseline for baseline in task.baselines]


def change_declaration(file: Path, **about: object) -> None:
    """Rewrite what figeval.json says of a training; None takes a key away."""
    declared = json.loads(file.read_text(encoding="utf-8"))
    declared["about"] = {key: value for key, value in (declared["about"] | about).items() if value is not None}
    file.unlink()  # the file of the checkpoint stays as it is
    file.write_text(json.dumps(declared), encoding="utf-8")


# ---- training --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_model_is_trained_and_its_score_stands_beside(train: Any, run_trained: Any, tmp_path: Path) -> None:
    """It is what a run of the second model on the probe gives."""
    with optimizer_steps() as steps:
        record = train(floor=True).run.record
    assert len(steps) == 2 + 2
    task, probe = record.tasks
    assert (names(task), names(probe)) == (NAMES, NAMES[2:])
    declared = json.loads((tmp_path / "out" / "floor" / "figeval.json").read_text(encoding="utf-8"))
    assert (declared["about"]["probe"], declared["about"]["task"]) == ("no_query", "tiny_floored")
    assert not (tmp_path / "out" / "floor" / "runs").exists(), "it is evaluated beside its model"
    alone = run_trained(tmp_path / "out" / "floor")
    assert task.baselines[-1].scores == probe.baselines[0].scores == alone.tasks[1].scores
    assert task.baselines[-1].weights and not any(baseline.weights for baseline in task.baselines[:-1])
    assert {score.seen for score in task.baselines[-1].scores} == {"trained"}


@pytest.mark.slow
def test_the_model_itself_is_as_without_a_floor(train: Any, trained: Path) -> None:
    alone = (train(evaluate=()).path / "model.safetensors").read_bytes()
    assert alone == (trained / "model.safetensors").read_bytes()
    assert alone != (trained / "floor" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_finished_training_gets_its_floor_later_and_nothing_is_done_twice(train: Any) -> None:
    assert names(train().run.record.tasks[0]) == NAMES[:2]
    with optimizer_steps() as steps:
        record = train(floor=True).run.record
        assert names(record.tasks[0]) == NAMES
        assert len(steps) == 2
        completed = train(floor=True).run.record
        assert len(steps) == 2
    assert [task.baselines for task in completed.tasks] == [task.baselines for task in record.tasks]


@pytest.mark.slow
def test_a_floor_that_was_cut_off_goes_on(train: Any, tmp_path: Path) -> None:
    with optimizer_steps(3), pytest.raises(KeyboardInterrupt):  # before the second of its two steps
        train(floor=True, checkpoint_every=1)
    assert figeval.Training(tmp_path / "out").floor is None, "half a floor is none"
    with optimizer_steps() as steps:
        record = train(floor=True, checkpoint_every=1).run.record
    assert len(steps) == 1
    assert names(record.tasks[0]) == NAMES


@pytest.mark.slow
def test_every_seed_has_a_floor_and_no_combination_of_a_grid_has(settings: Settings, cli: Cli, tmp_path: Path) -> None:
    def sweep(output: str, *flags: str) -> set[str]:
        done = cli("train", *trainings.flags(settings(output, floor=True, evaluate=())), *flags)
        assert done.code == 0, done.err
        return {file.parent.name for file in (tmp_path / output).glob("*/floor")}

    assert sweep("seeds", "--seeds=3,5") == {"seed-3", "seed-5"}
    assert sweep("both", "--grid=lr=1e-3,1e-2", "--seeds=1,") == {"seed-1"}
    best = sweep("grid", "--grid=lr=1e-3,1e-2")
    assert best == {json.loads((tmp_path / "grid" / "grid.json").read_text(encoding="utf-8"))["best"]}


@pytest.mark.slow
def test_a_floor_of_augmented_examples_has_nothing_added(train: Any, model: Path) -> None:
    """Without a query there is nothing to search by, in training as in a run."""
    augment = {"add": "neighbours", "k": 2, "retriever": f"encoder:{model}"}
    run = train(floor=True, augment=augment).run
    assert names(run.record.tasks[0]) == NAMES
    assert not any("augment" in warning for warning in run.warnings)


def test_a_floor_that_cannot_be_is_refused_before_anything_is_trained(
    train: Any, settings: Settings, cli: Cli, tmp_path: Path
) -> None:
    words = "--floor: tiny_retrieval has no floor; write `floor:` in its file (no_query, shuffled_query)"
    with pytest.raises(TrainError, match=re.escape(words)):
        train(task="tiny_retrieval", floor=True)
    flags = trainings.flags(settings(task="tiny_retrieval", floor=True))
    assert words in cli("train", *flags, "--grid=lr=1e-3,1e-2").complaint
    assert not (tmp_path / "out").exists()
    with pytest.raises(TrainError, match="a model trained on a probe is itself a floor"):
        train(floor=True, probe="no_query")


@pytest.mark.parametrize("head", ["mlm", "infill"])
def test_a_head_that_answers_nothing_has_no_floor(head: str, train: Any, tmp_path: Path) -> None:
    words = f"--floor: --head {head} learns from plain texts and cannot answer tiny_floored, .*leave out"
    with pytest.raises(TrainError, match=words):
        train(head=head, head_args={}, floor=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("obstacle", ["a file", "foreign", "another seed"])
def test_a_floor_that_has_no_place_is_refused_before_the_first_step(obstacle: str, train: Any, tmp_path: Path) -> None:
    with optimizer_steps(1), pytest.raises(KeyboardInterrupt):
        train(floor=True, checkpoint_every=1)
    floor_folder = tmp_path / "out" / "floor"
    if obstacle == "another seed":
        train("out/floor", probe="no_query", seed=7, evaluate=())
    elif obstacle == "foreign":
        floor_folder.mkdir()
        (floor_folder / "letter.txt").touch()
    else:
        floor_folder.touch()
    with optimizer_steps(0), pytest.raises(TrainError, match=r"floor (is|contains) .*; move it away or choose another"):
        train(floor=True, checkpoint_every=1)


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
sys.dont_write_bytecode = True  # Python would cut off the file of a large module, too
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
    ending: str, settings: Settings, trained: Path, warm: Path, tmp_path: Path
) -> None:
    """Killed in the first model, after it, in the second one, while that is put in its place, and at the very end."""
    full = ending == "the disk is full"
    script = [FULL_DISK_PROGRAM] if full else [KILL_PROGRAM, *ending.split()]
    done = subprocess.run(
        [warm / "python", "-c", *script, "train", *trainings.flags(settings(floor=True))],
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
    trainings.train(**settings(floor=True))
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


# ---- runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_floor_that_was_trained_by_hand_may_be_moved_to_its_place(
    train: Any, run_trained: Any, copied: Path, tmp_path: Path
) -> None:
    """Also one whose figeval.json does not say yet on which probe it was trained."""
    shutil.rmtree(copied / "floor")
    train("by_hand", probe="no_query", evaluate=())
    change_declaration(tmp_path / "by_hand" / "figeval.json", probe=None)
    (tmp_path / "by_hand").rename(copied / "floor")
    task, probe = run_trained(copied).tasks
    assert names(task) == NAMES
    assert not probe.warnings or "other settings" not in " ".join(probe.warnings)


@pytest.mark.slow
def test_a_floor_with_other_settings_is_warned_of(train: Any, run_trained: Any, copied: Path) -> None:
    shutil.rmtree(copied / "floor")
    train("out/floor", probe="no_query", evaluate=(), seed=7, lr=0.02)
    record = run_trained(copied)
    assert "no_query_trained was trained with different settings from the model's: seed, lr" in record.tasks[1].warnings


@pytest.mark.parametrize("about", [{"task": "tiny_again"}, {"probe": "shuffled_query"}])
def test_a_model_of_another_task_or_probe_is_no_floor(about: dict[str, str], run_trained: Any, copied: Path) -> None:
    change_declaration(copied / "floor" / "figeval.json", **about)
    words = "so it is not a floor of tiny_floored; move it away and train one with --floor"
    with pytest.warns(FigevalWarning, match=words):
        assert names(run_trained(copied).tasks[0]) == NAMES[:2]


@pytest.mark.slow
def test_a_floor_that_has_changed_is_asked_again(train: Any, run_trained: Any, copied: Path) -> None:
    before = run_trained(copied).tasks[0].baselines
    assert run_trained(copied).tasks[0].baselines == before
    shutil.rmtree(copied / "floor")
    assert run_trained(copied).tasks[0].baselines == before, "what was measured stays"
    train("out/floor", probe="no_query", evaluate=(), seed=1)
    after = run_trained(copied).tasks[0].baselines
    assert [baseline.baseline for baseline in after] == NAMES
    assert after[:2] == before[:2] and after[2].weights != before[2].weights


def test_a_floor_is_left_out_with_the_baselines(run_trained: Any, copied: Path) -> None:
    record = run_trained(copied, baselines=False, probes=True)
    assert [task.task for task in record.tasks][:2] == ["tiny_floored", "tiny_floored@no_query"]
    assert not any(task.baselines for task in record.tasks)


def test_a_floor_that_cannot_be_opened_costs_its_own_score_alone(run_trained: Any, copied: Path) -> None:
    (copied / "floor" / "model.safetensors").unlink()
    record = run_trained(copied)
    assert record.status == "complete"
    assert names(record.tasks[0]) == NAMES[:2]
    assert any("no_query_trained has no scores" in warning for warning in record.tasks[1].warnings)
    (copied / "floor" / "figeval.json").unlink()
    (copied / "floor" / "figeval.json").write_text("{", encoding="utf-8")
    with pytest.raises(FigevalError, match="restore it, or train the model again"):
        run_trained(copied, "broken")


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
def test_a_damaged_file_is_one_line(file: str, content: str, run_trained: Any, copied: Path) -> None:
    (copied / file).unlink()
    (copied / file).write_text(content, encoding="utf-8")
    with pytest.raises(FigevalError, match=f"{file}.*; restore it, or train the model again") as raised:
        run_trained(copied)
    assert "\n" not in str(raised.value) and "\x1b" not in str(raised.value)


@pytest.mark.slow
def test_other_weights_in_the_place_of_those_of_the_floor_have_no_score(run_trained: Any, copied: Path) -> None:
    weights = copied / "floor" / "model.safetensors"
    weights.unlink()
    shutil.copy(copied / "model.safetensors", weights)
    record = run_trained(copied)
    assert names(record.tasks[0]) == NAMES[:2]
    reason = "no_query_trained has no scores: the weights in .*floor are not those that were trained there; restore"
    assert any(re.search(reason, warning) for warning in record.tasks[1].warnings)
    weights.unlink()
    weights.mkdir()
    assert names(run_trained(copied, "folder").tasks[0]) == NAMES[:2]


@pytest.mark.slow
def test_worker_processes_answer_and_the_floor_is_asked_once(
    run_trained: Any, copied: Path, warm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(warm / "python"))  # starts the workers
    alone, by_two_processes = (run_trained(copied, f"run{n}", processes=n) for n in (1, 2))
    assert by_two_processes.tasks[0].baselines == alone.tasks[0].baselines


LANGUAGES_TASK = """
name: tiny_languages
type: ranking
language: [en, sw]
data: {train: "jsonl:train.jsonl", test: "jsonl:test.jsonl"}
fields: {id: row.id, query: row.query, candidates: "['a', 'b']", relevant: row.relevant, language: row.language}
metrics: [acc]
floor: no_query
"""


@pytest.mark.slow
def test_a_floor_stands_beside_every_language_and_the_unseen_examples(model: Path, tmp_path: Path) -> None:
    """Summing up a run again, as the same command does, keeps it there."""
    rows = [
        json.dumps({"id": n, "query": f"{n} {n % 7}", "relevant": [n % 2], "language": ("en", "sw")[n // 2 % 2]})
        for n in range(48)
    ]
    for split, part in (("train", rows[:40]), ("test", rows[20:])):
        (tmp_path / f"{split}.jsonl").write_text("\n".join(part) + "\n", encoding="utf-8")
    (tmp_path / "languages.task.yaml").write_text(LANGUAGES_TASK, encoding="utf-8")
    options = trainings.settings(model, tmp_path, tmp_path / "out", task="tiny_languages", floor=True, holdout=0.2)
    run = trainings.train(**options).run
    for _ in range(2):
        (task, probe) = run.record.tasks
        assert task.overlap.rest == 8
        parts = [(task, probe), (task.overlap, probe.overlap), *zip(task.languages, probe.languages, strict=True)]
        assert len(parts) == 4
        for scored, floor in parts:
            assert names(scored)[-1] == NAMES[2]
            assert scored.baselines[-1].scores == floor.baselines[-1].scores
        assert len({part.baselines[-1].scores[0].n for part, _ in parts[:3]}) == 3
        run = trainings.train(**options).run


# ---- what people see -------------------------------------------------------------------------------------------------


def test_a_model_says_that_it_has_a_floor(trained: Path, cli: Cli) -> None:
    training = figeval.Training(trained)
    assert training.floor is not None and training.floor.path == trained / "floor"
    assert training.floor.floor is None
    shown = " ".join(cli("show", trained).out.split())
    assert "its floor, trained on the probe no_query, is in the folder `floor`" in shown
    assert "its floor, trained on the probe no_query" in str(training)
    alone = " ".join(cli("show", trained / "floor").out.split())
    assert "trained on the probe no_query of tiny_floored" in alone
    assert "has a floor" not in alone


def test_tables_and_exports_show_it(trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    run = trained / "runs" / "tiny_floored"
    shown = " ".join(cli("show", run).out.split())
    assert "no_query_trained 0." in shown
    assert "no_query_trained: a second model, which was trained on this probe" in shown
    for kind in ("csv", "latex", "markdown"):
        assert "no_query_trained" in cli("export", run, "--to", kind).out.replace("\\", ""), kind
    assert "baseline_no_query_trained" in figeval.load(run).scores
