"""The loop on a linear layer: it learns, goes on exactly where it was cut off, stops at a loss that is no number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from figeval import TrainError
from figeval.wings.training.loop import train
from figeval.wings.training.selection import SelectionCriterion
from figeval.wings.training.train_folder import Progress, TrainFolder
from tests.wings.training.linear import Heard, Linear, Vectors, config, job, processes

STEPS = 4 * 6  # 42 examples in steps of 8


def train_linear(output: Path, heard: Heard | None = None, learner: Linear | None = None, **changes: Any) -> Progress:
    train_config = config(output, **changes)
    return train(job(train_config, heard or Heard(), learner), processes(train_config))


def weights(folder: Path) -> dict[str, Any]:
    return dict(load_file(folder / "model.safetensors"))


def test_it_learns_and_says_how(tmp_path: Path) -> None:
    heard = Heard()
    progress = train_linear(tmp_path / "out", heard, lr=0.5, patience=None)
    assert progress.complete and progress.step == heard.total == STEPS
    assert heard.losses[-1] < heard.losses[0] / 10
    lines = [json.loads(line) for line in (tmp_path / "out/training/history.jsonl").read_text().splitlines()]
    assert [line["loss"] for line in lines if "loss" in line] == heard.losses
    scores = [evaluation.scores for evaluation in progress.evaluations]
    assert [line["scores"] for line in lines if "scores" in line] == [progress.before, *scores]
    assert progress.before["loss"] > scores[0]["loss"]  # type: ignore[index, operator]
    assert heard.lines[:2] == [
        f"step 0: loss {progress.before['loss']:.4f} (before training)",  # type: ignore[index]
        f"step 6: loss {scores[0]['loss']:.4f} (best so far)",
    ]
    assert [evaluation.step for evaluation in progress.evaluations] == [6, 12, 18, 24], (
        "the model before training is no candidate"
    )
    declared = json.loads((tmp_path / "out/figeval.json").read_text())
    assert declared == {"kind": "encoder", "about": {"step": progress.best}}


@pytest.mark.parametrize(
    ("optimizer", "cut"),
    [("adamw", 1), ("adamw", 6), ("adafactor", 7), ("adafactor", 17)],  # epochs have six steps
)
def test_a_training_that_was_cut_off_ends_with_the_same_weights(tmp_path: Path, cut: int, optimizer: str) -> None:
    learner = Linear(dropout=0.3)
    changes: dict[str, Any] = {"optimizer": optimizer, "patience": None}
    uninterrupted = Heard()
    train_linear(tmp_path / "whole", uninterrupted, learner, **changes)
    with pytest.raises(KeyboardInterrupt):
        train_linear(tmp_path / "cut", Heard(cut=cut), learner, **changes)
    rest = Heard()
    train_linear(tmp_path / "cut", rest, learner, **changes)
    (start,) = rest.began_at
    assert start == (0 if cut == 6 else cut // 6 * 6)
    assert rest.losses == uninterrupted.losses[start:]
    left, right = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(left[name].equal(right[name]) for name in left)
    histories = [(tmp_path / name / "training/history.jsonl").read_text().splitlines() for name in ("whole", "cut")]
    describe_preset = [[json.loads(line).get("loss") for line in lines] for lines in histories]
    assert describe_preset[0] == describe_preset[1]
    assert [sum('"step": 0,' in line for line in lines) for lines in histories] == [1, 1]


def test_the_score_before_training_is_kept_and_another_config_may_still_take_the_folder(tmp_path: Path) -> None:
    """Killed in the first epoch: there is no checkpoint, so nothing of value would be overwritten."""
    with pytest.raises(KeyboardInterrupt):
        train_linear(tmp_path / "out", first := Heard(cut=1))
    again = Heard()
    progress = train_linear(tmp_path / "out", again, max_steps=None)
    assert first.lines == [f"step 0: loss {progress.before['loss']:.4f} (before training)"]  # type: ignore[index]
    assert (first.lines[0] in again.lines, again.began_at) == (False, [0])
    with pytest.raises(KeyboardInterrupt):
        train_linear(tmp_path / "other", Heard(cut=1))
    other = Heard()
    assert train_linear(tmp_path / "other", other, lr=0.1).before == progress.before
    assert first.lines[0] in other.lines
    history = (tmp_path / "other/training/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["scores"] for line in history if '"step": 0,' in line] == [progress.before]


def test_the_history_has_the_scores_before_they_are_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill between the two lost them: what is noted and not committed is forgotten, and computed again."""
    commit = TrainFolder.commit

    def cut(folder: TrainFolder, progress: Progress) -> None:
        commit(folder, progress)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TrainFolder, "commit", cut)
        train_linear(tmp_path / "cut")
    train_linear(tmp_path / "cut")
    train_linear(tmp_path / "whole")
    histories = [(tmp_path / name / "training/history.jsonl").read_text().splitlines() for name in ("cut", "whole")]
    scores = [[line for line in map(json.loads, lines) if "scores" in line] for lines in histories]
    assert scores[0] == scores[1] != []


