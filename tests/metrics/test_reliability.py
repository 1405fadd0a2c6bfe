"""Calibration: the error by hand, Brier score and coverage against scikit-learn, and scores that have none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from figeval.metrics.reliability import Reliability, reliability


def calibrated(scores: list[list[float]], gold: list[int]) -> Reliability:
    found = reliability(scores, gold)
    assert found is not None
    return found


def test_two_bins_by_hand() -> None:
    found = calibrated([[0.95, 0.05], [0.93, 0.07], [0.35, 0.65], [0.62, 0.38]], [0, 1, 1, 0])
    assert [(one.n, one.accuracy) for one in found.bins] == [(2, 1.0), (2, 0.5)]
    assert found.ece == pytest.approx((abs(1 - 0.635) + abs(0.5 - 0.94)) / 2)
    assert found.accuracy == 0.75
    assert dict(found.selective)[0.5] == 0.5, "the two most confident answers"
    assert dict(found.selective)[1.0] == 0.75


def test_the_same_as_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    of_first = generator.uniform(size=200)
    gold = (generator.uniform(size=200) > of_first**2).astype(int)
    found = calibrated([[one, 1 - one] for one in of_first], gold.tolist())
    assert found.brier == pytest.approx(2 * brier_score_loss(gold, 1 - of_first))
    confidence, right = np.maximum(of_first, 1 - of_first), (of_first < 0.5).astype(int) == gold
    accuracy, mean = calibration_curve(right, confidence, n_bins=10)
    assert [one.confidence for one in found.bins] == pytest.approx(mean)
    assert [one.accuracy for one in found.bins] == pytest.approx(accuracy)


def test_ties_count_in_part() -> None:
    found = calibrated([[0.5, 0.5], [0.4, 0.4, 0.2]], [0, 2])
    assert found.accuracy == 0.25
    assert [one for _, one in calibrated([[0.6, 0.4]] * 4, [0, 0, 1, 1]).selective] == [0.5] * 20


def test_log_likelihoods_are_normalised_over_the_options() -> None:
    found = calibrated([[-2.0, -3.0]], [0])
    assert found.origin == "normalised log-likelihoods"
    assert found.bins[0].confidence == pytest.approx(1 / (1 + math.exp(-1)))


@pytest.mark.parametrize("scores", [[], [[0.9, 0.3]], [[-0.2, -0.9]], [[math.nan, 0.5]], [[-math.inf, -2.0]], [[1.0]]])
def test_other_scores_have_no_calibration(scores: list[list[float]]) -> None:
    """Cosines, numbers of shared words and pairs with a threshold."""
    assert reliability(scores, [0] * len(scores)) is None
