"""Trainings on augmented examples: what is learned from, what is remembered, and what a run without it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import FigevalError, TrainError
from tests import trainings
from tests.plugins.tiny import Workshop


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Workshop(tmp_path_factory.mktemp("models"))("bert", "Model")
    (folder / "figeval.json").write_text('{"kind": "encoder", "pooling": "mean"}', encoding="utf-8")
    return folder


@pytest.fixture
def augment(model: Path) -> dict[str, Any]:
    """The model in training embeds, and an untrained one is good enough to retrieve with."""
    return {"add": "neighbours", "k": 2, "retriever": f"encoder:{model}"}


@pytest.fixture
def train_augmented(model: Path, tmp_path: Path) -> Callable[..., figeval.Training]:
    def train(name: str = "out", **changes: Any) -> figeval.Training:
        return trainings.train(**trainings.settings(model, tmp_path / "tasks", tmp_path / name, **changes))

    return train


def test_the_model_sees_what_was_retrieved_and_digests_are_of_the_task(
    train_augmented: Any, augment: dict[str, Any]
) -> None:
    """The longer texts of other examples are learnt from, and what the model has seen are those of the task."""
    plain, augmented = train_augmented("plain", evaluate=()), train_augmented(augment=augment, evaluate=())
    records = plain.record, augmented.record
    assert records[0].train.sha256 == records[1].train.sha256
    assert records[0].dev.sha256 == records[1].dev.sha256
    assert (plain.path / "seen.txt").read_text().splitlines()[1:] == (
        (augmented.path / "seen.txt").read_text().splitlines()[1:]
    )
    assert augmented.to_dict()["augment"]["add"] == "neighbours"
    assert "augment" not in plain.to_dict()
    weights = [(training.path / "model.safetensors").read_bytes() for training in (plain, augmented)]
    assert weights[0] != weights[1], "what was retrieved is read"


@pytest.mark.slow
def test_a_run_in_another_way_than_the_model_was_trained_is_warned_of(
    train_augmented: Any, augment: dict[str, Any], tmp_path: Path
) -> None:
    trained = train_augmented(augment=augment)
    (task,) = trained.run.record.tasks
    assert task.settings["augment"]["k"] == 2
    assert not any("augmented examples" in warning for warning in task.warnings)
    declared = json.loads((trained.path / "figeval.json").read_text(encoding="utf-8"))
    assert declared["about"]["augment"]["add"] == "neighbours"
    options = {"include_path": tmp_path / "tasks", "output_path": tmp_path / "plain", "device": "cpu", "limit": 4}
    plain = trained.evaluate("tiny_retrieval", **options)
    assert any("is asked without augmentation; give --augment add=neighbours" in warning for warning in plain.warnings)


def test_another_augmentation_is_another_training(train_augmented: Any, augment: dict[str, Any]) -> None:
    train_augmented(augment=augment, evaluate=())
    for changes in ({}, {**augment, "k": 3}):
        with pytest.raises(TrainError, match="contains another training"):
            train_augmented(augment=changes, evaluate=())


def test_answers_of_another_split_are_not_learned_from(train_augmented: Any, augment: dict[str, Any]) -> None:
    with pytest.raises(FigevalError, match="from=test"):
        train_augmented(augment={**augment, "from": "test"})
    with pytest.raises(TrainError, match="leave out from="):
        train_augmented(augment={**augment, "from": "dev"})
