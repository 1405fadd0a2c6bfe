"""Grids of cells, shown as a table on a terminal and as aligned text elsewhere, one line per row for grep and diff."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from figeval.io.text import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

CAPTION = "caption-side: top; text-align: left; font-weight: bold"
AND = " · "  # separates the parts of a cell, which a narrow terminal shows on separate lines


@dataclass(frozen=True, slots=True)
class Grid:
    """Heading and rows with the same number of cells; the columns named in `right` are right-aligned numbers.

    `spare` names the columns that a narrow terminal omits, in this order; plain text has all of them.
    """

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]] = ()
    title: str = ""
    right: Collection[str] = ()
    spare: Sequence[str] = ()

    def print(self, console: Console) -> None:
        """Print the grid on a rich console, cleaned: cells may come from models, servers and foreign records."""
        if console.is_terminal:
            console.print(self._harmless()._table(console.width))
        else:
            from rich.text import Text

            console.print(Text("\n".join(self.lines())), soft_wrap=True)  # Text: "[" is no markup, ":x:" no emoji

    def lines(self) -> list[str]:
        """Return lines of text with columns two blanks apart and no trailing blanks."""
        shown = self._harmless()
        cells = [shown.head, *shown.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(shown._justified, shown.head, row, widths)).rstrip() for row in cells]
        return [shown.title, *lines] if shown.title else lines

    def html(self) -> str:
        """Return the table as HTML without colours, so that it adopts those of the page; all texts are escaped."""
        shown = self._harmless()
        caption = f'<caption style="{CAPTION}">{escape(shown.title)}</caption>' if shown.title else ""
        head = "".join(shown._cell("th", column, column) for column in shown.head)
        rows = (
            f"<tr>{''.join(shown._cell('td', column, text) for column, text in zip(shown.head, row, strict=True))}</tr>"
            for row in shown.rows
        )
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"

    def _cell(self, tag: str, column: str, text: str) -> str:
        side = "right" if column in self.right else "left"
        return f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>'

    def _harmless(self) -> Grid:
        head, *rows = (tuple(map(_flat, cells)) for cells in (self.head, *self.rows))
        return Grid(head, rows, _flat(self.title), set(map(_flat, self.right)), tuple(map(_flat, self.spare)))

    def _justified(self, column: str, text: str, width: int) -> str:
        return text.rjust(width) if column in self.right else text.ljust(width)

    def _table(self, width: int) -> Table:
        """Return a rich table; if it does not fit even without the spare columns, cells are folded, never cut."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(self.title), title_justify="left", box=None, header_style="bold", pad_edge=False)
        columns, separator = self._fitting(width)
        for index in columns:
            right = self.head[index] in self.right
            table.add_column(Text(self.head[index]), justify="right" if right else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(row[index].replace(AND, separator)) for index in columns))
        return table

    def _fitting(self, width: int) -> tuple[list[int], str]:
        """Return the places of the columns to show, and the separator between the parts of a cell."""
        indexes = list(range(len(self.head)))
        if self._width(indexes, AND) <= width:
            return indexes, AND
        for column in self.spare:
            if self._width(indexes, "\n") > width:
                indexes.remove(self.head.index(column))
        return indexes, "\n"

    def _width(self, indexes: Sequence[int], separator: str) -> int:
        """Return the width of these columns with two blanks between them."""
        cells = [self.head, *self.rows]
        lines = (
            [len(part) for row in cells for part in row[index].replace(AND, separator).split("\n")] for index in indexes
        )
        return sum(max(column) + 2 for column in lines) - 2


def _flat(text: str) -> str:
    return clean(text).replace("\n", " ").replace("\t", " ")


def say(console: Console, text: str) -> None:
    """Print a dim line of small print without interpreting markup or emoji names."""
    from rich.text import Text

    console.print(Text(clean(text), style="dim"), soft_wrap=not console.is_terminal)


def page(grids: Iterable[Grid], notes: Iterable[str]) -> str:
    """Return tables and the small print under them as HTML for a notebook; all texts are escaped."""
    lines = "".join(f"<div>{escape(_flat(note))}</div>" for note in notes)
    small = f'<div style="font-size: smaller; opacity: 0.75; text-align: left">{lines}</div>' if lines else ""
    return f"<div>{''.join(grid.html() for grid in grids)}{small}</div>"


def plain(grids: Iterable[Grid], notes: Iterable[str]) -> str:
    """Return tables and the small print under them as text, as the command line prints it without a terminal."""
    blocks = ["\n".join(grid.lines()) for grid in grids]
    return "\n".join(["\n\n".join(blocks), *(f"  {clean(note)}" for note in notes)])
