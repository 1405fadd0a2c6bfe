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
    method = f"{type(kind).__name__}.gold()"
    gold = asserting(partial(kind.gold, example), method)
    again = json.loads(asserting(partial(json.dumps, gold, allow_nan=False), method))
    assert again == gold, f"{method} returned {gold!r:.80}, which JSON changes into {again!r:.80}; return what JSON has"
    value = getattr(example, kind.gold_fields[0])
    if type(kind).gold is not TaskType.gold or value is None:
        return
    method = f"{type(kind).__name__}.from_json()"
    read = asserting(partial(kind.from_json, again), method)
    assert read == value, f"{method} reads the right answer {value!r:.80}, stored as {again!r:.80}, as {read!r:.80}"


def check_query(kind: TaskType[Any], examples: Sequence[Example]) -> None:
    """Check that the field which probes and retrieval take for the query holds a text."""
    for example in examples if kind.query else ():
        query = getattr(example, kind.query)
        assert isinstance(query, str), (
            f"{type(kind).__name__}.query names the field {kind.query!r}, which is {query!r:.60} in {example.id!r}, "
            "not a text; name one, or leave `query` out and override `probes`"
        )


def check_ties(route: str, predictions: Sequence[Prediction]) -> None:
    """Check that a model without preferences does not give one and the same answer everywhere."""
    untied = [
        prediction.value
        for prediction in predictions
        if prediction.value is not None and prediction.tied == 1 and not prediction.parts
    ]
    assert len(untied) < len(predictions) or any(value != untied[0] for value in untied), (
        f"{route} gives every example the answer {untied[0]!r:.80}; where `context.indifferent`, let the answers tie "
        "(`Prediction.tied`, `tied_labels`)"
    )
