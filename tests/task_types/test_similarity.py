"""Routes of the task type similarity, put to scripted backends, and what a run makes of them."""

from __future__ import annotations

import json
import math
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from figeval import (
    CapabilityError,
    Prediction,
    PromptContext,
    RunConfig,
    RunRecord,
    SimilarityExample,
    TaskError,
)
from figeval.testing import harness, predict
from tests.fakes import FakeEncoder, FakeLanguageModel, FakePairScorer
from tests.finished_runs import execute
from tests.runs.conftest import Models
from tests.typed import bound, choose_route, find_route

EXAMPLE = SimilarityExample(id="1", text="the cat sat", category="m", anchors=("a dog", "the cat", "cat"))
VECTORS = {"the cat sat": (2.0, 0.0), "a dog": (0.0, 1.0), "the cat": (1.0, 1.0), "cat": (-1.0, 0.0)}


def render(block: str, _example: Any, **extra: Any) -> str:
    return "Q" if block == "context" else f" {extra['option']}"


def answer(route: str, backend: Any, example: SimilarityExample = EXAMPLE) -> Prediction:
    (prediction,) = predict(find_route("similarity", route), backend, [example], PromptContext(render))
    return prediction


def test_cosines_to_the_anchors_are_stored_as_they_are() -> None:
    prediction = answer("by_distribution", FakeEncoder(function=VECTORS.__getitem__))
    assert prediction.scores == pytest.approx((0.0, math.sqrt(0.5), -1.0), abs=1e-15)
    assert prediction.value == 1  # the nearest anchor


def test_dot_products_for_models_that_were_trained_with_them() -> None:
    prediction = answer("by_distribution_dot", FakeEncoder(function=VECTORS.__getitem__))
    assert prediction.scores == (0.0, 2.0, -2.0)


def test_scores_of_a_model_of_pairs() -> None:
    prediction = answer("by_distribution_score", FakePairScorer())
    assert (prediction.scores, prediction.status) == ((0.0, 2.0, 1.0), "ok")


def test_log_likelihoods_of_the_anchors() -> None:
    backend = FakeLanguageModel()
    prediction = answer("by_distribution_likelihood", backend)
    assert [(r.context, r.continuation) for r in backend.asked] == [("Q", " a dog"), ("Q", " the cat"), ("Q", " cat")]
    assert prediction.scores == (-6.0, -8.0, -4.0)


def test_the_embedding_itself() -> None:
    prediction = answer("by_embedding", FakeEncoder(function=VECTORS.__getitem__))
    assert (prediction.scores, prediction.value, prediction.status) == ((2.0, 0.0), None, "ok")


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_an_embedding_that_is_no_number_is_told_apart(broken: float) -> None:
    prediction = answer("by_embedding", FakeEncoder(function=lambda text: (1.0, broken)))
    assert prediction.status == "nan"
    assert answer("by_distribution", FakeEncoder(function=lambda text: (1.0, math.nan))).status == "nan"


def test_without_anchors_there_is_no_distribution() -> None:
    bare = SimilarityExample(id="7", text="t", category="m")
    with pytest.raises(TaskError, match=r"'7' has no anchors.*`anchors`, or `route: by_embedding`"):
        answer("by_distribution_score", FakePairScorer(), bare)
    assert answer("by_embedding", FakeEncoder(), bare).status == "ok"


@pytest.mark.parametrize(
    ("offered", "name"),
    [
        ({"embed", "dot"}, "by_distribution_dot"),
        ({"embed"}, "by_distribution"),
        ({"score_pairs"}, "by_distribution_score"),
        ({"loglikelihood"}, "by_distribution_likelihood"),
    ],
)
def test_which_route_is_taken(offered: set[str], name: str) -> None:
    assert choose_route("similarity", offered).name == name


# ---- a whole run -----------------------------------------------------------------------------------------------------

