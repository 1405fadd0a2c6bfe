"""Output of commands, made safe for a terminal: texts may come from models, servers and foreign records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from figeval.io.text import clean, shown_json

if TYPE_CHECKING:
    from figeval.reporting.grid import Result


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


def print_result(result: Result, *, as_json: bool = False) -> None:
    """Print a result on stdout as figeval's own commands do: its tables and notes, or with `as_json` its JSON.

    On a terminal, tables have its width; elsewhere they are plain lines. Control characters are escaped.
    """
    if as_json:
        echo_json(result.to_dict())
        return
    from rich.console import Console

    result.print(Console())
