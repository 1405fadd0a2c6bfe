"""Probes: nothing but the query changes, and nobody gets a query of its own cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figeval import ChoiceExample, PairExample, RankingExample, TaskError
from tests.typed import task_types

shuffled_query = task_types().get("choice").probes["shuffled_query"]


def choices(clusters):
    return [
        ChoiceExample(id=str(n), query=f"q{n} of {c}", options=("a", "b"), gold=0, cluster=c)
        for n, c in enumerate(clusters)
    ]


@pytest.mark.parametrize(
    ("task_type", "example", "field"),
    [
        ("choice", ChoiceExample(id="1", query="q", options=("a",), gold=0), "query"),
        ("ranking", RankingExample(id="1", query="q", candidates=("a",), relevant=frozenset({0})), "query"),
        ("pairs", PairExample(id="1", left="l", right="r", label="x"), "left"),
    ],
)
def test_no_query(task_type, example, field):
    (probed,) = task_types().get(task_type).probes["no_query"](lambda: iter([example]), 0, "t")()
    assert probed == replace(example, **{field: ""})


@given(st.lists(st.integers(0, 6), min_size=2, max_size=60), st.integers(0, 3))
def test_queries_are_exchanged_between_clusters_and_all_else_stays(numbers, seed):
    examples = choices([f"c{number}" for number in numbers])
    largest = max(Counter(numbers).values())
    if 2 * largest > len(numbers):
        with pytest.raises(TaskError, match=f"one cluster has {largest} of the {len(numbers)} examples"):
            list(shuffled_query(lambda: iter(examples), seed, "t")())
        return
    probed = list(shuffled_query(lambda: iter(examples), seed, "t")())
    assert [replace(example, query="") for example in probed] == [replace(example, query="") for example in examples]
    assert sorted(example.query for example in probed) == sorted(example.query for example in examples), "each once"
    assert all(not example.query.endswith(f"of {example.cluster}") for example in probed)
    assert probed == list(shuffled_query(lambda: iter(examples), seed, "t")())


def test_the_seed_decides_which_queries_are_exchanged():
    examples = choices("aabbccdd")
    probed, other = (list(shuffled_query(lambda: iter(examples), seed, "t")()) for seed in (1, 2))
    assert other != probed


def test_without_clusters_nobody_keeps_its_own():
    examples = choices([None] * 9)
    probed = shuffled_query(lambda: iter(examples), 1, "t")()
    assert all(new.query != old.query for new, old in zip(probed, examples, strict=True))


def test_a_task_of_one_cluster_says_so():
    with pytest.raises(
        TaskError, match="t: no shuffled_query, one cluster has 3 of the 4 examples; leave out --probes"
    ):
        next(iter(shuffled_query(lambda: iter(choices("aaab")), 1, "t")()))
