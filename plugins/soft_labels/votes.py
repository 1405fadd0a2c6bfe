"""Votes of several annotators, which an example of any task type may have in the columns of `meta`.

| column | JSON |
|---|---|
| `votes` | votes for each label, or their shares: `{"sarcastic": 4, "not_sarcastic": 1}`; missing labels have none |
| `annotators` | the label of each annotator: `{"a1": "sarcastic", "a2": "not_sarcastic"}` |

A task file writes them as `meta: {votes: "row.votes | tojson"}`. Columns are stored with the answers, so that scores
can be computed again from a run alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from figeval.errors import DataError
from figeval.io.json_files import parse_json
from figeval.task_types.given import label_of
from figeval.types import Example

VOTES, ANNOTATORS = "votes", "annotators"
MAX_VOTES = 10**9  # for one label


def votes_of(example: Example, labels: tuple[str, ...]) -> tuple[float, ...] | None:
    """Return the votes for each label, of `votes` or else counted in `annotators`; None without any vote.

    Raises:
        DataError: a column is not a JSON object of the form above, or names a label that the task does not have.
    """
    column = VOTES if VOTES in example.meta else ANNOTATORS
    try:
        if column == VOTES:
            return _read_votes(example.meta[VOTES], labels)
        counts = Counter(labels_by_annotator(example, labels).values())
    except ValueError as error:
        raise _column_error(example, column, error) from error
    return tuple(float(counts[label]) for label in labels) if counts else None


def labels_by_annotator(example: Example, labels: tuple[str, ...]) -> Mapping[str, str]:
    """Return the label that each annotator gave, by annotator; empty without the column. Raises as `votes_of` does."""
    if ANNOTATORS not in example.meta:
        return {}
    try:
        return _read_annotators(example.meta[ANNOTATORS], labels)
    except ValueError as error:
        raise _column_error(example, ANNOTATORS, error) from error


def _column_error(example: Example, column: str, error: ValueError) -> DataError:
    return DataError(f"example {example.id!r:.80}, column {column!r} of meta: {error}")


@lru_cache(maxsize=4096)
def _read_votes(text: str, labels: tuple[str, ...]) -> tuple[float, ...] | None:
    votes = dict.fromkeys(labels, 0.0)
    for name, count in _read_object(text, VOTES, '{"label": number of votes}').items():
        if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count <= MAX_VOTES:
            raise ValueError(f"{count!r:.80} is not a number of votes")
        votes[label_of(name, labels)] += float(count)
    return tuple(votes.values()) if any(votes.values()) else None


@lru_cache(maxsize=4096)
def _read_annotators(text: str, labels: tuple[str, ...]) -> Mapping[str, str]:
    annotations = _read_object(text, ANNOTATORS, '{"annotator": "label"}')
    return {annotator: label_of(label, labels) for annotator, label in annotations.items() if label is not None}


def _read_object(text: str, column: str, form: str) -> Mapping[str, Any]:
    """Return the JSON object of a column, {} for null. Raises `ValueError` that says how to write one."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        value = text
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        cure = (
            "name the label of each number" if isinstance(value, list) else f"write `{column}: row.{column} | tojson`"
        )
        raise ValueError(f"{text!r:.80} is not a JSON object {form}; {cure}")
    return value


def whole_votes(votes: Sequence[float] | None) -> tuple[int, ...] | None:
    """Return votes as whole numbers, or None if they are shares, of which the number of annotators is not known."""
    if votes is None or not all(map(float.is_integer, votes)):
        return None
    return tuple(map(int, votes))


def majority_of(votes: Sequence[float]) -> tuple[int, ...]:
    """Return the indexes of the labels with the most votes: one, or several with equally many."""
    top = max(votes)
    return tuple(index for index, count in enumerate(votes) if math.isclose(count, top))
