"""Rankings of thousands of candidates: the same answers as for few, with one embedding of each candidate."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import figeval
from figeval import Prediction, RankingExample, RunConfig, decide, hookimpl
from figeval.testing import harness, predict
from tests.aggregated import score_of
from tests.fakes import FakeEncoder, FakeModel, FakePairScorer
from tests.finished_runs import execute
from tests.listeners import listen
from tests.runs.conftest import Models
from tests.typed import find_route

MAX_BLOCK = 2048  # requests that a model gets at once
CANDIDATES = tuple(f"{'word ' * (number % 7)}{number}" for number in range(4200))
N = 4110  # more than are sent one by one
EXAMPLES = [
    RankingExample(id=str(number), query=f"query {number}", candidates=CANDIDATES[:N], relevant=frozenset({number}))
    for number in range(3)
]
EXAMPLES.append(replace(EXAMPLES[0], id="open", background=CANDIDATES[N:]))


def pair_scorer() -> FakePairScorer:
    return FakePairScorer(function=lambda left, right: len(left) / (len(right) + 1))


def answers(route: str, model: FakeModel, examples: Sequence[RankingExample] = EXAMPLES) -> list[Prediction]:
    return predict(find_route("ranking", route), model, examples)


@pytest.mark.parametrize(
    ("route", "make"), [("by_dot", FakeEncoder), ("by_cosine", FakeEncoder), ("by_pair_score", pair_scorer)]
)
def test_many_candidates_give_the_predictions_of_few(route: str, make: Callable[[], FakeModel]) -> None:
    model = make()
    predictions = answers(route, model)
    assert max(map(len, model.batches)) <= MAX_BLOCK
    for example, prediction in zip(EXAMPLES, predictions, strict=True):
        texts = (*example.candidates, *example.background)
        parts = [replace(example, candidates=texts[start : start + 2000], background=()) for start in (0, 2000, 4000)]
        scores = [score for part in answers(route, make(), parts) for score in part.scores]
        expected = decide(example.id, scores, len(example.candidates))
        assert replace(prediction, scores=tuple(prediction.scores)) == replace(expected, scores=tuple(scores))
        for metric in ("acc", "mrr", "recall@10"):
            values = [score_of(metric, "ranking", [(example, each)]) for each in (prediction, expected)]
            assert values[0] == values[1] is not None


def test_candidates_are_embedded_once_for_all_examples() -> None:
    model = FakeEncoder()
    examples = [replace(EXAMPLES[0], id=str(number), query=f"query {number}") for number in range(66)]  # two chunks
    answers("by_cosine", model, examples)
    expected = [*EXAMPLES[0].candidates, *(example.query for example in examples)]
    assert sorted(request.text for request in model.asked) == sorted(expected)


def test_a_candidate_that_was_cut_marks_every_example_and_nan_is_no_answer() -> None:
    assert all(prediction.truncated for prediction in answers("by_cosine", FakeEncoder(longest=30)))
    (broken,) = answers("by_pair_score", FakePairScorer(function=lambda _left, _right: math.nan), EXAMPLES[:1])
    assert (broken.status, broken.value) == ("nan", None)


class Task:
    """A plugin with a task of one question."""

    def __init__(self, *candidates: str) -> None:
        self.candidates = candidates

    @hookimpl
    def register_tasks(self, register: Any) -> None:
        @figeval.task(name="many", type="ranking", metrics=("acc",))
        def many() -> Any:
            yield replace(EXAMPLES[0], candidates=self.candidates)

        register(many)


@pytest.mark.parametrize(("n", "has_all_scores"), [(N, True), (66_000, False)])
def test_a_run_counts_all_candidates_and_a_row_of_very_many_keeps_the_best_only(
    n: int, has_all_scores: bool, tmp_path: Path
) -> None:
    plugins = (Task(*map(str, range(n))), Models(model=pair_scorer()))
    options: dict[str, Any] = {"output_path": tmp_path, "log_samples": True, "baselines": False}
    with listen() as ears:
        execute(RunConfig(tasks=("many",), model="model", **options), harness(*plugins))
    assert ears.heard == [(begin, n) for begin in range(0, n, MAX_BLOCK)]
    row = json.loads((tmp_path / "predictions" / "many.jsonl").read_text("utf-8"))
    assert len(row["top"]) == 10
    assert ("all_scores" in row) == has_all_scores
