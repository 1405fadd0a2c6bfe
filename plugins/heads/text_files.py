"""Unlabelled texts of a file, or of all files in a folder, for further training.

A text file has a text on each line; JSON Lines, a JSON list (also as the only value of an object) and a table with a
header have one in a field of each row. Files may be packed, as the data of tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from figeval.data.row_files import RowFile, UserRow, read_json
from figeval.data.text_files import inner_suffix, text_head, text_lines
from figeval.errors import DataError, TrainError
from figeval.io.files import digest_of_file, expand_user, is_file, is_folder

ROWS = (".jsonl", ".json", ".csv", ".tsv")
LINES = (".txt", ".text", ".source", ".md")  # of a folder; a file that is named itself may be called anything
FIELDS = ("text", "story")  # looked for in this order, if no field is given
LIST = b"["


@dataclass(frozen=True, slots=True)
class TextFiles:
    """Texts of a file or a folder.

    Attributes:
        path: the file, or a folder, whose text files are read at every depth.
        field: name of the field with the text; None for the first of `FIELDS`.
    """

    path: Path
    field: str | None = None

    def texts(self) -> dict[str, str]:
        """Return the distinct texts in order, each with its file (in a folder) and line or row.

        Raises:
            TrainError: there is no such file, or no text file in the folder.
            DataError: a file cannot be read, or a row has no text.
        """
        texts: dict[str, str] = {}
        files = self._files()
        for file in files:
            name = f"{file.relative_to(self._root)}, " if is_folder(self._root) else ""
            for origin, text in self._rows(file) if _has_rows(file) else _lines(file):
                if text.strip():
                    texts.setdefault(text, name + origin)
        return texts

    def sha256(self) -> str:
        """Return the digest of the file, or one of the names and digests of all files."""
        files = self._files()
        if files == [self._root]:
            return digest_of_file(self._root).hex()
        parts = (f"{file.relative_to(self._root)} {digest_of_file(file).hex()}\n" for file in files)
        return hashlib.sha256("".join(parts).encode()).hexdigest()

    @property
    def _root(self) -> Path:
        return expand_user(self.path)

    def _files(self) -> list[Path]:
        if is_file(self._root):
            return [self._root]
        if not is_folder(self._root):
            raise TrainError(f"texts={self.path} cannot be read: there is no such file or folder")
        files = sorted(
            file
            for file in self._root.rglob("*")
            if is_file(file) and not file.name.startswith(".") and inner_suffix(file).lower() in (*ROWS, *LINES)
        )
        if not files:
            raise TrainError(f"texts={self.path} has no text files; their names end in {', '.join((*LINES, *ROWS))}")
        return files

    def _rows(self, file: Path) -> Iterator[tuple[str, str]]:
        """Yield (number, text) of the rows of a file. Raises `DataError` for a row without text."""
        values = _list_values(file)
        if values is not None:
            yield from (
                (f"row {number}", self._text_of_value(value, f"{file}: row {number}")) for number, value in values
            )
            return
        for row in RowFile(file, "give a file of texts").rows():
            yield f"row {row.number}", self._text(row)

    def _text(self, row: UserRow) -> str:
        names = (self.field,) if self.field else FIELDS
        text = next((value for name in names if (value := row.value(name)) is not None), None)
        if not isinstance(text, str):
            raise DataError(f"{row.where}: has no text in {' or '.join(map(repr, names))}; name the field: field=NAME")
        return text

    def _text_of_value(self, value: object, location: str) -> str:
        return (
            value
            if isinstance(value, str)
            else self._text(UserRow(0, location, value if isinstance(value, dict) else {}, {}))
        )


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text_lines(file), 1):
        yield f"line {number}", line.rstrip("\r\n")


def _has_rows(file: Path) -> bool:
    return inner_suffix(file).lower() in ROWS


def _list_values(file: Path) -> Iterator[tuple[int, object]] | None:
    """Return the numbered values of a JSON list, also of one that is the only list in an object, else None."""
    if inner_suffix(file).lower() != ".json":
        return None
    start = text_head(file).lstrip()
    content = read_json(file) if start.startswith(LIST) else _object(file)
    lists = [content] if isinstance(content, list) else []
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
    return enumerate(lists[0], 1) if len(lists) == 1 else None


def _object(file: Path) -> object:
    """Return the value of a JSON file, or None if it has several, as JSON Lines."""
    try:
        return read_json(file)
    except DataError:
        return None
