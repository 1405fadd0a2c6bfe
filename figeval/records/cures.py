"""What the operating system refuses, as one line with a cure."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figeval.errors import RecordError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def cure(path: Path, option: str = "--output_path") -> Iterator[None]:
    """Turn an `OSError` into a `RecordError`; `option` is the flag that names the place."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            message = f"no room left for {path}; what was written is kept: free some space and run the same command"
        else:
            message = f"cannot write {path} ({error.strerror or error}); choose another place with {option}"
        raise RecordError(message) from error
