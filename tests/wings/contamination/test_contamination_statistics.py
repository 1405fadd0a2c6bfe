"""What a model may remember: the order test is exact and keeps its level; the least likely tokens are found."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval.wings.contamination.statistics import (
    Shard,
    difference_score,
    least_likely,
    mean_score,
    order_test,
    standardize,
)


def shard(m: int, seed: int) -> Shard:
    generator = np.random.default_rng(seed)
    return Shard(generator.normal(-50, 5, m), generator.normal(-40, 5, (m, m)))


def likelihood(texts: Shard, order: tuple[int, ...]) -> float:
    return float(texts.first[order[0]] + sum(texts.after[a, b] for a, b in pairwise(order)))


@given(st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_the_advantage_is_over_the_mean_of_all_orders(m: int, seed: int) -> None:
    texts = shard(m, seed)
    every = [likelihood(texts, order) for order in permutations(range(m))]
    assert texts.advantage == pytest.approx(likelihood(texts, tuple(range(m))) - np.mean(every))


def test_p_is_the_share_of_orders_that_are_as_likely() -> None:
    texts = shard(4, 3)
    in_order = likelihood(texts, (0, 1, 2, 3))
    exact = np.mean([likelihood(texts, order) >= in_order - 1e-9 for order in permutations(range(4))])
    assert order_test([texts], 40_000)[1] == pytest.approx(exact, abs=0.01)


def test_a_remembered_order_is_found() -> None:
    """Every text after its neighbour in the file is two nats likelier than after any other."""
    shards = [shard(5, seed) for seed in range(6)]
    for texts in shards:
        texts.first[:], texts.after[:] = -50.0, -40.0
        texts.after[np.arange(4), np.arange(1, 5)] += 2.0
    score, p = order_test(shards, 999)
    assert p == 0.001
    assert score.value == pytest.approx(4 * 2 - 4 * 2 / 5)
    assert (score.n, score.interval.reason) == (6, "no row differs")


@pytest.mark.slow
def test_without_contamination_p_is_uniform() -> None:
    """Texts differ in length and in what may follow them, so log-likelihoods are far from exchangeable; orders are."""
    p_values = []
    for seed in range(1_000):
        generator = np.random.default_rng([seed, 7])
        texts = generator.normal(-60, 25, (4, 6)), generator.normal(0, 8, (4, 6, 6))
        shards = []
        for lengths, ties in zip(*texts, strict=True):
            order = generator.permutation(6)  # that of the file, drawn independently of the model
            shards.append(Shard(lengths[order], (lengths + ties)[np.ix_(order, order)]))
        p_values.append(order_test(shards, 99, seed)[1])
    for level in (0.05, 0.1, 0.25, 0.5, 0.75):
        assert np.mean(np.array(p_values) <= level) == pytest.approx(
            level, abs=4 * np.sqrt(level * (1 - level) / 1_000)
        )


def test_the_least_likely_fifth() -> None:
    assert least_likely(np.array([-1.0, -9.0, -2.0, -7.0, -3.0, -1.0, -1.0, -1.0, -1.0, -1.0])) == -8.0
    assert least_likely(np.array([-3.0, -1.0])) == -3.0, "at least one token"
    assert least_likely(np.array([])) is None


def test_tokens_are_related_to_the_vocabulary() -> None:
    scores = np.array([[-1.0, -2.0, 0.5], [-4.0, -2.0, 2.0], [0.0, 0.0, 0.0]])
    assert standardize(scores).tolist() == [2.0, -1.0], "a token without an alternative says nothing"


def test_the_difference_of_two_means_has_the_interval_of_newcombe() -> None:
    """56/70 and 48/80, Newcombe (1998), table II: .0524 to .3339."""
    first = mean_score("acc", [(float(k < 56), None) for k in range(70)])
    other = mean_score("acc", [(float(k < 48), None) for k in range(80)])
    difference = difference_score("acc", first, other)
    assert (difference.value, difference.low, difference.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)
    assert difference_score("acc", first, mean_score("acc", [])).value is None
    assert mean_score("acc", [(1.0, "a"), (0.0, "a"), (None, "b")]).clusters == 1
