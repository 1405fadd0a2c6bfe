"""Jinja's filters that convert values, without the values that Jinja makes up where a conversion fails.

In Jinja, `'B' | int` is 0, `'4,5' | float` is 0.0, and null becomes the text "None": in a field of a task, every row
would get a wrong value that looks like a right one. Here they are errors. A default that is written out
(`row.n | int(0)`) is used as in Jinja.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from jinja2 import defaults

NO_DEFAULT: Any = object()  # stands for a default that is not given
ONE_COMMA = re.compile(r"[-+]?\d+,(\d+)")
LETTER = re.compile(r"[A-Za-z]")

JINJAS: dict[str, Callable[..., Any]] = vars(defaults)["DEFAULT_FILTERS"]
# Filters that make a text of their first argument.
TEXTUAL = {"capitalize", "center", "e", "escape", "forceescape", "indent", "lower", "replace", "string", "striptags"}
TEXTUAL |= {"title", "trim", "truncate", "upper", "urlencode", "wordcount", "wordwrap"}


class ConversionError(Exception):
    """A value cannot be converted; the message is one line."""


def convert_to_int(value: Any, default: Any = NO_DEFAULT, base: int = 10) -> Any:
    """Return the whole number that a value is or spells; Jinja would cut a fraction off.

    Raises:
        ConversionError: it is none, and no default is given.
    """
    if default is not NO_DEFAULT:
        return JINJAS["int"](value, default, base)
    try:
        return int(value, base) if isinstance(value, str) and base != 10 else _to_int(value)
    except (ArithmeticError, TypeError, ValueError) as error:
        cure = ""
        if isinstance(value, str) and LETTER.fullmatch(value.strip()):
            cure = "; to number letters, write {'A': 0, 'B': 1}[…] with all letters that occur"
        elif isinstance(error, FractionError):
            cure = "; round it first, as in … | float | round | int"
        raise ConversionError(f"{describe_value(value)} is not an integer{cure}") from error


class FractionError(ValueError):
    """A number is not whole."""


def _to_int(value: Any) -> int:
    if isinstance(value, str) and "_" in value:  # Python's own way of grouping digits
        raise ValueError(value)
    try:
        number = int(value)
    except ValueError:
        number = int(value := float(value))  # "3.0"
    if isinstance(value, float) and number != value:
        raise FractionError(value)
    return number


def convert_to_float(value: Any, default: Any = NO_DEFAULT) -> Any:
    """Return the number that a value is or spells.

    Raises:
        ConversionError: it is none, and no default is given.
    """
    if default is not NO_DEFAULT:
        return JINJAS["float"](value, default)
    try:
        if isinstance(value, str) and "_" in value:
            raise ValueError(value)
        return float(value)
    except (ArithmeticError, TypeError, ValueError) as error:
        cure = ""
        if isinstance(value, str) and (comma := ONE_COMMA.fullmatch(value.strip())):
            cure = "; if its comma separates decimals, write … | replace(',', '.') | float"
            cure = f"{cure}, if thousands, … | replace(',', '') | float" if len(comma.group(1)) == 3 else cure
        raise ConversionError(f"{describe_value(value)} is not a number{cure}") from error


def is_missing(value: object) -> bool:
    """Return whether there is no value: null, or NaN, which stands for an empty cell."""
    return value is None or bool(value != value)  # noqa: PLR0124 - only NaN differs from itself


def check_text(value: object) -> None:
    """Raise `ConversionError` for a value that has no text because it is missing."""
    if is_missing(value):
        raise ConversionError(f"{describe_value(value)} is no text; fill it in, or write a default: {_default(value)}")


def check_texts(values: Iterable[object]) -> None:
    """Raise `ConversionError` if one of the values has no text."""
    for value in values:
        check_text(value)


def describe_value(value: object) -> str:
    """Return a value as task authors know it."""
    return "null" if value is None else "NaN" if value != value else f"{value!r:.80}"  # noqa: PLR0124


def _default(value: object) -> str:
    return "… | default('', true)" if value is None else "'' if … != … else …"


def requiring_text(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter so that null and NaN are errors where it would make a text of them; others are returned as is."""
    if name not in TEXTUAL and name not in ("format", "join"):
        return function
    position = 1 if hasattr(function, "jinja_pass_arg") else 0  # the first argument is an environment or a context
    if name == "format":
        return requiring_texts(function)

    @wraps(function)
    def filter_texts(*arguments: Any, **keywords: Any) -> Any:
        value = arguments[position] if len(arguments) > position else ""
        if name != "join":
            check_text(value)
        elif isinstance(value, list | tuple) and len(arguments) < position + 3 and "attribute" not in keywords:
            check_texts(value)
        return function(*arguments, **keywords)

    return filter_texts


def requiring_texts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that formats values so that null and NaN among them are errors."""

    @wraps(function)
    def format_texts(template: Any, *arguments: Any, **keywords: Any) -> Any:
        check_text(template)
        check_texts((*arguments, *keywords.values()))
        return function(template, *arguments, **keywords)

    return format_texts


def check_formatted(template: object, values: object) -> None:
    """Raise `ConversionError` if one of the values of `template % values` has no text."""
    if isinstance(template, str):
        inner = values.values() if isinstance(values, dict) else values if isinstance(values, tuple) else (values,)
        check_texts(inner)
