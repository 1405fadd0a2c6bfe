"""Read Parquet and Arrow files, `parquet:FILE` and `arrow:FILE`, and folders that `datasets` has saved, `arrow:FOLDER`.

Values keep their types, as in JSON: texts, numbers, truth values, null, lists and, for structs and maps, objects. What
JSON has no value for becomes one: dates and times a text (`2024-01-31 12:30:00`), decimals a number, NaN null, and
bytes the text that they are in UTF-8, or null. Files are read in batches of rows.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from decimal import Decimal
from importlib.resources.abc import Traversable
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from figeval.data.archives import MAX_RATIO, RATIO_FROM_BYTES
from figeval.data.readers import Row
from figeval.data.tables import MAX_COLUMNS
from figeval.data.text_files import max_row_bytes, too_long
from figeval.errors import DataError
from figeval.io.files import is_file, is_folder
from figeval.io.json_files import read_json
from figeval.io.text import one_line, time_text, valid

if TYPE_CHECKING:
    from pyarrow import Schema

BATCH_ROWS = 256
SAVED, SAVED_SPLITS = (
    "state.json",
    "dataset_dict.json",
)  # files of `save_to_disk`


def is_saved(folder: Traversable) -> bool:
    """Return whether a folder is one that `save_to_disk` of datasets has written."""
    return is_folder(folder) and any(is_file(folder / name) for name in (SAVED, SAVED_SPLITS))


def numbered_parquet(file: Traversable) -> Iterator[tuple[str, Row]]:
    """Yield (location, row) of a Parquet file; rows are numbered from 1.

    Raises:
        DataError: it is no Parquet file or damaged, unpacks to too much, or a row is too long.
    """
    return _numbered(file, _read_parquet(file))


def numbered_arrow(file: Traversable) -> Iterator[tuple[str, Row]]:
    """Yield (location, row) of an Arrow file, in the format of files or of streams, or of a folder of `save_to_disk`.

    Raises:
        DataError: it is no Arrow file or damaged, a row is too long, or the folder is none of `save_to_disk`, or has
            several splits.
    """
    for part in [file] if is_file(file) else saved_files(file):
        yield from _numbered(part, _read_arrow(part))


def saved_files(folder: Traversable) -> list[Traversable]:
    """Return the Arrow files of a folder of `Dataset.save_to_disk`, in order. Raises `DataError` if it is none."""
    if not is_file(folder / SAVED):
        splits = read_json(folder / SAVED_SPLITS, DataError) if is_file(folder / SAVED_SPLITS) else None
        names = splits.get("splits") if isinstance(splits, dict) else None
        if not isinstance(names, list):
            raise DataError(f"{folder} is no folder that `save_to_disk` of datasets has written; check the path")
        listed = one_line(", ".join(map(str, names)), 200)
        raise DataError(
            f"{folder} has the splits {listed}; name one, such as arrow:{folder.name}/{listed.split(',')[0]}"
        )
    state = read_json(folder / SAVED, DataError)
    listed_files = state.get("_data_files") if isinstance(state, dict) else None
    names = [part.get("filename") for part in listed_files if isinstance(part, dict)] if listed_files else []
    if not names or not all(isinstance(name, str) and name not in ("", "..") and "/" not in name for name in names):
        raise DataError(f"{folder / SAVED} lists no files; save the dataset again")
    files = [folder / name for name in names]
    if missing := next((file for file in files if not is_file(file)), None):
        raise DataError(f"{missing} is missing; copy the folder again")
    return files


# ---- batches ---------------------------------------------------------------------------------------------------------


@contextmanager
def _open_stream(file: Traversable, kind: str) -> Iterator[IO[bytes]]:
    """Open a file, and turn the errors of pyarrow into a `DataError`, also while it is read."""
    try:
        from pyarrow import ArrowException
    except ImportError as error:
        raise DataError(f"{file}: {kind} needs the library pyarrow; pip install 'figeval[parquet]'") from error
    try:
        with file.open("rb") as stream:
            yield stream
    except (ArrowException, OSError, ValueError, OverflowError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        reason = one_line(str(error), 100) or type(error).__name__
        raise DataError(f"{file} cannot be read as {kind} ({reason}); check the file, or copy it again") from error


def _read_parquet(file: Traversable) -> Iterator[list[Row]]:
    with ExitStack() as stack:
        stream = stack.enter_context(_open_stream(file, "Parquet"))
        from pyarrow.parquet import ParquetFile

        max_bytes = max(RATIO_FROM_BYTES, MAX_RATIO * stream.seek(0, 2))
        table = stack.enter_context(ParquetFile(stream))
        groups = range(table.metadata.num_row_groups)
        if sum(table.metadata.row_group(group).total_byte_size for group in groups) > max_bytes:
            raise DataError(f"{file} unpacks to more than {max_bytes:,} bytes; save it as CSV if you trust it")
        _check_columns(file, table.schema_arrow)
        yield from (batch.to_pylist() for batch in table.iter_batches(BATCH_ROWS, use_threads=False))


def _read_arrow(file: Traversable) -> Iterator[list[Row]]:
    with _open_stream(file, "Arrow") as stream:
        from pyarrow import ipc

        is_file_format = stream.read(6) == b"ARROW1"
        stream.seek(0)
        with ipc.open_file(stream) if is_file_format else ipc.open_stream(stream) as reader:
            _check_columns(file, reader.schema)
            numbers = range(reader.num_record_batches) if is_file_format else ()
            for batch in map(reader.get_batch, numbers) if is_file_format else reader:
                starts = range(0, batch.num_rows, BATCH_ROWS)
                yield from (batch.slice(start, BATCH_ROWS).to_pylist() for start in starts)


def _check_columns(file: Traversable, schema: Schema) -> None:
    if len(schema.names) > MAX_COLUMNS:
        raise DataError(f"{file}: {len(schema.names):,} columns, but at most {MAX_COLUMNS:,} are read; leave some out")
    if twice := sorted(name for name, count in Counter(schema.names).items() if count > 1):
        raise DataError(f"{file}: column {twice[0]!r:.80} is named twice")


def _numbered(file: Traversable, batches: Iterator[list[Row]]) -> Iterator[tuple[str, Row]]:
    limit = max_row_bytes()
    for number, row in enumerate(chain.from_iterable(batches), 1):
        yield f"{file}: row {number}", plain_row(row, f"{file}: row {number}", limit)


# ---- values ----------------------------------------------------------------------------------------------------------


def plain_row(row: Mapping[str, Any], location: str, max_bytes: int) -> Row:
    """Return a row with the values of JSON. Raises `DataError` if it is longer than `max_bytes`."""
    plain = {str(name): _plain(value) for name, value in row.items()}
    if sum(map(_size, plain.values())) > max_bytes:
        raise too_long(location, max_bytes)
    return plain


def _plain(value: Any) -> Any:
    """Return the value of JSON for one of Arrow."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return valid(value)
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, Decimal):
        return _plain(int(value) if value.is_finite() and value == value.to_integral_value() else float(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return time_text(value) if isinstance(value, datetime) else str(value)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))
