"""The interval of a score is a value in Python, and words beside its limits in files."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

import figeval
from figeval.records.schema import ScoreRecord, to_json
from figeval.records.stored_types import CHOSEN_ON_TEST
from figeval.records.sweep import SeedScore
from tests.finished_runs import score

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
METHODS = st.text(min_size=1).filter(lambda text: not text.startswith("none: ") and "unreliable" not in text)
INTERVALS = st.builds(
    figeval.Interval, METHODS, NUMBERS, NUMBERS, st.none() | NUMBERS, reliable=st.booleans()
) | st.builds(figeval.Interval, stderr=st.none() | NUMBERS, reason=st.text(min_size=1))
SEEDS: dict[str, Any] = {"task": "t", "metric": "acc", "n": 1, "values": {}, "mean": None, "sd": None}


def dump_score(**fields: Any) -> str:
    """Return a score as a file has it."""
    return json.dumps({**score().model_dump(), **fields})


@given(INTERVALS)
def test_words_and_limits_are_the_whole_interval(interval: figeval.Interval) -> None:
    assert figeval.Interval.of_words(str(interval), interval.low, interval.high, interval.stderr) == interval
    record = ScoreRecord.of(figeval.Score(metric="acc", value=0.5, interval=interval))
    assert ScoreRecord.model_validate_json(record.model_dump_json()).interval == record.interval == interval


@given(st.text())
@example("none")
@example("none: ")
@example("none: one cluster, unreliable: fewer than 10 effective clusters")
@example(", unreliable: fewer than 10 effective clusters")
@example("wilson, unreliable: fewer than 9 effective clusters")
def test_any_stored_words_are_kept(words: str) -> None:
    assert (
        json.loads(ScoreRecord.model_validate_json(dump_score(interval=words)).model_dump_json())["interval"] == words
    )
    seeds = SeedScore.model_validate({**SEEDS, "low": None, "high": None, "interval": words})
    assert seeds.model_dump()["interval"] == words


def test_what_words_say() -> None:
    unreliable = ScoreRecord.model_validate_json(
        dump_score(interval="clustered t, unreliable: fewer than 10 effective clusters")
    )
    assert unreliable.interval == figeval.Interval(
        "clustered t", unreliable.low, unreliable.high, unreliable.stderr, reliable=False
    )
    none = ScoreRecord.model_validate_json(dump_score(low=None, high=None, interval=f"none: {CHOSEN_ON_TEST}"))
    assert (none.interval.reason, none.interval.method, none.seen) == (CHOSEN_ON_TEST, "", "chosen")


def test_an_interval_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValidationError, match="interval\n  Input should be a valid string"):
        ScoreRecord.model_validate_json(dump_score(interval={"method": "t"}))


def test_limits_change_with_the_interval_only() -> None:
    original = score()
    other = original.with_interval(figeval.Interval("t", 0.2, 0.3, 0.05), value=0.25)
    assert (other.value, other.low, other.high, other.stderr) == (0.25, 0.2, 0.3, 0.05)
    assert (original.low, original.interval.method) == (0.1, "clustered t")
    with pytest.raises(ValidationError):
        original.low = None  # type: ignore[misc]


def test_scores_within_results_are_as_in_files() -> None:
    alone = figeval.Score(metric="acc", value=1.0, interval=figeval.Interval(reason="one row"), n=1, clusters=1)
    assert to_json({"scores": (alone,)}) == {
        "scores": (
            {
                "metric": "acc",
                "value": 1.0,
                "low": None,
                "high": None,
                "stderr": None,
                "n": 1,
                "clusters": 1,
                "effective_clusters": None,
                "interval": "none: one row",
                "higher_is_better": True,
            },
        )
    }
