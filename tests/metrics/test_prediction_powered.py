"""Prediction-powered means against ppi_py, and their coverage in simulations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval.metrics.prediction_powered import FEWEST_LABELLED, PoweredMean, prediction_powered_mean

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "prediction_powered.json").read_text("utf-8"))


def of(case: dict[str, Any]) -> PoweredMean:
    missing = [None] * len(case["unlabelled"])
    return prediction_powered_mean([*case["labels"], *missing], [*case["predictions"], *case["unlabelled"]])


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["why"])
def test_values_are_those_of_ppi_py(case: dict[str, Any]) -> None:
    found = of(case)
    assert (found.score.value, found.tuning) == pytest.approx((case["value"], case["tuning"]), abs=1e-9)
    # ppi_py takes the normal quantile and divides by n; this interval is a little wider, for small samples.
    assert found.score.low is not None and found.score.high is not None
    ratio = (found.score.high - found.score.low) / (case["normal_high"] - case["normal_low"])
    assert 1 < ratio < 1.1


def test_few_labels_have_no_interval() -> None:
    few = FEWEST_LABELLED - 1
    found = prediction_powered_mean([*(float(n % 3) for n in range(few)), *[None] * 20], [1.0, 2.0] * 10 + [1.0] * few)
    assert found.score.value is not None and found.score.low is None
    assert found.score.interval == "none: fewer than 20 independent human labels"
    assert prediction_powered_mean([None], [1.0]).score.interval == "none: no labels"
    with pytest.raises(ValueError, match="same length"):
        prediction_powered_mean([1.0], [])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=25, max_size=60), st.integers(-9, 9))
def test_a_constant_bias_of_the_predictions_changes_nothing(rows: list[tuple[int, int]], bias: int) -> None:
    labels = [float(y) if place < 22 else None for place, (y, _) in enumerate(rows)]
    one = prediction_powered_mean(labels, [float(f) for _, f in rows])
    other = prediction_powered_mean(labels, [float(f + bias) for _, f in rows])
    assert one.score.value == pytest.approx(other.score.value)
    assert one.tuning == pytest.approx(other.tuning)
    assert one.score.stderr == pytest.approx(other.score.stderr, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(("rho", "narrowest", "widest"), [(0.0, 0.93, 1.03), (0.9, 0.4, 0.85)])
def test_intervals_cover_with_a_biased_judge(rho: float, narrowest: float, widest: float, clustered: bool) -> None:
    """40 labels, 400 predictions that are 1 too high: unequal clusters, and no cluster at all."""
    generator = np.random.default_rng(7)
    covered, values, widths, human = 0, [], [], []
    for _ in range(2000):
        names = generator.choice(100, 400, p=generator.dirichlet(np.ones(100))) if clustered else np.arange(400)
        shared, others = generator.normal(size=(2, 400)) * 0.6
        z = shared[names] + 0.8 * generator.normal(size=400)
        noise = others[names] + 0.8 * generator.normal(size=400)
        f = 4 + rho * z + np.sqrt(1 - rho**2) * noise
        drawn = set(generator.choice(400, 40, replace=False).tolist())
        labels = [3 + float(z[place]) if place in drawn else None for place in range(400)]
        clusters = [str(name) for name in names]
        found = prediction_powered_mean(labels, f.tolist(), clusters).score
        alone = prediction_powered_mean(labels, [0.0] * 400, clusters).score
        if found.low is None or found.high is None or alone.low is None or alone.high is None or found.value is None:
            continue  # the few clusters of a draw
        covered += found.low <= 3 <= found.high
        values.append(found.value)
        widths.append(found.high - found.low)
        human.append(alone.high - alone.low)
    assert len(values) > 1200
    assert 0.925 < covered / len(values) < 0.975
    assert abs(np.mean(values) - 3) < 0.03
    assert narrowest < np.mean(widths) / np.mean(human) < widest


@pytest.mark.slow
@pytest.mark.parametrize(("share", "right"), [(0.5, 0.9), (0.9, 0.9), (0.9, 0.97)])
def test_intervals_of_shares_cover(share: float, right: float) -> None:
    """40 yes/no labels, 400 predictions. By t, intervals of shares near 1 would contain the truth in 89 % of draws."""
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(2000):
        y = (generator.random(400) < share).astype(float)
        f = np.where(generator.random(400) < right, y, 1 - y)
        found = prediction_powered_mean([*y[:40].tolist(), *[None] * 360], f.tolist(), bounds=(0.0, 1.0)).score
        covered += found.low is not None and found.high is not None and found.low <= share <= found.high
    assert 0.92 < covered / 2000 < 0.975
