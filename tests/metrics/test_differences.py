"""Comparisons with skewed differences in clusters of unequal size, where the sign flip alone raises false alarms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval.metrics.differences import spread_of_differences
from figeval.metrics.intervals import by_cluster, spread_of
from figeval.metrics.paired import paired, paired_over_languages, sign_flip

ZIPF = np.maximum(1, np.round(200 / np.arange(1, 51))).astype(int)
ROWS = st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 5)), min_size=2, max_size=40)


def draw_skewed(
    generator: Any, sizes: Any, effect: float, shift: float = 0.0
) -> tuple[list[float], list[float], list[str]]:
    """The whole difference, 9 times the effect, is in a random tenth of the clusters; the mean is the shift."""
    rare = generator.random(len(sizes)) < 0.1
    difference = np.repeat(np.where(rare, 9 * effect, -effect) + shift, sizes)
    share, decided = np.maximum(0.1, np.abs(difference)), generator.random(sizes.sum())
    a, b = decided < (share + difference) / 2, (decided >= (share + difference) / 2) & (decided < share)
    names = [f"c{cluster}" for cluster in np.repeat(np.arange(len(sizes)), sizes)]
    return a.astype(float).tolist(), b.astype(float).tolist(), names


@given(ROWS)
def test_the_variance_is_never_smaller_than_cr2(rows: list[tuple[int, int]]) -> None:
    sums, sizes, within = by_cluster([value for value, _ in rows], [f"c{name}" for _, name in rows])
    assert spread_of_differences(sums, sizes, within).stderr >= spread_of(sums, sizes, within).stderr * (1 - 1e-9)


@given(st.lists(st.tuples(*[st.integers(-1, 1)] * 4), min_size=2, max_size=20))
def test_clusters_of_equal_size_keep_the_sign_flip_and_cr2(clusters: list[tuple[int, ...]]) -> None:
    values = np.array(clusters, dtype=float)
    names = [f"c{row}" for row in range(len(clusters)) for _ in range(4)]
    sums, sizes, within = by_cluster(values.ravel(), names)
    spread = spread_of_differences(sums, sizes, within)
    assert spread.stderr == pytest.approx(spread_of(sums, sizes, within).stderr)
    comparison = paired(values.ravel().tolist(), [0.0] * values.size, names, bounds=None)
    assert (comparison.test, comparison.p) == ("sign flip", sign_flip(sums))


def test_interval_and_p_agree_in_clusters_of_unequal_size() -> None:
    generator, both = np.random.default_rng(3), 0
    for shift in np.linspace(-0.2, 0.2, 40):
        a, b, names = draw_skewed(generator, ZIPF, 0.02, shift)
        comparison = paired(a, b, names)
        assert comparison.p is not None and comparison.low is not None and comparison.high is not None
        excluded = not comparison.low <= 0 <= comparison.high
        assert comparison.test == "sign flip and t" and (excluded or comparison.p > 0.05)
        both += excluded
    assert both > 5


def test_one_language_is_the_comparison_of_its_rows() -> None:
    a, b, names = draw_skewed(np.random.default_rng(0), ZIPF, 0.05, 0.1)
    alone, over_languages = paired(a, b, names), paired_over_languages({"de": a}, {"de": b}, {"de": names})
    assert (over_languages.test, over_languages.p) == (alone.test, pytest.approx(alone.p))


def test_what_a_few_clusters_can_miss_is_said() -> None:
    comparison = paired([1.0] * 40, [0.0, 0.0, 0.0, 1.0] * 10, [f"c{row // 2}" for row in range(40)])
    assert comparison.p is not None and comparison.p < 0.05
    assert "12% of samples of 20 clusters include none" in comparison.note
    larger = paired([1.0] * 80, [0.0, 0.0, 0.0, 1.0] * 20, [f"c{row // 2}" for row in range(80)])
    assert larger.note == ""
