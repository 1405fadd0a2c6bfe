"""`figeval.difficulty`, and the `Difficulty` that it returns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from shlex import join
from typing import TYPE_CHECKING, Any

from figeval.api.frames import data_frame
from figeval.api.runs import Runs, run_paths
from figeval.errors import OptionError
from figeval.io.text import counted, csv_cell, one_line, shown_json
from figeval.io.validation import checked_arguments
from figeval.reporting.grid import Grid, page, plain
from figeval.wings.comparison.difficulty import TaskDifficulty
from figeval.wings.comparison.difficulty import difficulty as difficulty_of

if TYPE_CHECKING:
    import pandas

HEAD = ("task", "n", "models", "nobody", "expected", "everybody", "expected", "candidates")
COLUMNS = {
    "task": "string",
    "id": "string",
    "cluster": "string",
    "difficulty": "float64",
    "answered": "Int64",
    "right": "Int64",
    "gold": "object",
    "common_error": "object",
    "candidate": "bool",
}
PAIR = 2
LISTED = 10  # candidates that are listed for each task


@checked_arguments
def difficulty(*runs: Runs, metric: str = "acc") -> Difficulty:
    """Say how difficult the examples of a task are for several models, and which labels may be wrong.

    Args:
        runs: at least two runs or their folders, one by one or as a list. The values of a folder of several seeds are
            averaged.
        metric: a mean over examples with values from 0 to 1.

    Raises:
        OptionError: an argument has another type, or there are fewer than two runs.
        RecordError: a run or its predictions are missing, the runs have no task in common, or none has the metric, or a
            task has other examples in one of them.

    Example:
        ```python
        found = figeval.difficulty("results/runs/minilm", "results/runs/smollm2", "results/runs/tfidf").to_frame()
        found[found["candidate"]]
        ```
    """
    places = [place for one in runs for place in run_paths(one)]
    if len(places) < PAIR:
        raise OptionError("give at least two runs, one by one or as a list")
    return Difficulty(tuple(difficulty_of(places, metric)), metric)


@dataclass(frozen=True, slots=True)
class Difficulty:
    """Difficulty of the examples of some tasks, as `figeval.difficulty` returns it.

    A notebook shows it as the table that `figeval difficulty` prints; `print` prints the same as text.

    Attributes:
        tasks: the examples and counts of each task.
        metric: the metric that says what is right.
    """

    tasks: tuple[TaskDifficulty, ...]
    metric: str

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per task and example, the most difficult first.

        Columns: `task`, `id`, `cluster`, `difficulty` (1 minus the mean value), `answered` and `right` (numbers of
        models), `gold`, `common_error` (the wrong answer that all models gave), and `candidate` (whether the label may
        be wrong).

        Raises:
            FigevalError: pandas is not installed.
        """
        rows = (
            {"task": one.task, **asdict(item), "candidate": item.common_error is not None}
            for one in self.tasks
            for item in one.items
        )
        return data_frame(rows, COLUMNS)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return all numbers and examples as `figeval difficulty --json` prints them."""
        return [asdict(one) for one in self.tasks]

    def to_csv(self) -> str:
        """Return a line for each example, as `figeval difficulty --output` writes them."""
        lines = io.StringIO()
        writer = csv.writer(lines)
        writer.writerow([name for name in COLUMNS if name != "candidate"])
        for one in self.tasks:
            for item in one.items:
                answers = ("" if value is None else _shown(value) for value in (item.gold, item.common_error))
                numbers = (item.difficulty, item.answered, item.right)
                writer.writerow(
                    (*map(csv_cell, (one.task, item.id, item.cluster or "")), *numbers, *map(csv_cell, answers))
                )
        return lines.getvalue()

    @property
    def grids(self) -> list[Grid]:
        """The table that the command line prints."""
        rows = [
            (
                one.task,
                str(len(one.items)),
                str(len(one.models)),
                str(one.nobody),
                f"{one.nobody_expected:.1f}",
                str(one.everybody),
                f"{one.everybody_expected:.1f}",
                str(len(one.candidates)),
            )
            for one in self.tasks
        ]
        return [Grid(HEAD, rows, f"{self.metric}: examples by difficulty", right=HEAD[1:])]

    def notes(self) -> Iterator[str]:
        """Yield the lines below the table: the candidates of each task, and what was left out."""
        for one in self.tasks:
            for item in one.candidates[:LISTED]:
                said, gold = _shown(item.common_error), _shown(item.gold)
                yield f"{one.task} {item.id}: all {item.answered} models answer {said}, gold is {gold}"
            if (more := len(one.candidates) - LISTED) > 0:
                yield f"{one.task}: {more} more; --output lists all"
            if items := (one.candidates or [item for item in one.items if not item.right])[:LISTED]:
                ids = (part for item in items for part in ("--id", one_line(item.id)))
                which = "these" if one.candidates else "the hardest"
                yield f"{one.task}: to look at {which}, run figeval preview {join((one.of, *ids))}"
            if one.unanswered:
                yield f"{one.task}: {counted(one.unanswered, 'example')} without an answer from some model"
            if one.uninformed:
                names = ", ".join(map(one_line, one.uninformed))
                yield f"{one.task}: no candidates from models no better than the most common right answer: {names}"

    def __str__(self) -> str:
        return plain(self.grids, self.notes())

    def __repr__(self) -> str:
        tasks = ", ".join(one.task for one in self.tasks)
        return f"<figeval.Difficulty of {tasks} for {len(self.tasks[0].models)} models by {self.metric}>"

    def _repr_html_(self) -> str:
        return page(self.grids, self.notes())


def _shown(answer: object) -> str:
    """Return an answer as JSON in one line."""
    return shown_json(json.dumps(answer, ensure_ascii=False))
