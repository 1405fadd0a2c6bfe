"""Tables: columns that are declared once and read by terminals, notebooks, pages, DataFrames and CSV files.

A `Table` has rows of any kind and a `Column` for each of their values. Its `grid` has the cells as texts: a table on a
terminal, and aligned lines elsewhere, one per row for grep and diff. A `Result` consists of tables and notes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from figeval.extras import needed_for
from figeval.io.text import clean, csv_cell
from figeval.types import JSON

if TYPE_CHECKING:
    import pandas
    from rich.console import Console
    from rich.table import Table as RichTable

CAPTION = "caption-side: top; text-align: left; font-weight: bold"
AND = " · "  # separates the parts of a cell, which a narrow terminal shows on separate lines
EMPTY_CELL = "–"
UNRELIABLE_MARK = "*"  # behind an interval
UNRELIABLE_TEXT = "fewer than 10 effective clusters: the interval is unreliable"
UNRELIABLE_NOTE = f"{UNRELIABLE_MARK} {UNRELIABLE_TEXT}"

Row = TypeVar("Row")


# ---- cells -----------------------------------------------------------------------------------------------------------


def format_number(value: float | None, form: str = ".4f") -> str:
    """Return a number in a format, by default with four decimals, or an en dash if it is None; never -0.0."""
    return EMPTY_CELL if value is None else format(value, form.replace(".", "z.", 1))


def format_interval(low: float | None, high: float | None, form: str = ".3f", *, reliable: bool = True) -> str:
    """Return e.g. `0.301 to 0.398`, with a mark if it is unreliable, or an en dash if there is no interval."""
    if low is None or high is None:
        return EMPTY_CELL
    return f"{format_number(low, form)} to {format_number(high, form)}{'' if reliable else UNRELIABLE_MARK}"


def format_cell(value: object) -> str:
    return EMPTY_CELL if value is None else str(value)


# ---- grids of texts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    """Heading and rows with the same number of cells; the columns named in `right` are right-aligned numbers.

    `spare` names the columns that a narrow terminal omits, in this order; plain text has all of them. `below` is the
    column whose cells stand below their rows where they do not fit beside them.
    """

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]] = ()
    title: str = ""
    right: Collection[str] = ()
    spare: Sequence[str] = ()
    below: str = ""

    def print(self, console: Console) -> None:
        """Print the grid on a rich console, cleaned: cells may come from models, servers and foreign records."""
        from rich.text import Text

        if not console.is_terminal:
            console.print(Text("\n".join(self.lines())), soft_wrap=True)  # Text: "[" is no markup, ":x:" no emoji
        elif (narrow := self._harmless()._narrow(console.width)) is not None:
            console.print(Text("\n".join(narrow)), soft_wrap=True)
        else:
            console.print(self._harmless()._table(console.width))

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
        right, spare = set(map(_flat, self.right)), tuple(map(_flat, self.spare))
        return Grid(head, rows, _flat(self.title), right, spare, _flat(self.below))

    def _narrow(self, width: int) -> list[str] | None:
        """Return lines with the cells of the column `below` under their rows; None if they fit beside or nowhere."""
        if self.below not in self.head or self._width(range(len(self.head)), AND) <= width:
            return None
        column_index = self.head.index(self.below)
        below = [f"    {self.below}: {row[column_index]}" if row[column_index] else "" for row in self.rows]
        indexes = [index for index in range(len(self.head)) if index != column_index]
        for column in ("", *self.spare):
            indexes = [index for index in indexes if self.head[index] != column]
            if self._width(indexes, AND) <= width:
                break
        else:
            return None
        if max(map(len, below), default=0) > width:
            return None
        head, *rows = (tuple(cells[index] for index in indexes) for cells in (self.head, *self.rows))
        shown = Grid(head, rows, right=self.right)
        first, *lines = shown.lines()
        pairs = (text for pair in zip(lines, below, strict=True) for text in pair if text)
        return [*([self.title] if self.title else []), first, *pairs]

    def _justified(self, column: str, text: str, width: int) -> str:
        return text.rjust(width) if column in self.right else text.ljust(width)

    def _table(self, width: int) -> RichTable:
        """Return a rich table; if it does not fit even without the spare columns, cells are folded, never cut."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=Text(self.title), title_justify="left", box=None, header_style="bold", pad_edge=False)
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


def print_grids(console: Console, grids: Iterable[Grid], notes: Iterable[str]) -> None:
    """Print tables, with a blank line between them, and the lines of small print below them."""
    for number, grid in enumerate(grids):
        if number:
            console.print()
        grid.print(console)
    for note in notes:
        say(console, f"  {note}")


