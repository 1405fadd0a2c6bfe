"""Ranking metrics against brute force over every order of tied candidates."""

from __future__ import annotations

from itertools import pairwise, permutations
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import Prediction, RankingExample
from figeval.metrics import ranking
from figeval.metrics.statistic import PerExample
from figeval.testing import check_metric

SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=6)


def example(n: int, relevant: frozenset[int], background: int = 0) -> RankingExample:
    names = tuple(map(str, range(n)))
    return RankingExample(
        id="e", query="q", candidates=names[: n - background], relevant=relevant, background=names[n - background :]
    )


def prediction(scores: list[float], **extra: object) -> Prediction:
    return Prediction(example_id="e", value=0, scores=tuple(scores), **extra)


def brute_force(scores: list[float], relevant: frozenset[int], k: int) -> tuple[float, float, float]:
    """Accuracy, reciprocal rank and recall@k, each averaged over all orders that respect the scores."""
    rows = []
    for order in permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            first = next(position for position, item in enumerate(order, 1) if item in relevant)
            hits = sum(item in relevant for item in order[:k])
            rows.append((float(order[0] in relevant), 1 / first, hits / len(relevant)))
    accuracy, mrr, recall = (fmean(column) for column in zip(*rows, strict=True))
    return accuracy, mrr, recall


@settings(max_examples=80, deadline=None)
@given(st.data(), SCORES, st.integers(1, 4))
def test_expectation_over_ties_is_the_mean_over_all_orders(data: st.DataObject, scores: list[float], k: int) -> None:
    relevant = data.draw(st.frozensets(st.integers(0, len(scores) - 1), min_size=1))
    task, answer = example(len(scores), relevant), prediction(scores)
    expected = brute_force(scores, relevant, k)
    metrics = (ranking.accuracy, ranking.mrr, ranking.at_depth(k, "recall", ranking.share_within))
    assert [metric(task, answer) for metric in metrics] == pytest.approx(expected, abs=1e-12)


@given(st.data(), SCORES)
def test_order_and_scale_of_candidates_do_not_matter(data: st.DataObject, scores: list[float]) -> None:
    gold = data.draw(st.integers(0, len(scores) - 1))
    order = data.draw(st.permutations(range(len(scores))))
    shuffled = [1e6 * scores[index] - 3.0 for index in order]
    for metric in (ranking.accuracy, ranking.mrr, ranking.recall_at_5):
        before = metric(example(len(scores), frozenset({gold})), prediction(scores))
        after = metric(example(len(scores), frozenset({order.index(gold)})), prediction(shuffled))
        assert after == pytest.approx(before, abs=1e-12)


@given(SCORES, st.integers(0, 3))
def test_background_can_only_push_back(scores: list[float], background: int) -> None:
    task = example(len(scores) + background, frozenset({1}), background)
    answer = prediction([*scores, *[0.5] * background])
    for closed, everything in ((ranking.accuracy, ranking.acc_all), (ranking.mrr, ranking.mrr_all)):
        inside, against_all = closed(task, answer), everything(task, answer)
        assert inside is not None
        assert against_all is not None
        assert against_all <= inside + 1e-12


@pytest.mark.parametrize("status", ["nan", "error", "unparseable", "refusal", "empty", "ambiguous"])
def test_without_an_answer_there_is_no_value(status: str) -> None:
    assert ranking.mrr(example(2, frozenset({0})), prediction([0.5, 0.1], status=status)) is None


def test_a_truncated_input_still_has_a_rank() -> None:
    assert ranking.mrr(example(2, frozenset({0})), prediction([0.5, 0.1], truncated=True)) == 1.0


def test_scores_that_do_not_fit_are_a_bug_and_not_a_rank() -> None:
    with pytest.raises(ValueError, match="3 scores for 2 candidates"):
        ranking.mrr(example(2, frozenset({0})), prediction([0.1, 0.2, 0.3]))
    with pytest.raises(ValueError, match="NaN"):
        ranking.mrr(example(2, frozenset({0})), prediction([0.1, float("nan")]))


def test_2500_random_orders_of_250_proverbs_have_the_mean_reciprocal_rank_of_chance() -> None:
    task = example(250, frozenset({3}))
    scores = np.random.default_rng(0).normal(size=(2500, 250)).tolist()
    answers = [prediction(row) for row in scores]
    values = [ranking.mrr(task, answer) for answer in answers]
    assert fmean(value for value in values if value is not None) == pytest.approx(0.0244, abs=0.006)


def test_a_candidate_that_says_the_same_is_right_for_acc_near_alone():
    example = RankingExample(
        id="1", query="q", candidates=("a", "b", "c"), relevant=frozenset({0}), near=frozenset({2})
    )
    top_is_near = Prediction(example_id="1", value=2, scores=(0.1, 0.2, 0.3))
    assert (ranking.accuracy(example, top_is_near), ranking.acc_near(example, top_is_near)) == (0.0, 1.0)
    tied = Prediction(example_id="1", value=1, scores=(0.1, 0.3, 0.3), tied=2)
    assert (ranking.accuracy(example, tied), ranking.acc_near(example, tied)) == (0.0, 0.5)


@pytest.mark.parametrize("tied", range(1, 65))
def test_where_all_that_tie_are_relevant_the_first_place_is_right_for_certain(tied: int) -> None:
    task, answer = example(tied + 1, frozenset(range(tied))), prediction([1.0] * tied + [0.0])
    shares = [ranking.accuracy, ranking.precision_at_1, ranking.r_precision, ranking.average_precision]
    shares += [ranking.at_depth(k, "precision", ranking.precision_within) for k in range(1, tied + 1)]
    shares += [ranking.at_depth(k, "recall", ranking.share_within) for k in (tied, tied + 1)]
    assert {metric(task, answer) for metric in shares} == {1.0}


@pytest.mark.parametrize("metric", [ranking.mrr, ranking.recall_at_1])
def test_metrics_of_a_ranking_keep_to_the_contract(metric: PerExample) -> None:
    answers = ([0.2, 0.7, 0.1], [0.7, 0.2, 0.1], [0.4, 0.4, 0.2])
    check_metric(metric, [(example(3, frozenset({1})), prediction(scores)) for scores in answers])
