"""Rows of named cells: a table on a terminal, aligned text elsewhere, where every row stays one line for grep."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def cell(value: Any) -> str:
    """A value in a table: lists joined by blanks, `yes` and `no` for truths, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return str(value)


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print these columns of the rows, with a heading."""
    cells = [[cell(row[column]) for column in columns] for row in rows]
    if sys.stdout.isatty():
        _table(columns, cells)
    else:
        print("\n".join(aligned([list(columns), *cells])))


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns two blanks apart and no blank at the end."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, no_wrap=index == 0, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))  # Text: a bracket in a name is no markup
    Console().print(table)
