"""Files that figeval writes: replaced as a whole, by one process at a time, with errors that name a remedy.

A reader of a file that is being replaced sees the old text or the new one, never half of it.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from figeval.errors import FigevalError, RecordError

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
