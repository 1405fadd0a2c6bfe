"""One `predictions/<task>.jsonl`: lines appended, checked when they are read, and replaced as a whole.

Runs that are kept for reading may have `<task>.jsonl.gz` in its place (`packed`), which is read in the same way.

A run's folder may come from somebody else. So no link in it is followed, and every line has to be a row of
`PredictionRow` whose id no earlier line has.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import stat
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from figeval.atomic import replacing
from figeval.errors import RecordError
from figeval.jsonfile import parse_json
from figeval.records.cures import cure
from figeval.records.row_schema import PredictionRow
from figeval.text import cleaned, one_line, valid
from figeval.types import JSON

MAX_BYTES = 1 << 26  # of a line
MAX_UNPACKED = 1 << 29  # of a packed file; gzip makes a thousand times as much of it
HALF = re.compile(rb"\\u[dD][89a-fA-F]")  # may be half a surrogate pair


class PredictionWriter:
    """Appends prediction rows, each handed to the operating system at once."""

    def __init__(self, stream: IO[bytes], file: Path) -> None:
        self._stream = stream
        self._file = file

    def write(self, row: JSON) -> None:
        """Append one row; half a surrogate pair becomes U+FFFD.

        Raises:
            RecordError: there is no room; a half-written line is dropped on resume.
        """
        line = valid(encoded(row)).encode("utf-8")
        with cure(self._file):
            while line:  # an unbuffered write may take only a part
                line = line[self._stream.write(line) :]


def encoded(row: JSON) -> str:
    """A row as a line of text."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n"


class Place(NamedTuple):
    """Where a line is; `begin` and `length` are in bytes."""

    file: Path
    begin: int
    length: int


def indexed(file: Path) -> Iterator[tuple[JSON, Place]]:
    """The whole lines of a predictions file and where they are: memory does not grow with their length.

    Raises:
        RecordError: a whole line is no prediction, or the file is a link or something else that is no file.
    """
    source = stored(file)
    if source is None:
        return
    begin = 0
    with opened(source) as stream:  # bytes: a cut may go through a character
        for number, line in enumerate(iter(partial(stream.readline, MAX_BYTES), b""), start=1):
            if len(line) == MAX_BYTES:
                raise RecordError(f"{file}, line {number}, is larger than {MAX_BYTES:,} bytes; delete that line")
            if line.endswith(b"\n"):
                yield parsed(line, source, number), Place(source, begin, len(line))
            begin += len(line)


def parsed(line: bytes, file: Path, number: int) -> JSON:
    """One line of a predictions file. Raises `RecordError` if it is no `PredictionRow`."""
    try:
        if HALF.search(line) is not None:  # which no UTF-8 holds: written by a figeval before 0.2, or by somebody else
            line = encoded(cleaned(parse_json(line), valid)).encode("utf-8")
        adapter().validate_json(line, strict=True)
        row: JSON = parse_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        why = f"{place}: {first['msg']}" if place else str(first["msg"])
    except ValueError as error:
        why = str(error)
    else:
        return row
    raise RecordError(
        f"{file}, line {number}, is not a valid prediction ({one_line(why, 200)}); delete that line and run "
        "the same command again"
    )


@lru_cache(maxsize=1)
def adapter() -> TypeAdapter[Any]:
    """What checks a row. Built once, when the first row is read."""
    return TypeAdapter(PredictionRow)


def is_own(file: Path) -> bool:
    """Whether a file is there. Raises `RecordError` for a link, a pipe or a device, which lead out of the folder."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RecordError(f"cannot read {file} ({error.strerror})") from error
    if not stat.S_ISREG(mode):
        what = "a symbolic link" if stat.S_ISLNK(mode) else "no regular file"
        raise RecordError(f"{file} is {what}, which figeval does not follow in a run's folder; put a copy there")
    return True


def sha256_of(file: Path) -> str:
    """The sha256 of predictions that are there, of their lines and not of what they are packed in.

    Raises:
        RecordError: they cannot be read.
    """
    source = stored(file) or file
    digest = hashlib.sha256()
    try:
        with opened(source) as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise RecordError(f"cannot read {source} ({getattr(error, 'strerror', None) or error})") from error
    return digest.hexdigest()


def packed(file: Path) -> Path:
    """Where the predictions lie that a file would hold, in a run that is kept for reading."""
    return file.with_name(f"{file.name}.gz")


def stored(file: Path) -> Path | None:
    """The file, or the packed one in its place; None if there is neither. Raises `RecordError` as `is_own` does."""
    return next((one for one in (file, packed(file)) if is_own(one)), None)


@contextmanager
def opened(source: Path) -> Iterator[IO[bytes]]:
    """The bytes of a predictions file, unpacked if need be.

    Raises:
        RecordError: an archive is damaged, or holds more than 512 MiB.
    """
    if source.suffix != ".gz":
        with source.open("rb") as stream:
            yield stream
        return
    try:
        with gzip.open(source, "rb") as stream:
            yield io.BufferedReader(_Unpacked(stream, source))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{source} is not a complete gzip file ({error}); restore it") from error


class _Unpacked(io.RawIOBase):
    """What an archive holds, as far as it is not too much."""

    def __init__(self, stream: gzip.GzipFile, source: Path) -> None:
        self._stream = stream
        self._source = source
        self._left = MAX_UNPACKED

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer; how many bytes there were. Raises `RecordError` beyond the limit."""
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise RecordError(f"{self._source} holds more than {MAX_UNPACKED:,} bytes; gunzip it if you trust it")
        buffer[: len(data)] = data
        return len(data)


def pack(file: Path) -> None:
    """Put a packed file in the place of a predictions file; the same rows give the same bytes."""
    with cure(file), replacing(packed(file)) as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as archive:
        archive.write(file.read_bytes())
    file.unlink()


def rewrite(file: Path, places: Sequence[Place]) -> None:
    """Replace a predictions file, atomically, by these lines of itself and of others."""
    if any(place.file.suffix == ".gz" for place in places):
        raise RecordError(f"{packed(file)} is kept for reading; gunzip it before the run goes on")
    with ExitStack() as files, cure(file), replacing(file) as new:
        old = {source: files.enter_context(source.open("rb")) for source in {place.file for place in places}}
        for place in places:
            old[place.file].seek(place.begin)
            new.write(old[place.file].read(place.length))


@contextmanager
def replaced(file: Path) -> Iterator[PredictionWriter]:
    """A writer of rows that take the place of those in a file, at once or not at all."""
    with cure(file), replacing(file) as stream:
        yield PredictionWriter(stream, file)


@contextmanager
def appended(file: Path) -> Iterator[PredictionWriter]:
    """A writer that goes on after the last whole line.

    Raises:
        RecordError: no room or no permission; what was written stays.
    """
    with cure(file):
        if is_own(file):
            drop_torn_line(file)
        stream = file.open("ab", buffering=0)
    with stream:
        yield PredictionWriter(stream, file)


def drop_torn_line(file: Path) -> None:
    """Cut a file back to its last line feed."""
    with file.open("rb+") as stream:
        size = end = stream.seek(0, 2)
        while end > 0:
            begin = max(0, end - 65536)
            stream.seek(begin)
            position = stream.read(end - begin).rfind(b"\n")
            if position >= 0:
                end = begin + position + 1
                break
            end = begin
        if end < size:
            stream.truncate(end)
