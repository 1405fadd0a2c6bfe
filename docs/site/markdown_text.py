"""Plain text as Markdown, and Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

CODE = re.compile(r"(`[^`]*`)")


def prose(text: str) -> str:
    """Return plain text as Markdown; only its code, between backticks, is markup."""
    return "".join(part if CODE.fullmatch(part) else escaped(part) for part in CODE.split(text))


def escaped(text: str) -> str:
    """Return a text in which nothing is markup."""
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def code(names: str | Iterable[str]) -> str:
    """Return a name, or several, as code."""
    return " ".join(f"`{name}`" for name in ([names] if isinstance(names, str) else names) if name)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose cells are Markdown; columns whose heading ends with a colon are numbers."""
    rule = ["---:" if name.endswith(":") else "---" for name in head]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ([name.rstrip(":") for name in head], rule, *rows))
