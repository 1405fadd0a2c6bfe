"""Metrics of classified texts: cases by hand, scikit-learn's numbers, and DeLong's interval."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from figeval import Harness, MetricAggregator, Prediction, tied_answers
from figeval.builtin.plugins.classification.label_metrics import MACRO_F1, MICRO_F1, POSITIVE_F1, ROC_AUC, exact_match
from figeval.metrics.classification import balanced_accuracy, macro_f1, pair_accuracy
from figeval.metrics.statistic import as_statistic
from figeval.testing import check_metric

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/plugins/classification.json").read_text(encoding="utf-8"))
LABELS = tuple(GOLDEN["labels"])
TWO_LABELS = ("sarcastic", "earnest")
METRICS_OF_LABELS = {"f1": POSITIVE_F1, "macro_f1": macro_f1, "balanced_acc": balanced_accuracy, "acc": pair_accuracy}
METRICS_OF_SETS = {"exact_match": exact_match, "micro_f1": MICRO_F1, "macro_f1": MACRO_F1}
TASK_TYPES = Harness().task_types


def total(metric: Any, cases: Sequence[tuple[Any, Prediction]], labels: tuple[str, ...] = LABELS) -> float | None:
    """The score of a metric over cases."""
    statistic = as_statistic(metric, labels)
    aggregator = MetricAggregator("metric", statistic)
    for example, prediction in cases:
        features = statistic.features(example, prediction)
        if features is not None:
            aggregator.add(None, features)
    return aggregator.score(0).value


def label_case(gold: str | None, predicted: Sequence[str] | None, labels: tuple[str, ...] = LABELS) -> Any:
    """An example, and a prediction that ties between these labels."""
    example = TASK_TYPES.get("classification").Example(id="1", text="t", label=gold)
    if predicted is None:
        return example, Prediction(example_id="1", value=None, labels=labels, status="unparseable")
    scores = tuple(float(label in predicted) for label in labels)
    return example, Prediction(example_id="1", value=predicted[0], scores=scores, labels=labels, tied=len(predicted))


def set_case(gold: Sequence[str], predicted: Sequence[str], either: Sequence[str] = ()) -> Any:
    """An example with a set of labels, and a set that is predicted."""
    example = TASK_TYPES.get("multilabel").Example(id="1", text="t", labels=frozenset(gold))
    tied = 2 ** len(either)
    return example, Prediction(
        example_id="1", value=frozenset(predicted), labels=LABELS, tied_labels=tuple(either), tied=tied
    )


def near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("metric", list(METRICS_OF_LABELS.values()))
def test_metrics_of_one_label_keep_to_the_contract(metric: Any) -> None:
    check_metric(
        metric, [label_case("sarcastic", ["sarcastic"]), label_case("earnest", ["sarcastic", "earnest"])], labels=LABELS
    )


@pytest.mark.parametrize("metric", list(METRICS_OF_SETS.values()))
def test_metrics_of_several_labels_keep_to_the_contract(metric: Any) -> None:
    check_metric(
        metric, [set_case(["sarcastic"], ["sarcastic"]), set_case(["earnest"], [], ["earnest"])], labels=LABELS
    )


@pytest.mark.parametrize("case", GOLDEN["single"], ids=lambda case: case["why"])
@pytest.mark.parametrize("name", list(METRICS_OF_LABELS))
def test_golden_metrics_of_one_label(case: dict[str, Any], name: str) -> None:
    cases = [label_case(gold, predicted) for gold, predicted in zip(case["gold"], case["predicted"], strict=True)]
    assert total(METRICS_OF_LABELS[name], cases) == near(case[name]), case["why"]


@pytest.mark.parametrize("case", GOLDEN["several"], ids=lambda case: case["why"])
@pytest.mark.parametrize("name", list(METRICS_OF_SETS))
def test_golden_metrics_of_several_labels(case: dict[str, Any], name: str) -> None:
    cases = [set_case(*row) for row in zip(case["gold"], case["predicted"], case["open"], strict=True)]
    assert total(METRICS_OF_SETS[name], cases) == near(case[name]), case["why"]


def area(gold: Sequence[int], scores: Sequence[float]) -> float | None:
    """The area under the ROC curve of P(sarcastic), by way of stored rows."""
    assert ROC_AUC.family is not None
    rows = [
        {"gold": TWO_LABELS[0] if right else TWO_LABELS[1], "pred": TWO_LABELS[0], "scores": [score, 1 - score]}
        for right, score in zip(gold, scores, strict=True)
    ]
    aggregator = MetricAggregator("roc_auc", ROC_AUC)
    for features in ROC_AUC.family(rows, ["roc_auc"], {"labels": TWO_LABELS})["roc_auc"]:
        if features is not None:
            aggregator.add(None, features)
    return aggregator.score(0).value


@pytest.mark.parametrize("case", GOLDEN["area"], ids=lambda case: case["why"])
def test_golden_areas(case: dict[str, Any]) -> None:
    assert area(case["gold"], case["scores"]) == near(case["value"]), case["why"]


golds = st.lists(st.sampled_from(LABELS), min_size=1, max_size=12)
sets = st.sets(st.sampled_from(LABELS))


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=30))
def test_scores_of_one_label_are_those_of_scikit_learn(answers: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*answers, strict=True)
    cases = [label_case(right, [predicted]) for right, predicted in answers]
    every = sklearn_metrics.f1_score(gold, predicted, labels=LABELS, average=None, zero_division=0)
    assert total(POSITIVE_F1, cases) == near(every[0] if LABELS[0] in gold else None)
    assert total(macro_f1, cases) == near(sklearn_metrics.f1_score(gold, predicted, average="macro", zero_division=0))
    assert total(pair_accuracy, cases) == near(sklearn_metrics.accuracy_score(gold, predicted))
    recalls = [
        np.mean([predicted == label for right, predicted in answers if right == label])
        for label in LABELS
        if label in gold
    ]
    assert total(balanced_accuracy, cases) == near(np.mean(recalls))


@pytest.mark.slow
@given(st.lists(st.tuples(sets, sets), min_size=1, max_size=20))
def test_scores_of_sets_are_those_of_scikit_learn(answers: list[tuple[set[str], set[str]]]) -> None:
    cases = [set_case(sorted(right), sorted(predicted)) for right, predicted in answers]
    sides = zip(*answers, strict=True)
    gold, predicted = (np.array([[label in each for label in LABELS] for each in side]) for side in sides)
    used = gold.any(axis=0) | predicted.any(axis=0)
    assert total(exact_match, cases) == near(sklearn_metrics.accuracy_score(gold, predicted))
    if not used.any():
        assert total(MICRO_F1, cases) is total(MACRO_F1, cases) is None
        return
    each = sklearn_metrics.f1_score(gold, predicted, average=None, zero_division=0)
    assert total(MICRO_F1, cases) == near(sklearn_metrics.f1_score(gold, predicted, average="micro", zero_division=0))
    assert total(MACRO_F1, cases) == near(each[used].mean())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=2, max_size=30))
def test_the_area_is_that_of_scikit_learn(answers: list[tuple[bool, int]]) -> None:
    """Scores are eighths, so that differences are exact and ties stay ties."""
    gold, scores = zip(*((right, score / 8) for right, score in answers), strict=True)
    expected = sklearn_metrics.roc_auc_score(gold, scores) if len(set(gold)) == 2 else None
    assert area(gold, scores) == near(expected)


@given(st.lists(st.tuples(st.sampled_from(TWO_LABELS), st.sampled_from(TWO_LABELS)), min_size=1, max_size=8))
def test_ties_are_the_mean_over_fair_draws_of_accuracy(answers: list[tuple[str, str]]) -> None:
    cases = [label_case(gold, list(TWO_LABELS), TWO_LABELS) for gold, _ in answers]
    assert total(pair_accuracy, cases, TWO_LABELS) == 0.5
    assert all(set(tied_answers(prediction)) == set(TWO_LABELS) for _, prediction in cases)


def test_the_interval_of_an_area_is_that_of_delong() -> None:
    """The standard error of the two samples' placements, DeLong et al. (1988), against that of the bootstrap."""
    generator = np.random.default_rng(0)
    gold = generator.random(600) < 0.3
    scores = np.round(np.clip(generator.normal(np.where(gold, 0.6, 0.4), 0.2), 0, 1), 3)
    assert ROC_AUC.family is not None
    rows = [
        {"gold": TWO_LABELS[0] if right else TWO_LABELS[1], "pred": TWO_LABELS[0], "scores": [float(score), 0.5]}
        for right, score in zip(gold, scores, strict=True)
    ]
    aggregator = MetricAggregator("roc_auc", ROC_AUC)
    for features in ROC_AUC.family(rows, ["roc_auc"], {"labels": TWO_LABELS})["roc_auc"]:
        assert features is not None
        aggregator.add(None, features)
    above = (scores[gold][:, None] > scores[~gold]) + 0.5 * (scores[gold][:, None] == scores[~gold])
    variances = above.mean(axis=1).var(ddof=1) / gold.sum(), above.mean(axis=0).var(ddof=1) / (~gold).sum()
    assert aggregator.score(0).stderr == pytest.approx(math.sqrt(sum(variances)), rel=0.08)
