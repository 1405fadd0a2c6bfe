"""Published results, each with its paper, version and table, from `results/reference/<benchmark>.json`."""

from __future__ import annotations

from collections.abc import Container, Iterator
from importlib.resources import files

from pydantic import TypeAdapter, model_validator

from figeval.errors import RecordError
from figeval.io.json_files import read_json
from figeval.records.schema import Stored

RESULTS = "figeval.builtin.results"


class Published(Stored):
    """One number from a paper; shares are fractions, as figeval prints them.

    Attributes:
        task: the task that measures the same, or "" if figeval has none or the metric is not among its own.
        part: what the number is about if there is no task: a part of the data, judgements of people.
        metric: name of a metric of the task; of a part, any name.
        model: the row of the printed table.
        value: the number; unlike shares, counts and lengths are as printed.
        source: paper, version, table.
        note: a caveat.
        doubt: one sentence on why the printed number cannot be right; tables have it as a footnote.
    """

    task: str = ""
    part: str = ""
    metric: str
    model: str
    value: float
    source: str
    note: str = ""
    doubt: str = ""

    @model_validator(mode="after")
    def _is_about_one_thing(self) -> Published:
        if bool(self.task) == bool(self.part):
            raise ValueError("a number is about a task or a part, and not about both")
        return self

    @property
    def about(self) -> str:
        """Name of the task, or of the part."""
        return self.task or self.part


def published(task: str | None = None) -> Iterator[Published]:
    """Yield the published results of a task, or of all tasks, in the order of the files."""
    return (row for row in printed() if row.task and task in (None, row.task))


def printed(sources: Container[str] | None = None) -> Iterator[Published]:
    """Yield all published numbers, or those of some tables, in the order of the files; some are not about a task."""
    rows = TypeAdapter(list[Published])
    for file in sorted((files(RESULTS) / "reference").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".json"):
            numbers = rows.validate_python(read_json(file, RecordError))
            yield from (row for row in numbers if sources is None or row.source in sources)
