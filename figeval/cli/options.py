"""Values of flags that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click


def listed(_context: click.Context, _parameter: click.Parameter, value: Any) -> tuple[str, ...]:
    """`a,b c` and repeated flags → ("a", "b", "c"), as lm-eval reads --tasks."""
    texts = value if isinstance(value, tuple | list) else [value] if value else []
    return tuple(part for text in texts for part in text.replace(",", " ").split())


def settings(_context: click.Context, parameter: click.Parameter, value: Any) -> dict[str, Any]:
    """`a=1,b=x` (lm-eval's form) or a JSON object → {"a": 1, "b": "x"}."""
    if not value:
        return {}
    if value.lstrip().startswith("{"):
        try:
            return dict(json.loads(value))
        except ValueError as error:
            raise click.BadParameter(f"not a JSON object ({error})", param=parameter) from error
    found = {}
    for part in value.split(","):
        key, equals, text = part.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{part!r} is not key=value", param=parameter)
        found[key.strip()] = scalar(text.strip())
    return found


def scalar(text: str) -> Any:
    """`3` → 3, `0.5` → 0.5, `true` → True, `null` → None, all else stays text."""
    named = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in named:
        return named[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


model_args = click.option("--model_args", "-a", callback=settings, help="key=value,… or a JSON object.")
seed = click.option("--seed", type=int, default=0, show_default=True, help="Of everything that draws.")
include_path = click.option(
    "--include_path",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with further task files.",
)
