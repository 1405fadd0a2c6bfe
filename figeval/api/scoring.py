"""`figeval.score`: predictions of another system become a run, as the command `score` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from figeval.api.runs import Run, Task, run_config, task_names
from figeval.config import RunOptions, ScoreOptions
from figeval.errors import OptionError
from figeval.io import frontend
from figeval.io.text import near
from figeval.io.validation import checked_arguments
from figeval.reporting.progress import open_display
from figeval.runs.given import name_of
from figeval.runs.given import score as score_predictions
from figeval.runs.given_rows import FIELDS, read_predictions
from figeval.runs.harness import Harness

if TYPE_CHECKING:
    from typing import Unpack


Predictions: TypeAlias = str | Path | Sequence[Mapping[str, Any]]


@checked_arguments
def score(
    tasks: Task | Sequence[Task],
    predictions: Predictions | Mapping[str, Predictions],
    *,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    progress: bool = False,
    **options: Unpack[ScoreOptions],
) -> Run:
    """Score predictions that another system has made; the result is a run like any other.

    Args:
        tasks: names of tasks and suites, and tasks made with `@figeval.task`, as for `figeval.run`.
        predictions: file (JSON Lines, CSV, TSV, JSON, Parquet, Arrow, Excel) or address (`a.xlsx#Sheet1`,
            `hub:OWNER/NAME#SPLIT`) with a row for each example: `id`, `prediction`, optionally `scores`, with several
            tasks `task`, with several seeds of the system `seed`; or such rows as a list of mappings, e.g.
            `frame.to_dict("records")`. Or either of them for each task, by the task's name.
        name: name of the system in records and tables; by default that of the file.
        columns: names of these columns in the file, if they differ, e.g. `{"prediction": "answer"}`.
        progress: print the progress on stderr.
        options: the flags of `figeval score` under the same names, with `baselines=False` for `--no_baselines`.

    Returns:
        The run; with a column `seed`, the means over the runs of all seeds.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has an invalid value.
        DataError: a prediction has another form, or belongs to no example.
        FigevalError: any other error that `figeval.run` raises.

    Example:
        ```python
        done = figeval.score("mini_pairs", "predictions.jsonl", name="my system")
        done.scores[["task", "metric", "value", "low", "high"]]
        ```
    """
    names, task_objects = task_names(tasks)
    for option in options:
        if option not in ScoreOptions.__annotations__:
            raise TypeError(f"figeval.score() has no option {option!r}{near(option, ScoreOptions.__annotations__)}")
    for column in columns or {}:
        if column not in FIELDS:
            raise OptionError(f"columns has {column!r:.80}{near(column, FIELDS)}; the columns are {', '.join(FIELDS)}")
    given_by_task = predictions if isinstance(predictions, Mapping) else {"": predictions}
    sources = {task: Path(source) if isinstance(source, str) else source for task, source in given_by_task.items()}
    config = run_config(names, name_of(sources, name), cast("RunOptions", options))
    with frontend.python_program(watched=progress):
        harness = Harness(include=config.include_path, tasks=task_objects)
        predictions_by_task = read_predictions(sources, columns or {})
        observer = open_display(progress=progress)
        with observer.live():
            return Run(*score_predictions(config, predictions_by_task, harness, observer))
