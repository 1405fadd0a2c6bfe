"""Output of commands, made safe for a terminal: texts may come from models, servers and foreign records."""

from __future__ import annotations

import click

from figeval.text import clean, shown_json


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
