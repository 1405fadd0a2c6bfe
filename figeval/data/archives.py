"""Open packed files and members of zip archives as streams, with a one-line error for every way of being broken.

Archives come from others. Nothing is extracted under a name from an archive, and what a file unpacks to is limited.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, TypeAlias

from figeval.errors import DataError
from figeval.io.text import one_line

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_RATIO, RATIO_FROM_BYTES = 200, 1 << 26  # a larger file may unpack to so many times its size; a bomb does to more
BROKEN = (  # what the modules raise for damaged files
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    RuntimeError,  # NotImplementedError is one, too
)
ENCRYPTED = 1  # bit of `ZipInfo.flag_bits`
STREAMED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile unpacks others in pieces of unlimited size
METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "xz", 98: "PPMd"}  # of compression
MACHINES = (".DS_Store", "Thumbs.db", "desktop.ini")  # files that systems add to archives
AS_SHEET = "save the sheet as .xlsx or CSV UTF-8"
DOCUMENTS = {  # member → what the archive is, and what to do
    "xl/workbook.xml": ("is an Excel workbook", "read it with xlsx:, or save the sheet as CSV UTF-8"),
    "xl/workbook.bin": ("is a binary workbook (.xlsb)", AS_SHEET),
    "word/document.xml": ("is a Word document", "save its rows as CSV UTF-8"),
    "content.xml": ("is an OpenDocument file", AS_SHEET),
    "Index/Document.iwa": ("is a document of Apple Numbers or Pages", "export it as CSV"),
}
Packed: TypeAlias = "IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile | _ZstdFile"


class ArchiveError(Exception):
    """An archive cannot be read: `problem` continues a sentence that begins with its name, `cure` ends it."""

    def __init__(self, problem: str, cure: str) -> None:
        super().__init__(f"{problem}; {cure}")
        self.problem, self.cure = problem, cure


class LockedArchiveError(ArchiveError):
    """An archive is as it should be, but needs a password or another program."""


@contextmanager
def open_packed(stream: IO[bytes], kind: str, name: str) -> Iterator[IO[bytes]]:
    """Open what a file holds that is packed as `kind`: gzip, bzip2, xz, zstd, or a zip archive of one file.

    Raises:
        DataError: it is damaged, encrypted, packed in an unknown way, or several files; also while it is read, and if
            it unpacks to more than 64 MiB and 200 times its size.
    """
    with _naming_errors(name):
        max_bytes = max_unpacked_bytes(stream)
        if kind == "zip":
            archive = open_archive(stream)
            inner: Packed = open_member(archive, single_member(archive))
        else:
            inner = _decompressor(stream, kind)
        unpacked = _UnpackedMember(inner, name, max_bytes)
    with inner:
        yield io.BufferedReader(unpacked, 1 << 16)


def packed_files(stream: IO[bytes], kind: str, name: str) -> Iterator[IO[bytes]]:
    """Yield every file of a packed one: those of a zip archive, or the only one. Raises `DataError` as open_packed."""
    if kind != "zip":
        with open_packed(stream, kind, name) as content:
            yield content
        return
    with _naming_errors(name):
        max_bytes = max_unpacked_bytes(stream)
        archive = open_archive(stream)
        if sum(info.file_size for info in archive.infolist()) > max_bytes:
            raise DataError(f"{name} unpacks to more than {max_bytes:,} bytes; unpack it if you trust it")
        for info in archive.infolist():
            with open_member(archive, info) as inner:
                yield io.BufferedReader(_UnpackedMember(inner, name, max_bytes), 1 << 16)


def max_unpacked_bytes(stream: IO[bytes]) -> int:
    """Return how much a packed file may unpack to; the position is its beginning afterwards."""
    packed_bytes = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return max(RATIO_FROM_BYTES, MAX_RATIO * packed_bytes)


def _decompressor(stream: IO[bytes], kind: str) -> Packed:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=stream, mode="rb")
    if kind == "zstd":
        return _ZstdFile(stream)
    return bz2.BZ2File(stream) if kind == "bzip2" else lzma.LZMAFile(stream)


class _ZstdFile(io.RawIOBase):
    """A file packed with zstd, whose errors are those of `BROKEN`. Raises `ArchiveError` without the library."""

    def __init__(self, stream: IO[bytes]) -> None:
        try:
            module = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
        except ImportError as error:
            cure = "pip install 'figeval[zstd]', or pack it with gzip"
            raise ArchiveError("is packed with zstd, which needs the library backports.zstd", cure) from error
        self._failure: type[Exception] = module.ZstdError
        self._stream = module.ZstdFile(stream)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes. Raises `OSError` for a damaged file, `EOFError` for one that is cut off."""
        try:
            data: bytes = self._stream.read(size)
        except self._failure as error:
            raise OSError(str(error)) from error
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the position in the stream."""
        position: int = self._stream.seek(offset, whence)
        return position

    def tell(self) -> int:
        """Return the position in the stream."""
        position: int = self._stream.tell()
        return position


@contextmanager
def _naming_errors(name: str) -> Iterator[None]:
    """Turn errors of reading a user's packed file into a `DataError` with its name."""
    try:
        yield
    except ArchiveError as error:
        raise DataError(f"{name} {error}") from error


