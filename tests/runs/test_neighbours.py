"""Exact nearest-neighbour search: the order of a full sort, and no example that gives an answer away."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import ChoiceExample, TaskError
from figeval.runs.retrieval import neighbours
from figeval.runs.retrieval.neighbours import NearestExamples, Retriever, cosines_by_chunks, nearest_first
from figeval.testing import harness

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


COLOURS = ("red", "green", "blue")
QUERIES = st.lists(st.sampled_from(COLOURS), min_size=1, max_size=3).map(" ".join)
EXAMPLES = st.lists(st.tuples(QUERIES, st.sampled_from([None, "a", "b"])), min_size=1, max_size=8)


def vectors(texts: list[str], _noun: str = "") -> Any:
    """A direction for each colour, so that texts are near whose colours are the same."""
    return np.array([[1.0 + 5 * text.split().count(colour) for colour in COLOURS] for text in texts])


def as_examples(drawn: list[tuple[str, str | None]], prefix: str) -> list[ChoiceExample]:
    return [
        ChoiceExample(id=f"{prefix}{n}", query=query, options=("x", "y"), gold=0, cluster=cluster)
        for n, (query, cluster) in enumerate(drawn)
    ]


def is_apart(candidate: ChoiceExample, question: ChoiceExample) -> bool:
    """Whether an example neither asks what the question asks nor has its cluster."""
    return (
        candidate.id != question.id
        and candidate.query != question.query
        and (candidate.cluster is None or candidate.cluster != question.cluster)
    )


@given(drawn=EXAMPLES, questions=EXAMPLES)
def test_no_neighbour_gives_the_answer_away(drawn: Any, questions: Any) -> None:
    registries = harness()
    retriever = Retriever("colours", registries)
    retriever.__dict__["vectors"] = vectors
    pool = as_examples(drawn, "t")
    nearest = NearestExamples(registries.task_types.get("choice"), partial(iter, pool), retriever, 1, "--augment k=1")

    def neighbour_of(*questions: ChoiceExample) -> Any:
        try:
            (neighbour,) = nearest.of(*questions)
        except TaskError:
            return None
        return neighbour

    for question in (*as_examples(questions, "q"), *pool):
        neighbour = neighbour_of(question)
        allowed = [candidate for candidate in pool if is_apart(candidate, question)]
        assert (neighbour in allowed) if allowed else neighbour is None

    for shot in pool:  # what is added to a solved example gives away neither its answer nor that of the question
        for question in as_examples(questions, "q"):
            allowed = [candidate for candidate in pool if is_apart(candidate, shot)]
            neighbour = neighbour_of(shot, question)
            if neighbour is not None:
                assert neighbour in allowed and is_apart(neighbour, question)
            else:
                assert not any(is_apart(candidate, question) for candidate in allowed)
