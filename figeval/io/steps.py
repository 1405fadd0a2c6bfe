"""Limits of a Jinja evaluation: how much it may make, and for how long it may compute.

An evaluation may look at and make a million values; 64 characters of text count as one. These are counted before the
work is done wherever little makes much: repeating, padding, joining, replacing, formatting. What takes long without
making anything, such as a loop over another one's values, ends at a limit of processor time, which is that of the
thread, so that it holds in every thread and does not depend on what else the machine does.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MappingView
from functools import wraps
from typing import TypeVar

from jinja2 import Undefined
from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

T = TypeVar("T")

MAX_STEPS = 1_000_000
MAX_SECONDS = 3.0  # of processor time
MAX_CHARS = 10_000_000  # of one text, which filters may divide into characters
MAX_DEPTH = 100  # levels of nested lists and mappings
MAX_WIDTH = 10_000  # for padding, indenting and splitting into pieces
MAX_BITS = 4_096  # of an integer
HASH_BITS = 60  # integers of more may all have the same hash, and then each is compared with all others
LARGE_INTEGER_STEPS = 100

LOOKUP_STEPS = 4  # of an item: filters look up paths of them in every value, which takes some microseconds each

SLOW_FILTERS = {"striptags", "title", "tojson", "urlencode", "wordcount", "wordwrap"}  # take a step per character
WIDENING_FILTERS = {"batch", "center", "indent", "ljust", "rjust", "round", "slice", "tojson", "zfill"}


class _Budget(threading.local):
    """Steps and time that the current evaluation has left."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start a new evaluation."""
        self.steps, self.began, self.deadline = MAX_STEPS, time.thread_time(), time.monotonic() + MAX_SECONDS

    def spend(self, steps: int) -> None:
        """Spend steps. Raises `SecurityError` if there are not enough left, or the time is over."""
        self.steps -= steps
        if self.steps < 0:
            raise SecurityError(f"it takes more than {MAX_STEPS:,} steps")
        if (now := time.monotonic()) > self.deadline:  # a quicker clock, which is never behind that of the thread
            remaining = self.began + MAX_SECONDS - time.thread_time()
            if remaining < 0:
                raise SecurityError(f"it takes more than {MAX_SECONDS:g} seconds")
            self.deadline = now + remaining


budget = _Budget()


def characters(count: int) -> int:
    """Return the number of steps for a text of this length."""
    return 1 + (count >> 6)


def measure(*values: object) -> tuple[int, int]:
    """Spend a step for each value inside these, as often as it occurs; return the steps and the levels of nesting."""
    level: Iterable[object] = values
    steps = levels = 0
    while level and steps <= budget.steps:
        levels += 1
        if levels > MAX_DEPTH:
            raise SecurityError(f"lists are nested more than {MAX_DEPTH} levels deep")
        inner: list[object] = []
        for value in level:
            if isinstance(value, str | bytes):
                steps += characters(len(value))
            elif isinstance(value, int | float):
                is_large = isinstance(value, int) and value.bit_length() > HASH_BITS
                steps += LARGE_INTEGER_STEPS if is_large else 1
            else:
                content = value if isinstance(value, list | tuple) else _content_of(value)
                steps += 1 + len(content)
                if steps > budget.steps:
                    break
                inner.extend(content if not isinstance(value, range) else ())
        level = inner
    budget.spend(steps)
    return steps, levels


def _content_of(value: object) -> Collection[object]:
    """Return the content of a value that is hashed, compared or printed together with it."""
    if isinstance(value, dict):
        return (*value, *value.values())
    if isinstance(value, Namespace):
        attributes: dict[str, object] = value._Namespace__attrs
        return attributes.values()
    if isinstance(value, MappingView):
        return tuple(value)  # type: ignore[arg-type]
    return value if isinstance(value, set | frozenset | range) else ()


def charge(value: T) -> T:
    """Return the value after spending the steps for everything inside it."""
    measure(value)
    return value


def charge_result(value: T) -> T:
    """Return a result after its steps are spent; what is inside it has been measured before.

    Raises:
        SecurityError: it is an integer of too many bits or a range of such, a text that is too long, or the limits are
            exceeded.
    """
    if isinstance(value, range) and max(value.start.bit_length(), value.stop.bit_length()) > HASH_BITS:
        raise SecurityError(f"a range of integers of more than {HASH_BITS} bits")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise SecurityError(f"an integer of more than {MAX_BITS:,} bits")
    if isinstance(value, str):
        if len(value) > MAX_CHARS:
            raise SecurityError(f"a text of more than {MAX_CHARS:,} characters")
        budget.spend(characters(len(value)))
    elif isinstance(value, list | tuple | dict):
        budget.spend(len(value))
    return value


