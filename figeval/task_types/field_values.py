"""Check values of rows for several kinds of fields, with errors that say how a task file converts them rightly.

What is advised never makes a wrong value of one that only looks as expected: a letter is no number, null is no text.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from figeval.errors import DataError
from figeval.io.conversions import is_missing

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
INVISIBLE = re.compile("[\u200b\u2060\ufeff\xad]")
ROUGHNESS: Mapping[str, Callable[[str], str]] = {  # what may differ in two texts that are meant to be equal
    "Unicode form": lambda text: unicodedata.normalize("NFKC", text),
    "case": str.casefold,
    "blanks": lambda text: " ".join(INVISIBLE.sub("", text).split()),
    "a full stop": lambda text: text.rstrip(".。।۔ ") or text,
}
INTEGER = re.compile(r"[+-]?\d{1,18}(\.0+)?")
PLAIN_TEXT = re.compile(r"[\w(][\w().'| +-]*")
"""An expression that YAML reads as one text, within braces too."""


class FieldRow(Protocol):
    """A row that is being read: the expressions of its fields, the fields read so far, and errors about it."""

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


def text(value: Any, row: FieldRow) -> str:
    """Return the value if it is a string. Raises `DataError`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and math.isnan(value):
        raise row.error("NaN, which stands for an empty cell, is not a string; fill the cell, or leave out the row")
    if value is None:
        raise row.error("null is not a string; fill it in, or write `… | default('', true)` if it means an empty text")
    cure = "; write `… | string` to convert it" if isinstance(value, int | float) else ""
    raise row.error(f"{value!r:.80} is not a string{cure}")


def texts(value: Any, row: FieldRow) -> tuple[str, ...]:
    """Return the value as a tuple if it is a list of strings; a tuple is returned as it is. Raises `DataError`."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise row.error(f"expected a list of texts, found {value!r:.80}")
    if set(map(type, value)) != {str}:  # fast, since thousands of candidates are checked in every row
        for element in value:
            text(element, row)
    return tuple(value)  # candidates that rows share are stored once


def index(value: Any, of: str, row: FieldRow) -> int:
    """Return the value if it is an index into the field `of`. Raises `DataError` with what the row seems to mean."""
    options: Sequence[Any] = row.read[of]
    if not isinstance(value, int) or isinstance(value, bool):
        raise row.error(f"{value!r:.80} is not an index{_index_cure(value, options, of, row)}")
    if not 0 <= value < len(options):
        cure = "; if it counts from 1, subtract 1" if value == len(options) else ""
        raise row.error(f"{value} is out of range for {len(options)} options (0 to {len(options) - 1}){cure}")
    return value


def _index_cure(value: Any, options: Sequence[Any], of: str, row: FieldRow) -> str:
    """Return how to write the index that a value seems to mean, or how a hidden one is written."""
    gold = _source(row.task.fields.get(row.field))
    if isinstance(value, str) and value.strip():
        texts = [option for option in options if isinstance(option, str)]
        if len(texts) < len(options):
            texts = []
        if cure := _uncertain_text(value, texts):
            return cure
        readings = [
            *_text_reading(value, texts, gold, _source(row.task.fields.get(of))),
            *_number_readings(value, gold),
            *_letter_reading(value, len(options), gold),
        ]
        if len(readings) == 1:
            return f"; write {readings[0][0]}"
        if readings:
            *first, last = (f"{expression} if it {condition}" for expression, condition in readings)
            return f"; write {', '.join(first)}, or {last}"
    elif isinstance(value, float) and value.is_integer():
        return f"; write {_as_yaml(f'({gold}) | int')}"
    elif value == "":
        return f"; write {_as_yaml(f'({gold}) or none')} if an empty cell means that it is hidden"
    return "; give the place of an option, counted from 0, or null if it is hidden"


def _source(field: Any) -> str:
    """Return the expression of a field of a task file, `…` if it is none that fits into another one."""
    if isinstance(field, list) and all(isinstance(part, str) for part in field):
        return f"[{', '.join(field)}]"
    return field if isinstance(field, str) else "…"


def _text_reading(value: str, options: Sequence[str], gold: str, texts: str) -> Iterator[tuple[str, str]]:
    """Yield the expression, with its condition, by which a text is found among the options, unless none is sure."""
    for filters in ((), ("trim",), ("trim", "lower")):
        changed = [_filtered(option, filters) for option in options]
        if (filtered := _filtered(value, filters)) in changed:
            among = "".join(f" | map('{name}')" for name in filters)
            searched = f"(({texts}){among} | list)" if filters else f"({texts})"
            key = f"({gold}){''.join(f' | {name}' for name in filters)}" if filters else gold
            if changed.count(filtered) == 1:
                yield _as_yaml(f"{searched}.index({key})"), "is the text of an option"
            return


def _filtered(text: str, filters: Sequence[str]) -> str:
    text = text.strip() if "trim" in filters else text
    return text.lower() if "lower" in filters else text


def _number_readings(value: str, gold: str) -> Iterator[tuple[str, str]]:
    if INTEGER.fullmatch(value.strip()):
        yield _as_yaml(f"({gold}) | int"), "counts from 0"
        yield _as_yaml(f"(({gold}) | int) - 1"), "counts from 1"


def _letter_reading(value: str, options: int, gold: str) -> Iterator[tuple[str, str]]:
    letters = LETTERS[:options]
    if len(value.strip()) == 1 and value.strip().upper() in letters:
        entries = ", ".join(f"'{letter}': {number}" for number, letter in enumerate(letters))
        yield _as_yaml(f"{{{entries}}}[({gold}) | trim | upper]"), "is a letter"


def _as_yaml(source: str) -> str:
    """Return an expression as it is written in a task file: in quotes if YAML would read it as something else."""
    return f"`{source if PLAIN_TEXT.fullmatch(source) else json.dumps(source, ensure_ascii=False)}`"


def _uncertain_text(value: str, options: Sequence[str]) -> str:
    """Return what to do about a text that equals several options, or one only roughly; "" if it equals one, or none."""
    alike = [number for number, option in enumerate(options) if _roughly(option) == _roughly(value)]
    exact = [number for number in alike if options[number] == value]
    if len(exact) == 1 or not alike:
        return ""
    if len(exact or alike) > 1:
        listed = " and ".join(f"{number} ({options[number]!r:.40})" for number in (exact or alike)[:3])
        relation = "is the text of" if exact else "is nearly the text of"
        return f"; it {relation} options {listed}: give the index of the one that is meant, counted from 0"
    option = options[alike[0]]
    if _filtered(option, ("trim", "lower")) == _filtered(value, ("trim", "lower")):
        return ""  # an expression finds it
    differences = [name for name in ROUGHNESS if _roughly(option, name) != _roughly(value, name)]
    kinds = " and ".join(differences) or "their spelling"
    return f"; it differs from option {alike[0]} ({option!r:.80}) only in {kinds}: write both the same way in the row"


def _roughly(text: str, except_for: str = "") -> str:
    """Return a text without what `ROUGHNESS` names, except for one of them."""
    for name, change in ROUGHNESS.items():
        text = text if name == except_for else change(text)
    return text


def known_texts(columns: Mapping[Any, Any]) -> dict[str, str]:
    """Return columns as texts, without those that are unknown: null, and NaN, which stands for an empty cell."""
    return {str(name): str(value) for name, value in columns.items() if not is_missing(value)}
