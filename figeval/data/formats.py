"""Read `jsonl:` and `json:` files (paths are relative to the folder of the task), and the lines of any text.

Files are read line by line, so memory does not grow with their size (only `json:` must be read whole); they may be
packed, and in UTF-16 (`packed_file`). Every mistake is a `DataError` that names file and line. A row of more than 1 MB
is refused: no model could read it, and the file nearly always has another format; `FIGEVAL_MAX_ROW_BYTES` raises the
limit. Tables are in `tables`.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from importlib.resources.abc import Traversable
from typing import IO, Any

from figeval.data.packed_file import CONTROL, opened_text, text_head, unpacked
from figeval.data.readers import DataContext, Row
from figeval.errors import DataError, near
from figeval.io.files import BYTE_ORDER_MARK, decoded, inside, is_file
from figeval.io.json_files import MAX_BYTES as MAX_JSON_BYTES
from figeval.io.json_files import InvalidJSON, parse_json
from figeval.io.text import whole_number

MAX_ROW_BYTES = 1_000_000


def open_jsonl(path: str, context: DataContext) -> Iterator[Row]:
    """Read one JSON object per line; blank lines are skipped."""
    return read_jsonl(resource(path, context))


def open_json(path: str, context: DataContext) -> Iterator[Row]:
    """Read a list of JSON objects."""
    file = resource(path, context)
    return json_rows(read_json(file), file)


def resource(path: str, context: DataContext) -> Traversable:
    """Return the file at this path. Raises `DataError` with similar names if there is none."""
    file = inside(context.folder, path, DataError)
    if not is_file(file):
        beside = [other.name for other in context.folder.iterdir()] if context.folder.is_dir() else []
        raise DataError(f"there is no data file {path!r:.200} in {context.folder}{near(path, beside)}")
    return file


def max_row_bytes() -> int:
    """Return the longest permitted row. Raises `DataError` if `FIGEVAL_MAX_ROW_BYTES` is not a positive number."""
    setting = os.environ.get("FIGEVAL_MAX_ROW_BYTES", "")
    limit = whole_number(setting) if setting else MAX_ROW_BYTES
    if not limit:
        raise DataError(f"FIGEVAL_MAX_ROW_BYTES is {setting!r}; set it to a number of bytes or unset it")
    return limit


def text_lines(file: Traversable, encoding: str = "utf-8", *, any_end: bool = False) -> Generator[str, None, None]:
    """Yield the lines of a text file with their line ends.

    Args:
        file: the file, which may be packed; without another `encoding`, also in UTF-16 or UTF-32.
        encoding: how a byte is read.
        any_end: whether a carriage return ends a line even if no line feed follows.

    Raises:
        DataError: the file cannot be read, a byte is not in the encoding, or a line is too long.
    """
    limit = max_row_bytes()
    offset = 0
    try:
        with (opened_text if encoding == "utf-8" else unpacked)(file) as opened:
            for number, line in enumerate(_byte_lines(opened, limit + 2, any_end), 1):
                if len(line.rstrip(b"\r\n")) > limit:
                    raise too_long(f"{file}:{number}", limit)
                yield _decode(line, encoding, f"{file}:{number}", offset)
                offset += len(line)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error})") from error


def _byte_lines(stream: IO[bytes], max_bytes: int, any_end: bool) -> Iterator[bytes]:
    """Yield the lines of a stream; one that is longer than `max_bytes` in parts of at least so many bytes."""
    rest = b""
    for piece in iter(partial(stream.readline, max_bytes), b""):
        if not rest and piece.endswith(b"\n") and not (any_end and b"\r" in piece and b"\r" in piece[:-2]):
            yield piece
            continue
        rest += piece
        if any_end and b"\r" in rest:
            *lines, rest = rest.splitlines(keepends=True)
            yield from lines
        if rest.endswith(b"\n") or len(rest) >= max_bytes:
            yield rest
            rest = b""
    if rest:
        yield rest


def ends_in_carriage_returns(head: bytes) -> bool:
    """Return whether lines end in carriage returns alone, as on old Macs, judged by the beginning of a text."""
    return b"\r" in head and b"\n" not in head


def _decode(line: bytes, encoding: str, location: str, offset: int) -> str:
    try:
        text = line.decode(encoding)
    except UnicodeDecodeError as error:
        byte, position = line[error.start], offset + error.start
        cure = "this is no text file; save the rows as CSV or JSON Lines" if CONTROL.search(line) else ""
        raise DataError(
            f"{location}: byte {byte:#04x} at offset {position:,} is not {encoding}; "
            f"{cure or f'convert the file to {encoding}'}"
        ) from error
    return text if offset else text.removeprefix(BYTE_ORDER_MARK)


def too_long(location: str, limit: int) -> DataError:
    """Return the error for a row that is too long for any model."""
    return DataError(f"{location}: a row of more than {limit:,} bytes; split it, or raise FIGEVAL_MAX_ROW_BYTES")


def read_jsonl(file: Traversable, loads: Callable[[str], Any] | None = None) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file, parsed by `loads`. Raises `DataError` for a line that is not an object."""
    return (row for _, row in numbered_jsonl(file, loads))


def numbered_jsonl(file: Traversable, loads: Callable[[str], Any] | None = None) -> Iterator[tuple[int, Row]]:
    """Yield (line number, row) of a JSON Lines file, like `read_jsonl`."""
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


def whole_text(file: Traversable, cure: str) -> str:
    """Return a text without its byte order mark; the file may be packed, and in UTF-16.

    Raises:
        DataError: it cannot be read, is larger than 256 MiB (`cure` ends this message), or is not UTF-8.
    """
    try:
        with opened_text(file) as stream:
            data = stream.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error})") from error
    if len(data) > MAX_JSON_BYTES:
        raise DataError(f"{file}: larger than {MAX_JSON_BYTES:,} bytes; {cure}")
    return decoded(data, str(file), DataError)


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


def unambiguous(text: str) -> Any:
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
