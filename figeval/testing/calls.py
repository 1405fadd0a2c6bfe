"""Calls of the code under test, with any exception turned into a failed check."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from figeval.errors import FigevalError
from figeval.plugins import describe

T = TypeVar("T")


def asserting(function: Callable[[], T], description: str) -> T:
    """Call a function and return its result.

    Raises:
        AssertionError: the function raised an exception; `description` is its name in the message.
    """
    try:
        return function()
    except FigevalError as error:
        raise AssertionError(str(error)) from error
    except Exception as error:
        raise AssertionError(f"{description} raised {describe(error)}") from error
