"""Published results, each with its paper, version and table, from `results/reference/<benchmark>.json`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from pydantic import TypeAdapter

from figeval.errors import RecordError
from figeval.jsonfile import read_json
from figeval.records.schema import Stored

RESULTS = "figeval.builtin.results"


class Published(Stored):
    """One result from a paper; shares are fractions, as figeval prints them. `note` is a caveat."""

    task: str
    metric: str
    model: str
    value: float
    source: str
    note: str = ""


def published(task: str | None = None) -> Iterator[Published]:
    """Yield the published results of a task, or all of them, in the order of the files."""
    rows = TypeAdapter(list[Published])
    for file in sorted((files(RESULTS) / "reference").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json"):
            found = rows.validate_python(read_json(file, RecordError))
            yield from (row for row in found if task in (None, row.task))