def test_without_examples_to_choose_on_nothing_is_scored_before_training(tmp_path: Path) -> None:
    heard = Heard()
    train_config = config(tmp_path / "out", select_on="none")
    assert train(replace(job(train_config, heard), dev=None), processes(train_config)).before is None
    assert not any("before training" in line for line in heard.lines)


def test_without_bias_correction_resume_is_exact_too(tmp_path: Path) -> None:
    train_linear(tmp_path / "whole", bias_correction=False)
    with pytest.raises(KeyboardInterrupt):
        train_linear(tmp_path / "cut", Heard(cut=9), bias_correction=False)
    train_linear(tmp_path / "cut", bias_correction=False)
    left, right = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(left[name].equal(right[name]) for name in left)


def test_a_network_without_a_pretrained_model_has_no_place_for_adapters(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="no transformers model to add adapters to"):
        train_linear(tmp_path / "out", lora=2)


def test_the_size_of_batches_changes_no_loss(tmp_path: Path) -> None:
    """A step is divided by what the whole of it weighs, however it is cut."""
    small, large = Heard(), Heard()
    train_linear(tmp_path / "small", small, tokens_per_batch=1)
    train_linear(tmp_path / "large", large, tokens_per_batch=1000)
    assert small.losses == pytest.approx(large.losses, rel=1e-4)


def test_a_complete_training_is_not_trained_again(tmp_path: Path) -> None:
    train_linear(tmp_path / "out")
    again = Heard()
    assert train_linear(tmp_path / "out", again).complete
    assert again.losses == []


def test_it_stops_when_nothing_gets_better_and_keeps_the_best(tmp_path: Path) -> None:
    heard = Heard()
    progress = train_linear(
        tmp_path / "out", heard, lr=1e-9, patience=2, epochs=30, weight_decay=0.0, schedule="constant"
    )
    losses = [evaluation.scores["loss"] for evaluation in progress.evaluations]
    best = losses.index(min(losses))  # type: ignore[type-var]
    assert progress.best == 6 * (best + 1)
    if progress.step < heard.total:
        assert len(losses) - 1 - best == 2
        assert "no improvement" in progress.end_reason
    assert (tmp_path / "out" / "training" / f"step-{progress.best:06d}").is_dir()


@pytest.mark.parametrize(
    ("scores", "patience", "best", "end"),
    [
        ([(0.5, 0.6), (0.5, 0.7), (0.4, 0.9), (0.5, 0.7)], None, 12, 24),  # later metrics break ties
        ([(None, 0.9), (0.0, 0.0), (None, 1.0), (None, 1.0)], None, 12, 24),  # no score is worse than any
        ([(0.5, 0.0), (0.4, 0.0), (0.3, 0.0), (0.9, 0.0)], 2, 6, 18),
        ([(0.5, 0.0), (0.4, 0.0), (0.6, 0.0), (0.5, 0.0)], 2, 18, 24),
    ],
)
def test_the_best_by_several_metrics_is_kept(
    scores: list[tuple[float | None, float]], patience: int | None, best: int, end: int, tmp_path: Path
) -> None:
    remaining = [(0.0, 0.0), *scores]  # before training, and of every epoch
    by_metrics = replace(
        job(config(tmp_path / "out", patience=patience), Heard()),
        criterion=SelectionCriterion(metrics=(("acc", True), ("mrr", True))),
        score=lambda *_: dict(zip(("acc", "mrr"), remaining.pop(0), strict=True)),
        dev=None,
    )
    progress = train(by_metrics, processes(by_metrics.config))
    assert (progress.best, progress.step) == (best, end)


