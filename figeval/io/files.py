"""Files: where those that are read may lie and what they may be, and how those that figeval writes are replaced."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import IO

from figeval.errors import FigevalError, RecordError, TaskError

TEMPLATES = "figeval.builtin.templates"
EXTERNAL = "FIGEVAL_ALLOW_EXTERNAL_FILES"  # an environment variable, so that worker processes inherit it
MAX_BYTES = 1 << 20  # 1 MiB: task files, suites, templates, configs
BYTE_ORDER_MARK = "\ufeff"
YAML_SUFFIXES = (".yaml", ".yml")

# ---- reading --------------------------------------------------------------------------------------------------------


def is_file(file: Traversable) -> bool:
    """Return whether a regular file exists; False, without an error, for invalid names."""
    try:
        return file.is_file()
    except (OSError, ValueError):  # the name is too long or contains a null character
        return False


def is_folder(path: Traversable) -> bool:
    """Return whether a folder exists; False, without an error, for invalid names."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def path_exists(path: str) -> bool:
    """Return whether a file or a folder exists; False, without an error, for an empty text and invalid names."""
    return bool(path) and (is_file(Path(path)) or is_folder(Path(path)))


def read_text(
    file: Traversable, failure: type[FigevalError], *, cure: str = "check the path", max_bytes: int = MAX_BYTES
) -> str:
    """Read the text of a file, without its byte order mark.

    Args:
        file: a path, or a resource inside a package.
        failure: class of the error to raise.
        cure: advice for a file that cannot be read, which ends the message.
        max_bytes: size of the largest file that is read.

    Raises:
        FigevalError: as `failure`, in one line with the file: it cannot be opened, is a folder, a device or a pipe
            (reading one may never end), is too large, or is not UTF-8 (with line and byte).
    """
    return decode_text(read_bytes(file, failure, cure=cure, max_bytes=max_bytes), str(file), failure)


def digest_of_file(file: Path) -> bytes:
    """Return the SHA-256 of a file of any size. It is read again only if it was replaced or written to."""
    status = file.stat()
    return _digest(file, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(maxsize=1024)
def _digest(file: Path, *_status: int) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def decode_text(data: bytes, name: str, failure: type[FigevalError]) -> str:
    """Return the text of a file's bytes, without its byte order mark. Raises `failure` if it is not UTF-8."""
    try:
        return data.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
        raise failure(
            f"{name}:{line}: byte {byte:#04x} at offset {error.start:,} is not utf-8; convert the file to utf-8"
        ) from error


def read_bytes(
    file: Traversable, failure: type[FigevalError], *, cure: str = "check the path", max_bytes: int = MAX_BYTES
) -> bytes:
    """Read the bytes of a file; arguments and errors are those of `read_text`."""
    try:
        if isinstance(file, Path) and file.exists() and not file.is_file():  # reading a device or a pipe may never end
            raise failure(f"{file}: not a regular file; {cure}")
        with file.open("rb") as opened:
            data: bytes = opened.read(max_bytes + 1)
    except FigevalError:  # an OptionError is a ValueError, too
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise failure(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error}); {cure}") from error
    if len(data) > max_bytes:
        raise failure(f"{file}: larger than {max_bytes:,} bytes; {cure}")
    return data


# ---- places ---------------------------------------------------------------------------------------------------------


def expand_user(path: str | Path) -> Path:
    """Return the path with `~` and `~user` expanded; unknown users are left unchanged, as in a shell.

    `Path.expanduser` raises an error for them.
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111


def inside(folder: Traversable, path: str, failure: type[FigevalError]) -> Traversable:
    """Return the file at a path from a third party, relative to the folder of the file that names it.

    Raises:
        FigevalError: as `failure`; the path leads out of the folder, possibly through a symbolic link, and neither
            `--allow_external_files` nor its variable `FIGEVAL_ALLOW_EXTERNAL_FILES` is set.
    """
    file = folder.joinpath(path)
    if os.environ.get(EXTERNAL):
        return file
    if "\0" in path:
        within = False
    elif isinstance(folder, Path):  # os.path.realpath, because Path.resolve raises an error for circular links
        within = Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder))
    else:
        within = not PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts
    if within:
        return file
    raise failure(
        f"{path!r:.200} leads out of {folder}; copy the file there, or allow such paths with --allow_external_files"
    )


def home() -> Path:
    """Return the folder for everything kept between runs: `FIGEVAL_HOME`, else the user's cache folder."""
    setting = os.environ.get("FIGEVAL_HOME")
    if setting:
        return expand_user(setting)
    from platformdirs import user_cache_path

    return user_cache_path("figeval")


def template_folders(folder: Traversable | None) -> Iterator[Traversable]:
    """Yield the folders that may hold a task's templates: in or beside its own folder, then the built-in ones."""
    if folder is not None:
        yield folder / "templates"
        parent = getattr(folder, "parent", None)  # a Traversable inside a zip has one, too
        if parent is not None:
            yield parent / "templates"
        yield folder
    yield files(TEMPLATES)


def read_template(name: str, folder: Traversable | None, max_bytes: int) -> str | None:
    """Return the source of a template, or None if no folder has it.

    Raises:
        TaskError: the template is larger than `max_bytes`, or cannot be read as text.
    """
    if ".." in name.split("/") or name.startswith("/"):
        return None
    for template_folder in template_folders(folder):
        file = template_folder.joinpath(*name.split("/"))
        if is_file(file):
            return read_text(file, TaskError, max_bytes=max_bytes)
    return None


NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose content replaces a file when the context ends without an exception.

    The content is written to a draft beside the file, `<name>.<random>.part`, which is flushed to disk before it is
    renamed. Its name is random, so that it neither is a file of the user's nor that of another process. If the file is
    a link, the link is replaced; its target stays unchanged, and so do other hard links to the old file.
    """
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def replace_text(file: Path, text: str) -> None:
    """Replace the content of a file by a text, atomically."""
    with replacing(file) as stream:
        stream.write(text.encode("utf-8"))


@contextmanager
def locked(file: Path, refusal: FigevalError) -> Iterator[None]:
    """Hold a lock file while the context is open. Raises `refusal` if another process holds it."""
    from filelock import FileLock, Timeout  # imports asyncio; only commands that write folders need it

    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise refusal from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def cure(path: Path, option: str = "--output_path") -> Iterator[None]:
    """Turn an `OSError` into a `RecordError` with a remedy; `option` is the flag that sets the place."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            message = f"no space left for {path}; what was written is kept: free some space and run the same command"
        else:
            message = f"cannot write {path} ({error.strerror or error}); choose another place with {option}"
        raise RecordError(message) from error
