"""Differences between two JSON values, such as a stored record and a recomputed one, each with its path.

Elements of a list are matched by name if they have one (the metric of a score, the name of a baseline), so that one
missing score does not make all the following ones look wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from figeval.io.text import one_line

NAMES = (  # of an element
    *("suite", "task", "contrast", "variant", "baseline", "metric", "language"),
    *("by", "key", "value"),
)
RELATIVE_TOLERANCE = 1e-9  # other processors, and other versions of numpy, add and multiply in another order
ABSENT = object()
MAX_VALUE_CHARS = 60  # in a message


@dataclass(frozen=True, slots=True)
class Difference:
    """A path at which two values differ. `first` or `second` is `ABSENT` if only the other one has it."""

    path: str
    first: Any
    second: Any

    @property
    def is_rounding(self) -> bool:
        """True if both are numbers that differ by a few units in the last of their sixteen digits or so."""
        are_numbers = all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in (self.first, self.second)
        )
        return are_numbers and math.isclose(
            self.first, self.second, rel_tol=RELATIVE_TOLERANCE, abs_tol=RELATIVE_TOLERANCE * 1e-3
        )

    def within(self, parent: str) -> Difference:
        """Return the difference with what the two values are parts of in front of its path."""
        return replace(self, path=f"{parent}: {self.path}")

    def describe(self, second: str) -> str:
        """Return e.g. `scores.acc.value is 0.5, recomputed 0.45`; `second` introduces the second value."""
        rounding = f" (differs by {abs(self.first - self.second):.1g}: rounding)" if self.is_rounding else ""
        values = f"is {_short_json(self.first)}, {second} {_short_json(self.second)}"
        return f"{one_line(self.path, 160)} {values}{rounding}"


def find_differences(first: Any, second: Any, path: str = "") -> Iterator[Difference]:
    """Yield the differences of two JSON values, in the order of the first one."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys((*first, *second)):
            key_path = f"{path}.{key}" if path else str(key)
            yield from find_differences(first.get(key, ABSENT), second.get(key, ABSENT), key_path)
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        yield from _find_in_lists(first, second, path)
    elif not _are_equal(first, second):
        yield Difference(path, first, second)


def join_texts(texts: Iterable[str], limit: int = 3) -> str:
    """Return the first texts separated by semicolons, and how many there are beyond these."""
    iterator = iter(texts)
    head = list(islice(iterator, limit))
    remaining = sum(1 for _ in iterator)
    return "; ".join(head) + (f"; and {remaining} more" if remaining else "")


def _find_in_lists(first: Sequence[Any], second: Sequence[Any], path: str) -> Iterator[Difference]:
    first_by_name, second_by_name = _by_name(first), _by_name(second)
    if first_by_name is None or second_by_name is None:
        if len(first) != len(second):
            yield Difference(f"number of {path}", len(first), len(second))
        for index, (left, right) in enumerate(zip(first, second, strict=False)):
            yield from find_differences(left, right, f"{path}[{index}]")
        return
    yield from find_differences(first_by_name, second_by_name, path)
    names, other_names = list(first_by_name), list(second_by_name)
    if first_by_name.keys() == second_by_name.keys() and names != other_names:
        yield Difference(f"order of {path}", names, other_names)


def _by_name(elements: Sequence[Any]) -> dict[str, Any] | None:
    """Return the elements by name, or None if some have no name or two have the same."""
    by_name: dict[str, Any] = {}
    for element in elements:
        is_mapping = isinstance(element, Mapping)
        parts = [element[key] for key in NAMES if isinstance(element.get(key), str)] if is_mapping else []
        name = ".".join(parts)
        if not parts or name in by_name:
            return None
        by_name[name] = element
    return by_name


def _are_equal(first: Any, second: Any) -> bool:
    """Return whether two values are equal; True is not 1."""
    return (isinstance(first, bool) == isinstance(second, bool)) and bool(first == second)


def _short_json(value: Any) -> str:
    if value is ABSENT:
        return "absent"
    return one_line(json.dumps(value, ensure_ascii=False, default=str), MAX_VALUE_CHARS)
