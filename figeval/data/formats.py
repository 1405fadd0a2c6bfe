"""Readers of plain files, `jsonl:`, `json:`, `csv:` and `tsv:`, with paths relative to the folder of the task.

Files are read line by line, so memory does not grow with their size (only `json:` must be read whole). Every mistake is
a `DataError` that names file and line. A row of more than 1 MB is refused: no model could read it, and the file nearly
always has another format; `FIGEVAL_MAX_ROW_BYTES` raises the limit.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias, cast

from figeval.data.readers import DataContext, Row
from figeval.errors import DataError, near
from figeval.files import BYTE_ORDER_MARK, inside, is_file, read_text
from figeval.jsonfile import MAX_BYTES as MAX_JSON_BYTES
from figeval.jsonfile import InvalidJSON, parse_json
from figeval.text import one_line, whole_number

MAX_ROW_BYTES = 1_000_000
MAX_COLUMNS = 10_000  # every row becomes a mapping with a key for each
Dialect: TypeAlias = str | type[csv.Dialect]  # a name that csv knows, or a class from this module


class Semicolons(csv.excel):
    """CSV as spreadsheets write it in locales where the comma is the decimal mark."""

    delimiter = ";"


def open_jsonl(path: str, context: DataContext) -> Iterator[Row]:
    """Read one JSON object per line; blank lines are skipped."""
    return read_jsonl(resource(path, context))


def open_json(path: str, context: DataContext) -> Iterator[Row]:
    """Read a list of JSON objects."""
    file = resource(path, context)
    return json_rows(read_json(file), file)


def open_csv(path: str, context: DataContext) -> Iterator[Row]:
    """Read a comma-separated table with a header, quoted as spreadsheets do; every value is a string."""
    return read_table(resource(path, context), "excel")


def open_tsv(path: str, context: DataContext) -> Iterator[Row]:
    """Read a tab-separated table with a header, quoted as spreadsheets do; every value is a string."""
    return read_table(resource(path, context), "excel-tab")


def resource(path: str, context: DataContext) -> Traversable:
    """Return the file at this path. Raises `DataError` with similar names if there is none."""
    file = inside(context.folder, path, DataError)
    if not is_file(file):
        beside = [other.name for other in context.folder.iterdir()] if context.folder.is_dir() else []
        raise DataError(f"there is no data file {path!r:.200} in {context.folder}{near(path, beside)}")
    return file


def max_row_bytes() -> int:
    """Return the longest permitted row. Raises `DataError` if `FIGEVAL_MAX_ROW_BYTES` is not a positive number."""
    given = os.environ.get("FIGEVAL_MAX_ROW_BYTES", "")
    limit = whole_number(given) if given else MAX_ROW_BYTES
    if not limit:
        raise DataError(f"FIGEVAL_MAX_ROW_BYTES is {given!r}; set it to a number of bytes or unset it")
    return limit


def text_lines(file: Traversable, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file with their line ends. Raises `DataError` for a bad byte or a long line."""
    limit = max_row_bytes()
    offset = 0
    try:
        with file.open("rb") as opened:
            for number, line in enumerate(iter(lambda: opened.readline(limit + 2), b""), 1):
                if len(line.rstrip(b"\r\n")) > limit:
                    raise too_long(f"{file}:{number}", limit)
                yield _decode(line, encoding, f"{file}:{number}", offset)
                offset += len(line)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error})") from error


def _decode(line: bytes, encoding: str, where: str, offset: int) -> str:
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        byte, place = line[error.start], offset + error.start
        raise DataError(
            f"{where}: byte {byte:#04x} at offset {place:,} is not {encoding}; convert the file to {encoding}"
        ) from error
    return text if offset else text.removeprefix(BYTE_ORDER_MARK)


def too_long(where: str, limit: int) -> DataError:
    """Return the error for a row that is too long for any model."""
    return DataError(f"{where}: a row of more than {limit:,} bytes; split it, or raise FIGEVAL_MAX_ROW_BYTES")


