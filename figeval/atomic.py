"""Files that are replaced as a whole: whoever reads one meets the old text or the new one, never half of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(file: Path) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of a file when the context ends without an exception.

    It is written to a draft beside the file, `<name>.part`, and is on the disk before the draft is moved. A draft that
    lies there is removed, not written through: it may be a link to somewhere else. A file that is a link is replaced
    itself; what it led to stays as it is, and so do other hard links to the old file.
    """
    draft = file.with_name(file.name + ".part")
    draft.unlink(missing_ok=True)
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
    """Put a text in the place of a file."""
    with replacing(file) as stream:
        stream.write(text.encode("utf-8"))
