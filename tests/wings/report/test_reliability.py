"""Calibration: the error by hand, Brier score and coverage against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from figeval.wings.report import reliability as module
from figeval.wings.report.reliability import Reliability, reliability


def calibrate(scores: list[list[float]], gold: list[int], kind: str = "") -> Reliability:
    calibration = reliability(scores, gold, kind)
    assert calibration is not None
    return calibration


def test_two_bins_by_hand() -> None:
    calibration = calibrate([[0.95, 0.05], [0.93, 0.07], [0.35, 0.65], [0.62, 0.38]], [0, 1, 1, 0])
    assert [(interval.n, interval.accuracy) for interval in calibration.bins] == [(2, 1.0), (2, 0.5)]
    assert calibration.ece == pytest.approx((abs(1 - 0.635) + abs(0.5 - 0.94)) / 2)
    assert calibration.accuracy == 0.75
    assert dict(calibration.selective)[0.5] == 0.5, "the two most confident answers"
    assert dict(calibration.selective)[1.0] == 0.75


def test_the_same_as_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    of_first = generator.uniform(size=200)
    gold = (generator.uniform(size=200) > of_first**2).astype(int)
    calibration = calibrate([[probability, 1 - probability] for probability in of_first], gold.tolist())
    assert calibration.brier == pytest.approx(2 * brier_score_loss(gold, 1 - of_first))
    confidence, right = np.maximum(of_first, 1 - of_first), (of_first < 0.5).astype(int) == gold
    accuracy, mean = calibration_curve(right, confidence, n_bins=10)
    assert [interval.confidence for interval in calibration.bins] == pytest.approx(mean)
    assert [interval.accuracy for interval in calibration.bins] == pytest.approx(accuracy)


def test_ties_count_in_part() -> None:
    calibration = calibrate([[0.5, 0.5], [0.4, 0.4, 0.2]], [0, 2])
    assert calibration.accuracy == 0.25
    assert [share for _, share in calibrate([[0.6, 0.4]] * 4, [0, 0, 1, 1]).selective] == [0.5] * 20


def test_log_likelihoods_are_normalised_over_the_options() -> None:
    calibration = calibrate([[-2.0, -3.0]], [0], "log-likelihoods")
    assert calibration.origin == "normalised log-likelihoods"
    assert calibration.bins[0].confidence == pytest.approx(1 / (1 + math.exp(-1)))


def test_log_probabilities_are_recognised_and_calibrated_scores_may_be_above_0() -> None:
    """`--calibrate` subtracts the log-probability of an option without a question, so that scores may be positive."""
    logs = [[math.log(0.7), math.log(0.3)]]
    assert calibrate(logs, [0]).origin == "log-probabilities"
    assert calibrate(logs, [0]).brier == pytest.approx(calibrate([[0.7, 0.3]], [0]).brier)
    calibration = calibrate([[1.0, -1.0]], [0], "log-likelihoods")
    assert calibration.bins[0].confidence == pytest.approx(1 / (1 + math.exp(-2)))


@pytest.mark.parametrize("n", [20, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_error_of_a_calibrated_model_is_what_calibrated_models_have(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mean over data sets is the one that is printed beside the error, and one of twenty lies above the limit."""
    generator = np.random.default_rng(n)
    confidence = generator.uniform(0.5, 1, n)
    scores = [[probability, 1 - probability] for probability in confidence]

    def sample() -> Reliability:
        return calibrate(scores, (generator.random(n) > confidence).astype(int).tolist())

    printed, repeated = sample(), sample()
    assert printed.calibrated_ece == repeated.calibrated_ece, "it does not depend on the answers, and draws are seeded"
    for name in ("RESAMPLES", "ERROR_RESAMPLES", "MIN_DRAWS"):
        monkeypatch.setattr(module, name, 2)  # the errors of the other samples are not drawn
    errors = np.array([sample().ece for _ in range(100)])
    assert errors.mean() == pytest.approx(printed.calibrated_ece, rel=0.12)
    assert 0 <= (errors > printed.calibrated_ece_high).mean() <= 0.12


def test_a_single_bin_by_hand() -> None:
    """Of two answers of confidence .75 are two right with 9/16, one with 6/16: 9/16 · 1/4 + 6/16 · 1/4 + 1/16 · 3/4."""
    assert calibrate([[0.75, 0.25]] * 2, [0, 0]).calibrated_ece == pytest.approx(9 / 32, abs=0.005)


def test_ties_of_all_options_are_right_as_often_as_they_say() -> None:
    calibration = calibrate([[0.25] * 4] * 30, [0] * 30)
    assert (calibration.ece, calibration.calibrated_ece, calibration.calibrated_ece_high) == (0, 0, 0)


def test_intervals_hold_the_numbers_and_know_of_clusters() -> None:
    generator = np.random.default_rng(3)
    confidence = np.repeat(generator.uniform(0.5, 1, 40), 5)
    scores = [[probability, 1 - probability] for probability in confidence]
    gold = (generator.random(200) < 0.5).astype(int).tolist()  # half as right as it says at its surest
    alone = reliability(scores, gold)
    clustered = reliability(scores, gold, clusters=[str(number // 5) for number in range(200)])
    assert alone is not None and clustered is not None
    for name in ("accuracy", "ece", "brier"):
        low, high = getattr(alone, f"{name}_limits")
        assert low < getattr(alone, name) < high
    assert alone.ece_limits is not None and alone.ece_limits[0] > 0.05, "far from calibrated"
    assert alone.brier_limits is not None and clustered.brier_limits is not None
    assert alone.brier_limits != clustered.brier_limits
    calibrated = reliability(scores, (generator.random(200) > confidence).astype(int).tolist())
    assert calibrated is not None and calibrated.ece_limits is not None
    assert calibrated.ece_limits[0] == 0 < calibrated.ece_limits[1]


@pytest.mark.parametrize(
    "scores",
    [
        [],
        [[0.9, 0.3]],
        [[-0.2, -0.9]],
        [[-2.5, -7.0]],
        [[-120.0, -3.25, -40.0]],
        [[math.nan, 0.5]],
        [[-math.inf, -2.0]],
        [[1.0]],
    ],
)
def test_other_scores_have_no_calibration(scores: list[list[float]]) -> None:
    """Cosines, negative distances, numbers of shared words and pairs with a threshold."""
    assert reliability(scores, [0] * len(scores)) is None