TASK = """
name: {name}
type: similarity
data: {{test: "jsonl:rows.jsonl"}}
fields: {{id: row.id, text: row.text, category: row.motif{anchors}}}
metrics: [{metrics}]
baselines: [{baselines}]
{more}
"""
ROWS = [("1", "1 2", "a"), ("2", "1 4", "a"), ("3", "1 8", "b"), ("4", "1 8.5", "b")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tasks over four texts, whose two numbers are their embedding, and their scores against two unit anchors."""
    texts = [{"id": key, "text": text, "motif": group, "anchors": ["1 0", "0 1"]} for key, text, group in ROWS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    for name, anchors, metrics, baselines, extra_fields in (
        ("near", ", anchors: row.anchors", "acc_l1, acc_jsd, tied_l1", "chance", ""),
        ("direct", ", anchors: row.anchors", "acc_l2", "chance", "route: by_embedding"),
        ("bare", "", "acc_l2", "", ""),
    ):
        task = TASK.format(name=name, anchors=anchors, metrics=metrics, baselines=baselines, more=extra_fields)
        (tmp_path / f"{name}.task.yaml").write_text(task)
    (tmp_path / "all.suite.yaml").write_text("name: all_of_them\ntasks: [near, direct]\n")
    return tmp_path


class Numbers(FakeEncoder):
    similarity = "dot"


def ran(folder: Path, *tasks: str, model: str = "numbers", **settings: Any) -> RunRecord:
    models = Models(numbers=Numbers(function=lambda text: tuple(map(float, text.split()))))
    output = folder / sha256(repr((tasks, settings)).encode()).hexdigest()
    config = RunConfig(tasks=tasks, model=model, output_path=output, **settings)
    return execute(config, harness("figeval.builtin.plugins.baselines", models, include=(folder,)))


def values(record: RunRecord) -> dict[str, float | None]:
    return {score.metric: score.value for score in record.tasks[0].scores}


def test_distributions_at_the_temperature_that_was_asked_for(folder: Path) -> None:
    # Softmax of (1, 2), (1, 4), (1, 8), (1, 8.5): the second is nearest to the third at 1, to the first at 1000.
    record = ran(folder, "near")
    assert record.tasks[0].route == "by_distribution_dot"
    assert record.tasks[0].settings["temperature"] == 1.0
    assert values(record) == {"acc_l1": 0.75, "acc_jsd": 0.75, "tied_l1": 0.0}
    warm = ran(folder, "near", settings={"near.temperature": 1000})
    assert warm.tasks[0].settings["temperature"] == 1000.0
    assert warm.identity != record.identity
    assert values(warm) == {"acc_l1": 1.0, "acc_jsd": 1.0, "tied_l1": 0.0}


def test_chance_is_exact_whatever_the_route(folder: Path) -> None:
    for record in (ran(folder, "near"), ran(folder, "direct")):
        (baseline,) = record.tasks[0].baselines
        assert {score.value for score in baseline.scores if score.metric.startswith("acc")} == {1 / 3}
        assert {score.low for score in baseline.scores} == {None}


def test_embeddings_have_no_temperature(folder: Path) -> None:
    record = ran(folder, "direct")
    assert "temperature" not in record.tasks[0].settings
    assert values(record) == {"acc_l2": 1.0}
    with pytest.raises(TaskError, match="direct takes the route by_embedding, which has no settings"):
        ran(folder, "direct", settings={"temperature": 0.5})


def test_what_cannot_be_is_said_before_the_run(folder: Path) -> None:
    with pytest.raises(TaskError, match="no anchors"):
        ran(folder, "bare")
    assert values(ran(folder, "bare", routes={"similarity": "by_embedding"})) == {"acc_l2": 1.0}
    with pytest.raises(CapabilityError, match="similarity has no route 'by_embeding'; did you mean 'by_embedding'"):
        ran(folder, "bare", routes={"similarity": "by_embeding"})


def test_jensen_shannon_distances_are_not_asked_of_embeddings(folder: Path) -> None:
    record = ran(folder, "near", routes={"similarity": "by_embedding"})
    assert set(values(record)) == {"acc_l1", "tied_l1"}


def test_a_suite_does_without_the_task_whose_route_the_model_cannot_go(folder: Path) -> None:
    record = ran(folder, "all_of_them", model="overlap")
    assert [task.task for task in record.tasks] == ["near"]
    assert [omission.tasks for omission in record.left_out] == [["direct"]]


@pytest.mark.parametrize("temperature", [0, -1.5])
def test_a_temperature_that_is_not_positive_is_one_line(temperature: float) -> None:
    keys: dict[str, Any] = {"name": "near", "type": "similarity", "data": {"test": "jsonl:t.jsonl"}}
    keys["fields"] = {"id": "row.id", "text": "row.t", "category": "row.m", "anchors": "row.a"}
    assert bound(**keys, settings={"temperature": 0.5}).settings == {"temperature": 0.5}
    message = rf"^near\.task\.yaml: the setting 'temperature' is {temperature}; it must be above 0$"
    with pytest.raises(TaskError, match=message):
        bound(**keys, settings={"temperature": temperature}, origin="near.task.yaml")
