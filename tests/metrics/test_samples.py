"""Metrics of several samples: values by hand, all choices of samples, and a simulation with known variances."""

from __future__ import annotations

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval.metrics.samples import majority, pass_rate, self_agreement, self_entropy
from figeval.metrics.variance import split_variance

GOLDEN = Path(__file__).parent.parent / "golden/samples.json"
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))["votes"]
EXAMPLE: Any = None  # no metric of these reads it


def row(answers: list[Any], right: list[float | None]) -> dict[str, Any]:
    samples = [
        {
            "status": "unparseable" if value is None else "ok",
            "pred": answer,
            "metrics": {} if value is None else {"acc": value},
        }
        for answer, value in zip(answers, right, strict=True)
    ]
    return {"status": "ok", "gold": 1, "metrics": {}, "samples": samples}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_values_worked_out_by_hand(case: dict[str, Any]) -> None:
    answers = row(case["answers"], case["right"])
    assert majority(len(case["answers"]), EXAMPLE, answers) == pytest.approx(case["maj"])
    for k, value in case["pass"].items():
        assert pass_rate(int(k), EXAMPLE, answers) == pytest.approx(value)
    assert self_agreement(EXAMPLE, answers) == pytest.approx(case["agreement"])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.integers(1, 7))
def test_pass_at_k_is_the_mean_over_all_choices(right: list[float], k: int) -> None:
    value = pass_rate(k, EXAMPLE, row([0] * len(right), list(right)))
    choices = [1 - math.prod(1 - p for p in chosen) for chosen in combinations(right, k)]
    assert value == (pytest.approx(np.mean(choices), abs=1e-9) if choices else None)


def test_a_trivial_model_guesses_each_time() -> None:
    guess = {"status": "ok", "gold": 1, "metrics": {"acc": 0.2}}
    assert pass_rate(3, EXAMPLE, guess) == pytest.approx(1 - 0.8**3)
    assert majority(3, EXAMPLE, guess) == 0.2
    assert self_agreement(EXAMPLE, guess) is self_entropy(3, EXAMPLE, guess) is None


def test_nothing_is_right_or_wrong_without_gold() -> None:
    hidden = {**row([0, 1], [None, None]), "gold": None}
    assert pass_rate(2, EXAMPLE, hidden) is None
    assert majority(2, EXAMPLE, hidden) is None


@given(st.lists(st.integers(0, 3), min_size=2, max_size=9))
def test_entropy_and_agreement_are_at_their_ends_together(answers: list[int]) -> None:
    votes = row(list(answers), [0.0] * len(answers))
    rate, nats = self_agreement(EXAMPLE, votes), self_entropy(len(answers), EXAMPLE, votes)
    assert rate is not None
    assert nats is not None
    assert (rate == 1) == (nats == 0)
    assert -1e-12 <= nats <= math.log(len(answers)) + 1e-12
    assert rate == pytest.approx(np.mean([a == b for a, b in combinations(answers, 2)]))


# ---- the variance of answers -----------------------------------------------------------------------------------------


def test_components_of_a_balanced_table_worked_out_by_hand() -> None:
    """Items 0 and 1 with means 1 and 3, two samples each, one unit from the mean: mean squares 2 and 4."""
    split = split_variance([[[0.0, 2.0]], [[2.0, 4.0]]], [None, None])
    assert (split.mean, split.sampling) == (2, 2)
    assert split.items == pytest.approx(2 - 2 / 2)
    assert (split.clusters, split.prompts, split.interaction) == (None, None, None)
    assert split.sampling_share == pytest.approx(0.5)
    assert split.enough_samples == 18  # 2/k of sampling is a tenth of the total 1 + 2/k


def test_what_nothing_tells_apart_is_unknown() -> None:
    once = split_variance([[[0.0]], [[1.0]]], [None, None])
    assert (once.sampling, once.items, once.sampling_share) == (None, None, None)
    one_item = split_variance([[[0.0, 1.0]]], ["c"])
    assert (one_item.sampling, one_item.items, one_item.interval.low) == (0.5, None, None)
    alike = split_variance([[[1.0, 1.0], [1.0, 1.0]]] * 3, [None] * 3)
    assert (alike.sampling, alike.items, alike.prompts, alike.sampling_share) == (0, 0, 0, None)


