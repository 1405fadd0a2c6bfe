"""Read Parquet and Arrow files, `parquet:FILE` and `arrow:FILE`, and folders that `datasets` has saved, `arrow:FOLDER`.

Values keep their types, as in JSON: texts, numbers, truth values, null, lists and, for structs and maps, objects. What
JSON has no value for becomes one: dates and times a text (`2024-01-31 12:30:00`), decimals a number, NaN null, and
bytes the text that they are in UTF-8, or null. Files are read in batches of rows.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from importlib.resources.abc import Traversable
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from figeval.data.archives import max_unpacked_bytes
from figeval.data.readers import Row
from figeval.data.tables import MAX_COLUMNS
from figeval.data.text_files import max_row_bytes, too_long
from figeval.errors import DataError
from figeval.extras import needed_for
from figeval.io.files import inside, is_file, is_folder
from figeval.io.json_files import read_json
from figeval.io.text import one_line, time_text, valid

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

BATCH_ROWS = 256
SIZE_RATIO = 8  # size of a row in memory ÷ that of its JSON, at most
PACKED_BUFFER = re.compile(rb"(?=(.{8})(?:\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18))", re.DOTALL)  # length, frame
PACKED_BUFFER_BYTES = 12
MAX_ADDRESS = 1 << 47  # of memory
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
    return _numbered(file, "Parquet", _parquet_batches)


def numbered_arrow(file: Traversable) -> Iterator[tuple[str, Row]]:
    """Yield (location, row) of an Arrow file, in the format of files or of streams, or of a folder of `save_to_disk`.

    Raises:
        DataError: it is no Arrow file or damaged, a row is too long, or the folder is none of `save_to_disk`, or has
            several splits.
    """
    for part in [file] if is_file(file) else saved_files(file):
        yield from _numbered(part, "Arrow", _arrow_batches)


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
    files = [inside(folder, name, DataError) for name in names]
    if missing := next((file for file in files if not is_file(file)), None):
        raise DataError(f"{missing} is missing; copy the folder again")
    return files


def check_columnar(file: Traversable, kind: str) -> None:
    """Read a file (`kind` is `parquet` or `arrow`) for another reader, which has no limits.

    Raises:
        DataError: as in `numbered_parquet` and `numbered_arrow`.
    """
    batches = _parquet_batches if kind == "parquet" else _arrow_batches
    with _open_stream(file, kind.capitalize()) as stream:
        for _ in _small_batches(file, batches(file, stream)):
            pass


# ---- batches ---------------------------------------------------------------------------------------------------------


def _numbered(
    file: Traversable, kind: str, batches: Callable[[Traversable, IO[bytes]], Iterator[RecordBatch]]
) -> Iterator[tuple[str, Row]]:
    limit, number = max_row_bytes(), 0
    with _open_stream(file, kind) as stream:
        for batch in _small_batches(file, batches(file, stream)):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                number += 1
                yield f"{file}: row {number}", plain_row(row, f"{file}: row {number}", limit)


def _small_batches(file: Traversable, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
    """Yield the rows in batches that are not too large for Python. Raises `DataError` for a row that is too long."""
    limit, number = max_row_bytes(), 0
    max_size = SIZE_RATIO * limit
    for part in chain.from_iterable(_parts(batch, max_size) for batch in batches):
        if part.num_rows == 1 and _array_size(part.to_struct_array(), max_size) > max_size:
            raise too_long(f"{file}: row {number + 1}", limit)
        yield part
        number += part.num_rows


@contextmanager
def _open_stream(file: Traversable, kind: str) -> Iterator[IO[bytes]]:
    """Open a file, and turn the errors of pyarrow into a `DataError`, also while it is read."""
    with needed_for(f"{file} ({kind})"):
        from pyarrow import ArrowException
    try:
        with file.open("rb") as stream:
            yield stream
    except (ArrowException, OSError, ValueError, OverflowError, KeyError, MemoryError) as error:
        if isinstance(error, DataError):
            raise
        reason = one_line(str(error), 100) or type(error).__name__
        raise DataError(f"{file} cannot be read as {kind} ({reason}); check the file, or copy it again") from error


def _parquet_batches(file: Traversable, stream: IO[bytes]) -> Iterator[RecordBatch]:
    from pyarrow.parquet import ParquetFile

    max_bytes = max_unpacked_bytes(stream)
    with ParquetFile(stream) as table:
        groups = range(table.metadata.num_row_groups)
        if sum(table.metadata.row_group(group).total_byte_size for group in groups) > max_bytes:
            raise _too_large(file, max_bytes)
        _check_columns(file, table.schema_arrow)
        yield from table.iter_batches(BATCH_ROWS, use_threads=False)


def _arrow_batches(file: Traversable, stream: IO[bytes]) -> Iterator[RecordBatch]:
    from pyarrow import ipc

    max_bytes = max_unpacked_bytes(stream)
    if _zstd_bytes(stream) > max_bytes:
        raise _too_large(file, max_bytes)
    is_file_format = stream.read(6) == b"ARROW1"
    stream.seek(0)
    with ipc.open_file(stream) if is_file_format else ipc.open_stream(stream) as reader:
        _check_columns(file, reader.schema)
        numbers = range(reader.num_record_batches) if is_file_format else ()
        for batch in map(reader.get_batch, numbers) if is_file_format else reader:
            batch.validate(full=True)  # pyarrow reads memory at offsets that a damaged file has
            yield from (batch.slice(start, BATCH_ROWS) for start in range(0, batch.num_rows, BATCH_ROWS))


def _too_large(file: Traversable, max_bytes: int) -> DataError:
    return DataError(f"{file} unpacks to more than {max_bytes:,} bytes; save it as CSV if you trust it")


def _zstd_bytes(stream: IO[bytes]) -> int:
    """Return what the buffers of an Arrow file unpack to that are packed with zstd: their lengths stand before them.

    Those packed with LZ4 cannot unpack to more than 255 times their size.
    """
    total, rest = 0, b""
    for piece in iter(lambda: stream.read(1 << 20), b""):
        text = rest + piece
        for match in PACKED_BUFFER.finditer(text):
            length = int.from_bytes(match[1], "little")
            total += length if length < MAX_ADDRESS else 0  # otherwise no length, but other bytes
        rest = text[-PACKED_BUFFER_BYTES + 1 :]
    stream.seek(0)
    return total


# ---- sizes -----------------------------------------------------------------------------------------------------------


def _parts(batch: RecordBatch, max_size: int) -> Iterator[RecordBatch]:
    """Yield a batch in parts that are not too large, or have one row."""
    if batch.num_rows <= 1 or _array_size(batch.to_struct_array(), max_size) <= max_size:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle), max_size)
    yield from _parts(batch.slice(middle), max_size)


def _array_size(array: Any, max_size: int) -> int:
    """Return the number of values and bytes that an array becomes in Python, or a number above `max_size`.

    The array may take far less memory: lists overlap, and values that are null or occur once are stored once.
    """
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(array, pa.DictionaryArray | pa.RunEndEncodedArray):
        values = array.dictionary if isinstance(array, pa.DictionaryArray) else array.values
        return len(array) * (1 + _largest(values, max_size))
    if isinstance(array, pa.UnionArray):
        fields = [array.field(index) for index in range(array.type.num_fields)]
        return len(array) * (1 + sum(_array_size(field, max_size) for field in fields))
    if isinstance(array, pa.StructArray):
        return len(array) + sum(_array_size(field, max_size) for field in array.flatten())
    if isinstance(array, pa.MapArray):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return len(array) + sum(_array_size(part[start:end], max_size) for part in (array.keys, array.items))
    if pa.types.is_nested(array.type):
        count = len(array) + (compute.sum(compute.list_value_length(array)).as_py() or 0)
        return count if count > max_size else count + _array_size(array.flatten(), max_size)
    is_view = pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type)
    return len(array) + (sum(len(str(value)) for value in array) if is_view else array.nbytes)


def _largest(values: Any, max_size: int) -> int:
    """Return at least the size of the largest of the values."""
    from pyarrow import compute, types

    if types.is_string(values.type) or types.is_large_string(values.type):
        return compute.max(compute.binary_length(values)).as_py() or 0
    return _array_size(values, max_size)


def _check_columns(file: Traversable, schema: Schema) -> None:
    if len(schema.names) > MAX_COLUMNS:
        raise DataError(f"{file}: {len(schema.names):,} columns, but at most {MAX_COLUMNS:,} are read; leave some out")
    if twice := sorted(name for name, count in Counter(schema.names).items() if count > 1):
        raise DataError(f"{file}: column {twice[0]!r:.80} is named twice")


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
