"""Read rows from files: JSON Lines, JSON lists, tables with a header (`tables`), workbooks and columnar files.

`numbered_rows` reads all of them, for the data of tasks (`csv:rows.csv`, with paths relative to the folder of the task)
and for the files that users give to commands (`RowFile`), whose fields may have other names than figeval's. Files are
read line by line, so memory does not grow with their size (only a JSON list must be read whole); they may be packed,
and in UTF-16 (`text_files`). Every mistake is a `DataError` that names file and line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from figeval.data.hub_cache import HUB
from figeval.data.readers import DataContext, Find, Row, fetch, resource
from figeval.data.text_files import (
    binary_format,
    ends_in_carriage_returns,
    inner_suffix,
    max_row_bytes,
    text_head,
    text_lines,
    too_long,
    whole_text,
)
from figeval.errors import DataError, OptionError
from figeval.io.files import digest_of_file, is_file
from figeval.io.json_files import InvalidJSON, parse_json
from figeval.io.text import near, one_line

TABLES = {"csv": ",", "tsv": "\t"}  # format → separator, unless the table shows another one
TEXTS = ("jsonl", "json", *TABLES)  # formats of text files, which may be packed
COLUMNAR = ("parquet", "arrow")
FORMATS = (*TEXTS, "xlsx", *COLUMNAR)  # schemes of data in files
STRINGS = (*TABLES, "xlsx")  # formats of which every value is a string


def numbered_rows(
    file: Traversable, file_format: str, loads: Callable[[str], Any] | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of a file: its name with the line or, where there are no lines, the number of the row.

    Args:
        file: the file; a text may be packed.
        file_format: one of `FORMATS`.
        loads: parser of JSON.

    Raises:
        DataError: the file cannot be read, or a row is not an object, or has another width than the header.
    """
    if file_format == "json":
        listed = enumerate(_json_rows(read_json(file, loads), file), 1)
        return ((f"{file}: row {number}", row) for number, row in listed)
    if file_format in TABLES:
        from figeval.data.tables import numbered_table

        numbered = numbered_table(file, TABLES[file_format])
    elif file_format == "jsonl":
        numbered = _numbered_jsonl(file, loads)
    else:
        return numbered_at(file_format, file.name, lambda _name: file)
    return ((f"{file}:{line}", row) for line, row in numbered)


def read_rows(file: Traversable, file_format: str = "jsonl") -> Iterator[Row]:
    """Yield the rows of a file in one of `FORMATS`. Raises `DataError` as `numbered_rows` does."""
    return (row for _, row in numbered_rows(file, file_format))


def numbered_at(
    file_format: str, path: str, find: Find, loads: Callable[[str], Any] | None = None
) -> Iterator[tuple[str, Row]]:
    """Yield (place, row) of what lies at a path in a format, e.g. `pairs.xlsx#Sheet1`; `find` returns files by name.

    Raises:
        DataError: as `numbered_rows` does, or there is no such file.
    """
    if file_format == "xlsx":
        from figeval.data.workbooks import numbered_xlsx

        return numbered_xlsx(path, find)
    if file_format in COLUMNAR:
        from figeval.data.columnar import numbered_arrow, numbered_parquet

        return (numbered_parquet if file_format == "parquet" else numbered_arrow)(find(path))
    return numbered_rows(find(path), file_format, loads)


# ---- data of tasks ---------------------------------------------------------------------------------------------------


def _open(path: str, context: DataContext, *, file_format: str) -> Iterator[Row]:
    find = partial(resource, context=context, folders=file_format == "arrow")
    return (row for _, row in numbered_at(file_format, path, find))


open_jsonl, open_json, open_csv, open_tsv, open_xlsx, open_parquet, open_arrow = (
    partial(_open, file_format=file_format) for file_format in FORMATS
)


