"""Every example once in every epoch, whatever the processes; no process waits for another one; and the plan of passes
for accelerators: no other plan that fits in memory is cheaper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from figeval.wings.training.batch_plans import (
    BatchPlan,
    CheapestPasses,
    Epochs,
    SimilarLengths,
    divide_rows,
    fewest_passes,
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


# ---- plans for accelerators ----------------------------------------------------------------------------------------

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=40).map(lambda values: sorted(values, reverse=True))
COSTS = st.tuples(st.sampled_from([0.0, 1.0, 40.0]), st.sampled_from([0.0, 0.1, 1.0]))


def cost(sizes: Sequence[int], lengths: Sequence[int], processes: int, per_pass: float, per_token: float) -> float:
    """Time until the slowest process is done."""
    total, first = 0.0, 0
    for size in sizes:
        total += per_pass + per_token * lengths[first] * -(-size // processes)
        first += size
    return total


def fits(sizes: Sequence[int], lengths: Sequence[int], processes: int, tokens: int) -> bool:
    first = 0
    for size in sizes:
        rows = -(-size // processes)
        if rows > 1 and rows * lengths[first] > tokens:
            return False
        first += size
    return True


def compositions(n: int) -> Iterator[tuple[int, ...]]:
    """All ways to cut n rows into batches."""
    if n == 0:
        yield ()
    for size in range(1, n + 1):
        yield from ((size, *rest) for rest in compositions(n - size))


@given(LENGTHS, st.integers(1, 400), st.integers(1, 4), COSTS)
def test_it_fits_and_is_no_dearer_than_similar_lengths_or_one_pass(
    lengths: list[int], tokens: int, processes: int, costs: tuple[float, float]
) -> None:
    plan = list(CheapestPasses(tokens, *costs).sizes(lengths, processes))
    assert sum(plan) == len(lengths)
    assert min(plan) > 0
    assert fits(plan, lengths, processes, tokens)
    other_sizes = [list(SimilarLengths(tokens).sizes(lengths, processes)), [len(lengths)]]
    for other in other_sizes:
        if fits(other, lengths, processes, tokens):
            assert cost(plan, lengths, processes, *costs) <= cost(other, lengths, processes, *costs) + 1e-9


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=9).map(lambda values: sorted(values, reverse=True)),
    st.integers(1, 40),
    st.integers(1, 3),
    COSTS,
)
def test_no_division_of_few_rows_is_cheaper(
    lengths: list[int], tokens: int, processes: int, costs: tuple[float, float]
) -> None:
    plan = list(CheapestPasses(tokens, *costs).sizes(lengths, processes))
    possible = (sizes for sizes in compositions(len(lengths)) if fits(sizes, lengths, processes, tokens))
    least = min(cost(sizes, lengths, processes, *costs) for sizes in possible)
    assert abs(cost(plan, lengths, processes, *costs) - least) < 1e-9


def test_costs_decide_between_padding_and_passes() -> None:
    lengths = [100, 90, 20, 20, 10, 10]

    def sizes(plan: BatchPlan) -> list[int]:
        return list(plan.sizes(lengths, 1))

    assert sizes(CheapestPasses(10_000, 1000.0, 1.0)) == [6], "a pass costs more than all padding"
    assert sizes(CheapestPasses(10_000, 0.0, 1.0)) == [1, 1, 2, 2], "padding costs, passes do not"
    assert sizes(CheapestPasses(10_000, 30.0, 1.0)) == [2, 4]
    assert sizes(CheapestPasses(200, 1000.0, 1.0)) == [2, 4], "what fits in memory"
    assert sizes(fewest_passes(50)) == [1, 1, 2, 2]
