"""The step budget of a Jinja evaluation: filters, tests, calls and operators spend steps before they do their work.

A step is a value that is looked at or made, or 64 characters of text. Steps are counted, not timed, so the same input
always ends in the same way.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MappingView
from functools import wraps
from typing import TypeVar

from jinja2 import Undefined
from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

T = TypeVar("T")

STEPS = 1_000_000
MAX_DEPTH = 100  # levels of nested lists and mappings
MAX_WIDTH = 10_000  # for padding, indenting and splitting into pieces
MAX_BITS = 4_096  # of an integer

SHALLOW = {"count", "first", "last", "length", "list", "reverse"}  # filters that do not look at the values of a list
SLOW = {"striptags", "title", "tojson", "urlencode", "wordcount", "wordwrap"}  # filters that need a step per character
LOOKING_UP = {"groupby", "join", "map", "max", "min", "rejectattr", "selectattr", "sort", "sum", "unique"}  # attributes
LOOKUP_STEPS = 4  # of an attribute: each takes some microseconds, and a name may be a long path of them
WIDENING = {"batch", "center", "indent", "ljust", "rjust", "round", "slice", "zfill"}


class _Budget(threading.local):
    """Steps that the current evaluation has left."""

    left = STEPS

    def spend(self, steps: int) -> None:
        """Spend steps. Raises `SecurityError` if there are not enough left."""
        if steps > self.left:
            self.left = 0
            raise SecurityError(f"it takes more than {STEPS:,} steps")
        self.left -= steps


budget = _Budget()


def begin() -> None:
    """Start a new evaluation."""
    budget.left = STEPS


def characters(count: int) -> int:
    """Return the number of steps for a text of this length."""
    return 1 + (count >> 6)


def measure(*values: object) -> tuple[int, int]:
    """Spend a step for each value inside these, as often as it occurs; return the steps and the levels of nesting."""
    level: Iterable[object] = values
    steps = levels = 0
    while level and steps <= budget.left:
        levels += 1
        if levels > MAX_DEPTH:
            raise SecurityError(f"lists are nested more than {MAX_DEPTH} levels deep")
        inner: list[object] = []
        for value in level:
            if isinstance(value, str | bytes):
                steps += characters(len(value))
            elif isinstance(value, int | float):
                steps += 1
            else:
                held = value if isinstance(value, list | tuple) else _held(value)
                steps += 1 + len(held)
                if steps > budget.left:
                    break
                inner.extend(held if not isinstance(value, range) else ())
        level = inner
    budget.spend(steps)
    return steps, levels


def _held(value: object) -> Collection[object]:
    """Return the content of a value that is hashed, compared or printed together with it."""
    if isinstance(value, dict):
        return (*value, *value.values())
    if isinstance(value, Namespace):
        attributes: dict[str, object] = value._Namespace__attrs
        return attributes.values()
    if isinstance(value, MappingView):
        return tuple(value)  # type: ignore[arg-type]
    return value if isinstance(value, set | frozenset | range) else ()


def _metered(values: Iterable[object], steps: int = 0) -> Iterator[object]:
    for value in values:
        measure(value)
        budget.spend(steps)
        yield value


def _lookup_steps(name: str, arguments: Iterable[object]) -> int:
    """Return the steps of the attributes that a filter looks up in each value: `a.b,c` are three of them."""
    paths = [path for path in arguments if isinstance(path, str)] if name in LOOKING_UP else []
    return LOOKUP_STEPS * sum(1 + path.count(".") + path.count(",") for path in paths)


def bounded(value: T) -> T:
    """Return a result after its steps are spent. Raises `SecurityError` for an integer of too many bits."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise SecurityError(f"an integer of more than {MAX_BITS:,} bits")
    if isinstance(value, str):
        budget.spend(characters(len(value)))
    return value


def printed(value: object) -> str:
    """Return the printed form of a value after its steps are spent."""
    if isinstance(value, str):
        budget.spend(characters(len(value)))
        return value
    if isinstance(value, Iterator) or (callable(value) and not isinstance(value, Undefined)):
        raise SecurityError(f"a {type(value).__name__} cannot be printed; make a list of it")
    measure(value)
    return str(value)


# ---- estimates of results before they are made -----------------------------------------------------------------------


def _formatting(template: object, arguments: object) -> None:
    """Spend the steps for the result of `template % given`."""
    if isinstance(template, str):
        widths = [int(digits[:5]) for digits in re.findall(r"\d+", template)]
        if "*" in template or max(widths, default=0) > MAX_WIDTH:
            raise SecurityError(f"a width of more than {MAX_WIDTH:,}, or one that is computed")
        budget.spend(characters(sum(widths)))
        for _ in range(template.count("%") if isinstance(arguments, Mapping) else 1):
            measure(arguments)


def _replacing(s: object, old: object, new: object, *_: object, **__: object) -> None:
    """Spend the steps for the result of a replacement."""
    if isinstance(s, str) and isinstance(old, str) and isinstance(new, str):
        budget.spend(characters((s.count(old) + 1) * len(new)))


