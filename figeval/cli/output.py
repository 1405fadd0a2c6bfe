"""Output of commands, made safe for a terminal: texts may come from models, servers and foreign records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from figeval.text import clean, shown_json

if TYPE_CHECKING:
    from figeval.types import Score


def echo(text: object = "") -> None:
    """Print a text on stdout without escape sequences, control characters and direction overrides."""
    click.echo(clean(str(text)))


def echo_json(content: object) -> None:
    """Print a value as JSON on stdout."""
    import json

    echo_json_text(json.dumps(content, indent=1, ensure_ascii=False))


def echo_json_text(text: str) -> None:
    """Print JSON on stdout; terminal control characters are escaped in it, so nothing is lost."""
    click.echo(shown_json(text))


def counted(n: int, what: str) -> str:
    """Return a number with a noun in singular or plural, e.g. `1 error`, `2 errors`."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def number(value: float | None) -> str:
    """Return a number with three decimals, or an en dash if there is none."""
    return "–" if value is None else f"{value:.3f}"


def interval(score: Score) -> str:
    """Return e.g. `0.301 to 0.398`, or an en dash if there is no interval."""
    return "–" if score.low is None or score.high is None else f"{score.low:.3f} to {score.high:.3f}"
