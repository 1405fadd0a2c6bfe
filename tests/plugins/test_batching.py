"""Batches: order, budget, memory."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import ModelError
from figeval.builtin.plugins.torch_models.batching import TokenBudget, run_batches

lengths = st.lists(st.integers(1, 200), max_size=60)


@given(lengths=lengths, tokens=st.integers(1, 500))
def test_results_come_in_the_order_of_the_inputs_within_the_budget(lengths: list[int], tokens: int) -> None:
    batches = []

    def forward(rows: list[int]) -> list[tuple[int, int]]:
        batches.append(rows)
        return [(row, lengths[row]) for row in rows]

    assert run_batches(lengths, forward, TokenBudget(tokens)) == list(enumerate(lengths))
    assert all(len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= tokens for rows in batches)
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))


@given(lengths=lengths, rows=st.integers(1, 70))
def test_a_batch_size_fixes_the_rows_of_all_batches_but_the_last(lengths: list[int], rows: int) -> None:
    sizes = []

    def forward(batch: list[int]) -> list[int]:
        sizes.append(len(batch))
        return batch

    run_batches(lengths, forward, TokenBudget(1, rows))
    assert all(size == rows for size in sizes[:-1])
    assert all(size <= rows for size in sizes[-1:])


@settings(max_examples=10)  # each halving collects garbage
@given(lengths=lengths, fits=st.integers(1, 400))
def test_the_budget_halves_until_it_fits_and_stays_there(lengths: list[int], fits: int) -> None:
    def forward(rows: list[int]) -> list[int]:
        longest = max(lengths[row] for row in rows)
        if len(rows) > 1 and len(rows) * longest > fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return rows

    budget = TokenBudget(100_000)
    assert run_batches(lengths, forward, budget) == list(range(len(lengths)))
    halved = budget.halved
    assert run_batches(lengths, forward, budget) == list(range(len(lengths)))
    assert budget.halved == halved, "what held the first time holds the second time"
    assert budget.describe() == {"batch_size": "auto", "tokens_per_batch": budget.tokens, "halved": halved}


def test_an_error_that_is_no_lack_of_memory_is_not_retried() -> None:
    calls = []

    def forward(rows: list[int]) -> list[int]:
        calls.append(rows)
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        run_batches([3, 4], forward, TokenBudget(100))
    assert len(calls) == 1


def never_fits(rows: list[int]) -> list[int]:
    raise MemoryError


@pytest.mark.parametrize(
    ("budget", "cure"), [(TokenBudget(1, 64), "auto or a smaller one"), (TokenBudget(10), "max_length")]
)
def test_what_cannot_be_halved_is_an_error_with_a_cure(budget: TokenBudget, cure: str) -> None:
    with pytest.raises(ModelError, match=cure):
        run_batches([10, 10, 10], never_fits, budget)


def test_a_forward_that_returns_too_few_results_is_a_bug() -> None:
    with pytest.raises(ValueError, match="shorter"):
        run_batches([1, 1], lambda rows: rows[:1], TokenBudget(10))
