"""The trainings of a sweep on a Ray cluster: two real nodes, one of which is killed in the middle."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from figeval import FolderInUse, TrainError
from figeval.wings.training import ray as cluster
from figeval.wings.training.ray import MARK_FILE, TrainingOrder, TrainingOutcome, execute, write_mark
from figeval.wings.training.train_folder import TrainFolder
from tests import trainings
from tests.cli.conftest import Cli
from tests.nodes import two_nodes
from tests.plugins.tiny import Workshop
from tests.processes import figeval


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Workshop(tmp_path_factory.mktemp("models"))("bert", "Model")


@pytest.mark.slow
def test_seeds_on_two_nodes_are_those_of_one_process(
    model: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def train_seeds(folder: Path, *flags: str) -> Any:
        settings = trainings.settings(model, tmp_path / "tasks", folder)
        outcome = cli("train", *trainings.flags(settings), "--seeds=3", *flags)
        assert outcome.code == 0, outcome.err
        return json.loads((folder / "seeds.json").read_text(encoding="utf-8"))

    folder = tmp_path / "out"
    with two_nodes() as nodes:

        def kill_one_in_the_middle() -> None:
            while len(list(folder.glob("seed-*/training"))) < 2:
                time.sleep(0.01)
            nodes.kill_one()

        threading.Thread(target=kill_one_in_the_middle, daemon=True).start()
        record = train_seeds(folder, f"--ray={nodes.address}")
    assert record["seeds"] == [0, 1, 2]
    assert not (folder / MARK_FILE).exists()
    assert record["scores"] == train_seeds(tmp_path / "alone")["scores"]


def test_a_machine_without_the_folder_says_so(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # restored afterwards, since a machine goes to the folder of the command
    config = trainings.config(model, tmp_path / "tasks", tmp_path / "out" / "seed-0")
    order = TrainingOrder(config, str(tmp_path), {}, "a mark")
    with pytest.raises(TrainError, match=r"is not the folder of the command .* must be on a shared disk"):
        execute(order).result()
    (tmp_path / "out").mkdir()
    write_mark(tmp_path / "out", "another mark")
    with pytest.raises(TrainError, match=r"on the machine .* must be on a shared disk"):
        execute(order).result()
    assert not config.output.exists()


def test_what_another_process_trains_is_left_to_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "MAX_LOCK_SECONDS", 0.0)
    config = trainings.config(model, tmp_path / "tasks", tmp_path / "out" / "seed-0")
    (tmp_path / "out").mkdir()
    write_mark(tmp_path / "out", "a mark")
    with TrainFolder(config.output).locked(), pytest.raises(FolderInUse):
        execute(TrainingOrder(config, str(tmp_path), {}, "a mark")).result()


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (TrainingOutcome(error="the loss is not a number"), TrainError),
        (TrainingOutcome(error="being trained", in_use=True), FolderInUse),
        (TrainingOutcome(error="Traceback …", is_bug=True), RuntimeError),
    ],
)
def test_errors_of_a_machine_are_those_of_a_process(outcome: TrainingOutcome, error: type[Exception]) -> None:
    with pytest.raises(error, match=outcome.error):
        outcome.result()


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--workers", "2", "--seeds", "2"), "--workers is for a cluster; give --ray too, or leave it out"),
        (("--ray", "auto"), "--ray spreads whole trainings; give --seeds or --grid too, or leave it out"),
    ],
)
def test_flags_that_do_not_go_together(
    flags: tuple[str, ...], complaint: str, tmp_path: Path, warm_start: None
) -> None:
    done = figeval("train", "--task", "x", "--model", "y", "--output", "z", *flags, cwd=tmp_path, code=2)
    assert done.stderr == f"figeval: {complaint}\n"
