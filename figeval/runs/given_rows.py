"""Predictions of another system as its file has them: rows with the id of an example, its task and a seed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from figeval.data.row_files import RowFile, UserRow
from figeval.errors import DataError
from figeval.io.text import one_line
from figeval.task_types.given import Given, without_decimals

FIELDS = ("id", "prediction", "scores", "task", "seed")
EXPECTED = "give a file with a row for each example: id and prediction"


@dataclass(frozen=True, slots=True)
class GivenRow:
    """Prediction of one example as a file gives it, with the file and the row."""

    where: str
    given: Given

    @property
    def is_empty(self) -> bool:
        """True if there is neither a prediction nor a score."""
        return _is_blank(self.given.value) and _is_blank(self.given.scores)


def _is_blank(value: Any) -> bool:
    """Return whether there is no value: null, a blank text, or NaN, which stands for an empty cell of a DataFrame."""
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, str) and not value.strip())
    )


def _plain(value: Any) -> Any:
    """Return a value of a program as JSON has it: arrays and scalars of numpy become lists and numbers, NA null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(element) for key, element in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if value is None or isinstance(value, str | int | float):
        return value
    return None if repr(value) == "<NA>" else str(value)


Rows: TypeAlias = dict[str, GivenRow]  # by the id of the example
Source: TypeAlias = Path | Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Predictions:
    """The predictions of one or several files.

    Attributes:
        sha256: digest of each file, by its name or by its task if each task has a file.
        rows: rows by seed (None without seeds), task and id; the task is empty in a file for the only task.
    """

    sha256: dict[str, str] = field(default_factory=dict)
    rows: dict[int | None, dict[str, Rows]] = field(default_factory=dict)

    def add(self, row: UserRow, task: str) -> None:
        """Add a row, whose task is `task` unless it is empty.

        Raises:
            DataError: the row lacks a field, or the example has a prediction already.
        """
        row.require("id")
        row.require("prediction", "scores", "score")
        seed, name = without_decimals(row.optional("seed")), row.optional("id")
        if _is_blank(row.value("id")):
            raise row.error("id", "is empty")
        if not isinstance(row.value("id"), str | int | float):
            raise row.error("id", f"must be a text or a number, not {row.value('id')!r:.80}")
        if isinstance(row.value("id"), float):
            name = without_decimals(name)
        try:
            number = int(seed) if seed else None
        except ValueError:
            raise row.error("seed", f"is {seed!r:.40}, not an integer") from None
        value, scores = row.value("prediction"), row.value("scores")
        scores = row.value("score") if scores is None else scores
        prediction = GivenRow(
            row.where, Given(None if _is_blank(value) else value, None if _is_blank(scores) else scores)
        )
        if task and row.optional("task") not in ("", task):
            raise row.error("task", f"is {row.optional('task')!r:.80} in the file for {task!r:.80}")
        task_rows = self.rows.setdefault(number, {}).setdefault(task or row.optional("task"), {})
        if (other := task_rows.setdefault(name, prediction)) is not prediction:
            raise row.error("id", f"is {name!r:.80}, which {other.where} has already; keep one prediction")

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds in ascending order; empty if the files have none.

        Raises:
            DataError: only some rows have a seed.
        """
        if None in self.rows and len(self.rows) > 1:
            first = next(iter(next(iter(self.rows[None].values())).values()))
            raise DataError(f"{first.where}: it has no seed, and other rows have one; give every row a seed, or none")
        return tuple(sorted(seed for seed in self.rows if seed is not None))


def read_predictions(sources: Mapping[str, Source], columns: Mapping[str, str]) -> Predictions:
    """Read predictions from files, or from rows that a program has.

    Args:
        sources: file or rows of each task; the key is empty if one source has the predictions of all tasks.
        columns: names of the columns in the sources, by our names.

    Raises:
        DataError: a file cannot be read, or a row is invalid.
    """
    predictions = Predictions()
    for task, source in sources.items():
        if isinstance(source, Path):
            file = RowFile(source, EXPECTED, columns)
            rows = file.rows()
        else:
            source = [_plain(row) for row in source]
            rows = _of_program(source, columns)
        empty = True
        for row in rows:
            empty = False
            predictions.add(row, task)
        if empty:
            raise DataError(f"{source if isinstance(source, Path) else 'predictions'}: there are no rows; {EXPECTED}")
        if isinstance(source, Path):
            name, digest = source.name, file.sha256()
        else:
            name, digest = "rows", hashlib.sha256(json.dumps(source, sort_keys=True).encode()).hexdigest()
        predictions.sha256[task or name] = digest
    return predictions


def _of_program(rows: Sequence[Any], columns: Mapping[str, str]) -> Iterator[UserRow]:
    """Yield the rows that a program has. Raises `DataError` for a row that is no mapping."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            cure = 'give mappings with id and prediction, such as frame.to_dict("records") of a DataFrame'
            raise DataError(f"row {number} is {one_line(repr(row), 80)}; {cure}")
        yield UserRow(number, f"row {number}", row, columns, "columns")
