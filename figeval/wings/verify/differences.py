"""Differences between two JSON values, such as a stored record and a recomputed one, each with its place.

Elements of a list are matched by name if they have one (the metric of a score, the name of a baseline), so that one
missing score does not make all the following ones look wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from figeval.io.text import one_line

NAMES = (
    "suite",
    "task",
    "contrast",
    "variant",
    "baseline",
    "metric",
    "language",
    "by",
    "key",
    "value",
)  # of an element
RELATIVE = 1e-9  # other processors, and other versions of numpy, add and multiply in another order
ABSENT = object()
LONGEST = 60  # characters of a value in a message


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two values differ. `first` or `second` is `ABSENT` if only the other one has it."""

    place: str
    first: Any
    second: Any

    @property
    def is_rounding(self) -> bool:
        """True if both are numbers that differ by a few units in the last of their sixteen digits or so."""
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (self.first, self.second))
        return numbers and math.isclose(self.first, self.second, rel_tol=RELATIVE, abs_tol=RELATIVE * 1e-3)

    def told(self, first: str, second: str) -> str:
        """Return e.g. `scores.acc.value is 0.5, recomputed 0.45`.

        Args:
            first: what stands before the first value, e.g. `is`.
            second: what stands before the second value, e.g. `recomputed`.
        """
        by = f" (differs by {abs(self.first - self.second):.1g}: rounding)" if self.is_rounding else ""
        return f"{one_line(self.place, 160)} {first} {shown(self.first)}, {second} {shown(self.second)}{by}"


def differences(first: Any, second: Any, place: str = "") -> Iterator[Difference]:
    """Yield the places where two JSON values differ, in the order of the first one."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in dict.fromkeys((*first, *second)):
            inside = f"{place}.{key}" if place else str(key)
            yield from differences(first.get(key, ABSENT), second.get(key, ABSENT), inside)
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        yield from _of_lists(first, second, place)
    elif not _are_equal(first, second):
        yield Difference(place, first, second)


def _of_lists(first: Sequence[Any], second: Sequence[Any], place: str) -> Iterator[Difference]:
    one, other = _named(first), _named(second)
    if one is None or other is None:
        if len(first) != len(second):
            yield Difference(f"number of {place}", len(first), len(second))
        for number, (left, right) in enumerate(zip(first, second, strict=False)):
            yield from differences(left, right, f"{place}[{number}]")
        return
    yield from differences(one, other, place)
    if one.keys() == other.keys() and list(one) != list(other):
        yield Difference(f"order of {place}", list(one), list(other))


def _named(items: Sequence[Any]) -> dict[str, Any] | None:
    """Return the elements by name, or None if some have no name or two have the same."""
    found: dict[str, Any] = {}
    for item in items:
        parts = [item[key] for key in NAMES if isinstance(item.get(key), str)] if isinstance(item, Mapping) else []
        name = ".".join(parts)
        if not parts or name in found:
            return None
        found[name] = item
    return found


def _are_equal(first: Any, second: Any) -> bool:
    """Return whether two values are equal; True is not 1."""
    return (isinstance(first, bool) == isinstance(second, bool)) and bool(first == second)


def shown(value: Any) -> str:
    """Return a value as short JSON in one line, or `absent`."""
    if value is ABSENT:
        return "absent"
    return one_line(json.dumps(value, ensure_ascii=False, default=str), LONGEST)


def listed(found: Iterable[str], most: int = 3) -> str:
    """Return the first texts separated by semicolons, and how many there are beyond these."""
    rest = iter(found)
    first = list(islice(rest, most))
    more = sum(1 for _ in rest)
    return "; ".join(first) + (f"; and {more} more" if more else "")
