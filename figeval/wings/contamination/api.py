"""`figeval.contamination`, and the `Contamination` that it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from figeval import JSON, Column, Grid, Harness, OptionError, Result, Table
from figeval.api.runs import Task, given_options, long_work, model_name, read_task_files, task_names
from figeval.config import Folders, Names, Settings
from figeval.io.text import near
from figeval.io.validation import checked_arguments, names_in
from figeval.records.provenance import recorded_packages
from figeval.records.schema import ScoreRecord
from figeval.reporting.grid import EMPTY_CELL, UNRELIABLE_MARK, UNRELIABLE_NOTE
from figeval.wings.contamination.measurement import ContaminationConfig, measure
from figeval.wings.contamination.measures import MEASURES
from figeval.wings.contamination.record import LABEL, SHOWS, ContaminationRecord, FindingRecord, TaskFindings

if TYPE_CHECKING:
    from typing import Unpack

NUMBERS = {"value", "low", "high", "n", "clusters"}


class ContaminationOptions(TypedDict, total=False):
    """The flags of `figeval contamination` except tasks and model; `figeval contamination --help` describes each."""

    model_args: Settings
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
    names, guest_tasks = task_names(tasks)
    label, guest_models = model_name(model, name)
    arguments = given_options("figeval.contamination", options, ContaminationOptions.__annotations__)
    config, include = _config(names, label, arguments)
    with long_work(progress=progress) as observer:
        harness = Harness(include=include, tasks=guest_tasks, models=guest_models)
        return Contamination(*measure(config, harness, observer))


def _config(
    tasks: tuple[str, ...], model: str, options: dict[str, Any]
) -> tuple[ContaminationConfig, tuple[str | Path, ...]]:
    """Return the checked options, and the folders with further tasks. Raises `OptionError`."""
    for option, minimum in {"shards": 2, "permutations": 1, "limit": 1}.items():
        value = options.get(option)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < minimum):
            raise OptionError(f"{option}={value!r:.80}: give a whole number of at least {minimum}")
    tasks, files = read_task_files(tasks)
    include = (*options.pop("include_path", ()), *files)
    measures = options.pop("measures", tuple(MEASURES))
    measures = names_in(measures) if isinstance(measures, str) else tuple(measures)
    if unknown := [name for name in measures if name not in MEASURES]:
        raise OptionError(
            f"measures has {unknown[0]!r:.80}{near(unknown[0], MEASURES)}; the measures are {', '.join(MEASURES)}"
        )
    for option in ("run", "output_path"):
        if options.get(option) is not None:
            options[option] = Path(options[option])
    return ContaminationConfig(tasks=tasks, model=model, measures=measures or tuple(MEASURES), **options), include


class Contamination(Result):
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
        findings = {(each.task, finding.measure): finding for each in self.record.tasks for finding in each.findings}
        if (task, measure) not in findings:
            names = ", ".join(map(" of ".join, findings))
            raise OptionError(f"there is no {measure!r} of {task!r}; there are {names}")
        return findings[task, measure]

    @property
    def tables(self) -> list[Table[JSON]]:
        """One row per task and measure, and below it one for each number of which it is the difference.

        Columns: `task`, `measure`, `part` (missing for the measure itself), `value`, `low`, `high`, `floor` (the value
        where nothing can be remembered), `p`, `n`, `clusters`, `unavailable` (why there is no value).
        """
        return [Table(COLUMNS, [row for task in self.record.tasks for row in _rows(task)])]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as `figeval contamination --json` prints it."""
        return self.record.model_dump(mode="json")

    @property
    def grids(self) -> list[Grid]:
        """Tables, one for each task."""
        title = f"{self.record.model.name} on {{0.task}}, {{0.units}} clusters of {{0.n}} examples: {LABEL}"
        return [Table(COLUMNS, list(_rows(task)), title.format(task)).grid for task in self.record.tasks]

    def notes(self) -> Iterator[str]:
        """Yield what the numbers show, and why others are missing."""
        findings = [(task.task, finding) for task in self.record.tasks for finding in task.findings]
        for name in dict.fromkeys(finding.measure for _, finding in findings if finding.score is not None):
            yield f"{name}: {SHOWS[name]}"
        scores = (score for _, finding in findings for score in (finding.score, *finding.parts.values()))
        if any(not score.interval.reliable for score in scores if score is not None and score.low is not None):
            yield UNRELIABLE_NOTE
        yield from dict.fromkeys(f"{finding.measure}: {finding.note}" for _, finding in findings if finding.note)
        for task, finding in findings:
            if finding.unavailable:
                yield f"{task}, {finding.measure}: not available, {finding.unavailable}"
        yield f"for a paper: {self.statement()}"

    def statement(self) -> str:
        """Return sentences for a paper: what was measured with which result, and what that does not show."""
        version = recorded_packages(self.record.provenance).get("figeval", "")
        sentences = [_describe(task) for task in self.record.tasks]
        return (
            f"We measured with figeval {version} what {self.record.model.name} may remember of the test data. "
            f"{' '.join(sentences)} Such numbers are evidence, not proof: a low one does not show that the data are "
            "unknown to the model, and a high one may have other reasons."
        )

    def __repr__(self) -> str:
        tasks = ", ".join(task.task for task in self.record.tasks)
        return f"<figeval.Contamination of {self.record.model.name!r} on {tasks}: {LABEL}>"


