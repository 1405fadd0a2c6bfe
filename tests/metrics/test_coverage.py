"""The simulations behind docs/statistics.md: how often an interval holds the truth, how often a test cries wolf.

Figures are those of the documentation; tolerances are four standard errors of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from figeval.metrics.bootstrap import percentiles, resample
from figeval.metrics.classes import macro_f1
from figeval.metrics.compare import mcnemar, paired, sign_flip
from figeval.metrics.intervals import interval_of_mean, spread_of, t_interval, wilson
from figeval.metrics.statistic import ratio

pytestmark = pytest.mark.slow

RUNS = 4000
ICC = 0.2
Limits = tuple[float | None, float | None]


def clusters(g: int, m: int, p: float, seed: int) -> np.ndarray:
    """Right answers per cluster of m items, shape (RUNS, g); cluster accuracies are Beta with mean p and this ICC."""
    generator = np.random.default_rng(seed)
    spread = 1 / ICC - 1
    return generator.binomial(m, generator.beta(p * spread, (1 - p) * spread, size=(RUNS, g))).astype(float)


def as_if_independent(right: np.ndarray, m: int) -> Limits:
    return wilson(float(right.sum()), m * len(right))


def clustered_t(right: np.ndarray, m: int) -> Limits:
    interval = interval_of_mean(spread_of(right, np.full(len(right), m)), (0.0, 1.0))
    return interval.low, interval.high


def drawn(right: np.ndarray, m: int) -> Limits:
    return percentiles(resample(np.column_stack((right, np.full(len(right), m))), ratio, 0, resamples=999))


def coverage(limits: Callable[[np.ndarray, int], Limits], g: int, m: int, p: float = 0.7) -> float:
    hits = 0
    for right in clusters(g, m, p, seed=g):
        low, high = limits(right, m)
        hits += low is not None and high is not None and low <= p <= high
    return hits / RUNS


def noise(share: float) -> float:
    return 4 * float(np.sqrt(max(share * (1 - share), 0.02) / RUNS))


@pytest.mark.parametrize(
    ("g", "m", "independent", "t", "bootstrap"),
    [
        (5, 50, 0.46, 0.92, 0.83),
        (10, 25, 0.58, 0.93, 0.90),
        (20, 12, 0.72, 0.94, 0.93),
        (40, 10, 0.74, 0.95, 0.94),
        (100, 10, 0.76, 0.95, 0.95),
    ],
)
def test_one_accuracy_with_clusters(g: int, m: int, independent: float, t: float, bootstrap: float) -> None:
    """Intervals that ignore clusters are hopeless, t(G − 1) holds, percentiles need many clusters."""
    assert coverage(as_if_independent, g, m) == pytest.approx(independent, abs=noise(independent))
    assert coverage(clustered_t, g, m) == pytest.approx(t, abs=noise(t))
    assert coverage(drawn, g, m) == pytest.approx(bootstrap, abs=noise(bootstrap))


@pytest.mark.parametrize(
    ("g", "m", "at_90", "at_97"),
    [(5, 50, 0.84, 0.87), (10, 25, 0.88, 0.82), (20, 12, 0.91, 0.85), (40, 10, 0.93, 0.88), (100, 10, 0.94, 0.91)],
)
def test_accuracy_near_1_needs_more_clusters(g: int, m: int, at_90: float, at_97: float) -> None:
    """A symmetric interval leans out of the range: the known limit of this method."""
    assert coverage(clustered_t, g, m, p=0.9) == pytest.approx(at_90, abs=noise(at_90))
    assert coverage(clustered_t, g, m, p=0.97) == pytest.approx(at_97, abs=noise(at_97))


@pytest.mark.parametrize(
    ("n", "p", "wilson_holds", "t_holds"), [(50, 0.95, 0.96, 0.92), (100, 0.98, 0.95, 0.87), (1000, 0.3, 0.95, 0.95)]
)
def test_one_accuracy_without_clusters(n: int, p: float, wilson_holds: float, t_holds: float) -> None:
    """Exact coverage, summed over all binomial outcomes."""
    chance = stats.binom.pmf(np.arange(n + 1), n, p)

    def holds(limits: Callable[[int], tuple[float, float]]) -> float:
        return float(sum(chance[k] for k in range(n + 1) if limits(k)[0] <= p <= limits(k)[1]))

    def by_t(k: int) -> tuple[float, float]:
        return t_interval(k / n, float(np.sqrt(k * (n - k) / (n - 1)) / n), n - 1)

    assert holds(lambda k: wilson(k, n)) == pytest.approx(wilson_holds, abs=0.006)
    assert holds(by_t) == pytest.approx(t_holds, abs=0.006)


@pytest.mark.parametrize(("g", "m", "expected"), [(10, 25, 0.90), (20, 12, 0.93), (40, 10, 0.94), (100, 10, 0.94)])
def test_macro_f1_bootstrap(g: int, m: int, expected: float) -> None:
    """Two balanced labels, right with the cluster's probability: the true macro-F1 is .7."""
    combine = macro_f1.build(("a", "b")).combine
    generator = np.random.default_rng(g)
    hits = 0
    runs = 2000
    for chance in generator.beta(0.7 * 4, 0.3 * 4, size=(runs, g)):
        gold_a = generator.binomial(m, 0.5, size=g)
        right_a, right_b = generator.binomial(gold_a, chance), generator.binomial(m - gold_a, chance)
        said_a = right_a + (m - gold_a) - right_b
        sums = np.column_stack((right_a, right_b, said_a, m - said_a, gold_a, m - gold_a))
        low, high = percentiles(resample(sums, combine, 0, resamples=999))
        hits += low <= 0.7 <= high
    assert hits / runs == pytest.approx(expected, abs=noise(expected) * np.sqrt(RUNS / runs))


