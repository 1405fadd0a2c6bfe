"""What commands print: texts that may come from models, servers and the records of others, harmless to a terminal."""

from __future__ import annotations

import click

from figeval.text import clean, shown_json


def echo(text: object = "") -> None:
    """Print a text on stdout without escape sequences, controls and direction overrides."""
    click.echo(clean(str(text)))


def echo_json(text: str) -> None:
    """Print JSON on stdout; what a terminal would obey is escaped in it, so nothing is lost."""
    click.echo(shown_json(text))
