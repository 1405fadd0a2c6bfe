"""How `--reasoning` is written, and when its budget leaves no room."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import figeval
from figeval import ModelError, RunConfig

DEFAULT_BUDGET_TOKENS = 4096
MAX_BUDGET_TOKENS = 10**6


def parse(written: object) -> Any:
    """The setting that the factory of a model gets."""
    return RunConfig(tasks=("t",), model="m", reasoning=written).thinking


@pytest.mark.parametrize(
    ("written", "tokens"),
    [
        ("on", DEFAULT_BUDGET_TOKENS),
        ("off", 0),
        ("budget=1", 1),
        ("budget=800", 800),
    ],
)
def test_what_is_written_is_read(written: str, tokens: int) -> None:
    read = parse(written)
    assert read.tokens == tokens
    assert parse(str(read)) == read


@given(
    st.one_of(
        st.text(min_size=1, max_size=20), st.integers(min_value=1), st.from_regex(r"budget=\S{0,12}", fullmatch=True)
    )
)
def test_anything_is_read_or_refused(written: object) -> None:
    try:
        read = parse(written)
    except ValueError as error:
        assert str(error)
    else:
        assert parse(str(read)) == read
        assert 0 <= read.tokens <= MAX_BUDGET_TOKENS


@pytest.mark.parametrize("written", ["yes", "budget", "budget=0", "budget=-1", "budget=1e3", "budget=9999999", 5])
def test_what_is_no_setting_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"budget"):
        parse(written)


def test_a_second_attempt_has_twice_the_budget() -> None:
    assert parse("budget=300").extended.tokens == 600
    assert parse("on").extended.tokens == 2 * DEFAULT_BUDGET_TOKENS
    assert parse("off").extended == parse("off")


def test_a_budget_must_leave_room_for_the_answer() -> None:
    parse("budget=500").check_room(16, 1024)
    parse("off").check_room(16, 8)
    with pytest.raises(ModelError, match="--reasoning budget=1008 leaves no room for an answer: 1,008 tokens"):
        parse("budget=1008").check_room(16, 1024)


def test_a_program_may_say_true_and_is_told_what_is_wrong() -> None:
    with pytest.raises(figeval.OptionError, match=r"reasoning='hard'.*budget=N"):
        figeval.run("mini_pairs", "overlap", reasoning="hard")
    with pytest.raises(figeval.ModelError, match="--reasoning is for models that write"):
        figeval.run("mini_pairs", "overlap", reasoning=True)
