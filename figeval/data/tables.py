"""Tables with a header, `csv:` and `tsv:`, as spreadsheets and programs write them.

The separator is the one of the scheme unless another one divides the rows into columns: commas, tabs or semicolons, or
the one that a first line `sep=;` names. Lines end in any of the usual ways, and rows whose cells are all blank are no
rows. Every value is a string. A column is found by its name as it is written, and without the blanks, no-break spaces
and byte order marks that are around it in many files.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from itertools import islice
from typing import Any, TypeAlias, cast

from figeval.data.formats import max_row_bytes, resource, text_lines, too_long
from figeval.data.packed_file import HEAD_BYTES, text_head
from figeval.data.readers import DataContext, Row
from figeval.errors import DataError
from figeval.text import one_line

MAX_COLUMNS = 10_000  # every row becomes a mapping with a key for each
SAMPLE_ROWS = 20  # by which the separator is chosen
SEPARATORS = {"excel": ",", "excel-tab": "\t", "semicolons": ";"}  # dialect → separator; the first two are known to csv
NAMED_SEPARATOR = re.compile(r'"?sep=([^\w\s"]|\t)"?\s*', re.IGNORECASE)  # a line that Excel reads and writes
NO_LETTERS = dict.fromkeys(map(ord, "\ufeff\u200b\u2060"))  # invisible, and no white space for Python
Dialect: TypeAlias = str | type[csv.Dialect]


def open_csv(path: str, context: DataContext) -> Iterator[Row]:
    """Read a table with a header, separated by commas unless it is a table by another separator."""
    return read_table(resource(path, context), "excel")


def open_tsv(path: str, context: DataContext) -> Iterator[Row]:
    """Read a table with a header, separated by tabs unless it is a table by another separator."""
    return read_table(resource(path, context), "excel-tab")


def read_table(file: Traversable, dialect: str) -> Iterator[Row]:
    """Yield the rows of a table with a header, by column name. Raises `DataError` for a row of another width."""
    return (row for _, row in numbered_table(file, dialect))


def numbered_table(file: Traversable, dialect: str) -> Iterator[tuple[int, Row]]:
    """Yield (last line number, row) of a table, like `read_table`; `dialect` is the likeliest of `SEPARATORS`."""
    head = text_head(file)
    separator, is_named = find_separator(head, SEPARATORS[dialect])
    lines = text_lines(file, any_end=True)
    records = table_records(
        lines, str(file), separated_by(separator), split_cells=2 * head.count(b"\n") >= head.count(b"\r")
    )
    records = islice(records, int(is_named), None)
    first, names = next(((line, record) for line, record in records if any(record)), (1, []))
    if not names:
        raise DataError(f"{file}: the file is empty; its first line must name the columns")
    if len(names) > MAX_COLUMNS:
        raise DataError(f"{file}:{first}: {len(names):,} columns, but at most {MAX_COLUMNS:,} are read; leave some out")
    if twice := sorted(name for name, count in Counter(names).items() if count > 1 and name):
        raise DataError(f"{file}:{first}: column {twice[0]!r:.80} is named twice")
    padded = padded_names(names)
    for line, record in records:
        if not any(map(str.strip, record)):
            continue
        if len(record) != len(names):
            columns = one_line(", ".join(names), 200)
            raise DataError(f"{file}:{line}: {len(record)} values for {len(names)} columns ({columns})")
        row = zip(names, record, strict=True)
        yield line, _PaddedRow(row, padded) if padded else dict(row)


# ---- separators ------------------------------------------------------------------------------------------------------


def separated_by(separator: str) -> type[csv.Dialect]:
    """Return the dialect of spreadsheets with this separator."""
    return type("Separated", (csv.excel,), {"delimiter": separator})


def find_separator(head: bytes, likeliest: str) -> tuple[str, bool]:
    """Return the separator of a table, and whether its first line names it.

    That is the one that divides the header and most of the first rows. Of several, it is the one by which the largest
    share of them has as many cells as the header, then the likeliest, then the one with the most columns.

    Args:
        head: the beginning of the table, in UTF-8.
        likeliest: the separator if none divides the table.
    """
    text = head.decode(errors="replace")
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    if len(head) >= HEAD_BYTES and len(lines) > 1:
        lines.pop()  # it may be cut off
    if lines and (named := NAMED_SEPARATOR.fullmatch(lines[0])):
        return named[1], True

    def fit(separator: str) -> tuple[bool, float, bool, int]:
        widths = list(islice(_widths(lines, separator), 1 + SAMPLE_ROWS))
        columns, *others = widths or [0]
        if columns < 2 or 2 * sum(width > 1 for width in others) < len(others):
            return False, 0, separator == likeliest, columns
        share = others.count(columns) / len(others) if others else 1.0
        return True, share, separator == likeliest, columns

    return max(SEPARATORS.values(), key=fit), False


def _widths(lines: Iterable[str], separator: str) -> Iterator[int]:
    """Yield the number of cells of each row that is not blank, up to the first that is malformed."""
    reader = csv.reader(lines, separated_by(separator), strict=True)
    while True:
        try:
            record = next(reader)
        except (StopIteration, csv.Error):
            return
        if any(map(str.strip, record)):
            yield len(record)


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
            raise DataError(f"{name}:{reader.line_num - uncounted}: {error}; check the quotes before it") from error
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
