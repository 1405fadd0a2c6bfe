"""The file with the predictions of a task in a run folder, as it is opened for reading: plain, or packed with gzip.

A run folder may come from somebody else. Therefore no link is followed, and what a gzip file unpacks to is limited.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from figeval.errors import RecordError

MAX_UNPACKED = 1 << 29  # per unpacked file; a gzip bomb expands a thousandfold, predictions up to thirtyfold
MAX_RATIO, RATIO_FROM = 100, 1 << 24  # of larger files, the unpacked size may be so many times that of the gzip file


def is_own(file: Path) -> bool:
    """Return whether a regular file exists. Raises `RecordError` for a link, a pipe, a device or a folder."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RecordError(f"cannot read {file} ({error.strerror})") from error
    if not stat.S_ISREG(mode):
        kind = "a symbolic link" if stat.S_ISLNK(mode) else "not a regular file"
        raise RecordError(f"{file} is {kind}, which figeval does not read in a run folder; put a copy there")
    return True


def sha256_of(file: Path) -> str:
    """Return the sha256 of stored predictions, computed over their lines and not over the gzip file.

    Raises:
        RecordError: the predictions cannot be read.
    """
    source = find_rows_file(file) or file
    digest = hashlib.sha256()
    with as_record_error(source), open_rows(source) as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def has_more_lines(file: Path, limit: int) -> bool:
    """Return whether stored predictions have more than so many lines. Raises `RecordError` like `sha256_of`."""
    source = find_rows_file(file) or file
    count = 0
    with as_record_error(source), open_rows(source) as stream:
        while count <= limit and (piece := stream.read(1 << 20)):
            count += piece.count(b"\n")
    return count > limit


@contextmanager
def as_record_error(source: Path) -> Iterator[None]:
    """Turn errors of reading predictions into a `RecordError`."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"cannot read {source} ({getattr(error, 'strerror', None) or error})") from error


def packed_path(file: Path) -> Path:
    """Return the path of the packed predictions of an archived run."""
    return file.with_name(f"{file.name}.gz")


def find_rows_file(file: Path) -> Path | None:
    """Return the file or its packed version, or None if neither exists. Raises `RecordError` like `is_own`."""
    return next((path for path in (file, packed_path(file)) if is_own(path)), None)


@contextmanager
def open_rows(source: Path) -> Iterator[IO[bytes]]:
    """Open a predictions file for reading bytes, unpacked if it is a gzip file.

    Raises:
        RecordError: the gzip file is damaged, or holds more than 512 MiB, or than a hundred times its own size.
    """
    if source.suffix != ".gz":
        with source.open("rb") as stream:
            yield stream
        return
    try:
        with gzip.open(source, "rb") as stream:
            yield io.BufferedReader(_UnpackedRows(stream, source))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{source} is not a complete gzip file ({error}); restore it") from error


class _UnpackedRows(io.RawIOBase):
    """Content of a gzip file, up to a limit that protects the memory."""

    def __init__(self, stream: gzip.GzipFile, source: Path) -> None:
        self._stream = stream
        self._source = source
        limit = max(RATIO_FROM, MAX_RATIO * source.stat().st_size)
        self._most = self._left = min(MAX_UNPACKED, limit)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer and return the number of bytes read. Raises `RecordError` beyond the limit."""
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise RecordError(f"{self._source} holds more than {self._most:,} bytes; gunzip it if you trust it")
        buffer[: len(data)] = data
        return len(data)
