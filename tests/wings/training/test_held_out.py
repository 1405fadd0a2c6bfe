"""The score on held-out examples that a training writes into the folder of its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from figeval import Harness
from figeval.models.model import open_model
from figeval.records.schema import OverlapRecord
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.pipeline import complete_training, held_out_score
from tests import finished_runs
from tests.plugins.tiny import LINES, Workshop
from tests.wings.training.test_sweep import Heard

TASK = """
name: follows
type: pairs
labels: [first, second]
data: {train: "jsonl:train.jsonl", dev: "jsonl:dev.jsonl", test: "jsonl:test.jsonl"}
fields: {id: row.id, left: row.left, right: row.right, label: row.label}
metrics: [acc, macro_f1]
baselines: []
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Workshop(tmp_path_factory.mktemp("models"))("bert", "Model")


@pytest.fixture
def config(tiny: Path, tmp_path: Path) -> TrainConfig:
    """Two steps on pairs of lines; no pair is in two splits."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "follows.task.yaml").write_text(TASK, encoding="utf-8")
    for split in ("train", "dev", "test"):
        rows = [
            {"id": f"{n}", "left": line, "right": f"{split} {n}", "label": ("first", "second")[n % 2]}
            for n, line in enumerate(LINES)
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    values: dict[str, Any] = {"task": "follows", "model": str(tiny), "output": tmp_path / "out", "device": "cpu"}
    return TrainConfig.model_validate({**values, "include_path": (folder,), "max_steps": 2, "batch_size": 4})


def held_out(config: TrainConfig) -> Any:
    declared = json.loads((config.output / "figeval.json").read_text(encoding="utf-8"))
    return declared["about"].get("held_out")


def fingerprint(config: TrainConfig) -> str:
    return open_model(Harness().backends, str(config.output), {}).fingerprint()


def test_it_is_the_first_score_on_test_and_changes_no_fingerprint(config: TrainConfig) -> None:
    record = complete_training(config, Heard())
    assert record is not None
    score = record.tasks[0].scores[0]
    keys = ("metric", "value", "low", "high", "n", "clusters")
    assert held_out(config) == {"task": "follows", "split": "test", **{key: getattr(score, key) for key in keys}}
    assert fingerprint(config) == record.model.fingerprint
    again = complete_training(config, Heard())
    assert again is not None
    assert again.tasks[0].scores == record.tasks[0].scores


def test_a_model_of_an_older_figeval_gets_it_from_the_same_command(config: TrainConfig) -> None:
    complete_training(config, Heard())
    file = config.output / "figeval.json"
    fresh, before = held_out(config), fingerprint(config)
    declared = json.loads(file.read_text(encoding="utf-8"))
    del declared["about"]["held_out"]
    file.write_text(json.dumps(declared, indent=2) + "\n", encoding="utf-8")
    assert fingerprint(config) == before
    complete_training(config, Heard())
    assert held_out(config) == fresh
    declared["about"]["seed"] = 7  # all else counts
    file.write_text(json.dumps(declared, indent=2) + "\n", encoding="utf-8")
    assert fingerprint(config) != before


def test_without_a_run_at_the_end_it_is_that_of_dev(config: TrainConfig) -> None:
    config = config.model_copy(update={"evaluate": ()})
    assert complete_training(config, Heard()) is None
    score = held_out(config)
    assert (score["split"], score["metric"], score["n"], score["low"]) == ("dev", "acc", len(LINES), None)


def test_a_score_that_is_a_maximum_is_not_held_out(config: TrainConfig) -> None:
    config = config.model_copy(update={"select_on": "test"})
    complete_training(config, Heard())
    assert held_out(config) is None


def test_of_seen_and_unseen_examples_the_unseen_ones_count() -> None:
    rest = OverlapRecord(trained=2, chosen=0, rest=38, scores=[finished_runs.score(value=0.5, n=38)])
    seen = finished_runs.score(value=0.9, seen="trained", low=None, high=None)
    score = held_out_score(finished_runs.run(finished_runs.task(scores=[seen], overlap=rest)), "proverbs")
    assert (score["value"], score["n"]) == (0.5, 38)
    assert held_out_score(finished_runs.run(finished_runs.task(scores=[seen])), "proverbs") == {}
    assert held_out_score(finished_runs.run(finished_runs.task()), "another") == {}
    assert held_out_score(None, "proverbs") == {}
