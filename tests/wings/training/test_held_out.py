"""The score on held-out examples that a training writes into the folder of its model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import Harness
from tests.plugins.tiny import LINES, Workshop
from tests.trainings import train

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


Train = Callable[..., figeval.Training]


@pytest.fixture
def train_pairs(tiny: Path, tmp_path: Path) -> Train:
    """Two steps on pairs of lines; no pair is in two splits, but the first `seen` ones of train are also in test."""

    def write_split(split: str, seen: int = 0) -> None:
        rows = [
            {
                "id": f"{n}", "left": line, "right": f"{'train' if n < seen else split} {n}",
                "label": ("first", "second")[n % 2],
            }
            for n, line in enumerate(LINES)
        ]  # fmt: skip
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "tasks" / f"{split}.jsonl").write_text(text, encoding="utf-8")

    def train_model(seen: int = 0, **changes: Any) -> figeval.Training:
        (tmp_path / "tasks").mkdir(exist_ok=True)
        (tmp_path / "tasks" / "follows.task.yaml").write_text(TASK, encoding="utf-8")
        for split in ("train", "dev"):
            write_split(split)
        write_split("test", seen)
        options = {"include_path": tmp_path / "tasks", "max_steps": 2, "batch_size": 4}
        return train("follows", tiny, tmp_path / "out", **options | changes)

    return train_model


def held_out(trained: figeval.Training) -> Any:
    declared = json.loads((trained.path / "figeval.json").read_text(encoding="utf-8"))
    return declared["about"].get("held_out")


def fingerprint(trained: figeval.Training) -> str:
    with Harness().open_model(str(trained.path), {}) as model:
        return model.fingerprint()


def test_it_is_the_first_score_on_test_and_changes_no_fingerprint(train_pairs: Train) -> None:
    trained = train_pairs()
    score = trained.run.record.tasks[0].scores[0]
    keys = ("metric", "value", "low", "high", "n", "clusters")
    assert held_out(trained) == {"task": "follows", "split": "test", **{key: getattr(score, key) for key in keys}}
    assert fingerprint(trained) == trained.run.record.model.fingerprint
    assert train_pairs().run.record.tasks[0].scores == trained.run.record.tasks[0].scores


def test_a_model_of_an_older_figeval_gets_it_from_the_same_command(train_pairs: Train) -> None:
    trained = train_pairs()
    file = trained.path / "figeval.json"
    fresh, before = held_out(trained), fingerprint(trained)
    declared = json.loads(file.read_text(encoding="utf-8"))
    del declared["about"]["held_out"]
    file.write_text(json.dumps(declared, indent=2) + "\n", encoding="utf-8")
    assert fingerprint(trained) == before
    train_pairs()
    assert held_out(trained) == fresh
    declared["about"]["seed"] = 7  # all else counts
    file.write_text(json.dumps(declared, indent=2) + "\n", encoding="utf-8")
    assert fingerprint(trained) != before


def test_without_a_run_at_the_end_it_is_that_of_dev(train_pairs: Train) -> None:
    trained = train_pairs(evaluate=())
    assert trained.run is None
    score = held_out(trained)
    assert (score["split"], score["metric"], score["n"], score["low"]) == ("dev", "acc", len(LINES), None)


def test_a_score_that_is_a_maximum_is_not_held_out(train_pairs: Train) -> None:
    assert held_out(train_pairs(select_on="test")) is None


def test_of_seen_and_unseen_examples_the_unseen_ones_count(train_pairs: Train) -> None:
    trained = train_pairs(seen=2)
    unseen = trained.run.record.tasks[0].overlap.scores[0]
    assert (held_out(trained)["value"], held_out(trained)["n"]) == (unseen.value, len(LINES) - 2)


def test_where_every_example_was_seen_the_score_of_dev_counts(train_pairs: Train) -> None:
    assert held_out(train_pairs(seen=len(LINES)))["split"] == "dev"
