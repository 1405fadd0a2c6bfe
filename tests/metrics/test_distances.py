"""The four distances against scipy's own functions, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.spatial import distance

from figeval import UnknownName
from figeval.metrics.neighbours import BLOCK, DISTANCES, distance_named, profiles

SCIPY: dict[str, Callable[..., float]] = {
    "cosine": distance.cosine,
    "jsd": distance.jensenshannon,
    "l2": distance.euclidean,
    "l1": distance.cityblock,
}


def loop(name: str, points: np.ndarray) -> np.ndarray:
    """The distances pair by pair, with 0 for the NaN that a negative sum under jensenshannon's root gives."""
    n = len(points)
    square = np.zeros((n, n))
    with np.errstate(invalid="ignore"):
        for i in range(n):
            for j in range(i + 1, n):
                square[i, j] = square[j, i] = np.nan_to_num(SCIPY[name](points[i], points[j]))
    return square


def nearest(square: np.ndarray) -> list[set[int]]:
    """All nearest others of each row. Distances below 1e-100 count as none: their squares underflow."""
    distances = np.where(square < 1e-100, 0.0, square) + np.diag(np.full(len(square), np.inf))
    return [set(np.flatnonzero(row == row.min())) for row in distances]


def sharp(rows: int, columns: int, temperature: float) -> np.ndarray:
    return np.exp(profiles(np.random.default_rng(7).normal(size=(rows, columns)), temperature))


LOGITS = arrays.arrays(
    np.float64,
    st.tuples(st.integers(2, 8), st.integers(2, 6)),
    elements=st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 40.0, 800.0, -math.inf]) | st.floats(-50, 50),
)


@settings(max_examples=60, deadline=None)
@given(LOGITS, st.sampled_from([1.0, 0.3, 0.01]))
@pytest.mark.parametrize("name", DISTANCES)
def test_distances_and_nearest_are_scipys(name: str, scores: np.ndarray, temperature: float) -> None:
    points = np.exp(profiles(scores, temperature))
    points = points[~np.isnan(points).any(axis=1)]
    if len(points) < 2:
        return
    ours, of_scipy = DISTANCES[name](points), loop(name, points)
    np.testing.assert_allclose(ours**2, of_scipy**2, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(ours, ours.T)
    assert nearest(ours) == nearest(of_scipy)


@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.03, 0.01])
@pytest.mark.parametrize("name", DISTANCES)
def test_sharp_distributions_have_scipys_nearest_neighbours(name: str, temperature: float) -> None:
    points = sharp(60, 30, temperature)
    ours, of_scipy = DISTANCES[name](points), loop(name, points)
    assert nearest(ours) == nearest(of_scipy)
    np.testing.assert_allclose(ours, of_scipy, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["cosine", "l2", "l1"])
def test_vectors_need_not_be_distributions(name: str) -> None:
    points = np.random.default_rng(7).normal(scale=30.0, size=(40, 12))
    points[5] = points[4] * (1 + 1e-13)
    ours, of_scipy = DISTANCES[name](points), loop(name, points)
    np.testing.assert_allclose(ours**2, of_scipy**2, rtol=1e-9, atol=1e-9)
    assert nearest(ours) == nearest(of_scipy)


@pytest.mark.parametrize("name", DISTANCES)
def test_more_rows_than_a_block(name: str) -> None:
    points = sharp(2 * BLOCK + 3, 4, 1.0)
    ours = DISTANCES[name](points)
    for i, j in [(0, BLOCK), (0, BLOCK + 1), (1, 2 * BLOCK + 2), (BLOCK - 1, BLOCK), (2 * BLOCK + 1, 2 * BLOCK + 2)]:
        assert ours[i, j] == ours[j, i] == pytest.approx(SCIPY[name](points[i], points[j]), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", DISTANCES)
def test_identical_distributions_are_at_distance_0_exactly(name: str) -> None:
    points = np.repeat(sharp(5, 250, 0.2), 3, axis=0)
    ours = DISTANCES[name](points)
    same = np.repeat(np.arange(5), 3)
    assert (ours[same[:, None] == same] == 0.0).all()
    assert (ours[same[:, None] != same] > 0.0).all()


@pytest.mark.parametrize("name", DISTANCES)
def test_a_distribution_with_zeros(name: str) -> None:
    points = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(DISTANCES[name](points), loop(name, points), rtol=1e-14)


@pytest.mark.parametrize("name", DISTANCES)
def test_a_nan_row_is_at_distance_nan_from_all_and_changes_no_other(name: str) -> None:
    points = sharp(6, 5, 0.5)
    clean = DISTANCES[name](points)
    points[2, 1] = np.nan
    ours = DISTANCES[name](points)
    rest_indices = [0, 1, 3, 4, 5]
    assert np.isnan(ours[2, rest_indices]).all()
    assert np.isnan(ours[rest_indices, 2]).all()
    np.testing.assert_allclose(
        ours[np.ix_(rest_indices, rest_indices)], clean[np.ix_(rest_indices, rest_indices)], rtol=1e-12
    )


def test_the_angle_of_a_zero_vector_is_unknown() -> None:
    ours = DISTANCES["cosine"](np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]))
    assert np.isnan(ours[0, 1:]).all()
    assert ours[1, 2] == pytest.approx(1 - math.sqrt(0.5))


@pytest.mark.parametrize("points", [[[0.5, 0.6], [0.5, 0.5]], [[-0.5, 1.5], [0.5, 0.5]]])
def test_jensen_shannon_is_for_distributions(points: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="negative or does not add up"):
        DISTANCES["jsd"](points)


def test_an_unknown_distance_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"unknown distance 'cosin'; did you mean 'cosine'"):
        distance_named("cosin")


@given(LOGITS, st.floats(0.01, 100))
def test_profiles_are_log_probabilities(scores: np.ndarray, temperature: float) -> None:
    rows = profiles(scores, temperature)
    hopeless = np.isneginf(scores).all(axis=1)
    assert np.isnan(rows[hopeless]).all()
    np.testing.assert_allclose(np.exp(rows[~hopeless]).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(profiles(scores / temperature), rows, rtol=1e-12)


def test_profiles_of_float32_scores_are_float64() -> None:
    scores = np.array([[0.0, -200.0, -201.0]], dtype=np.float32)
    rows = profiles(scores)
    assert rows.dtype == np.float64
    assert rows[0, 1] - rows[0, 2] == 1.0


def test_nan_scores_make_a_nan_row_and_only_that() -> None:
    rows = profiles([[0.0, math.nan], [0.0, 0.0], [math.inf, 0.0]])
    assert np.isnan(rows[[0, 2]]).all()
    assert not np.isnan(rows[1]).any()


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_is_positive(temperature: float) -> None:
    with pytest.raises(ValueError, match="not positive"):
        profiles([[0.0, 1.0]], temperature)