def ends(interval: figeval.Interval) -> tuple[float, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low, interval.high


def test_no_number_of_samples_is_enough_if_items_differ_by_rounding_alone() -> None:
    """The components of clusters and items are 0 up to the last bit of a double."""
    clusters = ["a", "a", "a", "b", "b", "b"]
    split = split_variance([[[0.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]], [[1.0, 1.0, 1.0]]] * 2, clusters)
    assert split.items == pytest.approx(0)
    assert split.enough_samples is None


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_answers_that_are_all_alike_do_not_make_the_mean_certain(right: float) -> None:
    cells = [[[right, right]] * 3] * 12
    split = split_variance(cells, [None] * 12, (0.0, 1.0))
    assert (split.prompts, split.sampling) == (0, 0)
    low, high = ends(split.interval)
    assert split.mean in (low, high)
    assert 0.1 < high - low < 0.5, "twelve equal answers leave room for others"


def test_prompts_that_differ_widen_the_interval_within_the_bounds() -> None:
    cells = [[[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]] * 20
    pooled = [[[sample for cell in item for sample in cell]] for item in cells]
    low, high = ends(split_variance(pooled, [None] * 40, (0.0, 1.0)).interval)
    lower, higher = ends(split_variance(cells, [None] * 40, (0.0, 1.0)).interval)
    assert 0 <= lower < low < high < higher <= 1


@pytest.mark.slow
@pytest.mark.parametrize("n_prompts", [1, 3])
@pytest.mark.parametrize("rate", [0.02, 0.98])
def test_intervals_cover_rates_close_to_the_bounds(rate: float, n_prompts: int) -> None:
    generator = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        of_clusters = np.repeat(generator.beta(2 * rate, 2 - 2 * rate, 40), 3)
        right = generator.random((120, n_prompts, 5)) < of_clusters[:, None, None]
        names = [f"c{item // 3}" for item in range(120)]
        low, high = ends(split_variance(right.astype(float).tolist(), names, (0.0, 1.0)).interval)
        covered += low <= rate <= high
    assert covered / 400 >= 0.93


COMPONENTS = {"sampling": 0.25, "interaction": 0.04, "items": 0.16, "clusters": 0.09, "prompts": 0.04}


def simulated(generator: np.random.Generator, n_prompts: int) -> Any:
    """The split of answers to 40 clusters of 3 items, each with 3 samples; the mean is 0."""
    noise = {name: math.sqrt(value) for name, value in COMPONENTS.items()}
    items = np.repeat(generator.normal(0, noise["clusters"], 40), 3) + generator.normal(0, noise["items"], 120)
    cells = items[:, None] + generator.normal(0, noise["interaction"] * (n_prompts > 1), (120, n_prompts))
    if n_prompts > 1:
        cells += generator.normal(0, noise["prompts"], n_prompts)
    samples = cells[..., None] + generator.normal(0, noise["sampling"], (120, n_prompts, 3))
    return split_variance(samples.tolist(), [f"c{item // 3}" for item in range(120)])


@pytest.mark.slow
@pytest.mark.parametrize("n_prompts", [1, 2, 4])
def test_known_components_are_recovered_and_intervals_cover(n_prompts: int) -> None:
    generator = np.random.default_rng(0)
    splits = [simulated(generator, n_prompts) for _ in range(400)]
    for name, value in COMPONENTS.items():
        estimates = [getattr(split, name) for split in splits]
        if n_prompts == 1 and name in ("interaction", "prompts"):
            assert estimates == [None] * len(splits)
        else:
            stderr = np.std(estimates) / math.sqrt(len(splits))
            assert np.mean(estimates) == pytest.approx(value, abs=4 * stderr), name
    covered = np.mean([split.interval.low <= 0 <= split.interval.high for split in splits])
    assert 0.92 <= covered <= 0.995
