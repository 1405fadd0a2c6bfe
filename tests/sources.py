"""Rows of a source such as `epic:retrieval_all`, as a task with this source reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figeval import Harness, TaskSpec

Row = dict[str, Any]


class Source:
    """A source with the upstream files, or with those in `folder`; a file in its place is what every path leads to."""

    def __init__(self, reference: str, folder: Path | None = None) -> None:
        fields = {"id": "row.id", "left": "''", "right": "''", "label": "'a'"}
        keys = {"name": "source", "type": "pairs", "labels": ["a", "b"], "data": {"test": reference}, "fields": fields}
        self._task = TaskSpec.model_validate(keys)
        fetch = None if folder is None else lambda _benchmark, path: folder if folder.is_file() else folder / path
        self._harness = Harness(fetch=fetch)

    def __iter__(self) -> Iterator[Row]:
        return self._harness.rows(self._task, "test")

    @property
    def notes(self) -> dict[str, Any]:
        """What the reader notes of the rows that have been read."""
        return self._harness.notes(self._task)


def read_rows(reference: str, folder: Path | None = None) -> list[Row]:
    """Return the rows of a source; see `Source` for `folder`."""
    return list(Source(reference, folder))
