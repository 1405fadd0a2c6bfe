"""Values of rows that several kinds of fields check, with errors that say how a task file converts them rightly.

What is advised never makes a wrong value of one that only looks as expected: a letter is no number, null is no text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from figeval.conversions import is_missing
from figeval.errors import DataError

INTEGER = re.compile(r"[+-]?\d{1,18}(\.0+)?")


class Row(Protocol):
    """What is needed of a row that is read: the expressions of its fields, the fields read so far, and errors."""

    @property
    def task(self) -> Any:
        """Task that the row belongs to."""

    @property
    def read(self) -> Mapping[str, Any]:
        """Checked values, by field."""

    @property
    def field(self) -> str:
        """Field that is being read."""

    def error(self, message: str) -> DataError:
        """Return an error that names row and field."""


def text(value: Any, row: Row) -> str:
    """Return the value if it is a string. Raises `DataError`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isnan(value):
        raise row.error("NaN, which stands for an empty cell, is not a string; fill the cell, or leave out the row")
    if value is None:
        raise row.error("null is not a string; fill it in, or write `… | default('', true)` if it means an empty text")
    cure = "; write `… | string` to convert it" if isinstance(value, int | float) else ""
    raise row.error(f"{value!r:.80} is not a string{cure}")


def texts(value: Any, row: Row) -> tuple[str, ...]:
    """Return the value as a tuple if it is a list of strings; a tuple is returned as it is. Raises `DataError`."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise row.error(f"expected a list of texts, found {value!r:.80}")
    if set(map(type, value)) != {str}:  # fast, since thousands of candidates are checked in every row
        for one in value:
            text(one, row)
    return tuple(value)  # candidates that rows share are stored once


def index(value: Any, of: str, row: Row) -> int:
    """Return the value if it is an index into the field `of`. Raises `DataError` with what the row seems to mean."""
    options: Sequence[Any] = row.read[of]
    if not isinstance(value, int) or isinstance(value, bool):
        raise row.error(f"{value!r:.80} is not an index{_index_cure(value, options, of, row)}")
    if not 0 <= value < len(options):
        raise row.error(f"{value} is out of range for {len(options)} options (0 to {len(options) - 1})")
    return value


def _index_cure(value: Any, options: Sequence[Any], of: str, row: Row) -> str:
    """Return how to write the index that a value seems to mean, or how a hidden one is written."""
    own = row.task.fields.get(row.field)
    gold, texts = (source if isinstance(source, str) else "…" for source in (own, row.task.fields.get(of)))
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(options)]
    if isinstance(value, str) and value.strip():
        said = value.strip()
        if INTEGER.fullmatch(said):
            return f"; write `({gold}) | int` if it counts from 0, or `(({gold}) | int) - 1` if it counts from 1"
        if value in options:
            return f"; write `({texts}).index({gold})`"
        if len(said) == 1 and said.upper() in letters:
            places = ", ".join(f"'{letter}': {place}" for place, letter in enumerate(letters[:3]))
            return f"; write `{{{places}{', …' * (len(letters) > 3)}}}[({gold}) | trim | upper]`"
    elif isinstance(value, float) and value.is_integer():
        return f"; write `({gold}) | int`"
    elif value == "":
        return f"; write `({gold}) or none` if an empty cell means that it is hidden"
    return "; give the place of an option, counted from 0, or null if it is hidden"


def known_texts(columns: Mapping[Any, Any]) -> dict[str, str]:
    """Return columns as texts, without those that are unknown: null, and NaN, which stands for an empty cell."""
    return {str(name): str(value) for name, value in columns.items() if not is_missing(value)}
