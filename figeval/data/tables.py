"""Read tables with a header, `csv:` and `tsv:`, as spreadsheets and programs write them.

Their separators and quotes are found in the first lines. The separator is the one of the scheme unless another one
divides the rows into columns: commas, tabs or semicolons, or the one that a first line `sep=;` names. A table that none
of these divides may have another one (`|`, `^`, `~`) that gives every row as many cells as the header has. Where the
usual quotes do not read the first rows, blanks before quotes and single quotes are tried, so that what is read by the
usual ones always reads the same.

Lines end in any of the usual ways, and rows whose cells are all blank are no rows. Every value is a string. A column is
found by its name as it is written, and without the blanks, no-break spaces and byte order marks that are around it in
many files.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.resources.abc import Traversable
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, cast

from figeval.data.readers import Row
from figeval.data.text_files import HEAD_BYTES, max_row_bytes, text_head, text_lines, too_long
from figeval.errors import DataError
from figeval.io.text import one_line

SAMPLE_ROWS = 20  # by which the separator is chosen
SEPARATORS = (",", "\t", ";")
RARE_SEPARATORS = "|^~\x1f，；"  # tried where none of the others divides the table
NAMED_SEPARATOR = re.compile(r'"?sep=(?:([^\w\s"]|\t)|\\t|tab)"?\s*', re.IGNORECASE)  # a line that Excel writes
NAMES_NONE = re.compile(r'"?sep=[^,;|\t]{0,10}"?\s*', re.IGNORECASE)
MAX_COLUMNS = 10_000  # every row becomes a mapping with a key for each
PADDED_QUOTE = re.compile(r"\s+[\"']")
OTHER_QUOTE = re.compile(r"\s*['“”„‟«»‹›‘’‚]")
QUOTES = "check the quotes before it: within quotes, a quote is written twice, and a separator follows the last one"
NO_LETTERS = dict.fromkeys(map(ord, "\ufeff\u200b\u2060"))  # invisible, and no white space for Python
Dialect: TypeAlias = str | type[csv.Dialect]


def numbered_table(file: Traversable, likeliest: str) -> Iterator[tuple[int, Row]]:
    """Yield (last line number, row by column name) of a table with a header; `likeliest` is one of `SEPARATORS`.

    Raises:
        DataError: a row has another width than the header, or is malformed.
    """
    head = text_head(file)
    table_format = find_format(head, likeliest, str(file))
    split_cells = 2 * head.count(b"\n") >= head.count(b"\r")
    with closing(text_lines(file, any_end=True)) as lines:  # if a row is refused, the file is closed before the error
        records = table_records(lines, str(file), table_format.dialect, split_cells=split_cells)
        yield from _named_rows(islice(records, int(table_format.is_named), None), str(file), table_format)


def _named_rows(
    records: Iterator[tuple[int, list[str]]], file: str, table_format: TableFormat
) -> Iterator[tuple[int, Row]]:
    """Yield the records below the header by the names of the columns."""
    first, names = next(((line, record) for line, record in records if any(record)), (1, []))
    check_names(names, file, first)
    padded, surplus = padded_names(names), table_format.surplus
    for line, record in records:
        if not any(map(str.strip, record)):
            continue
        if surplus and len(record) == len(names) + surplus and not any(map(str.strip, record[len(names) :])):
            record = record[: len(names)]
        if len(record) != len(names):
            columns = one_line(", ".join(names), 200)
            cure = width_cure(names, record, table_format.dialect.delimiter)
            raise DataError(f"{file}:{line}: {len(record)} values for {len(names)} columns ({columns}); {cure}")
        yield line, named_row(names, record, padded)


def check_names(names: Sequence[str], file: str, line: int) -> None:
    """Raise `DataError` unless a header names at least one column, not too many, and none twice."""
    if not any(names):
        raise DataError(f"{file}: the file is empty; its first line must name the columns")
    if len(names) > MAX_COLUMNS:
        raise DataError(f"{file}:{line}: {len(names):,} columns, but at most {MAX_COLUMNS:,} are read; leave some out")
    if twice := sorted(name for name, count in Counter(names).items() if count > 1 and name):
        raise DataError(f"{file}:{line}: column {twice[0]!r:.80} is named twice")


def named_row(names: Sequence[str], values: Sequence[str], padded: Mapping[str, str]) -> Row:
    """Return the values by the names of their columns; `padded` has those that may be found by another spelling."""
    row = zip(names, values, strict=True)
    return _PaddedRow(row, padded) if padded else dict(row)


def width_cure(names: Sequence[str], record: Sequence[str], separator: str) -> str:
    """Return what to do about a record that has more or fewer values than there are columns."""
    if len(names) == 1 and names[0].lstrip().startswith("#"):
        return "the first line must name the columns; remove the comment above it"
    if mixed := mixed_separators(names, record, separator):
        return f"the columns are separated by {mixed[0]!r}, and the values by {mixed[1]!r}; write the same in both"
    if len(record) > len(names):
        return surplus_cure(record, len(names), separator)
    if record[0].lstrip().startswith("#") and not any(map(str.strip, record[1:])):
        return "remove this line if it is a comment"
    return "write an empty cell for a missing value, and double quotes around cells with line breaks"


def surplus_cure(record: Sequence[str], columns: int, separator: str) -> str:
    """Return what to do about a record that has more values than there are columns."""
    if not any(map(str.strip, record[columns:])):
        return f"remove {separator!r} at its end, or write double quotes around the cell that it belongs to"
    if any(map(PADDED_QUOTE.match, record)):
        return "remove the blanks before quotes"
    straight = "straight " * any(map(OTHER_QUOTE.match, record))
    quoting = f'write {straight}double quotes (") around cells that contain {separator!r}'
    if len(record) == columns + 1 and record[0].strip() in ("0", "1"):
        return f"if its first value is the number of the row, name that column too; else {quoting}"
    return quoting


def mixed_separators(names: Sequence[str], record: Sequence[str], separator: str) -> tuple[str, str] | None:
    """Return the separators of the columns and of a record if one of them is another than that of the table."""
    other_separators = [other for other in (*SEPARATORS, *RARE_SEPARATORS) if other != separator]
    if len(names) == 1:
        return next(
            ((other, separator) for other in other_separators if names[0].count(other) + 1 == len(record)), None
        )
    if len(record) == 1:
        return next(
            ((separator, other) for other in other_separators if record[0].count(other) + 1 == len(names)), None
        )
    return None


# ---- records ---------------------------------------------------------------------------------------------------------


def table_records(
    lines: Iterable[str], name: str, dialect: Dialect, *, split_cells: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield (last line number, values) of every record that is not empty; a quoted value may span lines.

    With `split_cells`, a carriage return alone inside a quoted value ends one of `lines`, but none of the file.
    """
    limit = max_row_bytes()
    csv.field_size_limit(max(limit, csv.field_size_limit()))
    reader = csv.reader(cast("Iterator[str]", lines), dialect=dialect, strict=True)
    before = uncounted = 0
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{name}:{reader.line_num - uncounted}: {error}; {QUOTES}") from error
        if split_cells and reader.line_num > before + 1:
            uncounted += sum(value.count("\r") - value.count("\r\n") for value in record)
        before = reader.line_num
        if sum(map(len, record)) > limit:
            raise too_long(f"{name}:{before - uncounted}", limit)
        if record:
            yield before - uncounted, record


# ---- names of columns ------------------------------------------------------------------------------------------------


def padded_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return name without blanks → name, for those that differ and of which no other column is meant."""
    plain = Counter(map(_plain, names))
    return {short: name for name in names if (short := _plain(name)) != name and plain[short] == 1}


def _plain(name: str) -> str:
    return " ".join(name.translate(NO_LETTERS).split())


class _PaddedRow(dict[str, Any]):
    """A row some of whose names have blanks around them, which are optional when it is asked for them."""

    __slots__ = ("_padded",)

    def __init__(self, row: Iterable[tuple[str, str]], padded: Mapping[str, str]) -> None:
        super().__init__(row)
        self._padded = padded

    def __missing__(self, name: str) -> str:
        value: str = self[self._padded[name]]
        return value

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._padded

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value, or the default if there is no such column."""
        return super().get(self._padded.get(name, name), default)


# ---- separators and quotes -------------------------------------------------------------------------------------------


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
    fits = {separator: sample.fit(separator, likeliest) for separator in SEPARATORS}
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
        surplus = _surplus(rows)
        widths = {len(row) - surplus for row in rows_below}
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
