"""Forests and plans: what is read, what may be seen, what is predicted. No model."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from figeval.builtin.plugins._encode import Scored
from figeval.builtin.plugins._forest import Shape, Stem, grow, plan_of

tokens = st.integers(0, 3)
requests = st.lists(
    st.builds(
        lambda context, continuation: Scored((*context, *continuation), len(continuation)),
        st.lists(tokens, min_size=1, max_size=12),
        st.lists(tokens, min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=25,
)
shapes = st.sampled_from(
    [Shape(), Shape(branches=3, width=6), Shape(trees=False), Shape(trees=False, stems=False), Shape(stems=False)]
)


def texts_of(stem: Stem, before: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], bool]]:
    """Per node of every row and stem: the nodes that it sees, itself the last, and whether it is to predict."""
    path = (*before, *stem.nodes.tolist())
    found = [(path[: len(before) + i + 1], bool(fresh)) for i, fresh in enumerate(stem.fresh)]
    for row in stem.rows:
        for i, node in enumerate(row.nodes):
            seen = [int(other) for j, other in enumerate(row.nodes[:i]) if i < row.end[j]]
            found.append(((*path, *seen, int(node)), bool(row.fresh[i])))
    for further in stem.stems:
        found += texts_of(further, path)
    return found


@given(requests)
def test_a_forest_holds_each_beginning_once(asked: list[Scored]) -> None:
    forest = grow(asked)
    beginnings = {request.ids[:length] for request in asked for length in range(1, len(request.ids))}
    assert len(forest.tokens) == len(beginnings)
    assert forest.depth.max() == max(len(request.ids) for request in asked) - 2


@given(requests)
def test_every_request_finds_its_predictions(asked: list[Scored]) -> None:
    forest = grow(asked)
    for request, answer in zip(asked, forest.answers, strict=True):
        nodes, words = forest.asked[answer].T
        assert tuple(words) == request.ids[-request.predicted :]
        begin = len(request.ids) - request.predicted - 1
        assert forest.depth[nodes].tolist() == list(range(begin, len(request.ids) - 1))
        assert tuple(forest.tokens[nodes]) == request.ids[begin:-1]


@given(requests, shapes)
def test_in_every_plan_a_token_sees_its_text_and_nothing_else(asked: list[Scored], shape: Shape) -> None:
    forest = grow(asked)
    plan = plan_of(forest, shape)
    predicted = []
    for seen, fresh in texts_of(plan):
        node = seen[-1]
        ancestors = [other for other in range(node + 1) if other <= node < forest.end[other]]
        assert list(seen) == ancestors
        assert forest.depth[node] == len(ancestors) - 1
        predicted += [node] * fresh
    assert sorted(predicted) == list(range(len(forest.tokens)))  # each exactly once


@given(requests)
def test_unbranched_rows_are_unbranched(asked: list[Scored]) -> None:
    plan = plan_of(grow(asked), Shape(trees=False, stems=False))
    assert not plan.stems
    assert all((row.end == len(row)).all() for row in plan.rows)


def test_what_a_plan_costs() -> None:
    """Solved examples of 300 tokens, 20 stories of 40 tokens, 30 proverbs of 7: each is read once."""
    generator = np.random.default_rng(0)
    shots = generator.integers(10, 1000, 300).tolist()
    proverbs = [[word, *generator.integers(10, 1000, 6).tolist()] for word in range(1000, 1030)]
    stories = [[story, *generator.integers(10, 1000, 39).tolist()] for story in range(2000, 2020)]
    asked = [Scored((*shots, *story, *proverb), 7) for story in stories for proverb in proverbs]
    forest = grow(asked)
    plan = plan_of(forest, Shape())
    assert plan.read == len(forest.tokens) == 300 + 20 * (40 + 30 * 6)
    (trunk,) = plan.stems
    assert len(trunk.nodes) == 300
    assert max(map(len, trunk.rows)) <= 256 + 40
    plain = plan_of(forest, Shape(trees=False, stems=False))
    assert plain.read == sum(len(request.ids) - 1 for request in asked)
