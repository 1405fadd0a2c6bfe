"""Read a user's file of rows: JSON Lines, a table or a JSON list, whose fields may have other names than figeval's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from figeval.data.formats import json_rows, numbered_jsonl, read_json, unambiguous
from figeval.data.packed_file import inner_suffix, text_head
from figeval.data.readers import Row
from figeval.data.tables import numbered_table
from figeval.errors import DataError, OptionError, near
from figeval.io.files import is_file
from figeval.io.text import one_line

TABLES, LISTS = {".csv": "excel", ".tsv": "excel-tab"}, (".jsonl", ".json")


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
            cure = f"give its name with {self._flag} {names[0]}=NAME{near(columns[0], self._values)}"
            raise DataError(f"{self.where}: no field {columns[0]!r}; the fields are {has}; {cure}")

    def error(self, name: str, message: str) -> DataError:
        """Return an error about the value of a field."""
        return DataError(f"{self.where}: {self._columns.get(name, name)!r} {message}")


@dataclass(frozen=True, slots=True)
class RowFile:
    """The rows of a file, in the format of its suffix.

    A table with a header (`.csv`, `.tsv`), JSON Lines or a JSON list (`.jsonl`, `.json`; the first character tells them
    apart), which may be packed. The readers are those of the data of tasks: `tables`, `formats` and `packed_file`.

    Attributes:
        path: the file; read line by line, unless it is a JSON list.
        expected: end of the error about a missing file, which says what is expected.
        columns: figeval's name of a field → the file's.
        flag: the command's flag for `columns`, for errors.
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
        for number, (location, row) in enumerate(self._rows(), 1):
            yield UserRow(number, location, row, self.columns, self.flag)

    def _rows(self) -> Iterator[tuple[str, Row]]:
        """Yield the place and the content of every row."""
        if not is_file(self.path):
            raise DataError(f"there is no file {self.path}; {self.expected}")
        start, suffix = text_head(self.path).lstrip()[:1], inner_suffix(self.path)
        if dialect := TABLES.get(suffix):
            return ((f"{self.path}:{line}", row) for line, row in self._table(dialect))
        if start == b"[":
            listed = enumerate(json_rows(read_json(self.path, unambiguous), self.path), 1)
            return ((f"{self.path}: row {number}", row) for number, row in listed)
        if start not in (b"", b"{") and suffix not in LISTS:
            raise DataError(f"{self.path}: the format is unknown; the name must end in {', '.join((*TABLES, *LISTS))}")
        return ((f"{self.path}:{line}", row) for line, row in numbered_jsonl(self.path, unambiguous))

    def _table(self, dialect: str) -> Iterator[tuple[int, Row]]:
        """Yield (last line number, row). Raises `DataError` for a zero byte, which is no part of an answer."""
        for line, row in numbered_table(self.path, dialect):
            if any("\0" in value for value in row.values()):
                raise DataError(f"{self.path}:{line}: a zero byte, which no text has; remove it")
            yield line, row


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