# ---- tables of values ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a `Table`, for programs, for people, or for both.

    Attributes:
        name: its name in DataFrames and files; empty if only people see it.
        dtype: its dtype there, e.g. `string`, `float64`, `Int64`, `bool` or `object`.
        value: function that takes the value from a row; by default the attribute, or the key of a mapping, `name`.
        head: its heading for people; None if they do not see it.
        text: function that makes the text for people from the value; by default `str`, and an en dash for None.
        align: `left` or `right`; by default, numbers are on the right.
        is_spare: whether a narrow terminal may omit it; the last such column goes first.
    """

    name: str = ""
    dtype: str = "string"
    value: Callable[[Row], object] | None = None
    head: str | None = None
    text: Callable[[Any], str] = format_cell
    align: str = ""
    is_spare: bool = False

    def value_in(self, row: Row) -> Any:
        """Return the value of a row, None if a mapping does not have it."""
        if self.value is not None:
            return self.value(row)
        return row.get(self.name) if isinstance(row, Mapping) else getattr(row, self.name)


@dataclass(frozen=True)
class Table(Generic[Row]):
    """Columns, rows of any kind, and a title for people."""

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    title: str = ""

    @property
    def grid(self) -> Grid:
        """The columns for people, as texts."""
        columns = [column for column in self.columns if column.head is not None]
        cells = [tuple(column.text(column.value_in(row)) for column in columns) for row in self.rows]
        rights = [column.align == "right" or (not column.align and column.dtype != "string") for column in columns]
        heads = tuple(column.head or "" for column in columns)
        right = {head for head, is_right in zip(heads, rights, strict=True) if is_right}
        spare = [column.head or "" for column in reversed(columns) if column.is_spare]
        return Grid(heads, cells, self.title, right, spare)

    def records(self) -> Iterator[JSON]:
        """Yield the rows with the columns for programs, by name."""
        columns = [column for column in self.columns if column.name]
        yield from ({column.name: column.value_in(row) for column in columns} for row in self.rows)

    def to_frame(self) -> pandas.DataFrame:
        """Return the columns for programs as a DataFrame. Raises `MissingPackage` if pandas is not installed."""
        return data_frame(self.records(), {column.name: column.dtype for column in self.columns if column.name})

    def to_csv(self) -> str:
        """Return the columns for programs as CSV: None is an empty cell, an object its text, and no cell a formula."""
        columns = [column for column in self.columns if column.name]
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(column.name for column in columns)
        for row in self.rows:
            values = ((column, column.value_in(row)) for column in columns)
            cells = (
                column.text(value) if column.dtype == "object" and value is not None else value
                for column, value in values
            )
            writer.writerow(map(csv_cell, cells))
        return lines.getvalue()


def data_frame(rows: Iterable[Mapping[str, object]], dtypes: Mapping[str, str]) -> pandas.DataFrame:
    """Return rows as a DataFrame with exactly these columns; fields that a row does not have are missing values.

    Args:
        rows: the rows, each a mapping from columns to values.
        dtypes: the dtype of each column in order, e.g. `string`, `float64` or `Int64`.

    Raises:
        MissingPackage: pandas is not installed.

    Example:
        ```python
        figeval.data_frame([{"task": "mini_pairs", "n": 24}], {"task": "string", "n": "Int64", "p": "float64"})
        ```
    """
    with needed_for("a DataFrame"):
        import pandas
    cells = list(rows)
    columns = {name: pandas.Series([row.get(name) for row in cells], dtype=kind) for name, kind in dtypes.items()}
    return pandas.DataFrame(columns)


# ---- results ---------------------------------------------------------------------------------------------------------


class Result:
    """Result of a function, as tables and notes; one without tables for people is a text, whose lines are its notes.

    `print(result)` shows what the command prints without a terminal, and a notebook shows the same as HTML.
    """

    @property
    def tables(self) -> Sequence[Table[Any]]:
        """Tables of the result, that of `to_frame` first."""
        return ()

    @property
    def grids(self) -> Sequence[Grid]:
        """The tables as people see them, without empty ones."""
        return [grid for table in self.tables if (grid := table.grid).head and grid.rows]

    def notes(self) -> Iterable[str]:
        """Return the lines below the tables."""
        return ()

    def to_frame(self) -> pandas.DataFrame:
        """Return the first table as a DataFrame.

        Raises:
            MissingPackage: pandas is not installed.
            NotImplementedError: the result has no table, since its class does not define `tables`.
        """
        tables = self.tables
        if not tables:
            raise NotImplementedError(f"{type(self).__name__} has no table")
        return tables[0].to_frame()

    def to_dict(self) -> JSON | list[JSON]:
        """Return everything as values that JSON can represent, as the command prints it with `--json`.

        Raises:
            NotImplementedError: the result has no form as JSON, since its class does not define this method.
        """
        raise NotImplementedError(f"{type(self).__name__} has no form as JSON")

    def to_latex(self, *, label: str = "", caption: str = "", wide: bool = False, width: str = "") -> str:
        """Return tables and notes as LaTeX floats; comments at their beginning name the packages that they need.

        Args:
            label: label of the first table, without `tab:`.
            caption: its caption, in LaTeX; by default its title.
            wide: whether the tables span both columns of a page (`table*`).
            width: width of a line of text, e.g. "16cm"; by default 345pt, or 455pt if `wide`. Wider tables are split.

        Raises:
            OptionError: label, caption or width cannot be used.
            NotImplementedError: the result has no tables for people.
        """
        from figeval.reporting.floats import FloatStyle, text_floats

        grids = self.grids
        if not grids:
            raise NotImplementedError(f"{type(self).__name__} has no table")
        texts = []
        for number, grid in enumerate(grids, 1):
            float_label = (label or "figeval") + (f"-{number}" if number > 1 else "")
            style = FloatStyle(float_label, caption if number == 1 else "", wide, width)
            notes = [*self.notes()] if number == len(grids) else []
            texts.append(text_floats(grid.title, grid.head, grid.rows, grid.right, notes, style))
        return "\n".join(texts)

    def print(self, console: Console) -> None:
        """Print tables and notes on a rich console."""
        if grids := self.grids:
            print_grids(console, grids, self.notes())
            return
        from rich.text import Text

        console.print(Text(clean(str(self))), soft_wrap=True)

    def __str__(self) -> str:
        blocks = ["\n".join(grid.lines()) for grid in self.grids]
        if not blocks:
            return clean("\n".join(self.notes()))
        return "\n".join(["\n\n".join(blocks), *(f"  {clean(note)}" for note in self.notes())])

    def _repr_html_(self) -> str:
        lines = "".join(f"<div>{escape(_flat(note))}</div>" for note in self.notes())
        small = f'<div style="font-size: smaller; opacity: 0.75; text-align: left">{lines}</div>' if lines else ""
        return f"<div>{''.join(grid.html() for grid in self.grids)}{small}</div>"