def _rows(task: TaskFindings) -> Iterator[JSON]:
    """Yield a row for each finding of a task, and one for each of its parts."""
    for finding in task.findings:
        key = {"task": task.task, "measure": finding.measure}
        floor = None if finding.floor is None else finding.floor.value
        unavailable = finding.unavailable or None
        yield {**key, **_numbers(finding.score), "floor": floor, "p": finding.p, "unavailable": unavailable}
        for name, score in finding.parts.items():
            yield {**key, "part": name, **_numbers(score)}


def _describe(task: TaskFindings) -> str:
    """Return a sentence with the numbers of a task, and which could not be measured."""
    parts = []
    for finding in task.findings:
        if finding.score is None or finding.score.value is None:
            parts.append(f"{finding.measure} not measured ({finding.unavailable or finding.note or 'no value'})")
            continue
        low, high = finding.score.low, finding.score.high
        interval = "" if low is None or high is None else f" [{low:.3f}, {high:.3f}]"
        floor = finding.floor.value if finding.floor is not None else None
        chance = "" if floor is None else f" against {floor:.3f} where nothing can be remembered"
        p = "" if finding.p is None else f", p = {finding.p:.3g}"
        parts.append(f"{finding.measure} {finding.score.value:.3f}{interval}{chance}{p}")
    return f"{task.task} ({task.n} examples in {task.units} clusters): {'; '.join(parts)}."


def _numbers(score: ScoreRecord | None) -> JSON:
    if score is None:
        return {"label": "", "missing": "not available"}
    interval = str(score.interval)
    if score.low is not None and score.high is not None:
        interval = f"[{score.low:.3f}, {score.high:.3f}]{'' if score.interval.reliable else UNRELIABLE_MARK}"
    return {**score.model_dump(include=NUMBERS), "interval": interval, "label": LABEL, "missing": EMPTY_CELL}


def _number_or_nothing(form: str) -> Callable[[float | None], str]:
    return lambda value: "" if value is None else format(value, form)


COLUMNS: tuple[Column[JSON], ...] = (
    Column("task"),
    Column("measure"),
    Column("part"),
    Column(value=lambda row: f"  {row['part']}" if "part" in row else row["measure"], head="measure"),
    Column("value", "float64"),
    Column(
        value=lambda row: f"{row['value']:.3f}" if row.get("value") is not None else row["missing"],
        head="value",
        align="right",
    ),
    Column(value=lambda row: row.get("interval", ""), head="95 % interval", align="right"),
    Column("low", "float64"),
    Column("high", "float64"),
    Column("floor", "float64", head="floor", text=_number_or_nothing(".3f")),
    Column("p", "float64", head="p", text=_number_or_nothing(".3g")),
    Column("n", "Int64", head="n", text=_number_or_nothing("d")),
    Column("clusters", "Int64"),
    Column(value=lambda row: row["label"], head="", is_spare=True),
    Column("unavailable"),
)
