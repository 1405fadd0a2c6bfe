"""Prediction-powered means against ppi_py, and their coverage in simulations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval.metrics.intervals import wilson
from figeval.wings.annotation.prediction_powered import MIN_LABELLED_CLUSTERS, PoweredMean, prediction_powered_mean

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "prediction_powered.json").read_text("utf-8"))


def of(case: dict[str, Any]) -> PoweredMean:
    missing = [None] * len(case["unlabelled"])
    return prediction_powered_mean([*case["labels"], *missing], [*case["predictions"], *case["unlabelled"]])


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)])
def test_a_number_that_is_none_is_refused(bounds: tuple[float, float] | None) -> None:
    """Clipped to the bounds, its interval would be all of the scale."""
    labels: list[float | None] = [1.0, 0.0] * 20 + [None]
    with pytest.raises(ValueError, match="NaN"):
        prediction_powered_mean(labels, [0.5] * 40 + [float("nan")], None, bounds)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["why"])
def test_values_are_those_of_ppi_py(case: dict[str, Any]) -> None:
    mean = of(case)
    assert (mean.score.value, mean.tuning) == pytest.approx((case["value"], case["tuning"]), abs=1e-9)
    # ppi_py takes the normal quantile and the observed correlation, which is too narrow for few labels.
    assert mean.score.low is not None and mean.score.high is not None
    ratio = (mean.score.high - mean.score.low) / (case["normal_high"] - case["normal_low"])
    assert 1 < ratio < 1.25


def test_few_labels_have_no_interval() -> None:
    labelled = MIN_LABELLED_CLUSTERS - 1
    mean = prediction_powered_mean(
        [*(float(n % 3) for n in range(labelled)), *[None] * 20], [1.0, 2.0] * 10 + [1.0] * labelled
    )
    assert mean.score.value is not None and mean.score.low is None
    assert mean.score.interval.reason == "fewer than 20 independent human labels"
    assert prediction_powered_mean([None], [1.0]).score.interval.reason == "no labels"
    with pytest.raises(ValueError, match="same length"):
        prediction_powered_mean([1.0], [])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=25, max_size=60), st.integers(-9, 9))
def test_a_constant_bias_of_the_predictions_changes_nothing(rows: list[tuple[int, int]], bias: int) -> None:
    labels = [float(y) if index < 22 else None for index, (y, _) in enumerate(rows)]
    mean = prediction_powered_mean(labels, [float(f) for _, f in rows])
    other = prediction_powered_mean(labels, [float(f + bias) for _, f in rows])
    assert mean.score.value == pytest.approx(other.score.value)
    assert mean.tuning == pytest.approx(other.tuning)
    assert mean.score.stderr == pytest.approx(other.score.stderr, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(("rho", "narrowest", "widest"), [(0.0, 0.93, 1.03), (0.9, 0.4, 0.85)])
def test_intervals_cover_with_a_biased_judge(rho: float, narrowest: float, widest: float, clustered: bool) -> None:
    """40 labels, 400 predictions that are 1 too high: unequal clusters, and no cluster at all."""
    generator = np.random.default_rng(7)
    covered, values, widths, human = 0, [], [], []
    for _ in range(2000):
        names = generator.choice(100, 400, p=generator.dirichlet(np.ones(100))) if clustered else np.arange(400)
        shared, errors = generator.normal(size=(2, 400)) * 0.6
        z = shared[names] + 0.8 * generator.normal(size=400)
        noise = errors[names] + 0.8 * generator.normal(size=400)
        f = 4 + rho * z + np.sqrt(1 - rho**2) * noise
        drawn = set(generator.choice(400, 40, replace=False).tolist())
        labels = [3 + float(z[index]) if index in drawn else None for index in range(400)]
        clusters = [str(name) for name in names]
        score = prediction_powered_mean(labels, f.tolist(), clusters).score
        alone = prediction_powered_mean(labels, [0.0] * 400, clusters).score
        if score.low is None or score.high is None or alone.low is None or alone.high is None or score.value is None:
            continue  # the few clusters of a draw
        covered += score.low <= 3 <= score.high
        values.append(score.value)
        widths.append(score.high - score.low)
        human.append(alone.high - alone.low)
    assert len(values) > 1200
    assert 0.925 < covered / len(values) < 0.985  # above .95, as only the help that is shown counts
    assert abs(np.mean(values) - 3) < 0.03
    assert narrowest < np.mean(widths) / np.mean(human) < widest


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=40, max_size=80), st.integers(20, 30))
def test_a_share_and_its_interval_stay_between_0_and_1(rows: list[tuple[bool, bool]], n: int) -> None:
    labels = [float(y) if index < n else None for index, (y, _) in enumerate(rows)]
    score = prediction_powered_mean(labels, [float(f) for _, f in rows], bounds=(0.0, 1.0)).score
    assert score.low is not None and score.value is not None and score.high is not None
    assert 0 <= score.low <= score.value <= score.high <= 1


def test_labels_that_are_all_the_same_have_the_interval_of_their_number() -> None:
    """Predictions cannot help, whatever they are: nobody knows when they are wrong."""
    mean = prediction_powered_mean([1.0] * 30 + [None] * 300, [1.0, 0.0] * 165, bounds=(0.0, 1.0))
    assert mean.score.low is not None and mean.tuning == 0
    assert mean.score.low == pytest.approx(30 / (30 + 2.0452**2), abs=1e-4)
    assert (mean.score.value, mean.score.high, mean.score.stderr, mean.p) == (1.0, 1.0, None, None)


def test_a_constant_judge_is_not_narrower_than_wilson() -> None:
    labels = [1.0] * 17 + [0.0] * 8
    score = prediction_powered_mean([*labels, *[None] * 500], [1.0] * 525, bounds=(0.0, 1.0)).score
    low, high = wilson(17, 25)
    assert score.low is not None and score.high is not None
    assert score.value == 17 / 25 and score.low < low and high < score.high


def test_the_p_of_a_bounded_difference_is_that_of_its_interval() -> None:
    generator = np.random.default_rng(5)
    for shift in np.linspace(-0.5, 0.5, 40):
        y = np.clip(np.round(generator.normal(shift, 1, 200)), -4, 4)
        f = np.clip(np.round(y + generator.normal(0, 1, 200)), -4, 4)
        difference = prediction_powered_mean([*y[:30].tolist(), *[None] * 170], f.tolist(), bounds=(-4.0, 4.0))
        assert difference.p is not None and difference.score.low is not None and difference.score.high is not None
        assert (difference.p > 0.05) == (difference.score.low < 0 < difference.score.high)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "sensitivity", "specificity", "n"),
    [(0.98, 0.95, 0.95, 20), (0.98, 0.99, 0.5, 30), (0.9, 0.99, 0.5, 20), (0.9, 1.0, 1.0, 50), (0.5, 1.0, 1.0, 20)],
)
def test_few_labels_near_a_bound_cover(share: float, sensitivity: float, specificity: float, n: int) -> None:
    """With the observed correlation, .41 of intervals contained the share in the first of these cells."""
    generator, covered, repeats = np.random.default_rng(4), 0, 600
    for _ in range(repeats):
        y = (generator.random(n + 400) < share).astype(float)
        right = generator.random(n + 400) < np.where(y == 1, sensitivity, specificity)
        labels = [*y[:n].tolist(), *[None] * 400]
        score = prediction_powered_mean(labels, np.where(right, y, 1 - y).tolist(), bounds=(0.0, 1.0)).score
        covered += score.low is not None and score.high is not None and score.low <= share <= score.high
    assert covered / repeats > 0.925


@pytest.mark.slow
@pytest.mark.parametrize(("share", "right"), [(0.5, 0.9), (0.9, 0.9), (0.9, 0.97)])
def test_intervals_of_shares_cover(share: float, right: float) -> None:
    """40 yes/no labels, 400 predictions. By t, intervals of shares near 1 would contain the truth in 89 % of draws."""
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(2000):
        y = (generator.random(400) < share).astype(float)
        f = np.where(generator.random(400) < right, y, 1 - y)
        score = prediction_powered_mean([*y[:40].tolist(), *[None] * 360], f.tolist(), bounds=(0.0, 1.0)).score
        covered += score.low is not None and score.high is not None and score.low <= share <= score.high
    assert 0.93 < covered / 2000 < 0.995