def member_name(stream: IO[bytes], name: str) -> str:
    """Return the name of the only file in a zip archive. Raises `DataError` as `open_packed` does."""
    with _naming_errors(name):
        return single_member(open_archive(stream)).filename


class _UnpackedMember(io.RawIOBase):
    """Stream of what a packed file holds, up to a limit that protects the memory of whoever reads it."""

    def __init__(self, stream: Packed, name: str, max_bytes: int) -> None:
        self._stream, self._name, self._max_bytes = stream, name, max_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        """Return True: the beginning is read twice."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Change the position in the stream."""
        return self._stream.seek(offset, whence)

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill the buffer and return the number of bytes. Raises `DataError` for a damaged file or one too large."""
        view = memoryview(buffer).cast("B")
        with _naming_errors(self._name), reading():
            data = self._stream.read(len(view))
        if self._stream.tell() > self._max_bytes:
            cure = "unpack it if you trust it"
            raise DataError(f"{self._name} unpacks to more than {self._max_bytes:,} bytes; {cure}")
        view[: len(data)] = data
        return len(data)


# ---- zip archives ----------------------------------------------------------------------------------------------------


@contextmanager
def reading() -> Iterator[None]:
    """Turn the errors of damaged archives into an `ArchiveError`."""
    try:
        yield
    except BROKEN as error:
        reason = one_line(str(error), 100) or type(error).__name__
        raise ArchiveError(f"is damaged or cut off ({reason})", "copy or download it again") from error


def open_archive(stream: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip archive. Raises `ArchiveError` if it is none, or its directory is damaged."""
    with reading():
        return zipfile.ZipFile(stream)


def open_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> IO[bytes]:
    """Open a member of a zip archive; errors of its content come when it is read, in `reading`.

    Raises:
        LockedArchiveError: it is encrypted, or packed by another method than Deflate.
        ArchiveError: there is no such member, or it is damaged.
    """
    try:
        info = archive.getinfo(member) if isinstance(member, str) else member
    except KeyError as error:
        members = one_line(", ".join(archive.namelist()), 200) or "nothing"
        raise ArchiveError(f"holds {members}, but no {member!r:.80}", "check the name") from error
    if info.flag_bits & ENCRYPTED:
        raise LockedArchiveError("is encrypted", "unpack it with its password")
    if info.compress_type not in STREAMED:
        method = METHODS.get(info.compress_type, f"method {info.compress_type}")
        raise LockedArchiveError(f"is packed by {method}, which figeval does not unpack", "unpack it, or use Deflate")
    with reading():
        return archive.open(info)


def single_member(archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """Return the only file of an archive, apart from folders and what systems add.

    Raises:
        ArchiveError: there are several or none, or the archive is a document.
    """
    if document := document_problem(archive):
        raise ArchiveError(*document)
    members = [info for info in archive.infolist() if not _is_added(info.filename)]
    if len(members) != 1:
        listed = one_line(", ".join(info.filename for info in members[:4]), 120)
        content = (
            f"holds {len(members):,} files ({listed}{', …' if members[4:] else ''})" if members else "holds no file"
        )
        raise ArchiveError(content, "unpack it and give the file of the rows" if members else "pack it again")
    return members[0]


def document_problem(archive: zipfile.ZipFile) -> tuple[str, str] | None:
    """Return what an archive is that is a document, and what to do; None if it is none."""
    names = set(archive.namelist())
    return next((about for name, about in DOCUMENTS.items() if name in names), None)


def has_member(stream: IO[bytes], member: str) -> bool:
    """Return whether a zip archive has a member; False for a damaged one."""
    try:
        return member in open_archive(stream).namelist()
    except ArchiveError:
        return False


def _is_added(name: str) -> bool:
    """Return whether a member is a folder, or a file that a system adds."""
    path = PurePosixPath(name)
    return name.endswith("/") or "__MACOSX" in path.parts[:1] or path.name.startswith("._") or path.name in MACHINES
