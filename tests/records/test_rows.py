"""One line of predictions: typed numbers, NaN and infinity told apart, no text of the benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from figeval import (
    ChoiceExample,
    Dialogue,
    Example,
    GenerationExample,
    JointExample,
    PairExample,
    Prediction,
    PredictionRow,
    RankingExample,
    Route,
    RunConfig,
    SimilarityExample,
    Span,
    SpanExample,
    hookimpl,
    task,
)
from figeval.testing import harness
from tests.finished_runs import execute

TYPES = {
    ChoiceExample: "choice",
    GenerationExample: "generation",
    JointExample: "joint",
    PairExample: "pairs",
    RankingExample: "ranking",
    SimilarityExample: "similarity",
    SpanExample: "spans",
}
TOP = 10  # best candidates of a ranking that are stored
COMMON = {"id": "1", "cluster": "c", "group": "g", "meta": {"idiom": "i"}}


class Deaf:
    """A model that nobody asks."""

    deterministic_by_name = True

    def write(self, requests: Sequence[object]) -> list[str]:
        raise AssertionError(requests)


def run_of(example: Example, prediction: Prediction, *metrics: str) -> SimpleNamespace:
    """Return a plugin with a task of one example, a model, and a route that returns this prediction."""
    kind = TYPES[type(example)]
    settings: dict[str, Any] = {"labels": ("yes", "no")} if kind == "pairs" else {}
    settings |= {"metrics": metrics} if metrics else {}

    @task(name="t", type=kind, baselines=(), **settings)
    def examples() -> Iterator[Example]:
        yield example

    def start(_example: Example, _context: object) -> Dialogue:
        yield from ()
        return prediction

    route = Route(name="by_given", start=start, needs=frozenset({"write"}))
    return SimpleNamespace(
        register_tasks=hookimpl(lambda register: register(examples)),
        register_routes=hookimpl(lambda register: register(kind, route)),
        register_backends=hookimpl(lambda register: register("deaf", lambda model="": Deaf(), "")),
    )


def stored_row(example: Example, prediction: Prediction, *metrics: str, samples: bool = False) -> dict[str, Any]:
    """Return a row as it is in the file of a run, checked against the published model."""
    routes = {TYPES[type(example)]: "by_given"}
    with TemporaryDirectory() as folder:
        config = RunConfig(model="deaf", tasks=("t",), routes=routes, output_path=Path(folder), log_samples=samples)
        record = execute(config, harness(run_of(example, prediction, *metrics)))
        assert record.tasks[0].status == "done", record.tasks[0].error
        row: dict[str, Any] = json.loads(Path(folder, "predictions", "t.jsonl").read_text("utf-8"))
    TypeAdapter(PredictionRow).validate_python(row)
    return row


def test_choice() -> None:
    example = ChoiceExample(query="q", options=("a", "b"), gold=1, **COMMON)
    row = stored_row(example, Prediction(example_id="1", value=1, scores=(0.25, 0.5)), "acc")
    assert row == {
        "id": "1",
        "status": "ok",
        "pred": 1,
        "gold": 1,
        "scores": [0.25, 0.5],
        "tied": 1,
        "truncated": False,
        "metrics": {"acc": 1.0},
        "cluster": "c",
        "group": "g",
        "meta": {"idiom": "i"},
    }


def test_pairs() -> None:
    example = PairExample(left="l", right="r", label="yes", **COMMON)
    prediction = Prediction(example_id="1", value="no", scores=(0.1, 0.9), labels=("yes", "no"), truncated=True)
    row = stored_row(example, prediction, "macro_f1")
    assert (row["pred"], row["gold"], row["truncated"], row["metrics"]) == (
        "no",
        "yes",
        True,
        {"macro_f1": [0, 0, 0, 1, 1, 0]},
    )


def test_no_answer_keeps_its_reason_and_what_was_written() -> None:
    example = ChoiceExample(query="q", options=("a", "b"), gold=None, **COMMON)
    row = stored_row(example, Prediction(example_id="1", value=None, status="unparseable", raw="I would rather not"))
    assert (row["pred"], row["gold"], row["status"], row["raw"]) == (None, None, "unparseable", "I would rather not")
    assert row["metrics"] == {}


def test_nan_and_infinity_are_told_apart() -> None:
    example = ChoiceExample(query="q", options=("a", "b", "c"), gold=0, **COMMON)
    row = stored_row(
        example, Prediction(example_id="1", value=None, scores=(math.nan, math.inf, -math.inf), status="nan")
    )
    assert row["scores"] == [None, "inf", "-inf"]


@pytest.mark.slow
@given(scores=st.lists(st.floats(allow_nan=False), min_size=1, max_size=40), data=st.data())
def test_ranking_keeps_the_best_and_the_right_ones(scores: list[float], data: st.DataObject) -> None:
    relevant = data.draw(st.sets(st.integers(0, len(scores) - 1), min_size=1))
    texts = tuple(map(str, range(len(scores))))
    example = RankingExample(query="q", candidates=texts, relevant=frozenset(relevant), **COMMON)
    row = stored_row(example, Prediction(example_id="1", value=0, scores=tuple(scores)))
    best = sorted(range(len(scores)), key=lambda index: -scores[index])[:TOP]
    assert [index for index, _ in row["top"]] == best
    assert row["gold"] == sorted(relevant)
    assert [float(score) for score in row["relevant_scores"]] == [scores[index] for index in sorted(relevant)]


@pytest.mark.parametrize(("n", "stored_count"), [(3, 4), (40, 1)])
def test_samples_keep_texts_but_not_hundreds_of_shared_candidates(n: int, stored_count: int) -> None:
    texts = tuple(map(str, range(n)))
    example = RankingExample(query="q", candidates=texts, relevant=frozenset({0}), **COMMON)
    prediction = Prediction(example_id="1", value=0, scores=(1.0,) * n, tied=n)
    row = stored_row(example, prediction, samples=True)
    assert len(row["texts"]) == stored_count
    assert row["all_scores"] == [1.0] * n


def test_priors_and_how_a_text_ended() -> None:
    example = ChoiceExample(query="q", options=("a", "b"), gold=0, **COMMON)
    scored = stored_row(example, Prediction(example_id="1", value=0, scores=(-1.0, -2.0), priors=(-3.0, -math.inf)))
    assert scored["priors"] == [-3.0, "-inf"]
    written = stored_row(
        example, Prediction(example_id="1", value=None, status="truncated", raw="Well", finish="length")
    )
    assert (written["raw"], written["finish"]) == ("Well", "length")
    broken = Prediction(example_id="1", value=None, status="error", finish="error", error="HTTP 500")
    assert stored_row(example, broken)["error"] == "HTTP 500"
    assert not {"priors", "raw", "finish", "error", "answers"} & set(
        stored_row(example, Prediction(example_id="1", value=0))
    )


def test_the_answer_to_every_order_is_a_row_in_the_row() -> None:
    example = ChoiceExample(query="q", options=("a", "b"), gold=0, **COMMON)
    written = Prediction(example_id="1", value=1, order=(1, 0), raw="A", finish="stop")
    scored = Prediction(example_id="1", value=0, order=(0, 1), scores=(1.0, 1.0), tied=2)
    row = stored_row(example, Prediction(example_id="1", value=0, scores=(0.75, 0.25), answers=(written, scored)))
    assert row["answers"] == [
        {"order": [1, 0], "status": "ok", "pred": 1, "raw": "A", "finish": "stop"},
        {"order": [0, 1], "status": "ok", "pred": 0, "scores": [1.0, 1.0], "tied": 2},
    ]


SPAN = SpanExample(id="1a", text="by the sea", given="g", known="k", gold=Span(3, 10))


def test_a_span_is_stored_by_its_characters() -> None:
    row = stored_row(SPAN, Prediction(example_id="1a", value=Span(0, 6), scores=(-0.5,)), "squad_f1")
    assert (row["pred"], row["gold"], row["scores"]) == ([0, 6], [3, 10], [-0.5])
    assert "sea" not in json.dumps(row)


def test_the_parts_of_a_joint_example() -> None:
    example = JointExample(query="by the sea", candidates=("a", "b"), relevant=frozenset({1}), parts=(SPAN,), **COMMON)
    part = Prediction(example_id="1a", value=None, status="empty")
    row = stored_row(example, Prediction(example_id="1", value=1, scores=(0.1, 0.2), parts=(part,)))
    assert (row["gold"], row["top"][0]) == ([1], [1, 0.2])
    assert row["parts"] == [{"id": "1a", "status": "empty", "pred": None}]


def test_a_written_text_is_kept_and_one_taken_from_the_benchmark_is_not() -> None:
    example = GenerationExample(inputs={"proverb": "p"}, references=("the reference",), **COMMON)
    written = stored_row(example, Prediction(example_id="1", value="a new text", finish="stop"))
    assert (written["pred"], written["gold"], written["finish"]) == ("a new text", None, "stop")
    taken = stored_row(example, Prediction(example_id="1", value="somebody's text", source="Q1N2", scores=(0.5,)))
    assert taken["pred"] == "Q1N2"
    assert "somebody" not in json.dumps(taken)


def test_similarity_keeps_what_stands_for_the_text() -> None:
    example = SimilarityExample(text="t", category="Q1", anchors=("a", "b"), **COMMON)
    row = stored_row(example, Prediction(example_id="1", value=0, scores=(0.5, -math.inf)))
    assert (row["gold"], row["scores"]) == ("Q1", [0.5, "-inf"])