def _separating(values: object, separator: object) -> None:
    """Spend the steps for a separator after each value."""
    if isinstance(separator, str) and hasattr(values, "__len__"):
        budget.spend(characters(len(values) * len(separator)))


def _summing(_values: object, attribute: object = None, start: object = 0) -> None:  # noqa: ARG001 - Jinja's names
    """Refuse to add up anything but numbers, because sums of lists are copied again and again."""
    if not isinstance(start, int | float):
        raise SecurityError("only numbers can be added up")


def _widening(value: object, *others: object) -> None:
    """Spend the steps for a value as often as the largest of the other arguments says."""
    widths = [
        len(argument) if isinstance(argument, str) else abs(argument)
        for argument in others
        if isinstance(argument, str | int)
    ]
    width = max(widths, default=1)
    if width > MAX_WIDTH:
        raise SecurityError(f"a width of more than {MAX_WIDTH:,}")
    size = len(value) if hasattr(value, "__len__") else 1
    budget.spend(characters(size * width))


def _indenting(value: object, indent: object = None) -> None:
    """Spend the steps for the indentation of each value, which grows with its depth."""
    if isinstance(indent, int | str):
        steps, levels = measure(value)
        width = len(indent) if isinstance(indent, str) else max(indent, 0)
        budget.spend(characters(steps * levels * width))


ESTIMATES: dict[str, Callable[..., None]] = {
    "format": lambda template, *given, **named: _formatting(template, named or given),
    "replace": _replacing,
    "join": lambda values, d="", *_, **__: _separating(values, d),
    "sum": _summing,
    "tojson": _indenting,
    # A separator after each character, which is the worst case.
    "wordwrap": lambda s, *others, wrapstring=None, **__: _separating(s, others[2] if len(others) > 2 else wrapstring),
    **dict.fromkeys(WIDENING, _widening),
}


def limited(name: str, function: Callable[..., object]) -> Callable[..., object]:
    """Wrap a filter or test so that it spends steps for its arguments and its result."""
    passed = 1 if hasattr(function, "jinja_pass_arg") else 0  # the first argument is an environment or a context
    estimate = ESTIMATES.get(name)

    @wraps(function)
    def limited(*arguments: object, **keywords: object) -> object:
        budgeted = list(arguments[passed:])
        if name == "join" and budgeted and isinstance(budgeted[0], Iterator):
            budgeted[0] = list(_metered(budgeted[0]))
        steps = _lookup_steps(name, (*budgeted[2 if name == "join" else 1 :], *keywords.values()))
        budgeted = [_metered(argument, steps) if isinstance(argument, Iterator) else argument for argument in budgeted]
        if name in SHALLOW and budgeted:
            counted(budgeted[0])
        else:
            measure(*budgeted, *keywords.values())
        if steps and budgeted and hasattr(budgeted[0], "__len__"):
            budget.spend(steps * len(budgeted[0]))
        if estimate is not None:
            estimate(
                *budgeted, *(keywords.values() if name in WIDENING else ()), **({} if name in WIDENING else keywords)
            )
        if name in SLOW and budgeted:
            budget.spend(len(budgeted[0]) if hasattr(budgeted[0], "__len__") else 1)
        return bounded(function(*arguments[:passed], *budgeted, **keywords))

    return limited


def called(function: object, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> None:
    """Spend the steps of a call, for a method also those of the text or list that it belongs to."""
    name, owner = getattr(function, "__name__", ""), getattr(function, "__self__", None)
    operands = (owner, *arguments) if isinstance(owner, str | bytes | list | tuple | dict) else arguments
    measure(*operands, *keywords.values())
    if name in ESTIMATES and operands is not arguments:
        turned = (operands[1], operands[0]) if name == "join" and len(operands) > 1 else operands
        ESTIMATES[name](*turned)
    budget.spend(1)


def operated(operator: str, left: object, right: object) -> None:
    """Spend the steps of an operation; refuse a power beyond the largest integer."""
    budget.spend(1)
    match operator:
        case "%":
            _formatting(left, right)
        case "*":
            for operand, times in ((left, right), (right, left)):
                if isinstance(times, int) and isinstance(operand, str | bytes):
                    budget.spend(characters(len(operand) * max(times, 0)))
                elif isinstance(times, int) and isinstance(operand, list | tuple):
                    budget.spend(len(operand) * max(times, 0))
        case "+":
            budget.spend(sum(len(operand) for operand in (left, right) if isinstance(operand, list | tuple)))
        case "**":
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > MAX_BITS:
                raise SecurityError(f"an integer of more than {MAX_BITS:,} bits")


def measured(value: T) -> T:
    """Return the value after spending the steps for everything inside it."""
    measure(value)
    return value


def counted(values: T) -> T:
    """Return the values after spending a step for each."""
    if hasattr(values, "__len__"):
        budget.spend(len(values))
    return values


def joined(parts: Iterable[str]) -> str:
    """Join the pieces of a template, and spend the steps for the text."""
    pieces = list(parts)
    budget.spend(characters(sum(map(len, pieces))))
    return "".join(pieces)


def spent(steps: int) -> str:
    """Spend steps and return an empty text."""
    budget.spend(steps)
    return ""
