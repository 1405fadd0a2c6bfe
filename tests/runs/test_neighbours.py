"""Exact nearest-neighbour search: the order of a full sort, however much of it is looked at."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval.runs.retrieval import neighbours
from figeval.runs.retrieval.neighbours import cosines_by_chunks, nearest_first

NUMBERS = st.lists(st.sampled_from([0.5, 0.25, -1.0, 0.1234567, 0.1234568, 0.9]), max_size=40)


@given(NUMBERS, st.integers(1, 9), st.data())
def test_places_come_as_a_stable_sort_gives_them(values: list[float], fewest: int, data: st.DataObject) -> None:
    similarities = np.array(values, dtype=np.float32)
    among = data.draw(st.none() | st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    expected = np.argsort(-np.round(similarities, 6), kind="stable").tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "INITIAL_COUNT", fewest)
        assert list(nearest_first(similarities, among)) == [p for p in expected if among is None or among[p]]
        assert list(islice(nearest_first(similarities), 3)) == expected[:3]


def test_similarities_are_computed_in_bounded_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "CELLS", 25)
    questions, pool = np.eye(7, 3, dtype=np.float32), np.ones((10, 3), dtype=np.float32)
    chunks = list(cosines_by_chunks(questions, pool))
    assert [chunk.shape for chunk in chunks] == [(2, 10), (2, 10), (2, 10), (1, 10)]
    assert np.array_equal(np.concatenate(chunks), questions @ pool.T)
