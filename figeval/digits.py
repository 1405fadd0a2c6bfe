"""Whole numbers in texts of outside origin: flags, environment variables, headers."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The number that a text spells in at most 18 ASCII digits, None for any other text.

    `str.isdigit` is not enough: it is also true for `²`, and for more digits than `int` converts.
    """
    return int(text) if _DIGITS.fullmatch(text) else None
