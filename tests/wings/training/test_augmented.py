"""Trainings on augmented examples: what is learned from, what is remembered, and what a run without it is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from figeval import FigevalError, Harness, RunConfig, TrainError
from figeval.io.observer import Observer
from figeval.runs.run import run
from figeval.wings.training.pipeline import complete_training
from figeval.wings.training.task_training import plan_training
from tests import trainings
from tests.plugins.tiny import Workshop
from tests.wings.training.test_sweep import Heard


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Workshop(tmp_path_factory.mktemp("models"))("bert", "Model")
    (folder / "figeval.json").write_text('{"kind": "encoder", "pooling": "mean"}', encoding="utf-8")
    return folder


@pytest.fixture
def augment(model: Path) -> dict[str, Any]:
    """The model in training embeds, and an untrained one is good enough to retrieve with."""
    return {"add": "neighbours", "k": 2, "retriever": f"encoder:{model}"}


def test_the_model_sees_what_was_retrieved_and_digests_are_of_the_task(
    model: Path, augment: dict[str, Any], tmp_path: Path
) -> None:
    config = trainings.config(model, tmp_path / "tasks", tmp_path / "out", augment=augment)
    training = plan_training(config, Harness(include=config.include_path), "cpu")
    plain, shown = training.splits, training.model_splits
    answers = {example.candidates[min(example.relevant)] for example in plain.train}  # type: ignore[attr-defined]
    for before, after in zip([*plain.train, *plain.dev], [*shown.train, *shown.dev], strict=True):
        added, _, query = after.query.partition("\n")  # type: ignore[attr-defined]
        assert query == before.query and before.id == after.id  # type: ignore[attr-defined]
        assert sum(answer in added for answer in answers) >= 1
    without = plan_training(config.model_copy(update={"augment": {}}), Harness(include=config.include_path), "cpu")
    assert plain.digests == without.splits.digests
    assert without.model_splits is without.splits


@pytest.mark.slow
def test_a_run_in_another_way_than_the_model_was_trained_is_warned_of(
    model: Path, augment: dict[str, Any], tmp_path: Path
) -> None:
    config = trainings.config(model, tmp_path / "tasks", tmp_path / "out", augment=augment)
    heard = Heard()
    record = complete_training(config, heard)
    assert record is not None
    assert record.tasks[0].settings["augment"]["k"] == 2
    assert not any("augmented examples" in warning for warning in record.tasks[0].warnings)
    declared = json.loads((tmp_path / "out" / "figeval.json").read_text(encoding="utf-8"))
    assert declared["about"]["augment"]["add"] == "neighbours"
    run_config = RunConfig(
        tasks=("tiny_retrieval",),
        model=str(tmp_path / "out"),
        include_path=config.include_path,
        output_path=tmp_path / "plain",
        device="cpu",
        limit=4,
    )
    plain, _ = run(run_config, Harness(include=config.include_path), Observer())
    assert any(
        "is asked without augmentation; give --augment add=neighbours" in warning for warning in plain.tasks[0].warnings
    )


def test_another_augmentation_is_another_training(model: Path, augment: dict[str, Any], tmp_path: Path) -> None:
    configs = [
        trainings.config(model, tmp_path / "tasks", tmp_path / "out", augment=augmentation)
        for augmentation in ({}, augment, {**augment, "k": 3})
    ]
    assert len({config.identity() for config in configs}) == 3


def test_answers_of_another_split_are_not_learned_from(model: Path, augment: dict[str, Any], tmp_path: Path) -> None:
    config = trainings.config(model, tmp_path / "tasks", tmp_path / "out", augment={**augment, "from": "test"})
    with pytest.raises(FigevalError, match="from=test"):
        plan_training(config, Harness(include=config.include_path), "cpu")
    config = config.model_copy(update={"augment": {**augment, "from": "dev"}})
    with pytest.raises(TrainError, match="leave out from="):
        plan_training(config, Harness(include=config.include_path), "cpu")
