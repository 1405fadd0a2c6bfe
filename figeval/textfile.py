"""Text files of outside origin: regular, of a limited size, and UTF-8."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from pathlib import Path

from figeval.errors import FigevalError

MAX_BYTES = 1 << 20  # 1 MiB: task files, suites, templates, configs
BYTE_ORDER_MARK = "\ufeff"


def is_file(file: Traversable) -> bool:
    """Whether there is a regular file; False, and no error, for names that no file can have."""
    try:
        return file.is_file()
    except (OSError, ValueError):  # the name is too long, or has a null character
        return False


def is_folder(path: Path) -> bool:
    """Whether there is a folder; False, and no error, for names that no folder can have."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_text(
    file: Traversable, failure: type[FigevalError], *, cure: str = "check the path", max_bytes: int = MAX_BYTES
) -> str:
    """The text of a file, without its byte order mark.

    Args:
        file: a path, or a resource inside a package.
        failure: the error to raise.
        cure: what the user can do where the file cannot be read; stands at the end of the message.
        max_bytes: the largest file that is read.

    Raises:
        FigevalError: as `failure`, in one line that names the file: it cannot be opened, is a folder, a device or a
            pipe (reading one may never end), is too large, or is not UTF-8 (naming line and byte).
    """
    data = read_bytes(file, failure, cure=cure, max_bytes=max_bytes)
    try:
        return data.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise failure(
            f"{file}:{line}: byte {byte:#04x} at offset {error.start:,} is not utf-8; convert the file to utf-8"
        ) from error


def read_bytes(
    file: Traversable, failure: type[FigevalError], *, cure: str = "check the path", max_bytes: int = MAX_BYTES
) -> bytes:
    """The bytes of a file; arguments and errors are those of `read_text`."""
    try:
        if isinstance(file, Path) and file.exists() and not file.is_file():  # reading a device or a pipe may never end
            raise failure(f"{file}: not a regular file; {cure}")
        with file.open("rb") as opened:
            data: bytes = opened.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise failure(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error}); {cure}") from error
    if len(data) > max_bytes:
        raise failure(f"{file}: larger than {max_bytes:,} bytes; {cure}")
    return data
