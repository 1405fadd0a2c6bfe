"""What is on disk at any moment can be gone on from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from safetensors import SafetensorError

from figeval import RecordError, TrainError
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.selection import Evaluation
from figeval.wings.training.train_folder import TrainFolder
from tests.cli.conftest import Cli
from tests.wings.training.linear import config


def keep(folder: TrainFolder, step: int) -> None:
    def model(folder: Path) -> dict[str, object]:
        (folder / "model.safetensors").write_text(f"weights {step}")
        return {"kind": "encoder"}

    def state(folder: Path) -> None:
        (folder / "state.safetensors").write_text(f"state {step}")

    folder.write_checkpoint(step, model, state)


def names(folder: TrainFolder) -> list[str]:
    return sorted(step_folder.name for step_folder in folder.traces.glob("step-*"))


def test_only_the_best_and_the_last_stay_and_only_the_last_can_go_on(tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "out")
    with folder.locked():
        progress = folder.begin(config(folder.path))
        for step in (1, 2, 3):
            keep(folder, step)
            progress.step, progress.best = step, 1
            progress.evaluations = [Evaluation(step=1, scores={"acc": 1.0})]
            folder.commit(progress)
    assert names(folder) == ["step-000001", "step-000003"]
    assert not (folder.checkpoint_folder(1) / "state").exists()
    assert (folder.checkpoint_folder(3) / "state" / "state.safetensors").exists()
    assert folder.read_progress() == progress


def test_it_goes_on_with_the_same_examples_only(tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "out")
    with folder.locked():
        folder.commit(folder.begin(config(folder.path), "0123").model_copy(update={"step": 1}))
        assert folder.begin(config(folder.path), "0123").data == "0123"
        with pytest.raises(TrainError, match=r"out was started on other examples .*; choose another --output"):
            folder.begin(config(folder.path), "4567")


def test_it_goes_on_with_the_same_prompts_only(tmp_path: Path) -> None:
    """Such as one that was begun before training read prompts."""
    folder, prompts = TrainFolder(tmp_path / "out"), {"query": "ask: ", "document": ""}
    with folder.locked():
        folder.commit(folder.begin(config(folder.path)).model_copy(update={"step": 1}))
        with pytest.raises(TrainError, match=r"started without prompts, .* 'ask: ' \(query\); choose another --output"):
            folder.begin(config(folder.path), prompts=prompts)
        folder.commit(folder.begin(config(folder.path)).model_copy(update={"prompts": prompts}))
        assert folder.begin(config(folder.path), prompts=prompts).prompts == prompts


def test_a_checkpoint_that_nobody_committed_is_written_over(tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "out")
    with folder.locked():
        folder.begin(config(folder.path))
        keep(folder, 1)
        (folder.checkpoint_folder(1) / "model.safetensors").write_text("half")
        keep(folder, 1)
    assert (folder.checkpoint_folder(1) / "model.safetensors").read_text() == "weights 1"


def test_the_model_comes_on_top_and_can_be_written_over_there(tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "out")
    with folder.locked():
        folder.begin(config(folder.path))
        keep(folder, 1)
        folder.publish(1)
        keep(folder, 2)
        folder.publish(2)
    assert (folder.path / "model.safetensors").read_text() == "weights 2"
    assert (folder.checkpoint_folder(1) / "model.safetensors").read_text() == "weights 1"


def test_the_history_forgets_what_was_not_kept(tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "out")
    folder.traces.mkdir(parents=True)
    for step in (1, 2, 3):
        folder.append_history(step=step, loss=step / 2)
    with folder.history_file.open("a") as stream:
        stream.write('{"step": 4, "lo')
    folder.truncate_history(2)
    assert folder.history_file.read_text() == '{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 1.0}\n'


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lerning_rate": "1"}, "unknown key 'lerning_rate'"),
        ({"lr": "fast"}, "lr must be a number"),
        ({"holdout": "1"}, "holdout must be less than 1"),
        ({"deepspeed": "zero2", "fsdp": True}, "choose one"),
        ({"nodes": "2"}, "--master"),
        ({"holdout": "0"}, "--select_on none"),
        ({"lr": None}, "--lr"),
    ],
)
def test_a_wrong_config_is_one_line(options: dict[str, object], words: str, cli: Cli, tmp_path: Path) -> None:
    settings = {"task": "t", "model": "m", "output": "o", **options}
    (tmp_path / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
    assert words in cli("train", "--config", "config.yaml").complaint


@pytest.mark.parametrize("value", [None, [], "x", 3])
def test_what_is_no_mapping_is_no_config(value: object) -> None:
    with pytest.raises(ValidationError):
        TrainConfig.model_validate(value)


def test_a_missing_flag_is_named(cli: Cli) -> None:
    assert "--task is missing" in cli("train", "--model", "m", "--output", "o").complaint


def test_a_damaged_progress_file_is_told(tmp_path: Path) -> None:
    folder = TrainFolder(tmp_path / "out")
    folder.traces.mkdir(parents=True)
    folder.progress_file.write_text("{")
    with pytest.raises(TrainError, match=r"not valid JSON.*choose another --output"):
        folder.begin(config(folder.path))


def test_a_full_disk_is_one_line_and_costs_no_checkpoint(tmp_path: Path) -> None:
    """Also where safetensors reports it, whose error is no `OSError`."""
    folder = TrainFolder(tmp_path / "out")

    def full(folder: Path) -> dict[str, object]:
        (folder / "model.safetensors").write_text("half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    with folder.locked():
        folder.commit(folder.begin(config(folder.path)))
        keep(folder, 1)
        words = f"no space left for {folder.path}; what was written is kept: free some space and run the same command"
        with pytest.raises(RecordError, match=words):
            folder.write_checkpoint(2, full, lambda _folder: None)
    assert [step_folder.name for step_folder in folder.traces.glob("step*")] == ["step-000001"], (
        "half a one takes no room"
    )


def test_what_is_wrong_with_a_folder_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    file, foreign, other = (TrainFolder(tmp_path / name) for name in ("file", "foreign", "other"))
    file.path.write_text("text")
    foreign.path.mkdir()
    (foreign.path / "letter.txt").write_text("text")
    with other.locked():
        other.commit(other.begin(config(other.path, seed=7)).model_copy(update={"step": 1}))
    for folder, words in (
        (file, "file is not a folder; move it away or choose another --output"),
        (foreign, "foreign contains 'letter.txt' but no training; move it away"),
        (other, r"other contains another training \(.*config.yaml\); move it away"),
    ):
        with pytest.raises(TrainError, match=words):
            folder.check(config(folder.path))
    assert [path.name for path in foreign.path.iterdir()] == ["letter.txt"]
    assert TrainFolder(tmp_path / "new").check(config(tmp_path / "new")) is None
