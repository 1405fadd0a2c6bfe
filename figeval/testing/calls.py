"""Calling what is checked: whatever it raises is what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from figeval.errors import FigevalError
from figeval.plugins import describe

T = TypeVar("T")


def asserting(function: Callable[[], T], what: str) -> T:
    """Return what a function returns.

    Raises:
        AssertionError: it raised something; `what` names the function.
    """
    try:
        return function()
    except FigevalError as error:
        raise AssertionError(str(error)) from error
    except Exception as error:
        raise AssertionError(f"{what} raised {describe(error)}") from error
