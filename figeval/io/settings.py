"""Options of models, heads and formats as text: `a=1,b=x`, which is lm-eval's form, or a JSON object."""

from __future__ import annotations

import math

from figeval.io.json_files import parse_json
from figeval.types import JSON

CONSTANTS = {"true": True, "false": False, "none": None, "null": None}


def parse_settings(text: str) -> JSON:
    """Read e.g. `a=1,b=x` or a JSON object into {"a": 1, "b": "x"}.

    The value of an option that is called `…_prompt` is a text, whose blanks count: E5's prompt is "query: ".

    Raises:
        ValueError: the text has another form.
    """
    if not text:
        return {}
    if text.lstrip().startswith("{"):
        try:
            return dict(parse_json(text))
        except ValueError as error:
            raise ValueError(f"not a JSON object ({error})") from error
    values: JSON = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            cure = "; if a value has a comma, give a JSON object" if values else ""
            raise ValueError(f"{part!r} is not key=value{cure}")
        values[key.strip()] = value if key.strip().endswith("_prompt") else parse_scalar(value.strip())
    return values


def parse_scalar(text: str) -> str | int | float | bool | None:
    """Read `3` as 3, `0.5` as 0.5, `true` as True and `null` as None; any other text, e.g. `nan`, stays a string."""
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    for kind in (int, float):
        try:
            number = kind(text)
            return number if math.isfinite(number) else text
        except (ValueError, OverflowError):  # not a number of this kind, or an integer that is larger than any float
            continue
    return text
