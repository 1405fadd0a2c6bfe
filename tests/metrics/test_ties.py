"""Expectations over ties: against all orders, against closed forms, and within the error that is promised."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from math import inf, nan
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import Prediction, expected_over_ties, tied_answers
from figeval.metrics import ranking
from figeval.metrics.ties import TIE_DRAWS
from tests.metrics.test_graded_ranking import ranking_example, ranking_prediction

SCORES = st.lists(st.sampled_from([-inf, 0.0, 0.5, 1.0]), min_size=1, max_size=6)


def order_number(order: Sequence[int]) -> float:
    """A number that depends on every place."""
    return sum((index + 1) ** 2 / (position + 2) for position, index in enumerate(order))


@settings(max_examples=80, deadline=None)
@given(SCORES, st.one_of(st.none(), st.integers(0, 7)))
def test_it_is_the_mean_over_all_orders(scores: list[float], top: int | None) -> None:
    orders = [
        order
        for order in permutations(range(len(scores)))
        if all(scores[candidate] >= scores[other] for candidate, other in pairwise(order))
    ]
    expected = fmean(order_number(order[:top]) for order in orders)
    assert expected_over_ties(scores, order_number, top=top) == pytest.approx(expected)


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=30, unique=True))
def test_without_ties_it_is_one_call(scores: list[float]) -> None:
    calls: list[Sequence[int]] = []

    def count(order: Sequence[int]) -> float:
        calls.append(order)
        return 0.5

    assert expected_over_ties(scores, count) == 0.5
    assert calls == [sorted(range(len(scores)), key=lambda index: -scores[index])]


@pytest.mark.slow
@pytest.mark.parametrize("tied", [9, 40, 250])
def test_random_orders_are_within_the_error_of_the_closed_form(tied: int) -> None:
    """Five standard errors of at most .005, for each of three seeds."""
    grades, scores = [3, 1] + [0] * (tied - 2), [0.0] * tied
    exact = ranking.mrr(ranking_example(grades), ranking_prediction(scores))
    for seed in ("a", "b", 3):
        expected = expected_over_ties(scores, lambda order: 1 / (1 + min(map(order.index, (0, 1)))), seed=seed)
        assert expected == pytest.approx(exact, abs=5 * 0.5 / TIE_DRAWS**0.5)


def test_few_places_of_many_tied_candidates_are_exact() -> None:
    expected = expected_over_ties([0.0] * 100, lambda order: float(7 in order), top=2)
    assert expected == pytest.approx(2 / 100, abs=1e-12)


def test_the_seed_decides() -> None:
    scores = [0.0] * 30
    assert expected_over_ties(scores, order_number, seed="x", draws=50) == expected_over_ties(
        scores, order_number, seed="x", draws=50
    )
    assert expected_over_ties(scores, order_number, seed="x", draws=50) != expected_over_ties(
        scores, order_number, seed="y", draws=50
    )


def test_nan_has_no_place() -> None:
    with pytest.raises(ValueError, match="NaN among its scores"):
        expected_over_ties([0.0, nan], order_number)


def test_tied_answers_are_indexes_or_labels() -> None:
    tied = Prediction(example_id="e", value=0, scores=(0.5, 0.1, 0.5), tied=2)
    assert tied_answers(tied) == (0, 2)
    labelled = Prediction(example_id="e", value="a", scores=(0.5, 0.5), labels=("a", "b"), tied=2)
    assert tied_answers(labelled) == ("a", "b")
    assert tied_answers(Prediction(example_id="e", value="a", tied_labels=("a", "b", "b"), tied=3)) == ("a", "b", "b")
    assert tied_answers(Prediction(example_id="e", value=1)) == (1,)
