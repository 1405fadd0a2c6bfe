"""Area under the ROC curve and balanced accuracy over examples of two kinds, against independent code."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from figeval.metrics.discrimination import Judged, auc, balanced_accuracy
from figeval.metrics.intervals import wilson

SCORES = st.integers(-3, 3).map(float)  # few different ones, so that many tie
EXAMPLES = st.lists(
    st.builds(
        Judged,
        positive=st.booleans(),
        score=SCORES,
        right=st.sampled_from((0.0, 0.5, 1.0)),
        cluster=st.sampled_from((None, "a", "b", "c")),
        stratum=st.sampled_from((None, "x", "y")),
    ),
    max_size=30,
)


def has_both_kinds(judged: list[Judged]) -> bool:
    return len({judgement.positive for judgement in judged}) == 2


@given(EXAMPLES)
def test_the_area_is_that_of_scikit_learn(judged: list[Judged]) -> None:
    score = auc(judged)
    assert score.n == len(judged)
    if not has_both_kinds(judged):
        kind = f"{'negative ' if judged[0].positive else 'positive '}" if judged else ""
        assert (score.value, score.low, score.interval.reason) == (None, None, f"no {kind}examples")
        return
    expected = roc_auc_score([judgement.positive for judgement in judged], [judgement.score for judgement in judged])
    assert score.value == pytest.approx(expected)
    if score.low is not None:
        assert 0 <= score.low <= score.value <= score.high <= 1


@given(EXAMPLES)
def test_balanced_accuracy_is_the_mean_of_two_accuracies(judged: list[Judged]) -> None:
    score = balanced_accuracy(judged)
    if has_both_kinds(judged):
        parts = [[judgement.right for judgement in judged if judgement.positive == kind] for kind in (True, False)]
        assert score.value == pytest.approx(np.mean([np.mean(part) for part in parts]))


@given(EXAMPLES)
def test_within_strata_the_area_is_the_mean_of_theirs(judged: list[Judged]) -> None:
    score = auc(judged, within=True)
    strata = [[judgement for judgement in judged if judgement.stratum == name] for name in ("x", "y")]
    areas = [
        roc_auc_score([judgement.positive for judgement in part], [judgement.score for judgement in part])
        for part in strata
        if has_both_kinds(part)
    ]
    assert score.n == len(areas)
    assert score.value == (pytest.approx(np.mean(areas)) if areas else None)


def test_the_standard_error_of_independent_examples_is_delongs() -> None:
    """DeLong et al. (1988), equation 2: variances of the placements of either kind over their numbers."""
    generator = np.random.default_rng(0)
    positive, negative = generator.normal(1, 1, 300), generator.normal(0, 1, 150)
    wins = (positive[:, None] > negative).astype(float)
    parts = [
        wins.mean(axis=other).var(ddof=1) / len(wins_of_kind) for other, wins_of_kind in ((1, positive), (0, negative))
    ]
    judged = [
        Judged(positive=kind, score=float(score))
        for kind, scores_of_kind in ((1, positive), (0, negative))
        for score in scores_of_kind
    ]
    assert auc(judged).stderr == pytest.approx(np.sqrt(sum(parts)), rel=0.02), "a prior of half an event is in it"


def judge_clusters(generator: np.random.Generator, copies: int = 1) -> list[Judged]:
    """Sixty clusters with both kinds of examples, each example `copies` times."""
    judgements = []
    for cluster in range(60):
        shift = generator.normal()
        for _ in range(int(generator.integers(1, 8))):
            positive = bool(generator.random() < 0.6)
            score = float(positive + shift + generator.normal())
            judgements += [
                Judged(positive=positive, score=score, right=float(score > 0), cluster=str(cluster))
            ] * copies
    return judgements


@pytest.mark.slow
@pytest.mark.parametrize("metric", [auc, balanced_accuracy])
def test_the_standard_error_is_that_of_a_bootstrap_of_clusters(metric) -> None:  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(1)
    judged = judge_clusters(generator)
    score = metric(judged)
    by_cluster: dict[str | None, list[Judged]] = {}
    for judgement in judged:
        by_cluster.setdefault(judgement.cluster, []).append(judgement)
    values = []
    for _ in range(400):
        drawn = generator.choice(list(by_cluster), len(by_cluster))
        values.append(metric([judgement for name in drawn for judgement in by_cluster[name]]).value)
    assert score.stderr == pytest.approx(np.std(values), rel=0.15)
    assert score.clusters == 60


def test_copies_of_examples_in_their_clusters_tell_nothing_new() -> None:
    once, thrice = (auc(judge_clusters(np.random.default_rng(2), copies)) for copies in (1, 3))
    assert thrice.value == pytest.approx(once.value)
    assert thrice.stderr == pytest.approx(once.stderr, rel=0.1)


def test_only_the_order_of_scores_counts() -> None:
    judged = judge_clusters(np.random.default_rng(3))
    moved = [
        Judged(positive=judgement.positive, score=math.exp(judgement.score or 0.0), cluster=judgement.cluster)
        for judgement in judged
    ]
    assert auc(moved) == auc([Judged(positive=o.positive, score=o.score, cluster=o.cluster) for o in judged])


def test_scores_that_are_all_equal_are_an_exact_expectation() -> None:
    tied = {"score": 1.0, "right": 0.5}
    judged = [Judged(positive=k == 1, **tied, cluster=str(n), stratum=str(n)) for n in range(9) for k in (0, 1)]
    for within in (False, True):
        for score in (auc(judged, within=within), balanced_accuracy(judged, within=within)):
            assert (score.value, score.low, score.interval.reason) == (0.5, None, "an exact expectation")


def test_one_answer_to_all_is_certain_only_as_far_as_two_accuracies_are() -> None:
    judged = [Judged(positive=kind, right=float(kind)) for n in range(50) for kind in (True, False)]
    score = balanced_accuracy(judged)
    assert score.value == 0.5
    low, high = wilson(50, 50)
    assert (0.5 - score.low, score.high - 0.5) == (pytest.approx((high - low) / 2), pytest.approx((high - low) / 2))


def test_a_perfect_model_is_no_surer_than_of_the_rarer_kind() -> None:
    judged = [Judged(positive=n < 8, score=float(n < 8), cluster=str(n)) for n in range(100)]
    score = auc(judged)
    assert (score.value, score.high) == (1.0, 1.0)
    assert score.low == pytest.approx(1 - math.hypot(1 - wilson(8, 8)[0], 1 - wilson(92, 92)[0]))
    assert score.stderr is None


def test_ten_right_answers_are_not_certain_beside_a_thousand() -> None:
    """Balanced accuracy of 10 of 10 and 500 of 1,000: half the margin of ten, as that of a thousand hardly counts."""
    rare = [Judged(positive=True, right=1.0)] * 10
    common = [Judged(positive=False, right=float(n % 2)) for n in range(1000)]
    score = balanced_accuracy([*rare, *common])
    assert score.value == 0.75
    assert score.low == pytest.approx(0.75 - math.hypot(1 - wilson(10, 10)[0], 0.5 - wilson(500, 1000)[0]) / 2)
    assert score.high == pytest.approx(0.75 + (wilson(500, 1000)[1] - 0.5) / 2)


def test_a_kind_of_one_cluster_has_no_interval() -> None:
    judged = [Judged(positive=n < 4, score=float(n % 3), cluster="one" if n < 4 else str(n)) for n in range(40)]
    assert auc(judged).interval.reason == "one cluster of positive examples"


@given(EXAMPLES)
def test_intervals_hold_the_value_and_stay_between_0_and_1(judged: list[Judged]) -> None:
    in_three = [replace(judgement, fold=index % 3) for index, judgement in enumerate(judged)]
    for metric in (auc, balanced_accuracy):
        for within in (True, False):
            for given_ in (judged, in_three):
                score = metric(given_, within=within)
                if score.low is None:
                    assert score.interval.reason
                else:
                    assert 0 <= score.low <= score.value <= score.high <= 1
                    assert score.high > score.low


def test_examples_without_a_score_or_an_answer_are_left_out() -> None:
    judged = [Judged(positive=True, score=1.0), Judged(positive=False, score=0.0), Judged(positive=False)]
    assert auc(judged).n == 2
    assert balanced_accuracy(judged).n == 0


def folds(generator: np.random.Generator, number: int = 5) -> list[list[Judged]]:
    """Clusters that are each in one fold; every fold's model gives scores of its own height."""
    judgements_of_folds = []
    for fold in range(number):
        height, fold_judgements = 10 * generator.normal(), []
        for cluster in range(12):
            shift = generator.normal()
            for cluster_number in range(int(generator.integers(2, 6))):
                score = cluster_number % 2 + shift + generator.normal()
                name = f"{fold} {cluster}"
                fold_judgements.append(
                    Judged(positive=cluster_number % 2 == 1, score=score + height, right=float(score > 0), cluster=name)
                )
        judgements_of_folds.append(fold_judgements)
    return judgements_of_folds


