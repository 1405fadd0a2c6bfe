"""Mean, spread and interval over seeds, against numbers worked out by hand and against a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import stdtrit

from figeval.metrics.seeds import interval_over_seeds, over_seeds


def test_mean_and_standard_deviation() -> None:
    found = over_seeds([0.2, 0.4, 0.6])
    assert (found.mean, found.sd) == (pytest.approx(0.4), pytest.approx(0.2))
    assert over_seeds([0.2]).sd is None


def test_by_hand() -> None:
    """Three seeds, four examples: means over seeds 1, 2/3, 1/3, 0; scores .75, .5 and .25. The examples' variance is
    drawn towards .25 by a prior of h = s²/.25/2 beside E = 4 · .25 events; Wilson's ends are the roots of
    n (x − m)² = t² x (1 − x) with n = m (1 − m) / V.
    """
    values = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
    square = np.var([1, 2 / 3, 1 / 3, 0], ddof=1)
    prior = square / 0.25 / 2
    examples = (square + prior * 0.25) / (1 + prior) / 4
    seeds = np.var([0.75, 0.5, 0.25], ddof=1) / 3
    variance = examples + seeds
    freedom = variance**2 / (examples**2 / 3 + seeds**2 / 2)
    quantile = stdtrit(freedom, 0.975)
    found = interval_over_seeds(values, [None] * 4, (0.0, 1.0))
    n = 0.25 / variance
    low, high = np.sort(np.roots([n + quantile**2, -n - quantile**2, n / 4]).real)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert (found.method, found.stderr) == ("wilson over seeds and examples", pytest.approx(math.sqrt(variance)))
    free = interval_over_seeds(values, [None] * 4, None)
    variance = square / 4 + seeds
    freedom = variance**2 / ((square / 4) ** 2 / 3 + seeds**2 / 2)
    margin = stdtrit(freedom, 0.975) * math.sqrt(variance)
    assert (free.low, free.high) == (pytest.approx(0.5 - margin), pytest.approx(0.5 + margin))


@pytest.mark.parametrize(
    ("values", "clusters", "why"),
    [
        ([[1, 0]], [None, None], "none: fewer than three seeds"),
        ([[1, 0], [0, 1]], [None, None], "none: fewer than three seeds"),
        ([[1, 0], [0, 1], [1, 1]], ["a", "a"], "none: one cluster"),
        ([[1, 1], [1, 1], [1, 1]], ["a", "b"], "none: nothing differs"),
    ],
)
def test_where_there_is_none(values: list[list[float]], clusters: list[str | None], why: str) -> None:
    found = interval_over_seeds(values, clusters, (0.0, 1.0))
    assert (found.method, found.low, found.high) == (why, None, None)


def simulated(
    generator: np.random.Generator, seeds: int, clusters: int, rows: int
) -> tuple[np.ndarray, list[str | None]]:
    """Scores around 0 with parts of the seed, the cluster, the example and of nothing."""
    seed = generator.normal(0, 0.1, (seeds, 1))
    cluster = np.repeat(generator.normal(0, 0.3, clusters), rows)
    example = generator.normal(0, 0.3, clusters * rows)
    noise = generator.normal(0, 0.3, (seeds, clusters * rows))
    return seed + cluster + example + noise, [f"c{number // rows}" for number in range(clusters * rows)]


def test_it_covers_where_others_do_not() -> None:
    """Three seeds, thirty clusters of four: the interval of the examples alone leaves out the seeds."""
    generator = np.random.default_rng(11)
    held, held_by_examples = 0, 0
    times = 1000
    for _ in range(times):
        values, clusters = simulated(generator, 3, 30, 4)
        found = interval_over_seeds(values, clusters, None)
        assert found.low is not None and found.high is not None
        held += found.low <= 0 <= found.high
        means = values.mean(axis=0).reshape(30, 4).mean(axis=1)
        held_by_examples += abs(means.mean()) <= stdtrit(29, 0.975) * means.std(ddof=1) / math.sqrt(30)
    assert 0.93 < held / times < 0.99
    assert held_by_examples / times < 0.88
