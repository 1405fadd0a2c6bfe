"""Read text files, packed or not and in any Unicode encoding: as streams of UTF-8, line by line, or whole.

The first bytes decide what a file is, not its name: text, gzip, bzip2, xz, zstd, a zip archive with one file, UTF-16 or
UTF-32. Packed files are unpacked while they are read, up to a limit, and nothing is written. What is no text is refused
in one line that names its format. A line of more than 1 MB is refused: no model could read it, and the file nearly
always has another format; `FIGEVAL_MAX_ROW_BYTES` raises the limit.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import unicodedata
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from figeval.errors import DataError
from figeval.io.files import BYTE_ORDER_MARK, decode_text
from figeval.io.json_files import MAX_BYTES as MAX_JSON_BYTES
from figeval.io.text import whole_number

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_ROW_BYTES = 1_000_000
HEAD_BYTES = 1 << 16  # by which formats, encodings and separators are recognized
PACKED = {  # first bytes of what is unpacked → name of the format
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x50\x2a\x4d\x18": "zstd",  # a frame that is skipped, with which parallel programs begin
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",  # an empty archive
}
BINARY = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}  # first bytes → format of rows
WORKBOOK_MEMBER = "xl/workbook.xml"
SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zstd", ".zip")
AS_TEXT = "save it as Parquet, CSV or JSON Lines"
AS_CSV = "save the sheet as .xlsx or CSV UTF-8"
NO_TEXT = {  # first bytes of other files → what they are, and what to do
    b"PAR1": "is a Parquet file; read it with parquet:",
    b"ARROW1": "is an Arrow file; read it with arrow:",
    b"FEA1": f"is a Feather file; {AS_TEXT}",
    b"ORC": f"is an ORC file; {AS_TEXT}",
    b"Obj\x01": f"is an Avro file; {AS_TEXT}",
    b"\x89HDF\r\n\x1a\n": f"is an HDF5 file; {AS_TEXT}",
    b"\x93NUMPY": f"is an array of NumPy; {AS_TEXT}",
    b"\x80\x04": f"is a pickle of Python; {AS_TEXT}",
    b"\x80\x05": f"is a pickle of Python; {AS_TEXT}",
    b"SQLite format 3\0": "is an SQLite database; export the table as CSV",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": f"is an Excel workbook or another file of Office; {AS_CSV}",
    b"%PDF-": f"is a PDF document; {AS_TEXT}",
    b"\x04\x22\x4d\x18": "is compressed with LZ4; unpack it, or pack it with gzip or zstd",
    b"7z\xbc\xaf\x27\x1c": "is a 7-Zip archive; unpack it",
    b"Rar!\x1a\x07": "is a RAR archive; unpack it",
}
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
TAR, TAR_AT = b"ustar", 257
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # bytes that text has only in UTF-16 and UTF-32
BYTE_ORDER_MARKS = {  # those of UTF-32 first, since the one of UTF-16 is the beginning of one of them
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
UNMARKED = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")


@contextmanager
def open_unpacked(file: Traversable) -> Iterator[IO[bytes]]:
    """Open a file for reading its bytes, unpacked.

    Raises:
        DataError: the file cannot be opened, is damaged, encrypted, not one file, packed twice, or no text. The errors
            of what is read later are raised while it is read.
    """
    with ExitStack() as stack:
        try:
            stream: IO[bytes] = stack.enter_context(file.open("rb"))
            head = _head(stream)
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error.strerror or error})") from error
        if kind := _packing(head):
            from figeval.data.archives import open_packed  # most files are not packed

            stream = stack.enter_context(open_packed(stream, kind, str(file)))
            head = _unpacked_head(stream, str(file))
        if problem := _no_text(head):
            raise DataError(f"{file} {problem}")
        yield stream


def check_packed(file: Path) -> None:
    """Unpack a file for another reader, which has no limits. Only the beginning is read of one that is not packed.

    Raises:
        DataError: it is damaged, encrypted, packed twice, or unpacks to too much or to a line that is too long.
    """
    with file.open("rb") as file_stream:
        kind = _packing(_head(file_stream))
        if kind is None:
            return
        from figeval.data.archives import packed_files

        for stream in packed_files(file_stream, kind, str(file)):
            _unpacked_head(stream, str(file))
            _check_lines(stream, str(file))


def _check_lines(stream: IO[bytes], name: str) -> None:
    """Read a stream. Raises `DataError` for a line that would fill the memory of whoever reads it whole."""
    size = 0
    for piece in iter(partial(stream.readline, HEAD_BYTES), b""):
        size += len(piece)
        if size > MAX_JSON_BYTES:
            raise DataError(f"{name}: a line of more than {MAX_JSON_BYTES:,} bytes; write one row per line")
        size = 0 if piece.endswith(b"\n") else size


def _unpacked_head(stream: IO[bytes], name: str) -> bytes:
    """Return the beginning of what a packed file holds. Raises `DataError` if that is packed, too."""
    head = _head(stream)
    if _packing(head):
        raise DataError(f"{name} holds another packed file; unpack it")
    return head


def _head(stream: IO[bytes]) -> bytes:
    head = stream.read(HEAD_BYTES)
    stream.seek(0)
    return head


def _packing(head: bytes) -> str | None:
    if head[:3] == b"BZh" and head[4:10] not in (b"1AY&SY", b"\x17rE8P\x90"):  # of a block, or of the end
        return None
    return next((kind for magic, kind in PACKED.items() if head.startswith(magic)), None)


def _no_text(head: bytes) -> str:
    """Return what a file is and what to do with it, or "" if it may be text."""
    if head.startswith(LFS_POINTER):
        return "is a pointer of Git LFS and not the data; run `git lfs pull`"
    if not CONTROL.search(head) and _is_utf8(head):
        return ""
    if head[TAR_AT:].startswith(TAR):
        return "is a tar archive; unpack it"
    return next((problem for magic, problem in NO_TEXT.items() if head.startswith(magic)), "")


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # incremental: the head may end inside a character
    except UnicodeDecodeError:
        return False
    return True


def binary_format(file: Traversable) -> str | None:
    """Return the format of a file that is no text, but has rows: `xlsx`, `parquet`, `arrow`; otherwise None.

    Raises:
        DataError: it cannot be read.
    """
    try:
        with file.open("rb") as stream:
            head = stream.read(8)
            if _packing(head) == "zip":
                from figeval.data.archives import has_member

                return "xlsx" if has_member(stream, WORKBOOK_MEMBER) else None
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error})") from error
    return next((kind for magic, kind in BINARY.items() if head.startswith(magic)), None)


def inner_suffix(file: Traversable) -> str:
    """Return the suffix of a file's name without packing, in lower case: `.csv` for `rows.csv.gz`.

    Of a zip archive, it is that of the file in it. Raises `DataError` as `unpacked` does.
    """
    try:
        with file.open("rb") as stream:
            kind = _packing(_head(stream))
            if kind == "zip":
                from figeval.data.archives import member_name

                return PurePosixPath(member_name(stream, str(file))).suffix.lower()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error})") from error
    name = PurePosixPath(file.name)
    return PurePosixPath(name.stem if kind and name.suffix.lower() in SUFFIXES else name).suffix.lower()


# ---- encodings -------------------------------------------------------------------------------------------------------


@contextmanager
def opened_text(file: Traversable) -> Iterator[IO[bytes]]:
    """Open a text as UTF-8, unpacked, with its byte order mark. Raises `DataError` like `open_unpacked`."""
    with open_unpacked(file) as stream:
        encoding = wide_encoding(_head(stream))
        yield io.BufferedReader(_Transcoded(stream, encoding, str(file))) if encoding else stream


def text_head(file: Traversable) -> bytes:
    """Return the beginning of a text in UTF-8, without a byte order mark. Raises `DataError` like `open_unpacked`."""
    with opened_text(file) as stream:
        return stream.read(HEAD_BYTES).removeprefix(codecs.BOM_UTF8)


def wide_encoding(head: bytes) -> str | None:
    """Return the encoding of a text in UTF-16 or UTF-32, or None if it is neither for certain.

    Without a byte order mark, one of them is certain if every character is one of texts, among them an end of a line or
    the bracket that begins a JSON value, and either the text begins with two letters of ASCII or it is none in UTF-8.
    """
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" not in head:
        return None
    narrow = not CONTROL.search(head.replace(b"\0", b"")) and _is_utf8(head)
    return next((encoding for encoding in UNMARKED if _reads(head, encoding, narrow)), None)


def _reads(head: bytes, encoding: str, narrow: bool) -> bool:
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    if not ("\n" in text or "\r" in text or text[:1] in ("{", "[")) or (narrow and not text[:2].isascii()):
        return False
    return not any(unicodedata.category(letter) in ("Cc", "Cn", "Co") for letter in set(text) - set("\t\r\n"))


class _Transcoded(io.RawIOBase):
    """Stream of UTF-8 of a text in another encoding."""

    def __init__(self, stream: IO[bytes], encoding: str, name: str) -> None:
        self._stream, self._encoding, self._name = stream, encoding, name
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._at_end = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer and return the number of bytes. Raises `DataError` for bytes that are no characters."""
        view = memoryview(buffer).cast("B")
        while not self._ready and not self._at_end:
            piece = self._stream.read(HEAD_BYTES)
            self._at_end = not piece
            try:
                self._ready = self._decoder.decode(piece, final=not piece).encode()
            except UnicodeDecodeError as error:
                wide = self._encoding[:6].upper()
                raise DataError(f"{self._name} is not valid {wide} ({error.reason}); save it as UTF-8") from error
        taken, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(taken)] = taken
        return len(taken)


# ---- lines, and whole texts ------------------------------------------------------------------------------------------


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
        with (opened_text if encoding == "utf-8" else open_unpacked)(file) as opened:
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
    return decode_text(data, str(file), DataError)