def to_text(value: object) -> str:
    """Return the printed form of a value after its steps are spent."""
    if isinstance(value, Iterator) or (callable(value) and not isinstance(value, Undefined)):
        raise SecurityError(f"a {type(value).__name__} cannot be printed; make a list of it")
    measure(value)
    return str(value)


def join_pieces(parts: Iterable[str]) -> str:
    """Join the pieces of a template, and spend the steps for the text."""
    pieces = list(parts)
    budget.spend(characters(sum(map(len, pieces))))
    return charge_result("".join(pieces))


def spend_steps(steps: int) -> str:
    """Spend steps and return an empty text."""
    budget.spend(steps)
    return ""


# ---- what makes much out of little, before it is made ----------------------------------------------------------------


def check_call(name: str, operands: tuple[object, ...]) -> None:
    """Spend the steps for the arguments of a filter, test or method, and those for what it makes of them."""
    steps, levels = measure(*operands)
    match name, operands:
        case "format", (template, *values):
            check_format(template, values)
        case "replace", (str() as text, str() as old, str() as new, *_):
            budget.spend(characters((text.count(old) + 1) * len(new)))
        case "rfind" | "rindex" | "rpartition" | "rsplit" | "strip" | "lstrip" | "rstrip" | "trim", (
            str() as text,
            str() as pattern,
            *_,
        ):  # Python may compare all of the pattern at each character
            budget.spend(characters(len(text) * len(pattern)))
        case "sum", (_, *rest) if any(isinstance(start, list | tuple | dict) for start in rest):
            raise SecurityError("only numbers can be added up")  # sums of lists are copied again and again
        case "join" | "wordwrap", (value, *others):  # at worst, there is a separator after each character
            budget.spend(characters(_length(value) * max(map(_length, others), default=0)))
        case _, (value, *others) if name in WIDENING_FILTERS:
            widths = [abs(other) if isinstance(other, int) else _length(other) for other in others]
            if max(widths, default=0) > MAX_WIDTH:
                raise SecurityError(f"a width of more than {MAX_WIDTH:,}")
            size = steps * levels if name == "tojson" else _length(value)
            budget.spend(characters(size * max(widths, default=1)))
    if name == "wordwrap" and isinstance(operands[0], str):
        width = next((operand for operand in operands[1:] if type(operand) is int and operand > 0), 79)  # as Jinja
        longest = max(map(len, re.findall(r"\s+|\S+", operands[0], re.ASCII)), default=0)
        budget.spend(characters(longest * longest // width))  # the rest of a long word is copied for each line of it
    if name in SLOW_FILTERS and operands and hasattr(operands[0], "__len__"):
        budget.spend(len(operands[0]))


def _length(value: object) -> int:
    return len(value) if hasattr(value, "__len__") else 1


def check_format(template: object, values: object) -> None:
    """Spend the steps for the result of `template % values`."""
    if isinstance(template, str):
        widths = [int(digits[:5]) for digits in re.findall(r"[1-9]\d*", template)]
        if "*" in template or max(widths, default=0) > MAX_WIDTH:
            raise SecurityError(f"a width of more than {MAX_WIDTH:,}, or one that is computed")
        budget.spend(characters(sum(widths)))
        for _ in range(template.count("%") if isinstance(values, Mapping) else 1):
            measure(values)


def check_operation(operator: str, left: object, right: object) -> None:
    """Spend the steps of an operation; refuse a power beyond the largest integer."""
    budget.spend(1)
    match operator:
        case "%":
            check_format(left, right)
        case "*":
            for operand, times in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(operand, str | bytes):
                    budget.spend(characters(len(operand) * max(times, 0)))
                elif isinstance(times, int) and isinstance(operand, list | tuple):
                    budget.spend(len(operand) * max(times, 0))
        case "**":
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MAX_BITS:
                raise SecurityError(f"an integer of more than {MAX_BITS:,} bits")


def limit_filter(name: str, function: Callable[..., object]) -> Callable[..., object]:
    """Wrap a filter or test so that it spends steps for its arguments and its result."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0  # the argument before is an environment or a context

    @wraps(function)
    def call_limited(*arguments: object, **keywords: object) -> object:
        operands = [
            (charge(inner) for inner in value) if isinstance(value, Iterator) else value for value in arguments[first:]
        ]
        if name == "join" and operands and isinstance(operands[0], Iterator):
            operands[0] = list(operands[0])  # its length is needed
        check_call(name, (*operands, *keywords.values()))
        return charge_result(function(*arguments[:first], *operands, **keywords))

    return call_limited
