"""Parse rate, accuracy of all, accuracy without priors, consistency, position bias: worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from figeval import ChoiceExample, PairExample, Prediction
from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.classification import (
    acc_pmi,
    agreement,
    choice_accuracy,
    choice_accuracy_of_all,
    pair_accuracy,
    pair_accuracy_of_all,
    parse_rate,
    position_bias,
)
from tests.aggregated import count_in

EXAMPLE = ChoiceExample(id="1", query="q", options=("a", "b", "c"), gold=1)
HIDDEN_GOLD = ChoiceExample(id="1", query="q", options=("a", "b", "c"), gold=None)
PAIR = PairExample(id="1", left="l", right="r", label="yes")
CYCLIC = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


def prediction(value, status="ok", **extra):
    return Prediction(example_id="1", value=value, status=status, **extra)


def in_cyclic_orders(*values):
    """None is an answer that could not be understood."""
    pairs = zip(values, CYCLIC, strict=True)
    return prediction(
        0,
        answers=tuple(
            prediction(value, "ok" if value is not None else "unparseable", order=order) for value, order in pairs
        ),
    )


@pytest.mark.parametrize(
    ("example", "prediction", "rate", "acc", "of_all"),
    [
        (EXAMPLE, prediction(1), 1.0, 1.0, 1.0),
        (EXAMPLE, prediction(0), 1.0, 0.0, 0.0),
        (EXAMPLE, prediction(None, "refusal"), 0.0, None, 0.0),
        (EXAMPLE, prediction(None, "error"), None, None, None),
        (EXAMPLE, prediction(None, "truncated"), 0.0, None, 0.0),
        (HIDDEN_GOLD, prediction(1), 1.0, None, None),
        (PAIR, prediction("yes", labels=("yes", "no")), 1.0, 1.0, 1.0),
        (PAIR, prediction(None, "empty", labels=("yes", "no")), 0.0, None, 0.0),
        (EXAMPLE, in_cyclic_orders(1, 1, 1), 1.0, 1.0, 1.0),
        (EXAMPLE, in_cyclic_orders(1, None, 0), 2 / 3, 0.5, 1 / 3),
        (EXAMPLE, in_cyclic_orders(None, None, None), 0.0, None, 0.0),
    ],
)
def test_silence_is_not_wrong_and_cannot_hide(example, prediction, rate, acc, of_all):
    assert parse_rate(example, prediction) == pytest.approx(rate)
    pair = isinstance(example, PairExample)
    accuracy, accuracy_of_all = (
        (pair_accuracy, pair_accuracy_of_all) if pair else (choice_accuracy, choice_accuracy_of_all)
    )
    assert accuracy(example, prediction) == (None if acc is None else pytest.approx(acc))
    assert accuracy_of_all(example, prediction) == (None if of_all is None else pytest.approx(of_all))


@pytest.mark.parametrize(
    ("scores", "priors", "expected"),
    [
        ((-1.0, -3.0, -9.0), (-1.0, -9.0, -9.0), 1.0),
        ((-1.0, -3.0, -9.0), (), None),
        ((-1.0, -3.0, -9.0), (-1.0, -3.0, -9.0), 1 / 3),
        ((-1.0, -3.0, -9.0), (-9.0, -3.0, -9.0), 0.0),
    ],
    ids=["the likely option is not the likely answer", "not asked for", "three ties", "a rare option"],
)
def test_prior_corrected_accuracy(scores, priors, expected):
    assert acc_pmi(EXAMPLE, prediction(0, scores=scores, priors=priors)) == expected


def test_a_prior_of_an_impossible_option_is_no_score():
    infinite = (-np.inf, -1.0, -1.0)
    assert acc_pmi(EXAMPLE, prediction(1, scores=infinite, priors=infinite)) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [((1, 1, 1), 1.0), ((0, 0, 1), 1 / 3), ((0, 1, 2), 0.0), ((1, None, 1), 1.0), ((1, None, None), None)],
)
def test_consistency_is_the_share_of_agreeing_pairs(values, expected):
    assert agreement(EXAMPLE, in_cyclic_orders(*values)) == expected


def test_two_ties_agree_as_two_fair_draws_would():
    tie = prediction(0, scores=(1.0, 1.0, 0.0), tied=2)
    assert agreement(EXAMPLE, prediction(0, answers=(tie, tie))) == 0.5
    assert agreement(EXAMPLE, prediction(0, answers=(tie, prediction(2)))) == 0.0


def bias(*predictions):
    tally = MetricAggregator("position_bias", position_bias)
    for prediction in predictions:
        count_in(tally, EXAMPLE, prediction)
    return tally.score().value


def test_position_bias_of_extremes():
    assert bias(in_cyclic_orders(0, 1, 2)) == pytest.approx(2 / 3), "always the first place: 1 − 1/options"
    assert bias(in_cyclic_orders(1, 1, 1)) == pytest.approx(0.0), "always the same option: every place once"
    # first, first, last of three: |2/3 − 1/3| + |0 − 1/3| + |1/3 − 1/3|, halved
    assert bias(in_cyclic_orders(0, 1, 1)) == pytest.approx(1 / 3)


def test_one_order_shows_no_position_bias():
    tally = MetricAggregator("position_bias", position_bias)
    for value in (0, 0, 1):
        count_in(tally, EXAMPLE, prediction(value))
    score = tally.score()
    assert (score.value, score.n) == (None, 0)
    assert score.interval.reason == "the options were shown in one order only (--orders)"


def test_position_bias_adds_up_over_examples_and_leaves_out_silence():
    assert bias(in_cyclic_orders(0, 1, 2), in_cyclic_orders(2, 0, 1)) == pytest.approx(1 / 3), "first and last, halved"
    assert bias(in_cyclic_orders(0, None, None)) == bias(in_cyclic_orders(0, None, None), in_cyclic_orders(*[None] * 3))
    assert bias(in_cyclic_orders(None, None, None)) is None