def in_folds(parts: list[list[Judged]]) -> list[Judged]:
    return [replace(judgement, fold=fold) for fold, part in enumerate(parts) for judgement in part]


@pytest.mark.parametrize("metric", [auc, balanced_accuracy])
def test_over_folds_it_is_the_mean_of_theirs(metric) -> None:  # type: ignore[no-untyped-def]
    parts = folds(np.random.default_rng(4))
    alone, together = [metric(part) for part in parts], metric(in_folds(parts))
    assert together.value == pytest.approx(np.mean([score.value for score in alone]))
    assert (together.n, together.clusters) == (sum(map(len, parts)), 60)
    # Folds without common clusters are independent, so their variances add up; priors weigh more in small folds.
    assert together.stderr == pytest.approx(np.sqrt(sum(score.stderr**2 for score in alone)) / 5, rel=0.15)
    assert together.low < together.value < together.high
    if metric is auc:
        assert together.value > auc([judgement for part in parts for judgement in part]).value, (
            "scores of two models are no match"
        )


def test_one_fold_is_no_fold() -> None:
    judged = judge_clusters(np.random.default_rng(5))
    for metric in (auc, balanced_accuracy):
        assert metric(in_folds([judged])) == metric(judged)


def test_folds_of_the_same_examples_tell_nothing_new() -> None:
    """The same clusters answered alike in three folds are no more than those of one."""
    judged = judge_clusters(np.random.default_rng(6))
    for metric in (auc, balanced_accuracy):
        once, thrice = metric(judged), metric(in_folds([judged] * 3))
        assert (thrice.value, thrice.clusters) == (pytest.approx(once.value), 60)
        assert thrice.stderr == pytest.approx(once.stderr, rel=0.1)


def test_a_fold_without_both_kinds_is_named() -> None:
    parts = folds(np.random.default_rng(7), 3)
    parts[1] = [judgement for judgement in parts[1] if judgement.positive]
    score = auc(in_folds(parts))
    assert (score.value, score.low, score.interval.reason) == (None, None, "no negative examples in fold 1")


def test_within_strata_only_examples_of_a_fold_are_compared() -> None:
    right = [(True, 1.0), (False, 0.0)]
    judged = [Judged(positive=p, score=s + 5 * f, stratum="a", fold=f) for f in (0, 1) for p, s in right]
    judged += [Judged(positive=p, score=-s, stratum="b", fold=0) for p, s in right]
    score = auc(judged, within=True)
    assert (score.value, score.n) == (0.5, 2)
