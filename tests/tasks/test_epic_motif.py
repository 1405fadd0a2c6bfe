"""epic_motif and epic_motif_direct on the real narratives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import figeval
from figeval import Harness, SimilarityExample
from tests.finished_runs import finished

TASKS = ("epic_motif", "epic_motif_direct")


def test_what_the_tasks_ask_for() -> None:
    task_set, direct = Harness().catalogue.expand(TASKS)
    assert (task_set.route, direct.route) == (None, "by_embedding")
    assert len(task_set.metrics) == 16
    assert [name for name in task_set.metrics if not name.endswith("_jsd")] == list(direct.metrics)
    assert task_set.fields == direct.fields


def test_four_narratives_of_each_proverb(real_data: str) -> None:
    harness = Harness()
    (task,) = harness.catalogue.expand(["epic_motif"])
    examples = list(harness.examples(task))
    assert len(examples) == 1000
    assert set(Counter(example.cluster for example in examples).values()) == {4}
    first = examples[0]
    assert isinstance(first, SimilarityExample)
    assert len(first.anchors) == 250
    assert first.category == first.cluster == first.meta["proverb"]
    assert {id(example.anchors) for example in examples if isinstance(example, SimilarityExample)} == {
        id(first.anchors)
    }
    assert first.text == first.text.strip().lower()


@pytest.mark.slow
def test_overlap_and_chance_on_all_of_them(real_data: str, tmp_path: Path) -> None:
    (task,) = figeval.load(finished(tmp_path / "run", "epic_motif")).record.tasks
    assert (task.status, task.route, task.n) == ("done", "by_distribution_score", 1000)
    scores = {score.metric: score for score in task.scores}
    assert scores["acc_cosine"].value == pytest.approx(0.004, abs=1e-12)
    assert scores["acc_l1"].value == pytest.approx(0.005, abs=1e-12)
    assert scores["acc_cosine"].clusters == 250
    chance = {score.metric: score.value for score in task.baselines[0].scores}
    assert chance["acc_jsd"] == pytest.approx(3 / 999, abs=1e-15)
    assert chance["recall@3_l1"] == pytest.approx(3 / 999, abs=1e-15)
    assert chance["tied_cosine"] == 1.0