def read_jsonl(file: Traversable, loads: Callable[[str], Any] | None = None) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file, parsed by `loads`. Raises `DataError` for a line that is not an object."""
    return (row for _, row in numbered_jsonl(file, loads))


def numbered_jsonl(file: Traversable, loads: Callable[[str], Any] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield (line number, row) of a JSON Lines file, like `read_jsonl`."""
    import jsonlines

    line = 0

    def counted() -> Iterator[str]:
        nonlocal line
        for line, text in enumerate(text_lines(file), 1):  # noqa: B007
            yield text

    reader = jsonlines.Reader(counted(), loads=loads or _loads)
    try:
        yield from ((line, row) for row in reader.iter(type=dict, skip_empty=True))
    except jsonlines.InvalidLineError as error:
        message = (
            f"not valid JSON: {error.__cause__}" if isinstance(error.__cause__, InvalidJSON) else "not a JSON object"
        )
        raise DataError(f"{file}:{error.lineno}: {message}; a row is one JSON object on one line") from error


def read_json(file: Traversable, loads: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON file, parsed by `loads`.

    Raises:
        DataError: the file is not JSON (with line and column), or a byte is not UTF-8.
    """
    text = read_text(file, DataError, cure="write one object per line and use jsonl:", max_bytes=MAX_JSON_BYTES)
    try:
        return (loads or _loads)(text)
    except InvalidJSON as error:
        place = f"{file}:{error.line}" if error.line else f"{file}"
        raise DataError(f"{place}: not valid JSON: {error}") from error


def _loads(text: str) -> Any:
    """Parse JSON. Raises `InvalidJSON`, also for lone surrogates, which Python reads but cannot encode."""
    value = parse_json(text)
    if "\\ud" in text.lower() and re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)):
        raise InvalidJSON("a lone surrogate (\\ud800 to \\udfff), which is not a character")
    return value


def unambiguous(text: str) -> Any:
    """Parse JSON in which no object has a key twice, of which others would read the first. Raises `InvalidJSON`."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise InvalidJSON(f"the key {twice!r:.40} is given twice")
        return found

    value = _loads(text)
    json.loads(text, object_pairs_hook=once)
    return value


def json_rows(content: object, file: Traversable) -> Iterator[Row]:
    """Yield the objects of a JSON list, each checked for type and size."""
    limit = max_row_bytes()
    if not isinstance(content, list):
        raise DataError(
            f"{file}: holds {_kind(content)}, not a list of objects; one object per line is JSON Lines (.jsonl)"
        )
    for number, row in enumerate(content, 1):
        if not isinstance(row, dict):
            raise DataError(f"{file}: row {number} is {_kind(row)}, not an object")
        if len(json.dumps(row)) > limit:
            raise too_long(f"{file}: row {number}", limit)
        yield row


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def read_table(file: Traversable, dialect: Dialect) -> Iterator[Row]:
    """Yield the rows of a table with a header, by column name. Raises `DataError` for a row of another width."""
    return (row for _, row in numbered_table(file, dialect))


def numbered_table(file: Traversable, dialect: Dialect) -> Iterator[tuple[int, Row]]:
    """Yield (last line number, row) of a table, like `read_table`."""
    rows = table_records(text_lines(file), str(file), dialect)
    _, header = next(rows, (1, []))
    if not any(header):
        raise DataError(f"{file}: the file is empty; its first line must name the columns")
    if len(header) > MAX_COLUMNS:
        raise DataError(f"{file}:1: {len(header):,} columns, but at most {MAX_COLUMNS:,} are read; leave some out")
    if twice := sorted(name for name, count in Counter(header).items() if count > 1 and name):
        raise DataError(f"{file}:1: column {twice[0]!r:.80} is named twice")
    for line, record in rows:
        if len(record) != len(header):
            columns = one_line(", ".join(header), 200)
            raise DataError(f"{file}:{line}: {len(record)} values for {len(header)} columns ({columns})")
        yield line, dict(zip(header, record, strict=True))


def table_records(lines: Iterable[str], name: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """Yield (last line number, values) of every record that is not blank; a quoted value may span lines."""
    limit = max_row_bytes()
    csv.field_size_limit(max(limit, csv.field_size_limit()))
    reader = csv.reader(cast("Iterator[str]", lines), dialect=dialect, strict=True)
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(f"{name}:{reader.line_num}: {error}; check the quotes before it") from error
        if sum(map(len, record)) > limit:
            raise too_long(f"{name}:{reader.line_num}", limit)
        if record:
            yield reader.line_num, record
