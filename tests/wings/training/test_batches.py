"""Every example once in every epoch, whatever the processes; no process waits for another one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from figeval.wings.training.batch_plans import (
    BatchPlan,
    CheapestPasses,
    Epochs,
    SimilarLengths,
    divide_rows,
    token_budget,
)


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 5), st.sampled_from(["epochs", "once"]))
def test_an_epoch_has_every_example_once(n: int, batch_size: int, seed: int, shuffle: str) -> None:
    epochs = Epochs(n, batch_size, seed, shuffle)
    for epoch in range(2):
        steps = [epochs.rows(epoch * epochs.steps + step) for step in range(epochs.steps)]
        assert Counter(row for rows in steps for row in rows) == Counter(range(n))
        assert all(len(rows) == batch_size for rows in steps[:-1])
        assert steps[-1]


def test_orders_differ_between_epochs_and_seeds_unless_they_are_to_stay() -> None:
    epochs = Epochs(50, 10, 0)
    assert epochs.order(0) != epochs.order(1)
    assert epochs.order(0) != Epochs(50, 10, 1).order(0)
    once = Epochs(50, 10, 0, "once")
    assert once.order(0) == once.order(3)
    assert epochs.draw(0) == epochs.draw(4) != epochs.draw(5)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=50),
    st.integers(1, 100),
    st.integers(1, 5),
    st.sampled_from([None, (0.0, 1.0), (1.0, 0.0), (1.0, 0.1), (10.0, 0.1)]),
)
def test_shares_are_a_partition_in_equally_many_batches(
    lengths: list[int], tokens: int, processes: int, costs: tuple[float, float] | None
) -> None:
    rows = list(range(len(lengths)))
    plan: BatchPlan = SimilarLengths(tokens) if costs is None else CheapestPasses(tokens, *costs)
    parts = [list(divide_rows(rows, lengths, plan, process, processes)) for process in range(processes)]
    assert len({len(part) for part in parts}) == 1
    counted = [
        row for part in parts for share in part for row, count in zip(share.rows, share.counts, strict=True) if count
    ]
    assert Counter(counted) == Counter(rows)
    for part in parts:
        for share in part:
            assert share.rows
            assert len(share.rows) == 1 or max(lengths[row] for row in share.rows) * len(share.rows) <= tokens


def test_a_cpu_takes_fewer_tokens_at_once_than_a_card() -> None:
    assert token_budget(None, "cpu") < token_budget(None, "cuda:0")
    assert token_budget(7, "cpu") == 7
