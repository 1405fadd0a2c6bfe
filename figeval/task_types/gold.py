"""Right answers as texts, for models that count how often each is right."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any


def texts_of(value: Any, options: Sequence[Any] = ()) -> tuple[str, ...]:
    """Return a right answer, or several, as texts: an index as its option, a number as a task file writes it.

    The result is empty for a hidden answer and for what is neither a text nor a number.
    """
    answers = value if isinstance(value, list | tuple | Set) else [value]
    texts = [text for answer in answers if (text := _text_of(answer, options)) is not None]
    if len(texts) < len(answers):
        return ()
    return tuple(sorted(texts) if isinstance(value, Set) else texts)


def _text_of(value: Any, options: Sequence[Any]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and options:
        value = options[value]
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else None
