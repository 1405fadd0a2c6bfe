"""Exceptions of model libraries, and their texts in one line."""

from __future__ import annotations

from figeval.extras import missing_package
from figeval.io.text import clean


def load_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that model libraries raise for missing, damaged or foreign files."""
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    files = (OSError, EOFError, SafetensorError, UnpicklingError)
    sizes = (ArithmeticError, AssertionError, LookupError)  # a configuration with 0 heads, or fewer than no layers
    return (*files, *sizes, ValueError, ImportError, RuntimeError, AttributeError, TypeError)


def one_line(error: BaseException) -> str:
    """Return the beginning of an exception's text as one line, without control characters of a file that it quotes.

    The texts of arithmetic errors and of missing keys are not understood without the name of their class.
    """
    text = " ".join(clean(str(missing_package(error) or error)).split())[:300]
    name = type(error).__name__
    return f"{name}: {text}" if text and isinstance(error, ArithmeticError | LookupError) else text or name
