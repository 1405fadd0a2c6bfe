"""Forests and plans: what is read, what may be seen, what is predicted. No model."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from figeval.builtin.plugins.causal.engine.prefix_tree import TokenRequest, build_tree
from figeval.builtin.plugins.causal.engine.reading_plan import Prefix, RowShape, plan_of

tokens = st.integers(0, 3)
requests = st.lists(
    st.builds(
        lambda context, continuation: TokenRequest((*context, *continuation), len(continuation)),
        st.lists(tokens, min_size=1, max_size=12),
        st.lists(tokens, min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=25,
)
shapes = st.sampled_from(
    [
        RowShape(),
        RowShape(branches=3, width=6),
        RowShape(trees=False),
        RowShape(trees=False, prefixes=False),
        RowShape(prefixes=False),
    ]
)


def texts_of(prefix: Prefix, before: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], bool]]:
    """Per node of every row and prefix: the nodes that it sees, itself the last, and whether it is to predict."""
    path = (*before, *prefix.nodes.tolist())
    beginnings = [(path[: len(before) + i + 1], bool(fresh)) for i, fresh in enumerate(prefix.fresh)]
    for row in prefix.rows:
        for i, node in enumerate(row.nodes):
            seen = [int(other) for j, other in enumerate(row.nodes[:i]) if i < row.end[j]]
            beginnings.append(((*path, *seen, int(node)), bool(row.fresh[i])))
    for further in prefix.prefixes:
        beginnings += texts_of(further, path)
    return beginnings


@given(requests)
def test_a_forest_holds_each_beginning_once(requests: list[TokenRequest]) -> None:
    tree = build_tree(requests)
    beginnings = {request.ids[:length] for request in requests for length in range(1, len(request.ids))}
    assert len(tree.tokens) == len(beginnings)
    assert tree.depth.max() == max(len(request.ids) for request in requests) - 2


@given(requests)
def test_every_request_finds_its_predictions(requests: list[TokenRequest]) -> None:
    tree = build_tree(requests)
    for request, answer in zip(requests, tree.answers, strict=True):
        nodes, words = tree.predictions[answer].T
        assert tuple(words) == request.ids[-request.predicted :]
        begin = len(request.ids) - request.predicted - 1
        assert tree.depth[nodes].tolist() == list(range(begin, len(request.ids) - 1))
        assert tuple(tree.tokens[nodes]) == request.ids[begin:-1]


@given(requests, shapes)
def test_in_every_plan_a_token_sees_its_text_and_nothing_else(requests: list[TokenRequest], shape: RowShape) -> None:
    tree = build_tree(requests)
    plan = plan_of(tree, shape)
    predicted = []
    for seen, fresh in texts_of(plan):
        node = seen[-1]
        ancestors = [other for other in range(node + 1) if other <= node < tree.end[other]]
        assert list(seen) == ancestors
        assert tree.depth[node] == len(ancestors) - 1
        predicted += [node] * fresh
    assert sorted(predicted) == list(range(len(tree.tokens)))  # each exactly once


@given(requests)
def test_unbranched_rows_are_unbranched(requests: list[TokenRequest]) -> None:
    plan = plan_of(build_tree(requests), RowShape(trees=False, prefixes=False))
    assert not plan.prefixes
    assert all((row.end == len(row)).all() for row in plan.rows)


def test_what_a_plan_costs() -> None:
    """Solved examples of 300 tokens, 20 stories of 40 tokens, 30 proverbs of 7: each is read once."""
    generator = np.random.default_rng(0)
    shots = generator.integers(10, 1000, 300).tolist()
    proverbs = [[word, *generator.integers(10, 1000, 6).tolist()] for word in range(1000, 1030)]
    stories = [[story, *generator.integers(10, 1000, 39).tolist()] for story in range(2000, 2020)]
    requests = [TokenRequest((*shots, *story, *proverb), 7) for story in stories for proverb in proverbs]
    tree = build_tree(requests)
    plan = plan_of(tree, RowShape())
    assert plan.read == len(tree.tokens) == 300 + 20 * (40 + 30 * 6)
    (shared_prefix,) = plan.prefixes
    assert len(shared_prefix.nodes) == 300
    assert max(map(len, shared_prefix.rows)) <= 256 + 40
    on_gpu = plan_of(tree, RowShape.on("cuda"))
    assert on_gpu.read == plan.read
    assert len(on_gpu.prefixes[0].rows) < len(shared_prefix.rows) / 3
    plain = plan_of(tree, RowShape(trees=False, prefixes=False))
    assert plain.read == sum(len(request.ids) - 1 for request in requests)


def test_texts_that_continue_one_another_may_be_thousands() -> None:
    tree = build_tree([TokenRequest((*range(length), 0, 0), 1) for length in range(1, 1100)])
    for shape in (RowShape(), RowShape(trees=False)):
        assert plan_of(tree, shape).read >= len(tree.tokens)
