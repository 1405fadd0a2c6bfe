"""Checks of what a task type declares about its answers and its query, for `check_task_type`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from figeval.task_types.base import TaskType
from figeval.testing.calls import asserting
from figeval.types import Example, Prediction


def check_gold(kind: TaskType[Any], example: Example) -> None:
    """Check that the right answer of an example is the same after it was written as JSON and read again."""
    what = f"{type(kind).__name__}.gold()"
    gold = asserting(partial(kind.gold, example), what)
    again = json.loads(asserting(partial(json.dumps, gold, allow_nan=False), what))
    assert again == gold, f"{what} returned {gold!r:.80}, which JSON changes into {again!r:.80}; return what JSON has"
    value = getattr(example, kind.gold_fields[0])
    if type(kind).gold is not TaskType.gold or value is None:
        return
    what = f"{type(kind).__name__}.from_json()"
    read = asserting(partial(kind.from_json, again), what)
    assert read == value, f"{what} reads the right answer {value!r:.80}, stored as {again!r:.80}, as {read!r:.80}"


def check_query(kind: TaskType[Any], examples: Sequence[Example]) -> None:
    """Check that the field which probes and retrieval take for the query holds a text."""
    for example in examples if kind.query else ():
        query = getattr(example, kind.query)
        assert isinstance(query, str), (
            f"{type(kind).__name__}.query names the field {kind.query!r}, which is {query!r:.60} in {example.id!r}, "
            "not a text; name one, or leave `query` out and override `probes`"
        )


def check_ties(what: str, predictions: Sequence[Prediction]) -> None:
    """Check that a model without preferences does not give one and the same answer everywhere."""
    untied = [one.value for one in predictions if one.value is not None and one.tied == 1 and not one.parts]
    assert len(untied) < len(predictions) or any(one != untied[0] for one in untied), (
        f"{what} gives every example the answer {untied[0]!r:.80}; where `context.indifferent`, let the answers tie "
        "(`Prediction.tied`, `tied_labels`)"
    )
