"""Accuracy over ties, and the label statistics against scikit-learn."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, recall_score

import figeval
from figeval import ChoiceExample, MetricAggregator, PairExample, Prediction, TaskError
from figeval.metrics.classification import (
    acc_norm,
    acc_pmi,
    agreement,
    balanced_accuracy,
    choice_accuracy,
    choice_accuracy_of_all,
    macro_f1,
    pair_accuracy,
    pair_accuracy_of_all,
    parse_rate,
    position_bias,
)
from figeval.metrics.statistic import PerExample, PerLabel, as_statistic
from figeval.testing import check_metric, harness
from tests.aggregated import count_in

LABELS = ("entailment", "neutral", "contradiction")
ROWS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30)


def label_prediction(scores: tuple[float, ...], **predictions: object) -> Prediction:
    best = max(scores)
    return Prediction(example_id="e", value=scores.index(best), scores=scores, tied=scores.count(best), **predictions)


def choice(gold: int | None, *options: str) -> ChoiceExample:
    return ChoiceExample(id="e", query="q", options=options, gold=gold)


def value_of(target: PerLabel, rows: list[tuple[str, str]]) -> float | None:
    tally = MetricAggregator("metric", as_statistic(target, LABELS))
    for gold, answer in rows:
        count_in(tally, PairExample(id="e", left="l", right="r", label=gold), Prediction(example_id="e", value=answer))
    return tally.score().value


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=2, max_size=6))
def test_whatever_ties_the_options_share_one_right_answer(scores: list[float]) -> None:
    answer = label_prediction(tuple(scores))
    names = [f"option {index}" for index in range(len(scores))]
    shares = [choice_accuracy(choice(gold, *names), answer) for gold in range(len(scores))]
    assert sum(share for share in shares if share is not None) == pytest.approx(1.0)


@given(st.lists(st.floats(-50, -0.1), min_size=2, max_size=5, unique=True), st.integers(0, 1))
def test_acc_norm_is_lm_evals(scores: list[float], gold: int) -> None:
    options = [("word " * (index + 1)).strip() for index in range(len(scores))]
    normalised = np.array(scores) / np.array([float(len(option)) for option in options])
    if np.sum(normalised == normalised.max()) == 1:
        assert acc_norm(choice(gold, *options), label_prediction(tuple(scores))) == float(np.argmax(normalised) == gold)


def test_acc_norm_does_not_apply_without_scores() -> None:
    assert acc_norm(choice(0, "a", "b"), Prediction(example_id="e", value=0)) is None


@pytest.mark.slow
@given(ROWS)
def test_label_statistics_are_scikit_learns(rows: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*rows, strict=True)
    expected = f1_score(gold, predicted, average="macro", zero_division=0)
    assert value_of(macro_f1, rows) == pytest.approx(expected, abs=1e-12)
    recall = recall_score(gold, predicted, labels=sorted(set(gold)), average="macro")
    assert value_of(balanced_accuracy, rows) == pytest.approx(recall, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["entailment", "neutral", "entailment|neutral"]), min_size=1, max_size=4))
def test_balanced_accuracy_of_ties_is_its_mean_over_all_ways_to_break_them(answers: list[str]) -> None:
    golds = [LABELS[index % 2] for index in range(len(answers))]
    tally = MetricAggregator("metric", as_statistic(balanced_accuracy, LABELS))
    for gold, answer in zip(golds, answers, strict=True):
        tied = answer.split("|")
        prediction = Prediction(
            example_id="e",
            value=tied[0],
            scores=tuple(float(label in tied) for label in LABELS),
            labels=LABELS,
            tied=len(tied),
        )
        count_in(tally, PairExample(id="e", left="l", right="r", label=gold), prediction)
    broken = []
    for outcome in product(*(answer.split("|") for answer in answers)):
        recalls = [
            Fraction(sum(g == p == label for g, p in zip(golds, outcome, strict=True)), golds.count(label))
            for label in set(golds)
        ]
        broken.append(sum(recalls) / len(recalls))
    assert tally.score().value == pytest.approx(float(sum(broken) / len(broken)), abs=1e-12)


@pytest.mark.parametrize("status", ["nan", "error", "unparseable", "refusal", "empty", "ambiguous"])
def test_no_answer_is_neither_right_nor_wrong(status: str) -> None:
    prediction = Prediction(example_id="e", value=None, status=status)
    pair = PairExample(id="e", left="l", right="r", label="neutral")
    assert choice_accuracy(choice(0, "a", "b"), prediction) is None
    assert pair_accuracy(pair, prediction) is None
    assert as_statistic(macro_f1, LABELS).features(pair, prediction) is None


def test_accuracy_is_refused_where_nothing_is_chosen() -> None:
    metrics = harness().metrics
    for other in ("spans", "generation", "similarity"):
        with pytest.raises(TaskError, match=f"metric 'acc' is for choice, joint, pairs, ranking, not {other}"):
            metrics.get("acc", other)


def test_a_tie_without_scores_and_a_foreign_label_are_bugs() -> None:
    with pytest.raises(ValueError, match="neither one answer nor scores"):
        choice_accuracy(choice(0, "a", "b"), Prediction(example_id="e", value=0, tied=2))
    with pytest.raises(ValueError, match="NaN"):
        choice_accuracy(choice(0, "a", "b"), Prediction(example_id="e", value=0, scores=(0.1, float("nan")), tied=2))
    with pytest.raises(ValueError, match="not among the labels"):
        value_of(macro_f1, [("entailment", "maybe")])


AREAS = """
type: classification
name: areas
data: {test: "jsonl:areas.jsonl"}
fields: {id: row.id, text: row.text, label: row.label}
labels: [a, b]
metrics: [roc_auc]
"""


@pytest.mark.parametrize("shift", [1.5, 2.5, 3.0])
def test_no_interval_of_an_area_extends_beyond_1(shift: float, tmp_path: Path) -> None:
    """Resampled sums of influences do, if the area is near 1."""
    generator = np.random.default_rng(3)
    shown = np.concatenate((generator.normal(shift, 1, 25), generator.normal(0, 1, 25)))
    rows = [{"id": str(row), "text": f"text {row}", "label": "a" if row < 25 else "b"} for row in range(50)]
    (tmp_path / "areas.task.yaml").write_text(AREAS)
    (tmp_path / "areas.jsonl").write_text("\n".join(map(json.dumps, rows)))
    predictions = [{"id": str(row), "scores": [float(score), 0.0]} for row, score in enumerate(shown)]
    options = {"include_path": tmp_path, "output_path": tmp_path / "run", "baselines": False}
    scores = figeval.score("areas", predictions, name="system", **options).record.tasks[0].scores
    (score,) = (score for score in scores if score.metric == "roc_auc")
    assert score.interval.method == "bootstrap"
    assert score.low is not None and score.high is not None and score.value is not None
    assert 0 <= score.low < score.value < score.high <= 1


@pytest.mark.parametrize("metric", [choice_accuracy, choice_accuracy_of_all, parse_rate])
def test_metrics_of_a_choice_keep_to_the_contract(metric: PerExample) -> None:
    answers = [label_prediction(scores) for scores in ((0.2, 0.7, 0.1), (0.7, 0.2, 0.1), (0.4, 0.4, 0.2))]
    check_metric(metric, [(choice(1, "a", "b", "c"), answer) for answer in answers])


@pytest.mark.parametrize("metric", [macro_f1, balanced_accuracy])
def test_metrics_of_labels_keep_to_the_contract(metric: PerLabel) -> None:
    pair = PairExample(id="e", left="l", right="r", label="yes")
    answers = [
        Prediction(example_id="e", value=value, scores=scores, labels=("yes", "no"))
        for value, scores in (("yes", (0.8, 0.2)), ("no", (0.2, 0.8)))
    ]
    check_metric(metric, [(pair, answer) for answer in answers], labels=("yes", "no"))


# ---- parse rate, accuracy of all and without priors, consistency, position bias, by hand -----------------------------

EXAMPLE = ChoiceExample(id="1", query="q", options=("a", "b", "c"), gold=1)
HIDDEN_GOLD = ChoiceExample(id="1", query="q", options=("a", "b", "c"), gold=None)
PAIR = PairExample(id="1", left="l", right="r", label="yes")
CYCLIC = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


def prediction(label, status="ok", **extra):
    return Prediction(example_id="1", value=label, status=status, **extra)


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