def test_without_selection_the_last_one_is_the_model(tmp_path: Path) -> None:
    heard = Heard()
    progress = train_linear(tmp_path / "out", heard, select_on="none")
    assert (progress.best, progress.evaluations) == (None, [])
    assert [line.partition(":")[0] for line in heard.lines] == ["step 0"]
    last = tmp_path / "out/training" / f"step-{STEPS:06d}"
    assert all(tensor.equal(weights(last)[name]) for name, tensor in weights(tmp_path / "out").items())


def test_a_loss_that_is_no_number_stops_it_and_names_the_batch(tmp_path: Path) -> None:
    train_config = config(tmp_path / "out", batch_size=4)
    spoilt = job(train_config, Heard(), train=Vectors(42, 1, spoilt=[17]))
    with pytest.raises(TrainError, match=r"loss of step \d+ is nan.*row 17") as raised:
        train(spoilt, processes(train_config))
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out" / "model.safetensors").exists()


def test_the_last_good_checkpoint_outlives_it(tmp_path: Path) -> None:
    """It goes wrong in the third epoch: what was kept after the second one is still there."""

    class Spoiling(Vectors):
        def batch(self, rows: Sequence[int], draw: int) -> dict[str, Any]:
            seen.add(draw)
            batch = super().batch(rows, draw)
            return {**batch, "y": batch["y"] * float("nan")} if len(seen) > 2 else batch

    seen: set[int] = set()
    train_config = config(tmp_path / "out")
    with pytest.raises(TrainError, match=r"loss of step 13 is nan.*step 12 is kept"):
        train(job(train_config, Heard(), train=Spoiling(42, 1)), processes(train_config))
    assert [checkpoint.name for checkpoint in (tmp_path / "out/training").glob("step-*")] == ["step-000012"]
    assert TrainFolder(tmp_path / "out").read_progress().step == 12


def test_another_training_s_folder_is_refused(tmp_path: Path) -> None:
    train_linear(tmp_path / "out")
    with pytest.raises(TrainError, match="another training"):
        train_linear(tmp_path / "out", lr=0.1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(TrainError, match=r"thesis\.tex"):
        train_linear(tmp_path / "full")


def test_two_trainings_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with TrainFolder(tmp_path / "out").locked(), pytest.raises(TrainError, match="another training is writing"):
        train_linear(tmp_path / "out")


def test_devices_and_precision_that_are_not_there(tmp_path: Path) -> None:
    for changes, words in (
        ({"device": "cuda"}, "not available on this machine"),
        ({"device": "cpo"}, "did you mean 'cpu'"),
        ({"mixed_precision": "bf16"}, "far slower"),
        ({"trackers": ["tensorbord"]}, "did you mean 'tensorboard'"),
        ({"trackers": ["dvclive"]}, "pip install dvclive"),
    ):
        with pytest.raises(TrainError, match=words):
            processes(config(tmp_path / "out", **changes))


def test_the_last_checkpoint_has_no_state_since_nothing_goes_on_from_it(tmp_path: Path) -> None:
    def states(output: Path) -> list[str]:
        return [file.parent.parent.name for file in sorted(output.glob("training/step-*/state/*"))]

    with pytest.raises(KeyboardInterrupt):
        train_linear(tmp_path / "cut", Heard(cut=8))
    assert states(tmp_path / "cut") == ["step-000006"]
    train_linear(tmp_path / "cut")
    train_linear(tmp_path / "whole")
    assert states(tmp_path / "cut") == states(tmp_path / "whole") == []


@pytest.mark.parametrize("changes", [{}, {"lr": 1e-9, "weight_decay": 0.0, "patience": 1, "epochs": 30}])
def test_killed_after_its_last_checkpoint_it_only_puts_the_model_in_place(
    tmp_path: Path, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(TrainFolder, "publish", interrupt)
        train_linear(tmp_path / "out", **changes)
    assert not (tmp_path / "out/model.safetensors").exists()
    again = Heard()
    progress = train_linear(tmp_path / "out", again, **changes)
    assert progress.complete and again.losses == []
    assert (tmp_path / "out/model.safetensors").exists()


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt
