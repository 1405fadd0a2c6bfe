"""Rankings of thousands of candidates: the same predictions as for few, with one embedding of each candidate."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace

import pytest

from figeval import Prediction, RankingExample
from figeval.io import observer as progress
from figeval.metrics.ranking import accuracy, mrr, recall_at_10
from figeval.models import capabilities
from figeval.models.batching import BatchScheduler, Memo
from figeval.records import predictions
from figeval.records.predictions import check_row, prediction_row
from figeval.task_types import ranking, routes
from figeval.task_types.ranking import Ranking
from tests.fakes import FakeEncoder, FakeModel, FakePairScorer
from tests.listeners import Ears

CANDIDATES = tuple(f"{'word ' * (number % 7)}{number}" for number in range(40))
EXAMPLES = [
    RankingExample(id=str(number), query=f"query {number}", candidates=CANDIDATES[:30], relevant=frozenset({number}))
    for number in range(6)
]
EXAMPLES.append(replace(EXAMPLES[0], id="open", background=CANDIDATES[30:]))
ROUTES = [
    (ranking.by_dot, FakeEncoder),
    (ranking.by_cosine, FakeEncoder),
    (
        ranking.by_pair_score,
        lambda **options: FakePairScorer(function=lambda left, right: len(left) / (len(right) + 1), **options),
    ),
]


def predict(start, backend: FakeModel, examples=EXAMPLES, memo: Memo | None = None) -> list[Prediction]:
    scheduler = BatchScheduler(backend, lambda example: start(example, None), memo or Memo())
    return [prediction for _, prediction in scheduler.predictions(examples)]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make thirty candidates many, and blocks of requests small."""
    monkeypatch.setattr(routes, "MAX_SEPARATE_OPTIONS", 20)
    monkeypatch.setattr(routes, "ROWS", 7)
    monkeypatch.setattr(capabilities, "BLOCK", 8)


@pytest.mark.parametrize(("start", "make"), ROUTES)
def test_many_candidates_give_the_predictions_of_few(start, make, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = predict(start, make())
    monkeypatch.setattr(routes, "MAX_SEPARATE_OPTIONS", 20)
    monkeypatch.setattr(capabilities, "BLOCK", 8)
    backend = make()
    predictions = predict(start, backend)
    assert all(isinstance(prediction.scores, array) for prediction in predictions)
    assert [replace(prediction, scores=tuple(prediction.scores)) for prediction in predictions] == expected
    assert max(map(len, backend.batches)) <= 8
    for example, prediction, other in zip(EXAMPLES, predictions, expected, strict=True):
        rows = [prediction_row(Ranking(), example, each, {}, samples=True) for each in (prediction, other)]
        assert rows[0] == rows[1]
        assert [metric(example, prediction) for metric in (accuracy, mrr, recall_at_10)] == [
            metric(example, other) for metric in (accuracy, mrr, recall_at_10)
        ]


@pytest.mark.usefixtures("few")
def test_candidates_are_embedded_once_for_all_examples() -> None:
    backend, memo = FakeEncoder(), Memo()
    predict(ranking.by_cosine, backend, EXAMPLES[:3], memo)
    predict(ranking.by_cosine, backend, EXAMPLES[3:6], memo)
    assert sorted(request.text for request in backend.asked) == sorted(
        [*CANDIDATES[:30], *(example.query for example in EXAMPLES[:6])]
    )
    memo.clear()
    predict(ranking.by_cosine, backend, EXAMPLES[:1], memo)
    assert len(backend.asked) == 36 + 31, "a model that was fitted again is asked again"


@pytest.mark.usefixtures("few")
def test_a_candidate_that_was_cut_marks_every_example_and_nan_is_no_answer() -> None:
    assert all(prediction.truncated for prediction in predict(ranking.by_cosine, FakeEncoder(longest=30)))
    (broken,) = predict(ranking.by_pair_score, FakePairScorer(function=lambda _left, right: math.nan), EXAMPLES[:1])
    assert (broken.status, broken.value) == ("nan", None)


@pytest.mark.usefixtures("few")
def test_progress_counts_all_candidates() -> None:
    ears = Ears()
    with progress.listening(ears):
        predict(ranking.by_pair_score, FakePairScorer(), EXAMPLES[:1])
    assert ears.heard == [(0, 30), (8, 30), (16, 30), (24, 30)]


def test_a_row_of_very_many_candidates_keeps_the_best_ones_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "MOST_SCORES", 29)
    (prediction,) = predict(ranking.by_pair_score, FakePairScorer(), EXAMPLES[:1])
    row = prediction_row(Ranking(), EXAMPLES[0], prediction, {}, samples=True)
    assert len(row["top"]) == 10
    assert "all_scores" not in row
    check_row(row)
