"""Neighbours against brute force over every order of tied distances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, permutations
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import UnknownName
from figeval.metrics.neighbours import DISTANCES, MEASURES, measure_neighbours, neighbours, profiles


def brute_force(row: list[float], relevant: set[int]) -> tuple[float, float, float]:
    """acc, mrr and recall@3 averaged over all orders of the others that respect the distances."""
    measures = []
    for order in permutations(range(len(row))):
        if all(row[a] <= row[b] for a, b in pairwise(order)):
            first = next(position for position, item in enumerate(order, 1) if item in relevant)
            hits = sum(item in relevant for item in order[:3])
            measures.append((float(order[0] in relevant), 1 / first, hits / len(relevant)))
    acc, mrr, recall = (fmean(column) for column in zip(*measures, strict=True))
    return acc, mrr, recall


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 6))
def test_expectation_over_ties_is_the_mean_over_all_orders(data: st.DataObject, n: int) -> None:
    cells = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=n * n, max_size=n * n))
    upper = np.triu(np.array(cells).reshape(n, n), 1)
    distances = upper + upper.T
    groups = data.draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    for i, neighbours_found in enumerate(neighbours(distances, groups)):
        other_indices = [j for j in range(n) if j != i]
        relevant_positions = {position for position, j in enumerate(other_indices) if groups[j] == groups[i]}
        row = [distances[i, j] for j in other_indices]
        if not relevant_positions:
            assert neighbours_found is None
            continue
        expected = (*brute_force(row, relevant_positions), float(row.count(min(row)) > 1))
        assert [MEASURES[name](neighbours_found) for name in ("acc", "mrr", "recall@3", "tied")] == pytest.approx(
            expected
        )


def values(measure: str, distances: np.ndarray, groups: Sequence[str]) -> list[float | None]:
    return [None if measures is None else MEASURES[measure](measures) for measures in neighbours(distances, groups)]


def test_a_constant_model_gets_chance_exactly() -> None:
    groups = [str(i // 4) for i in range(1000)]
    distances = DISTANCES["cosine"](np.full((1000, 5), 0.2))
    assert values("acc", distances, groups) == pytest.approx([3 / 999] * 1000)
    assert values("tied", distances, groups) == [1.0] * 1000


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_nan_row_is_nobodys_neighbour(distance: str) -> None:
    points = np.exp(profiles([[0.0, 1.0], [0.0, 1.1], [0.0, np.nan], [0.0, 3.0], [0.0, 4.0]]))
    assert values("acc", DISTANCES[distance](points), ["a", "a", "a", "b", "b"]) == [1.0, 1.0, None, 1.0, 1.0]


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows_have_no_neighbours(n: int) -> None:
    assert values("mrr", np.zeros((n, n)), ["a"] * n) == [None] * n


def test_nothing_known() -> None:
    assert values("acc", np.full((3, 3), np.nan), ["a", "a", "b"]) == [None] * 3


def test_what_does_not_fit_is_a_bug() -> None:
    with pytest.raises(ValueError, match="for 3 groups"):
        neighbours(np.zeros((2, 2)), ["a", "b", "c"])
    distances = np.ones((3, 3))
    distances[0, 1] = distances[1, 0] = np.nan
    with pytest.raises(ValueError, match="two known rows"):
        neighbours(distances, ["a", "a", "b"])


# ---- as metrics of stored rows ---------------------------------------------------------------------------------------


def row(motif: str, *scores: Any, status: str = "ok") -> dict[str, Any]:
    return {"id": "1", "gold": motif, "status": status, "scores": list(scores)}


ROWS = [row("a", 0.0, 1.0), row("a", 0.0, 1.2), row("b", 0.0, 5.0), row("b", "-inf", 5.0)]


def test_each_metric_is_found_by_its_name() -> None:
    names = ["acc_cosine", "mrr_jsd", "recall@3_l1", "tied_l2"]
    measures = measure_neighbours(ROWS, names, {"temperature": 1.0})
    assert measures == {name: [(float(name != "tied_l2"), 1.0)] * 4 for name in names}


def test_temperature_makes_distributions_of_scores() -> None:
    rows = [row("a", 0.0, 2.0), row("a", 0.0, 4.0), row("b", 0.0, 8.0), row("b", 0.0, 8.5)]
    # Probabilities .881, .982, .9997, .9998: the second is nearest to the third. At 1000 they are linear in the scores.
    assert measure_neighbours(rows, ["acc_l1"], {"temperature": 1.0})["acc_l1"] == [
        (1.0, 1.0),
        (0.0, 1.0),
        (1.0, 1.0),
        (1.0, 1.0),
    ]
    assert measure_neighbours(rows, ["acc_l1"], {"temperature": 1000.0})["acc_l1"] == [(1.0, 1.0)] * 4


def test_without_a_temperature_scores_are_vectors() -> None:
    rows = [row("a", 1.0, 0.0), row("a", 9.0, 1.0), row("b", 1.0, 1.0), row("b", 2.0, 2.5)]
    assert measure_neighbours(rows, ["acc_cosine"], {})["acc_cosine"] == [(1.0, 1.0)] * 4
    assert measure_neighbours(rows, ["acc_l2"], {})["acc_l2"] == [(0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (1.0, 1.0)]


@pytest.mark.parametrize("lost", [row("a", None, 1.0, status="nan"), row("a", status="error"), row("a", None, 1.0)])
def test_a_row_without_an_answer_has_no_value_and_takes_no_place(lost: dict[str, Any]) -> None:
    measures = measure_neighbours([*ROWS, lost], ["acc_jsd"], {"temperature": 1.0})
    assert measures["acc_jsd"] == [(1.0, 1.0)] * 4 + [None]


@pytest.mark.parametrize("distance", DISTANCES)
def test_too_few_rows(distance: str) -> None:
    name = f"acc_{distance}"
    assert measure_neighbours([], [name], {"temperature": 1.0}) == {name: []}
    assert measure_neighbours(ROWS[:1], [name], {"temperature": 1.0}) == {name: [None]}
    assert measure_neighbours([row("a", status="error")] * 2, [name], {"temperature": 1.0}) == {name: [None, None]}


def test_an_unknown_distance_is_named() -> None:
    with pytest.raises(UnknownName, match=r"unknown distance 'l3'; did you mean"):
        measure_neighbours(ROWS, ["acc_l3"], {})


@pytest.mark.slow
def test_neighbours_of_1000_random_narratives_are_no_better_than_chance() -> None:
    scores = np.random.default_rng(3).normal(size=(1000, 250))
    rows = [row(str(i // 4), *scores[i].tolist()) for i in range(1000)]
    names = [f"{measure}_{distance}" for measure in MEASURES for distance in DISTANCES]
    measures = measure_neighbours(rows, names, {"temperature": 1.0})
    assert np.mean([features[0] for features in measures["acc_cosine"] if features]) < 0.02