# ---- files of users --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UserRow:
    """A row of the file.

    Attributes:
        number: number of the row, counted from 1.
        where: the file and the line, as the prefix of errors; for lists, the number of the row.
    """

    number: int
    where: str
    _values: Row
    _columns: Mapping[str, str]
    _flag: str = "--columns"

    def text(self, name: str) -> str:
        """Return the text of a field, stripped.

        Raises:
            DataError: there is no such field, or it holds no text with a letter in it. The message names file, row and
                field.
        """
        column = self._columns.get(name, name)
        self.require(name)
        value = "" if self._values[column] is None else self._values[column]
        if not isinstance(value, str):
            raise DataError(f"{self.where}: {column!r} must be a text, not {str(value)[:40]}")
        if not any(character.isalpha() for character in value):
            raise DataError(f"{self.where}: {column!r} is empty")
        return value.strip()

    def optional(self, name: str) -> str:
        """Return the value of a field as stripped text, or an empty string if there is none."""
        value = self._values.get(self._columns.get(name, name))
        return "" if value is None else str(value).strip()

    def value(self, name: str) -> Any:
        """Return the value of a field as the file has it, or None if there is none."""
        return self._values.get(self._columns.get(name, name))

    def require(self, *names: str) -> None:
        """Raise `DataError` if the row has none of these fields."""
        columns = [self._columns.get(name, name) for name in names]
        if not any(column in self._values for column in columns):
            has = one_line(", ".join(repr(str(name)) for name in self._values), 200) or "none"
            cure = f"; give its name with {self._flag} {names[0]}=NAME" if self._flag else ""
            similar = near(columns[0], self._values)
            raise DataError(f"{self.where}: no field {columns[0]!r}; the fields are {has}{cure}{similar}")

    def error(self, name: str, message: str) -> DataError:
        """Return an error about the value of a field."""
        return DataError(f"{self.where}: {self._columns.get(name, name)!r} {message}")


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows of a file, in the format of its suffix.

    A table with a header (`.csv`, `.tsv`), JSON Lines or a JSON list (`.jsonl`, `.json`; the first character tells them
    apart), which may be packed; an Excel workbook, a Parquet or an Arrow file, whatever their names; or a folder that
    `datasets` has saved. They are read as the data of tasks are.

    Attributes:
        path: the file; read line by line, unless it is a JSON list. For a sheet of a workbook, `FILE#SHEET?header=ROW`;
            an address as in tasks, such as `parquet:FILE` or `hub:OWNER/NAME#SPLIT`, says the format.
        expected: end of the error about a missing file, which says what is expected.
        columns: figeval's name of a field → the file's.
        flag: the command's flag for `columns`, for errors; empty if there is none.
    """

    path: Path
    expected: str
    columns: Mapping[str, str] = field(default_factory=dict)
    flag: str = "--columns"

    def rows(self) -> Iterator[UserRow]:
        """Yield every row.

        Raises:
            DataError: the file cannot be read, or a row does not have its format.
        """
        is_table = self.address()[0] in STRINGS
        for number, (location, row) in enumerate(self.numbered(), 1):
            if is_table and any("\0" in value for value in row.values()):
                raise DataError(f"{location}: a zero byte, which no text has; remove it")
            yield UserRow(number, location, row, self.columns, self.flag)

    def numbered(self) -> Iterator[tuple[str, Row]]:
        """Yield (place, row as the file has it) of every row. Raises `DataError` as `rows` does."""
        file_format, path = self.address()
        if file_format == HUB:
            from figeval.data.hub import numbered_hub

            return numbered_hub(path, DataContext(Path(), fetch))
        return numbered_at(file_format, path, self._find, _unambiguous)

    def sha256(self) -> str:
        """Return the SHA-256 of the file or, if the path is another address, of its rows. Raises as `rows` does."""
        if is_file(self.path):
            return digest_of_file(self.path).hex()
        digest = hashlib.sha256()
        for _, row in self.numbered():
            digest.update(json.dumps(row, sort_keys=True).encode())
        return digest.hexdigest()

    def address(self) -> tuple[str, str]:
        """Return the format and the path of the rows, the parts of an address in a task file."""
        path = str(self.path)
        if is_file(self.path):
            return self._format(), path
        scheme, _, rest = path.partition(":")
        if scheme in (*FORMATS, HUB) and rest:
            return scheme, rest
        return ("xlsx" if "#" in path or "?" in path else "arrow"), path

    def _find(self, path: str) -> Path:
        from figeval.data.columnar import is_saved

        file = Path(path)
        if not is_file(file) and not is_saved(file):
            raise DataError(f"there is no file {file}; {self.expected}")
        return file

    def _format(self) -> str:
        if file_format := binary_format(self.path):
            return file_format
        start, suffix = text_head(self.path).lstrip()[:1], inner_suffix(self.path).removeprefix(".")
        if suffix in TABLES:
            return suffix
        if start not in (b"", b"{", b"[") and suffix not in TEXTS:
            suffixes = ", ".join(f".{name}" for name in FORMATS)
            raise DataError(f"{self.path}: the format is unknown; the name must end in {suffixes}")
        return "json" if start == b"[" else "jsonl"


def read_columns(text: str, fields: Collection[str], example: str, flag: str = "--columns") -> dict[str, str]:
    """Return the column of each field from the value of `--columns FIELD=NAME,…`, or of another flag.

    Raises:
        OptionError: a part is not `FIELD=NAME`, or does not name a field.
    """
    columns = {}
    for part in filter(None, text.split(",")):
        name, equals, column = (piece.strip() for piece in part.partition("="))
        if not (equals and column) or name not in fields:
            names = ", ".join(fields)
            raise OptionError(f"{flag} has {part!r}; write FIELD=NAME, such as {example}; the fields are {names}")
        columns[name] = column
    return columns


# ---- JSON ------------------------------------------------------------------------------------------------------------


def _numbered_jsonl(file: Traversable, loads: Callable[[str], Any] | None) -> Iterator[tuple[int, Row]]:
    """Yield (line number, row) of a JSON Lines file. Raises `DataError` for a line that is not an object."""
    import jsonlines

    line, head = 0, text_head(file)
    start = head.partition(b"\r")[0].strip()
    spread = start.startswith(b"{") and not start.endswith(b"}")  # an object over several lines
    any_end = ends_in_carriage_returns(head) and not spread

    def count_lines() -> Generator[str, None, None]:
        nonlocal line
        with closing(text_lines(file, any_end=any_end)) as lines:
            for line, text in enumerate(lines, 1):  # noqa: B007
                yield text

    try:
        with closing(count_lines()) as texts:  # if a line is refused, the file is closed before the error is raised
            reader = jsonlines.Reader(texts, loads=loads or _loads)
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
    text = whole_text(file, cure="write one object per line and use jsonl:")
    try:
        return (loads or _loads)(text)
    except InvalidJSON as error:
        location = f"{file}:{error.line}" if error.line else f"{file}"
        raise DataError(f"{location}: not valid JSON: {error}") from error


def _loads(text: str) -> Any:
    """Parse JSON. Raises `InvalidJSON`, also for lone surrogates, which Python reads but cannot encode."""
    value = parse_json(text)
    if "\\ud" in text.lower() and re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)):
        raise InvalidJSON("a lone surrogate (\\ud800 to \\udfff), which is not a character")
    return value


def _unambiguous(text: str) -> Any:
    """Parse JSON in which no object has a key twice, of which others would read the first. Raises `InvalidJSON`."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
            raise InvalidJSON(f"the key {twice!r:.40} is given twice")
        return values

    value = _loads(text)
    json.loads(text, object_pairs_hook=once)
    return value


def _json_rows(content: object, file: Traversable) -> Iterator[Row]:
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
