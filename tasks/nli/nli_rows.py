"""The reader `nli:<part>` of the parts in parts.py, and of `train` and `dev` in union.py."""

from __future__ import annotations

from collections.abc import Iterator

from figeval.data import DataContext, Row
from figeval.errors import DataError
from figeval.io.text import near

from . import union
from .parts import PARTS, fetch_part, part_rows

UNIONS = ("train", "dev")


def open(path: str, context: DataContext) -> Iterator[Row]:
    """Return the rows of a part. Raises `DataError` if no part has that name."""
    if path in UNIONS:
        return union.rows(path, context)
    if path in PARTS:
        return part_rows(path, fetch_part(path, context))
    names = [*PARTS, *UNIONS]
    raise DataError(f"nli has no part {path!r}{near(path, names)}; it has {', '.join(names)}")
