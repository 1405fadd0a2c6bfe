"""The trivial model `chance` gives all answers one score: metrics have to give it what guessing gets on average."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from statistics import fmean

import numpy as np
import pytest

from figeval import ChoiceExample, JointExample, PairExample, Prediction, RankingExample, Span, SpanExample
from figeval.metrics import classification, ranking, spans
from figeval.metrics.statistic import PerExample, as_statistic

CHOICE = {
    "acc": classification.choice_accuracy,
    "acc_norm": classification.acc_norm,
    "acc_pmi": classification.acc_pmi,
    "acc_of_all": classification.acc_of_all(classification.choice_accuracy),
}
PAIRS = {
    "acc": classification.pair_accuracy,
    "acc_of_all": classification.acc_of_all(classification.pair_accuracy),
}
RANKING: dict[str, PerExample] = {
    "acc_near": ranking.acc_near,
    **{
        metric.__name__: metric
        for metric in vars(ranking).values()
        if getattr(metric, "__qualname__", "").startswith("_metric.") and metric is not ranking.acc_near
    },
}
SPANS = {"squad_f1": spans.squad_f1, "exact_match": spans.exact_match, "squad_f1_of_all": spans.squad_f1_of_all}

ASKED_CHOICE = ChoiceExample(id="e", query="q", options=("aa", "bb", "cc", "dd"), gold=2)
PAIR = PairExample(id="e", left="l", right="r", label="b")
ASKED_RANKING = RankingExample(
    id="e",
    query="q",
    candidates=("aa", "bb", "cc", "dd", "ee"),
    background=("ff",),
    relevant=frozenset({0, 3}),
    near=frozenset({4}),
    grades={3: 2.0},
)
LABELS = ("a", "b", "c")


def choice_prediction(scores: tuple[float, ...], labels: tuple[str, ...] = ()) -> Prediction:
    """The prediction with these scores; `value` is the first of the best, whatever ties."""
    first = int(np.argmax(scores))
    return Prediction(
        example_id="e",
        value=labels[first] if labels else first,
        scores=scores,
        labels=labels,
        tied=scores.count(max(scores)),
        priors=() if labels else (0.0,) * len(scores),
    )


def test_all_ranking_metrics_are_looked_at() -> None:
    assert {"accuracy", "acc_all", "mrr", "mrr_pmi", "recall@5", "precision@10", "r_precision", "map"} <= set(RANKING)
    assert {"ndcg", "ndcg@5", "ndcg@10", "acc_norm", "acc_pmi", "mrr_norm", "mrr_all", "acc_near"} <= set(RANKING)


@pytest.mark.parametrize("metric", CHOICE.values(), ids=CHOICE)
def test_chance_among_options_is_the_mean_over_all_guesses(metric: PerExample) -> None:
    guesses = [metric(ASKED_CHOICE, choice_prediction(scores)) for scores in permutations((-1.0, -2.0, -3.0, -4.0))]
    assert metric(ASKED_CHOICE, choice_prediction((0.0,) * 4)) == pytest.approx(
        fmean(guess for guess in guesses if guess is not None)
    )


@pytest.mark.parametrize("metric", RANKING.values(), ids=RANKING)
def test_chance_in_rankings_is_the_mean_over_all_orders(metric: PerExample) -> None:
    guesses = [
        metric(ASKED_RANKING, choice_prediction(scores))
        for scores in permutations((-1.0, -2.0, -3.0, -4.0, -5.0, -6.0))
    ]
    expected = fmean(guess for guess in guesses if guess is not None)
    assert metric(ASKED_RANKING, choice_prediction((0.0,) * 6)) == pytest.approx(expected)


@pytest.mark.parametrize("metric", PAIRS.values(), ids=PAIRS)
def test_chance_among_labels_is_the_mean_over_all_guesses(metric: PerExample) -> None:
    guesses = [metric(PAIR, choice_prediction(scores, LABELS)) for scores in permutations((0.2, 0.3, 0.5))]
    expected = fmean(guess for guess in guesses if guess is not None)
    assert metric(PAIR, choice_prediction((1 / 3,) * 3, LABELS)) == pytest.approx(expected)


def test_hidden_gold_is_left_out_by_every_metric() -> None:
    for metric in CHOICE.values():
        assert metric(replace(ASKED_CHOICE, gold=None), choice_prediction((0.1, 0.2, 0.3, 0.4))) is None
    nothing = replace(ASKED_RANKING, relevant=frozenset(), grades={}, near=frozenset())
    for metric in RANKING.values():
        assert metric(nothing, choice_prediction((0.1, 0.2, 0.3, 0.4, 0.5, 0.6))) is None
    assert nothing.hidden
    hidden = replace(PAIR, label=None)
    for metric in PAIRS.values():
        assert metric(hidden, choice_prediction((0.2, 0.3, 0.5), LABELS)) is None
    for target in (classification.macro_f1, classification.balanced_accuracy):
        assert as_statistic(target, LABELS).features(hidden, choice_prediction((0.2, 0.3, 0.5), LABELS)) is None
    part = SpanExample(id="e", text="a b", given="g", known="k", gold=None)
    span_prediction = Prediction(example_id="e", value=Span(0, 1))
    for span_metric in SPANS.values():
        assert span_metric(part, span_prediction) is None
    joint = JointExample(id="e", query="a b", candidates=("x", "y"), relevant=frozenset({0}), parts=(part,))
    prediction = Prediction(example_id="e", value=0, scores=(0.9, 0.1), parts=(span_prediction,))
    assert spans.joint_squad_f1(joint, prediction) is None
    assert spans.joint_f1.features(joint, prediction) is None
