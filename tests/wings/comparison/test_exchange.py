"""False alarms and coverage of comparisons by scores that are no means, for runs that are alike in the score alone."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from figeval.builtin.plugins.rating.rating_metrics import FEATURES, correlation
from figeval.metrics.discrimination import area, area_features
from figeval.wings.comparison.exchange import statistic_over_languages

REPEATS = 400
RESAMPLES = 1000
CLUSTER_VARIANCE = 0.36  # share of the variance that a cluster has in common
STRENGTH = 0.5  # correlation of run A's continuous ratings with the grades
# That of run B's latent ratings, whose three points correlate with the grades as A's ratings do (from 2 · 10⁵ rows).
IN_THREE_POINTS = {"pearson": 0.568, "spearman": 0.555, "kendall": 0.482}


@pytest.fixture(autouse=True)
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("figeval.wings.comparison.exchange.RESAMPLES", RESAMPLES)


def noise(generator: np.random.Generator, clusters: Any) -> Any:
    """Normal numbers that are correlated within clusters."""
    common = generator.normal(size=clusters.max() + 1)[clusters]
    return np.sqrt(CLUSTER_VARIANCE) * common + np.sqrt(1 - CLUSTER_VARIANCE) * generator.normal(size=len(clusters))


def draw_correlated(generator: np.random.Generator, clusters: Any, name: str) -> tuple[Any, Any, Any]:
    grades = noise(generator, clusters)

    def ratings(strength: float) -> Any:
        return strength * grades + np.sqrt(1 - strength**2) * noise(generator, clusters)

    in_points = np.digitize(ratings(IN_THREE_POINTS[name]), (-0.3, 1.2)).astype(float)
    if np.ptp(in_points) == 0:
        return draw_correlated(generator, clusters, name)
    return FEATURES[name](ratings(STRENGTH), grades), FEATURES[name](in_points, grades), correlation


def crossing(generator: np.random.Generator, clusters: Any, share: float = 0.35, of: float = 0.75) -> Any:
    """Two models with the same area, whose curves cross: the positive scores of B have three times the spread."""
    positive = noise(generator, clusters) > NormalDist().inv_cdf(1 - share)
    if not 1 < positive.sum() < len(positive) - 1:
        return crossing(generator, clusters, share, of)
    lead, rest = NormalDist().inv_cdf(of), noise(generator, clusters)
    of_a = noise(generator, clusters) + positive * lead * np.sqrt(2)
    of_b = np.where(positive, lead * np.sqrt(10) + 3 * rest, rest)
    return area_features(of_a, positive), area_features(of_b, positive), area


SCORES: dict[str, Callable[[np.random.Generator, Any], Any]] = {
    **{name: lambda generator, clusters, name=name: draw_correlated(generator, clusters, name) for name in FEATURES},
    "auc": crossing,
}


def draw_sizes(generator: np.random.Generator, clusters: int, size: int) -> Any:
    """Clusters of this many examples, or with size 0 of lognormal sizes, as numbers of the examples' clusters."""
    sizes = [size] * clusters if size else np.maximum(1, generator.lognormal(1, 1, size=clusters).astype(int))
    return np.repeat(np.arange(clusters), sizes)


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "size"), [(12, 1), (20, 1), (20, 5), (20, 0), (50, 0), (100, 1), (100, 0)])
@pytest.mark.parametrize("score", SCORES)
def test_runs_with_the_same_score_are_seldom_told_apart(score: str, clusters: int, size: int) -> None:
    """Their answers are not exchangeable: B has three points and A a continuum, or the curves cross."""
    generator, alarms, covered, intervals = np.random.default_rng(clusters + size), 0, 0, 0
    for repeat in range(REPEATS):
        index = draw_sizes(generator, clusters, size)
        names = [f"c{cluster}" for cluster in index]
        of_a, of_b, combine = SCORES[score](generator, index)
        features = {"": of_a.tolist()}, {"": of_b.tolist()}
        comparison = statistic_over_languages(*features, {"": names}, combine, repeat, draws=500)
        alarms += (comparison.p or 1) < 0.05
        if comparison.low is not None and comparison.high is not None:
            intervals += 1
            covered += comparison.low <= 0 <= comparison.high
    print(f"{score} {clusters} x {size}: {alarms / REPEATS:.3f}, {covered / max(1, intervals):.3f} of {intervals}")
    assert 0.01 < alarms / REPEATS < 0.095  # .032 to .075 with 2,000 repeats
    if intervals > REPEATS / 10:
        assert covered / intervals > 0.915


@pytest.mark.slow
@pytest.mark.parametrize(("share", "n", "of"), [(0.5, 80, 0.75), (0.2, 250, 0.75), (0.2, 250, 0.95), (0.08, 600, 0.9)])
def test_intervals_of_areas_hold_their_level_if_one_kind_is_rare(share: float, n: int, of: float) -> None:
    generator, covered, intervals = np.random.default_rng(7), 0, 0
    for repeat in range(REPEATS):
        of_a, of_b, combine = crossing(generator, np.arange(n), share, of)
        kinds = {"positive": 1, "negative": 3}
        runs = ({"": features.tolist()} for features in (of_a, of_b))
        comparison = statistic_over_languages(*runs, {"": [None] * n}, combine, repeat, 100, kinds=kinds)
        if comparison.low is not None and comparison.high is not None:
            intervals += 1
            covered += comparison.low <= 0 <= comparison.high
    print(f"{share} of {n}, {of}: {covered / intervals:.3f} of {intervals}")
    assert covered / intervals > 0.92
