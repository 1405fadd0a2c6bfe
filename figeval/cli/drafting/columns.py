"""Columns of a data file: their names as expressions of a task file, and what their values look like."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from figeval.data.readers import Row
from figeval.errors import DataError
from figeval.io.text import one_line

MAX_ROWS = 20_000
MAX_SAMPLE_CHARS = 50_000_000
MAX_COLUMNS = 10_000
MAX_LABELS = 60
HIDDEN = ("", "-1", "-", "?")  # how data sets write that the right answer is not published
INVISIBLE = dict.fromkeys(map(ord, "\ufeff\u200b\u2060"))
TRUTH = ({"0", "1"}, {"False", "True"}, {"false", "true"}, {"0"}, {"1"})


@dataclass(frozen=True)
class Column:
    """A column with the values of the first rows; null where a row has none.

    `expression` is its value in a task file, and `word` its name in lower-case letters and digits only.
    """

    name: str
    values: Sequence[Any]

    @property
    def expression(self) -> str:
        """The value in a row, as Jinja."""
        return value_of("row", self.name)

    @property
    def word(self) -> str:
        return re.sub(r"[\W_]+", "", self.name.lower())

    def is_read_by(self, fields: Mapping[str, Any]) -> bool:
        """Return whether one of a task's fields has the column in its expression."""
        pattern = re.compile(rf"{re.escape(self.expression)}(?!\w)")
        return any(map(pattern.search, _texts_in(fields)))

    @property
    def title(self) -> str:
        """The name for people."""
        return repr(one_line(self.name, 60))

    @cached_property
    def filled(self) -> list[Any]:
        """The values that are not hidden or missing."""
        return [value for value in self.values if not is_hidden(value)]

    @cached_property
    def has_hidden(self) -> bool:
        return len(self.filled) < len(self.values)

    @cached_property
    def has_blank(self) -> bool:
        return any(value is None or value == "" for value in self.values)

    @cached_property
    def distinct(self) -> list[str]:
        """The different values as texts, in order of appearance."""
        return list(dict.fromkeys(text_of(value) for value in self.filled))

    @cached_property
    def is_text(self) -> bool:
        return bool(self.filled) and all(isinstance(value, str) for value in self.filled)

    @cached_property
    def is_prose(self) -> bool:
        """True for texts that are no numbers."""
        return self.is_text and not self.is_numeric

    @cached_property
    def is_numeric(self) -> bool:
        return bool(self.filled) and all(number_of(value) is not None for value in self.filled)

    @cached_property
    def is_list(self) -> bool:
        """True for lists of texts, of which at least one has an element."""
        lists = [value for value in self.values if value is not None]
        return any(lists) and all(isinstance(value, list) and all(map(is_string, value)) for value in lists)

    @cached_property
    def is_binary(self) -> bool:
        """True for 0 and 1, or false and true."""
        return bool(self.filled) and set(self.distinct) in TRUTH

    @cached_property
    def is_categorical(self) -> bool:
        """True for a few values that recur, none of which is a long text."""
        if not self.filled or self.is_list or any(isinstance(value, list | dict) for value in self.filled):
            return False
        max_labels = min(MAX_LABELS, max(3, len(self.filled) // 2))
        return len(self.distinct) <= max_labels and all(len(value) <= 60 for value in self.distinct)

    @cached_property
    def mean_chars(self) -> float:
        return sum(len(text_of(value)) for value in self.filled) / max(1, len(self.filled))

    @property
    def as_text(self) -> str:
        """The value as a text, as Jinja."""
        return self.expression if self.is_text else f"{self.expression} | string"

    def unless_hidden(self, expression: str) -> str:
        """Return an expression that is null where the value is hidden, if it is in one of the first rows."""
        if not self.has_hidden:
            return expression
        return f"none if {self.expression} is none or ({self.as_text}) in {list(HIDDEN)} else {expression}"


def is_string(value: object) -> bool:
    return isinstance(value, str)


def text_of(value: Any) -> str:
    """Return a value as Jinja's filter `string` does."""
    return value if isinstance(value, str) else str(value)


def is_hidden(value: Any) -> bool:
    return value is None or (not isinstance(value, list | dict) and text_of(value).strip() in HIDDEN)


def number_of(value: Any) -> float | None:
    """Return a finite number, also one that is written as a text, or None."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > 30:
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in str(value) else None


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a value; as they are, for `repr` would escape what they escape a second time."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | Sequence):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(part)


def value_of(mapping: str, key: str) -> str:
    """Return the Jinja expression of a value of a mapping, whatever characters its key has."""
    if re.fullmatch(r"[A-Za-z]\w*", key, re.ASCII) and not hasattr(dict, key):
        return f"{mapping}.{key}"
    return f"{mapping}[{quote(key)}]"


def quote(text: str) -> str:
    """Return a text as a string of Jinja, in which no character ends the string or the line."""

    def escape(letter: str) -> str:
        if letter in '"\\':
            return f"\\{letter}"
        return letter if letter.isprintable() else letter.encode("unicode_escape").decode()

    return f'"{"".join(map(escape, text))}"'


def sample_columns(rows: Iterable[Row], source: str) -> dict[str, Column]:
    """Return the columns of the first rows by their names, without the invisible characters and blanks around these.

    Raises:
        DataError: there are no rows, or too many columns.
    """
    sample: list[Row] = []
    names: dict[str, str] = {}
    chars = 0
    for row in islice(rows, MAX_ROWS):
        sample.append(row)
        for name in row:
            if name not in names:
                plain = " ".join(str(name).translate(INVISIBLE).split())
                names[name] = plain if plain and plain in row else name
        if len(names) > MAX_COLUMNS:
            raise DataError(f"{source}: more than {MAX_COLUMNS:,} columns; leave some out")
        chars += sum(len(str(value)) for value in row.values())
        if chars > MAX_SAMPLE_CHARS:
            break
    if not sample:
        raise DataError(f"{source}: there are no rows, so no task can be made of them")
    return {name: Column(name, [row.get(key) for row in sample]) for key, name in names.items()}
