"""Find the separator and the quotes of a table by its first lines.

The separator is the one of the scheme unless another one divides the rows into columns: commas, tabs or semicolons, or
the one that a first line `sep=;` names. A table that none of these divides may have another one (`|`, `^`, `~`) that
gives every row as many cells as the header has. Where the usual quotes do not read the first rows, blanks before quotes
and single quotes are tried, so that what is read by the usual ones always reads the same.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

from figeval.data.packed_file import HEAD_BYTES
from figeval.errors import DataError

SAMPLE_ROWS = 20  # by which the separator is chosen
SEPARATORS = {"excel": ",", "excel-tab": "\t", "semicolons": ";"}  # dialect → separator; the first two are known to csv
RARE_SEPARATORS = "|^~\x1f，；"  # tried where none of the others divides the table
NAMED_SEPARATOR = re.compile(r'"?sep=(?:([^\w\s"]|\t)|\\t|tab)"?\s*', re.IGNORECASE)  # a line that Excel writes
NAMES_NONE = re.compile(r'"?sep=[^,;|\t]{0,10}"?\s*', re.IGNORECASE)


class TableFormat(NamedTuple):
    """Separator and quotes of a table.

    Attributes:
        dialect: its separator and quotes.
        is_named: whether its first line names the separator.
        surplus: number of empty cells that each row has behind the last column.
    """

    dialect: type[csv.Dialect]
    is_named: bool
    surplus: int


def find_format(head: bytes, likeliest: str, name: str) -> TableFormat:
    """Return how a table is written, judged by its beginning.

    The separator is the one that divides the header and most of the first rows. Of several, it is the one by which the
    largest share of them has as many cells as the header, then the likeliest, then the one with the most columns.

    Args:
        head: the beginning of the table, in UTF-8.
        likeliest: the separator if none divides the table.
        name: name of the file, for errors.

    Raises:
        DataError: the first line is to name a separator, but does not, or the table is written in Markdown.
    """
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", head.decode(errors="replace"))
    is_cut = len(head) >= HEAD_BYTES and len(lines) > 1
    if is_cut:
        lines.pop()  # it may be incomplete
    if match := NAMED_SEPARATOR.fullmatch(lines[0]):
        return _Sample(lines[1:], is_cut).table_format(match[1] or "\t", is_named=True)
    sample = _Sample(lines, is_cut)
    if NAMES_NONE.fullmatch(lines[0]):
        cure = "write one, such as sep=; or remove the line"
        raise DataError(f"{name}:1: {lines[0].strip()!r} names no separator; {cure}")
    fits = {separator: sample.fit(separator, likeliest) for separator in SEPARATORS.values()}
    separator = max(fits, key=lambda separator: fits[separator])
    if fits[separator][0]:
        return sample.table_format(separator)
    second = "".join(lines[1:2]).strip()
    if "|" in lines[0] and "-" in second and not second.strip("|-: \t"):
        raise DataError(f"{name}:1: this is a table in Markdown; remove its second line, or save the table as CSV")
    rare = next((other for other in RARE_SEPARATORS if sample.is_divided(other)), separator)
    return sample.table_format(rare)


def separated_by(separator: str, quote: str = '"', *, padded: bool = False) -> type[csv.Dialect]:
    """Return the dialect of spreadsheets with this separator.

    Args:
        separator: the character between cells.
        quote: the character around cells that contain it.
        padded: whether blanks before a cell are no part of it.
    """
    fields = {"delimiter": separator, "quotechar": quote, "skipinitialspace": padded}
    return type("Separated", (csv.excel,), fields)


class _Sample:
    """The first lines of a table.

    Args:
        lines: the lines with their ends.
        is_cut: whether the table has more lines.
    """

    def __init__(self, lines: Sequence[str], is_cut: bool) -> None:
        self._lines, self._is_cut = lines, is_cut

    def fit(self, separator: str, likeliest: str) -> tuple[bool, float, bool, int]:
        """Return how well a separator divides the first rows, to be compared with others."""
        rows, _ = self._rows(separated_by(separator), 1 + SAMPLE_ROWS)
        columns, *widths = map(len, rows) if rows else [0]
        if columns < 2 or 2 * sum(width > 1 for width in widths) < len(widths):
            return False, 0, separator == likeliest, columns
        share = widths.count(columns) / len(widths) if widths else 1.0
        return True, share, separator == likeliest, columns

    def is_divided(self, separator: str) -> bool:
        """Return whether a separator gives every row as many cells as the header, more than one."""
        return any(self._columns(dialect) > 1 for dialect in _dialects(separator))

    def table_format(self, separator: str, *, is_named: bool = False) -> TableFormat:
        """Return the first format with a separator that reads all rows, the usual one if none does."""
        usual, *alternatives = _dialects(separator)
        dialect = next((dialect for dialect in (usual, *alternatives) if self._columns(dialect)), usual)
        rows, _ = self._rows(dialect)
        return TableFormat(dialect, is_named, _surplus(rows))

    def _columns(self, dialect: type[csv.Dialect]) -> int:
        """Return the number of columns if there are rows and all have as many cells as the header, else 0."""
        rows, is_whole = self._rows(dialect)
        header, *rows_below = rows or [[]]
        widths = {len(row) - _surplus(rows) for row in rows_below}
        if dialect.skipinitialspace and len(header) > 2 and not self._is_padded(dialect.delimiter):
            return 0  # `a,he said, "b, c"`: the blank may belong to a text that goes on
        if dialect.quotechar == "'" and any(cell.lstrip().startswith('"') for row in rows for cell in row):
            return 0  # these are the quotes, and something else is wrong
        return len(header) if is_whole and widths == {len(header)} else 0

    def _is_padded(self, separator: str) -> bool:
        rows, _ = self._rows(separated_by(separator), 1)
        return bool(rows) and all(name.startswith(" ") for name in rows[0][1:])

    def _rows(self, dialect: type[csv.Dialect], max_rows: int | None = None) -> tuple[list[list[str]], bool]:
        """Return the rows that are not blank, up to the first that is malformed, and whether none is.

        A row that has no end in a sample is not malformed if the table has more lines, unless it is most of the sample.
        """
        reader = csv.reader(self._lines, dialect, strict=True)
        rows: list[list[str]] = []
        read = 0
        while max_rows is None or len(rows) < max_rows:
            try:
                record = next(reader)
            except StopIteration:
                break
            except csv.Error:
                return rows, self._is_cut and reader.line_num == len(self._lines) and 2 * read > len(self._lines)
            read = reader.line_num
            rows += [record] if any(map(str.strip, record)) else []
        return rows, True


def _dialects(separator: str) -> tuple[type[csv.Dialect], ...]:
    """Return the ways in which cells may be quoted, the usual one first."""
    return separated_by(separator), separated_by(separator, padded=True), separated_by(separator, "'")


def _surplus(rows: Sequence[Sequence[str]]) -> int:
    """Return how many empty cells all rows have behind the last column, as of a separator at the end of each line."""
    header, *rows_below = rows or [[]]
    columns, widths = len(header), set(map(len, rows_below))
    is_surplus = (
        columns > 1 and len(widths) == 1 and not any(cell.strip() for row in rows_below for cell in row[columns:])
    )
    return max(0, widths.pop() - columns) if is_surplus else 0
