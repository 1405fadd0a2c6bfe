"""`figeval.contamination`, and the `Contamination` that it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from figeval import frontend
from figeval.api.frames import data_frame
from figeval.api.runs import Folders, Names, Task, model_name, names_in, task_names
from figeval.errors import OptionError, near
from figeval.io.validation import checked_arguments
from figeval.models.progress import listening
from figeval.records.schema import ScoreRecord
from figeval.reporting.grid import Grid, page, plain
from figeval.reporting.progress import MeasureProgress, display_on, stderr
from figeval.reporting.table import FEW, FEW_NOTE
from figeval.runs.harness import Guests, Harness
from figeval.types import JSON
from figeval.wings.contamination.measures import MEASURES
from figeval.wings.contamination.measuring import ContaminationConfig, measure
from figeval.wings.contamination.record import LABEL, SHOWS, ContaminationRecord, FindingRecord, TaskFindings

if TYPE_CHECKING:
    from typing import Unpack

    import pandas

HEAD = ("measure", "value", "95 % interval", "floor", "p", "n", "")

COLUMNS = {
    "task": "string",
    "measure": "string",
    "part": "string",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "floor": "float64",
    "p": "float64",
    "n": "Int64",
    "clusters": "Int64",
    "unavailable": "string",
}
NUMBERS = {"value", "low", "high", "n", "clusters"}


class ContaminationOptions(TypedDict, total=False):
    """The flags of `figeval contamination` except tasks and model; `figeval contamination --help` describes each."""

    model_args: Mapping[str, Any]
    limit: int | None
    measures: Names
    shards: int | None
    permutations: int
    run: str | Path | None
    seed: int
    device: str | None
    output_path: str | Path | None
    include_path: Folders


@checked_arguments
def contamination(
    tasks: Task | Sequence[Task],
    model: object,
    *,
    name: str | None = None,
    progress: bool = False,
    **options: Unpack[ContaminationOptions],
) -> Contamination:
    """Measure what a language model may remember of benchmarks. Every number is evidence, not proof.

    Numbers of the model are stored as they come, so the same call continues one that was interrupted.

    Args:
        tasks: names of tasks and suites, and tasks made with `@figeval.task`, as for `figeval.run`.
        model: a name, a folder or a hub id, or an object with `loglikelihood` or `generate`.
        name: name of a model object in records and tables; by default its class.
        progress: show the cost of each measure on stderr before it begins, and its progress.
        options: the flags of `figeval contamination` under the same names.

    Raises:
        TypeError: there is no such option.
        OptionError: an option has an invalid value.
        FigevalError: an unknown name, a model that cannot be used, a run of another model or of other data …

    Example:
        ```python
        print(figeval.contamination("mini_proverbs", "smollm2", measures="recall"))
        ```
    """
    names, made = task_names(tasks)
    called, objects = model_name(model, name)
    for option in options:
        if option not in ContaminationOptions.__annotations__:
            known = ContaminationOptions.__annotations__
            raise TypeError(f"figeval.contamination() has no option {option!r}{near(option, known)}")
    config, include = _config(names, called, dict(options))
    with frontend.python_program(watched=progress):
        observer = MeasureProgress(display_on(stderr() if progress else None))
        with observer.live(), listening(observer):
            return Contamination(*measure(config, Harness(include=include, guests=Guests(made, objects)), observer))


def _config(
    tasks: tuple[str, ...], model: str, given: dict[str, Any]
) -> tuple[ContaminationConfig, tuple[str | Path, ...]]:
    """Return the checked options, and the folders with further tasks. Raises `OptionError`."""
    for option, least in {"shards": 2, "permutations": 1, "limit": 1}.items():
        value = given.get(option)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
            raise OptionError(f"{option}={value!r:.80}: give a whole number of at least {least}")
    include = given.pop("include_path", ())
    include = (include,) if isinstance(include, str | Path) else tuple(include)
    wanted = given.pop("measures", tuple(MEASURES))
    wanted = names_in(wanted) if isinstance(wanted, str) else tuple(wanted)
    if unknown := [one for one in wanted if one not in MEASURES]:
        raise OptionError(
            f"measures has {unknown[0]!r:.80}{near(unknown[0], MEASURES)}; the measures are {', '.join(MEASURES)}"
        )
    for place in ("run", "output_path"):
        if given.get(place) is not None:
            given[place] = Path(given[place])
    return ContaminationConfig(tasks=tasks, model=model, measures=wanted or tuple(MEASURES), **given), include


class Contamination:
    """The result of `figeval.contamination` for some tasks: evidence, not proof.

    A notebook shows it as the tables that `figeval contamination` prints; `print` prints the same as text.

    Attributes:
        record: the content of `contamination.json`.
        path: folder of the record.
    """

    label = LABEL

    def __init__(self, record: ContaminationRecord, path: Path) -> None:
        self.record = record
        self.path = path

    def finding(self, task: str, measure: str) -> FindingRecord:
        """Return the finding of a measure of a task. Raises `OptionError` if there is none."""
        found = {(one.task, own.measure): own for one in self.record.tasks for own in one.findings}
        if (task, measure) not in found:
            raise OptionError(f"there is no {measure!r} of {task!r}; there are {', '.join(map(' of '.join, found))}")
        return found[task, measure]

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per task and measure, and below it one for each number of which it is the difference.

        Columns: `task`, `measure`, `part` (missing for the measure itself), `value`, `low`, `high`, `floor` (the value
        where nothing can be remembered), `p`, `n`, `clusters`, `unavailable` (why there is no value).

        Raises:
            FigevalError: pandas is not installed.
        """
        return data_frame((row for task in self.record.tasks for row in _rows(task)), COLUMNS)

    def to_dict(self) -> JSON:
        """Return the record as `figeval contamination --json` prints it."""
        return self.record.model_dump(mode="json")

    def grids(self) -> list[Grid]:
        """Return the tables, one for each task."""
        return [self._grid(task) for task in self.record.tasks]

    def notes(self) -> Iterator[str]:
        """Yield what the numbers show, and why others are missing."""
        every = [(task.task, one) for task in self.record.tasks for one in task.findings]
        for name in dict.fromkeys(one.measure for _, one in every if one.score is not None):
            yield f"{name}: {SHOWS[name]}"
        scores = (score for _, one in every for score in (one.score, *one.parts.values()) if score is not None)
        if any(score.low is not None and not score.interval.reliable for score in scores):
            yield FEW_NOTE
        yield from dict.fromkeys(f"{one.measure}: {one.note}" for _, one in every if one.note)
        yield from (
            f"{task}, {one.measure}: not available, {one.unavailable}" for task, one in every if one.unavailable
        )

    def _grid(self, task: TaskFindings) -> Grid:
        rows: list[tuple[str, ...]] = []
        for one in task.findings:
            if one.score is None:
                rows.append((one.measure, "not available", "", "", "", "", ""))
                continue
            rows.append(_row(one.measure, one.score, one))
            rows += [_row(f"  {name}", score) for name, score in one.parts.items()]
        title = f"{self.record.model.name} on {task.task}, {task.units} clusters of {task.n} examples: {LABEL}"
        return Grid(HEAD, rows, title, right=HEAD[1:-1], spare=("",))

    def __str__(self) -> str:
        return plain(self.grids(), self.notes())

    def __repr__(self) -> str:
        tasks = ", ".join(task.task for task in self.record.tasks)
        return f"<figeval.Contamination of {self.record.model.name!r} on {tasks}: {LABEL}>"

    def _repr_html_(self) -> str:
        return page(self.grids(), self.notes())


def _rows(task: TaskFindings) -> Iterator[JSON]:
    """Yield the rows of a task in a DataFrame."""
    for one in task.findings:
        about = {"task": task.task, "measure": one.measure, "unavailable": one.unavailable or None, "p": one.p}
        if one.floor is not None:
            about["floor"] = one.floor.value
        yield about | ({} if one.score is None else one.score.model_dump(include=NUMBERS))
        for name, score in one.parts.items():
            yield {"task": task.task, "measure": one.measure, "part": name, **score.model_dump(include=NUMBERS)}


def _row(name: str, score: ScoreRecord, finding: FindingRecord | None = None) -> tuple[str, ...]:
    """Return the cells of a number."""
    few = "" if score.interval.reliable else FEW
    none = score.low is None or score.high is None
    interval = str(score.interval) if none else f"[{score.low:.3f}, {score.high:.3f}]{few}"
    below = None if finding is None or finding.floor is None else finding.floor.value
    floor = "" if below is None else f"{below:.3f}"
    p = "" if finding is None or finding.p is None else f"{finding.p:.3g}"
    value = "–" if score.value is None else f"{score.value:.3f}"
    return (name, value, interval, floor, p, str(score.n), LABEL)