@pytest.mark.parametrize(
    ("g", "m", "plain", "t", "flip"),
    [(250, 10, 0.13, 0.05, 0.05), (20, 20, 0.21, 0.05, 0.05), (8, 40, 0.33, 0.06, 0.05)],
)
def test_false_alarms_of_two_equally_good_models(g: int, m: int, plain: float, t: float, flip: float) -> None:
    """Which model is better varies by cluster, on average neither: McNemar on items alarms far too often."""
    generator = np.random.default_rng(g)
    alarms = np.zeros(3)
    names = [f"c{i // m}" for i in range(g * m)]
    for run in range(RUNS):
        lean = generator.uniform(-0.35, 0.35, size=(g, 1)) / 2
        a, b = generator.random((g, m)) < 0.6 + lean, generator.random((g, m)) < 0.6 - lean
        p = _clustered_p(a, b, names) if run < 5 else _fast_p(a, b)
        p_flip = sign_flip((a.astype(float) - b).sum(axis=1), run, draws=999)
        alarms += np.array([mcnemar(int((a & ~b).sum()), int((b & ~a).sum())), p, p_flip]) <= 0.05
    for share, expected in zip(alarms / RUNS, (plain, t, flip), strict=True):
        assert share == pytest.approx(expected, abs=noise(expected))


def _fast_p(a: np.ndarray, b: np.ndarray) -> float:
    """Equal clusters: the t test of the clusters' means."""
    return float(stats.ttest_1samp((a.astype(float) - b).mean(axis=1), 0).pvalue)


def _clustered_p(a: np.ndarray, b: np.ndarray, names: list[str]) -> float:
    result = paired(a.astype(float).ravel().tolist(), b.astype(float).ravel().tolist(), names)
    assert result.p == pytest.approx(_fast_p(a, b))
    return float(result.p or 1.0)


@pytest.mark.parametrize(("n", "discord"), [(200, 0.2), (1000, 0.2), (500, 0.1)])
def test_exact_mcnemar_keeps_its_level(n: int, discord: float) -> None:
    """Independent items: the size over all outcomes, exact in the number of discordant items."""
    size = 0.0
    for k, chance in enumerate(stats.binom.pmf(np.arange(n + 1), n, discord)):
        if chance > 1e-12:
            split = stats.binom.pmf(np.arange(k + 1), k, 0.5)
            size += chance * sum(split[i] for i in range(k + 1) if mcnemar(i, k - i) <= 0.05)
    assert 0.02 < size <= 0.05
