"""The interval of a score is a value in Python, and words beside its limits in files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

import figeval
from figeval import RunRecord
from tests.finished_runs import run, score, task

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
METHODS = st.text(min_size=1).filter(lambda text: not text.startswith("none: ") and "unreliable" not in text)
INTERVALS = st.builds(
    figeval.Interval, METHODS, NUMBERS, NUMBERS, st.none() | NUMBERS, reliable=st.booleans()
) | st.builds(figeval.Interval, stderr=st.none() | NUMBERS, reason=st.text(min_size=1))


def read_score(**fields: Any) -> Any:
    """Return the score of a record in whose file it has these fields."""
    stored = json.loads(run(task(scores=[score()])).model_dump_json())
    stored["tasks"][0]["scores"][0].update(fields)
    return RunRecord.model_validate_json(json.dumps(stored)).tasks[0].scores[0]


@given(INTERVALS)
def test_words_and_limits_are_the_whole_interval(interval: figeval.Interval) -> None:
    assert figeval.Interval.of_words(str(interval), interval.low, interval.high, interval.stderr) == interval
    limits = {"low": interval.low, "high": interval.high, "stderr": interval.stderr}
    record = run(task(scores=[score(interval=interval, **limits)]))
    (stored,) = RunRecord.model_validate_json(record.model_dump_json()).tasks[0].scores
    assert stored.interval == record.tasks[0].scores[0].interval == interval


@given(st.text())
@example("none")
@example("none: ")
@example("none: one cluster, unreliable: fewer than 10 effective clusters")
@example(", unreliable: fewer than 10 effective clusters")
@example("wilson, unreliable: fewer than 9 effective clusters")
def test_any_stored_words_are_kept(words: str) -> None:
    assert json.loads(read_score(interval=words).model_dump_json())["interval"] == words


def test_what_words_say() -> None:
    unreliable = read_score(interval="clustered t, unreliable: fewer than 10 effective clusters")
    assert unreliable.interval == figeval.Interval(
        "clustered t", unreliable.low, unreliable.high, unreliable.stderr, reliable=False
    )
    none = read_score(low=None, high=None, interval="none: chosen on test")
    assert (none.interval.reason, none.interval.method, none.seen) == ("chosen on test", "", "chosen")


def test_an_interval_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValidationError, match="interval\n  Input should be a valid string"):
        read_score(interval={"method": "t"})


def test_half_an_interval_is_refused() -> None:
    assert read_score(low=None, high=None).low is None
    with pytest.raises(ValidationError, match="low and high are two numbers, or both are null"):
        read_score(low=0.1, high=None)


def test_limits_change_with_the_interval_only() -> None:
    original = score()
    other = original.with_interval(figeval.Interval("t", 0.2, 0.3, 0.05), value=0.25)
    assert (other.value, other.low, other.high, other.stderr) == (0.25, 0.2, 0.3, 0.05)
    assert (original.low, original.interval.method) == (0.1, "clustered t")
    with pytest.raises(ValidationError):
        original.low = None  # type: ignore[misc]
