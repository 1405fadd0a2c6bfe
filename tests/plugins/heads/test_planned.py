"""Heads on an accelerator: passes planned by cost, of which there are fewer, have the losses of those of a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plugins.heads.small import TASKS, Small, examples_of, small
from tests.trainings import read_losses
from tests.wings.training.gauges import MadeUp, gauge

HEADS = {
    "ranking": ("mini_retrieval", {"head_args": {"pooling": "mean"}}),
    "joint": ("mini_joint", {"head_args": {"pooling": "mean"}}),
    "pairs": ("mini_pairs", {"head": "biencoder", "head_args": {"pooling": "mean"}}),
    "spans": ("mini_alignment", {}),
}


def losses(ground: Small, name: str, changes: dict[str, Any]) -> tuple[list[float], dict[str, Any]]:
    steps = {"epochs": 1, "evaluate_every": 1, "batch_size": 8, "select_on": "none"}
    trained = ground.train(output=ground.folder / name, evaluate=(), **steps | changes)
    return read_losses(trained.path), trained.to_dict()["passes"]


@pytest.mark.parametrize(
    "task_type", [pytest.param(name, marks=[pytest.mark.slow] * (name != "ranking")) for name in HEADS]
)
def test_fewer_passes_have_the_same_losses(tmp_path: Path, task_type: str) -> None:
    task, changes = HEADS[task_type]
    assert task_type in TASKS
    ground = small(tmp_path / "small", task_type, examples_of(task, 16))
    expected, before = losses(ground, "cpu", {**changes, "tokens_per_batch": 100})
    with gauge(MadeUp(per_pass=1.0, per_token=0.001)):
        planned, after = losses(ground, "planned", changes)
    assert planned == pytest.approx(expected, abs=1e-5)
    assert after["per_step"] < before["per_step"]
    assert (after["seconds_per_pass"], after["seconds_per_token"]) == pytest.approx((1.0, 0.001))
    assert "seconds_per_pass" not in before
