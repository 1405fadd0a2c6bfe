"""Read tables with a header, `csv:` and `tsv:`, as spreadsheets and programs write them.

Their separators and quotes are found in the file (`table_format`). Lines end in any of the usual ways, and rows whose
cells are all blank are no rows. Every value is a string. A column is found by its name as it is written, and without
the blanks, no-break spaces and byte order marks that are around it in many files.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast

from figeval.data.formats import max_row_bytes, resource, text_lines, too_long, whole_text
from figeval.data.packed_file import HEAD_BYTES, text_head
from figeval.data.readers import DataContext, Row
from figeval.data.table_format import RARE_SEPARATORS, SEPARATORS, TableFormat, find_format
from figeval.errors import DataError
from figeval.io.text import one_line

MAX_COLUMNS = 10_000  # every row becomes a mapping with a key for each
PADDED_QUOTE = re.compile(r"\s+[\"']")
OTHER_QUOTE = re.compile(r"\s*['“”„‟«»‹›‘’‚]")
QUOTES = "check the quotes before it: within quotes, a quote is written twice, and a separator follows the last one"
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
    table_format = find_format(head, SEPARATORS[dialect], str(file))
    split_cells = 2 * head.count(b"\n") >= head.count(b"\r")
    with closing(text_lines(file, any_end=True)) as lines:  # if a row is refused, the file is closed before the error
        records = table_records(lines, str(file), table_format.dialect, split_cells=split_cells)
        yield from _named_rows(islice(records, int(table_format.is_named), None), str(file), table_format)


def _named_rows(
    records: Iterator[tuple[int, list[str]]], file: str, table_format: TableFormat
) -> Iterator[tuple[int, Row]]:
    """Yield the records below the header by the names of the columns."""
    first, names = next(((line, record) for line, record in records if any(record)), (1, []))
    if not names:
        raise DataError(f"{file}: the file is empty; its first line must name the columns")
    if len(names) > MAX_COLUMNS:
        raise DataError(f"{file}:{first}: {len(names):,} columns, but at most {MAX_COLUMNS:,} are read; leave some out")
    if twice := sorted(name for name, count in Counter(names).items() if count > 1 and name):
        raise DataError(f"{file}:{first}: column {twice[0]!r:.80} is named twice")
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
        row = zip(names, record, strict=True)
        yield line, _PaddedRow(row, padded) if padded else dict(row)


def read_cells(file: Path, cure: str) -> list[list[str]]:
    """Return the cells of a sheet that somebody has filled in, row by row, the header first; rows may differ in width.

    Raises:
        DataError: the file cannot be read (`cure` ends the message), or is not a CSV file.
    """
    csv.field_size_limit(max(max_row_bytes(), csv.field_size_limit()))
    if file.exists() and not file.is_file():  # reading a pipe may never end
        raise DataError(f"{file} is not a regular file; {cure}")
    text = whole_text(file, cure=cure)
    table_format = find_format(text[:HEAD_BYTES].encode(), ",", str(file))
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), table_format.dialect, strict=True))
    except csv.Error as error:
        raise DataError(f"{file} is not a CSV file ({error}); save the sheet as `CSV UTF-8`") from error
    return rows[int(table_format.is_named) :]


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
    other_separators = [other for other in (*SEPARATORS.values(), *RARE_SEPARATORS) if other != separator]
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
