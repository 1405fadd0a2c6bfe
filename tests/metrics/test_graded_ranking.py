"""Graded relevance: against definitions averaged over every order of tied candidates, and against trec_eval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, permutations
from math import inf, log2, nan
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import Prediction, RankingExample
from figeval.metrics import ranking

SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=6)
GRADES = st.integers(0, 3)  # 0: not relevant
METRICS = {
    "ndcg": ranking.ndcg,
    "ndcg@2": ranking.at_depth(2, "ndcg", ranking.expected_ndcg),
    "ndcg@5": ranking.ndcg_at_5,
    "map": ranking.average_precision,
    "r_precision": ranking.r_precision,
    "precision@1": ranking.precision_at_1,
    "precision@2": ranking.at_depth(2, "precision", ranking.precision_within),
    "precision@5": ranking.precision_at_5,
    "recall@5": ranking.recall_at_5,
    "mrr": ranking.mrr,
}


def ranking_example(grades: Sequence[float], /, **extra: Any) -> RankingExample:
    """An example whose candidates have these grades, 0 for one that is not relevant."""
    relevant = {index: grade for index, grade in enumerate(grades) if grade}
    names = tuple(f"candidate {index}" for index in range(len(grades)))
    given_ = {"candidates": names, "relevant": frozenset(relevant), "grades": relevant} | extra
    return RankingExample(id="e", query="q", **given_)


def ranking_prediction(scores: Sequence[float], **extra: Any) -> Prediction:
    return Prediction(example_id="e", value=0, scores=tuple(scores), **extra)


def metrics_by_definition(gains: Sequence[float]) -> dict[str, float]:
    """The metrics of one order without ties, from their definitions; `gains` are the grades of places 1, 2, …"""
    hits = [float(gain > 0) for gain in gains]
    total = sum(hits)
    precisions = [sum(hits[:position]) / position for position in range(1, len(hits) + 1)]

    def dcg(values: Sequence[float]) -> float:
        return sum(value / log2(position + 1) for position, value in enumerate(values, start=1))

    best = sorted(gains, reverse=True)
    return {
        "ndcg": dcg(gains) / dcg(best),
        "ndcg@2": dcg(gains[:2]) / dcg(best[:2]),
        "ndcg@5": dcg(gains[:5]) / dcg(best[:5]),
        "map": sum(hit * precision for hit, precision in zip(hits, precisions, strict=True)) / total,
        "r_precision": sum(hits[: int(total)]) / total,
        "precision@1": hits[0],
        "precision@2": sum(hits[:2]) / 2,
        "precision@5": sum(hits[:5]) / 5,
        "recall@5": sum(hits[:5]) / total,
        "mrr": 1 / (hits.index(1.0) + 1),
    }


@settings(max_examples=80, deadline=None)
@given(st.data(), SCORES)
def test_every_metric_is_the_mean_over_all_orders_of_tied_candidates(data: st.DataObject, scores: list[float]) -> None:
    grades = data.draw(st.lists(GRADES, min_size=len(scores), max_size=len(scores)).filter(any))
    orders = [
        order
        for order in permutations(range(len(scores)))
        if all(scores[candidate] >= scores[other] for candidate, other in pairwise(order))
    ]
    rows = [metrics_by_definition([grades[index] for index in order]) for order in orders]
    for name, metric in METRICS.items():
        expected = fmean(row[name] for row in rows)
        assert metric(ranking_example(grades), ranking_prediction(scores)) == pytest.approx(expected, abs=1e-12), name


@given(st.data(), SCORES)
def test_without_grades_all_relevant_candidates_have_grade_1(data: st.DataObject, scores: list[float]) -> None:
    grades = data.draw(st.lists(st.integers(0, 1), min_size=len(scores), max_size=len(scores)).filter(any))
    for metric in METRICS.values():
        assert metric(ranking_example(grades), ranking_prediction(scores)) == metric(
            ranking_example(grades, grades={}), ranking_prediction(scores)
        )


@given(st.data(), SCORES, st.integers(1, 1000))
def test_the_unit_of_grades_does_not_matter(data: st.DataObject, scores: list[float], unit: int) -> None:
    grades = data.draw(st.lists(GRADES, min_size=len(scores), max_size=len(scores)).filter(any))
    scaled = [unit * grade for grade in grades]
    for metric in METRICS.values():
        assert metric(ranking_example(scaled), ranking_prediction(scores)) == pytest.approx(
            metric(ranking_example(grades), ranking_prediction(scores))
        )


@pytest.mark.slow
def test_ndcg_of_chance_is_not_that_of_the_order_in_the_file() -> None:
    """With the relevant candidates first in the list, a library that breaks ties by place gives chance a perfect 1."""
    grades = [3, 2, 2, 1] + [0] * 46
    chance = ranking.ndcg(ranking_example(grades), ranking_prediction([0.0] * 50))
    generator = np.random.default_rng(0)
    drawn = [metrics_by_definition(list(generator.permutation(grades)))["ndcg"] for _ in range(4000)]
    assert metrics_by_definition(grades)["ndcg"] == 1.0
    assert chance == pytest.approx(fmean(drawn), abs=4 * float(np.std(drawn)) / 4000**0.5)


def test_a_grade_is_of_a_relevant_candidate_and_positive() -> None:
    with pytest.raises(ValueError, match="grades candidate 1, which is not among the relevant ones"):
        ranking_example([1, 0], grades={1: 2.0})
    for grade in (0, -1.0, inf, nan):
        with pytest.raises(ValueError, match="must be above 0"):
            ranking_example([1, 0], grades={0: grade})


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_what_has_no_value_and_what_is_a_bug(metric: Callable[..., float | None]) -> None:
    example = ranking_example([2, 0])
    assert metric(example, ranking_prediction([0.5, 0.1], status="unparseable")) is None
    assert metric(example, ranking_prediction([])) is None
    assert metric(ranking_example([0, 0]), ranking_prediction([0.5, 0.1])) is None
    with pytest.raises(ValueError, match="3 scores for 2 candidates"):
        metric(example, ranking_prediction([0.1, 0.2, 0.3]))
    with pytest.raises(ValueError, match="NaN"):
        metric(example, ranking_prediction([0.1, nan]))


def test_the_background_is_not_ranked() -> None:
    behind = ranking_example([1, 0], background=("x", "y"))
    assert ranking.ndcg(behind, ranking_prediction([0.5, 0.1, 0.9, 0.8])) == 1.0


# ---- trec_eval ------------------------------------------------------------------------------------------------------

TREC_EVAL_METRICS = {
    "ndcg": ranking.ndcg,
    "ndcg_cut_5": ranking.ndcg_at_5,
    "ndcg_cut_10": ranking.ndcg_at_10,
    "map": ranking.average_precision,
    "Rprec": ranking.r_precision,
    "P_1": ranking.precision_at_1,
    "P_5": ranking.precision_at_5,
    "P_10": ranking.precision_at_10,
    "recall_5": ranking.recall_at_5,
    "recall_10": ranking.recall_at_10,
    "recip_rank": ranking.mrr,
}
MEASURES = {"ndcg", "ndcg_cut.5,10", "map", "Rprec", "P.1,5,10", "recall.5,10", "recip_rank"}


@pytest.mark.slow
def test_random_lists_without_ties_have_the_values_of_trec_eval() -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    generator = np.random.default_rng(7)
    worst = 0.0
    for _ in range(500):
        n = int(generator.integers(1, 60))
        grades = generator.choice(5, size=n, p=[0.6, 0.1, 0.1, 0.1, 0.1])
        grades[generator.integers(n)] = generator.integers(1, 5)
        scores = generator.permutation(n) / 7.0
        names = [str(index) for index in range(n)]
        judged = {"e": dict(zip(names, map(int, grades), strict=True))}
        evaluator = pytrec_eval.RelevanceEvaluator(judged, MEASURES)
        of_trec_eval = evaluator.evaluate({"e": dict(zip(names, map(float, scores), strict=True))})["e"]
        for name, metric in TREC_EVAL_METRICS.items():
            ours = metric(
                ranking_example([int(grade) for grade in grades]),
                ranking_prediction([float(score) for score in scores]),
            )
            assert ours is not None
            worst = max(worst, abs(ours - of_trec_eval[name]))
    assert worst < 1e-12


# ---- log-likelihoods ------------------------------------------------------------------------------------------------

CANDIDATES = ("short", "a much longer candidate", "middling one")


def answer(scores: Sequence[float], priors: Sequence[float] = ()) -> Prediction:
    return ranking_prediction(scores, priors=tuple(priors))


def ranking_with_gold(gold: int) -> RankingExample:
    return RankingExample(id="e", query="q", candidates=CANDIDATES, relevant=frozenset({gold}))


def test_norm_ranks_by_the_log_likelihood_per_character() -> None:
    scores = [-6.0, -11.5, -12.0]  # −1.2, −.5 and −1 per character
    assert ranking.accuracy(ranking_with_gold(1), answer(scores)) == 0.0
    assert ranking.acc_norm(ranking_with_gold(1), answer(scores)) == 1.0
    assert [ranking.mrr_norm(ranking_with_gold(gold), answer(scores)) for gold in range(3)] == [1 / 3, 1.0, 0.5]


def test_pmi_ranks_by_what_the_query_adds() -> None:
    scores, priors = [-1.0, -3.0, -9.0], [-1.0, -9.0, -9.0]
    assert ranking.acc_pmi(ranking_with_gold(1), answer(scores, priors)) == 1.0
    assert [ranking.mrr_pmi(ranking_with_gold(gold), answer(scores, priors)) for gold in (0, 2)] == [
        (1 / 2 + 1 / 3) / 2
    ] * 2
    assert ranking.acc_pmi(ranking_with_gold(1), answer(scores)) is None
    impossible = [-inf, -1.0, -1.0]
    assert ranking.mrr_pmi(ranking_with_gold(1), answer(impossible, impossible)) is None
    assert ranking.mrr_pmi(ranking_with_gold(0), answer(impossible, priors)) == 1 / 3
    with pytest.raises(ValueError, match="2 priors for 3 scores"):
        ranking.acc_pmi(ranking_with_gold(1), answer(scores, priors[:2]))
    with pytest.raises(ValueError, match="NaN among its scores or priors"):
        ranking.acc_pmi(ranking_with_gold(1), answer(scores, [nan, -1.0, -1.0]))


@given(st.lists(st.sampled_from([-1.0, -2.0, -4.0]), min_size=2, max_size=6), st.data())
def test_all_are_the_plain_metrics_of_other_scores(scores: list[float], data: st.DataObject) -> None:
    n = len(scores)
    candidates = tuple("x" * data.draw(st.sampled_from([1, 2, 4])) for _ in scores)
    priors = data.draw(st.lists(st.sampled_from([-1.0, -3.0]), min_size=n, max_size=n))
    example = ranking_example([1] + [0] * (n - 1), candidates=candidates)
    per_character = [score / len(candidate) for score, candidate in zip(scores, candidates, strict=True)]
    gains = [score - prior for score, prior in zip(scores, priors, strict=True)]
    given_ = answer(scores, priors)
    for norm, pmi, plain in (
        (ranking.acc_norm, ranking.acc_pmi, ranking.accuracy),
        (ranking.mrr_norm, ranking.mrr_pmi, ranking.mrr),
    ):
        assert norm(example, given_) == plain(example, answer(per_character))
        assert pmi(example, given_) == plain(example, answer(gains))


def test_the_best_order_has_an_ndcg_of_one_and_not_a_rounding_more() -> None:
    assert ranking.ndcg(ranking_example([2, 2, 1]), ranking_prediction([5.0, 4.0, 3.0])) == 1.0
    for best in range(1, 40):
        for rest in range(40):
            example = ranking_example([2] * best + [1] * rest)
            for scores in (range(best + rest, 0, -1), [2] * best + [1] * rest):
                ndcg = ranking.ndcg(example, ranking_prediction([float(score) for score in scores]))
                assert ndcg is not None
                assert 1 - 1e-12 < ndcg <= 1
