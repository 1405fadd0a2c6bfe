"""Accuracy over ties, and the label statistics against scikit-learn."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, recall_score

from figeval import ChoiceExample, Harness, PairExample, Prediction, RankingExample, TaskError
from figeval.metrics import ranking
from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.classification import acc_norm, balanced_accuracy, choice_accuracy, macro_f1, pair_accuracy
from figeval.metrics.statistic import PerLabel, as_statistic
from figeval.registry import loaded
from figeval.testing import harness
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


def test_accuracy_serves_choice_pairs_and_ranking_and_refuses_the_rest() -> None:
    metrics = harness().metrics
    ranked = RankingExample(id="e", query="q", candidates=("a", "b"), relevant=frozenset({1}))
    assert loaded(metrics.get("acc", "ranking").target)(ranked, label_prediction((0.1, 0.2))) == 1.0
    served = {"choice": choice_accuracy, "pairs": pair_accuracy, "ranking": ranking.accuracy, "joint": ranking.accuracy}
    assert {name: loaded(metrics.get("acc", name).target) for name in served} == served
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


@pytest.mark.parametrize("shift", [1.5, 2.5, 3.0])
def test_no_interval_of_an_area_extends_beyond_1(shift: float) -> None:
    """Resampled sums of influences do, if the area is near 1."""
    generator = np.random.default_rng(3)
    shown = np.concatenate((generator.normal(shift, 1, 25), generator.normal(0, 1, 25)))
    rows = [
        {"status": "ok", "pred": "a", "gold": "a" if number < 25 else "b", "scores": [float(score), 0.0]}
        for number, score in enumerate(shown)
    ]
    metric = Harness().metrics.get("roc_auc", "classification")
    statistic = as_statistic(loaded(metric.target), ("a", "b"))
    aggregator = MetricAggregator("roc_auc", statistic)
    for features in statistic.family(rows, ["roc_auc"], {"labels": ["a", "b"]})["roc_auc"]:
        aggregator.add(None, features)
    score = aggregator.score()
    assert score.interval.method == "bootstrap"
    assert score.low is not None and score.high is not None and score.value is not None
    assert 0 <= score.low < score.value < score.high <= 1
