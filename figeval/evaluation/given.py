"""Scoring of predictions that another system has made: a run whose answers come from a file instead of a model.

`read_predictions` reads the files. `score` checks every prediction against its example before anything is written, and
then does what a run does, so that rows, metrics, baselines, intervals and the folder are those of a run. An example
without a prediction is an empty answer, which is not a wrong one. If the file has a column `seed`, each seed is a run
in a subfolder, and `seeds.json` above them has the means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from figeval.config import RunConfig
from figeval.data.row_file import RowFile, UserRow
from figeval.errors import DataError, OptionError, RecordError, near
from figeval.evaluation.harness import Harness
from figeval.evaluation.plan import Plan, Planner, check_columns, check_temperature
from figeval.evaluation.run import Observer, carry_out, default_folder
from figeval.evaluation.task_metrics import check_metrics
from figeval.evaluation.training.seeds import scores_of, warnings_of
from figeval.evaluation.variants import chosen
from figeval.frontend import notice
from figeval.models.model import Model
from figeval.plugins import describe
from figeval.prompts import PromptContext
from figeval.records.predictions import form_problem
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord
from figeval.records.sweep import SEEDS, SeedsRecord, mean_of, write
from figeval.spec import TaskSpec
from figeval.spec.examples import read_corpus
from figeval.task_types.given import Given
from figeval.task_types.routes import Dialogue
from figeval.types import Example, Prediction

BACKEND, RUN = "predictions", "run.json"
FIELDS = ("id", "prediction", "scores", "task", "seed")
EXPECTED = "give a file with a row for each example: id and prediction"
NOT_AUGMENTED = {"add": "none"}  # a task file may ask for augmentation, which would change only what a model sees


# ---- the file --------------------------------------------------------------------------------------------------------


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
    return value is None or value != value or (isinstance(value, str) and not value.strip())  # noqa: PLR0124


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
        seed, name = row.optional("seed"), row.optional("id")
        if not name:
            raise row.error("id", "is empty")
        try:
            number = int(seed) if seed else None
        except ValueError:
            raise row.error("seed", f"is {seed!r:.40}, not an integer") from None
        value, scores = row.value("prediction"), row.value("scores")
        scores = row.value("score") if scores is None else scores
        own = GivenRow(row.where, Given(None if _is_blank(value) else value, None if _is_blank(scores) else scores))
        if task and row.optional("task") not in ("", task):
            raise row.error("task", f"is {row.optional('task')!r:.80} in the file for {task!r:.80}")
        known = self.rows.setdefault(number, {}).setdefault(task or row.optional("task"), {})
        if (other := known.setdefault(name, own)) is not own:
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
    found = Predictions()
    for task, source in sources.items():
        if isinstance(source, Path):
            rows = RowFile(source, EXPECTED, columns).rows()
        else:
            rows = (UserRow(n, f"row {n}", row, columns, "columns") for n, row in enumerate(source, 1))
        empty = True
        for row in rows:
            empty = False
            found.add(row, task)
        if empty:
            raise DataError(f"{source if isinstance(source, Path) else 'predictions'}: there are no rows; {EXPECTED}")
        if isinstance(source, Path):
            with source.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256")
        else:
            digest = hashlib.sha256(json.dumps(list(source), sort_keys=True, default=str).encode())
        found.sha256[task or (source.name if isinstance(source, Path) else "rows")] = digest.hexdigest()
    return found


# ---- the run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GivenModel:
    """The system that made the predictions, as the model of a run; it has no capabilities."""

    sha256: Mapping[str, str]

    def fingerprint(self) -> str:
        """Return the digests of the files."""
        return " ".join(self.sha256.values())


def score(config: RunConfig, given: Predictions, harness: Harness, observer: Observer) -> tuple[RunRecord, Path]:
    """Score predictions, or continue an interrupted scoring; return the record and its folder.

    With several seeds, it is the record of their means.

    Raises:
        FigevalError: a task, an example or a prediction does not fit, before anything is written; or what `run` raises.
    """
    tasks = chosen(config, harness)
    check_metrics(tasks, config, harness.metrics)
    config = replace(config, model_args={"sha256": given.sha256})
    place = config.output_path
    if place is not None and not config.fresh and (place / (RUN if given.seeds else SEEDS)).exists():
        has = "a run without seeds" if given.seeds else "runs of several seeds"
        raise RecordError(f"{place} contains {has}; choose another --output_path")
    found = {seed: _by_task(given.rows[seed], tasks, harness) for seed in given.seeds or (None,)}
    others = dict.fromkeys(name for rows in given.rows.values() for name in rows if name)
    if left_out := [name for name in others if name not in {task.name for task in tasks}]:
        notice(f"left out, since --tasks does not name them: predictions for {', '.join(left_out)}")
    if not given.seeds:
        return _run(config, harness, observer, found[None])
    place = place or default_folder(config, SEEDS)
    if config.fresh and place.exists():
        folder = RunFolder(place)
        with folder.locked():
            folder.put_aside()
        folder.predictions_file("x").parent.rmdir()  # only a single run has rows of its own
    runs, folders = {}, {}
    for seed in given.seeds:
        own = replace(config, model_args={**config.model_args, "seed": seed}, output_path=place / f"seed-{seed}")
        runs[seed], folders[str(seed)] = _run(own, harness, observer, found[seed])
    record = SeedsRecord(
        task=", ".join(config.tasks),
        model=config.model,
        seeds=[*runs],
        wanted=[*runs],
        runs={seed: folder.name for seed, folder in folders.items()},
        scores=scores_of(runs, folders),
        warnings=warnings_of(runs),
    )
    write(record, place / SEEDS)
    return mean_of(record, [*runs.values()]), place


def _by_task(rows: Mapping[str, Rows], tasks: Sequence[TaskSpec], harness: Harness) -> list[tuple[TaskSpec, Rows]]:
    """Return each task with its rows, all of which are checked.

    Raises:
        DataError: a row names no task or an unknown one, or a task has no rows; or what `check` raises.
    """
    names = [task.name for task in tasks]
    if "" in rows and (len(tasks) > 1 or len(rows) > 1):
        first = next(iter(rows[""].values()))
        raise DataError(
            f"{first.where}: it names no task; add a column `task`, or give the file of each task as TASK=FILE"
        )
    found = []
    for name, own in rows.items():
        if name and name not in names and name not in harness.catalogue.tasks:
            first = next(iter(own.values()))
            raise DataError(f"{first.where}: there is no task {name!r:.80}{near(name, names)}")
    for task in tasks:
        own = rows.get(task.name) or rows.get("", {})
        if not own:
            raise DataError(f"there are no predictions for {task.name}; add them, or leave it out of --tasks")
        if task.corpus is not None:
            own = placed(own, read_corpus(task, partial(harness.documents, task)).places)
        check(task, own, harness)
        found.append((task, own))
    return found


def placed(rows: Rows, places: Mapping[str, int]) -> Rows:
    """Return rows with the ids of documents replaced by their indexes, which are `places`; texts stay.

    Raises:
        DataError: a number is no id of the corpus.
    """

    def place(value: Any, row: GivenRow) -> Any:
        is_number = isinstance(value, int) or (isinstance(value, str) and value.strip().isdecimal())
        if is_number and str(value).strip() not in places:
            raise DataError(f"{row.where}: {value!r:.80} is not an id of the corpus ({len(places)} documents)")
        return places.get(str(value).strip(), value) if isinstance(value, str | int) else value

    found = {}
    for name, row in rows.items():
        value = row.given.parsed
        new = [place(one, row) for one in value] if isinstance(value, list) else place(value, row)
        found[name] = replace(row, given=replace(row.given, value=new))
    return found


def check(task: TaskSpec, rows: Rows, harness: Harness) -> None:
    """Check that every row belongs to an example and can be read.

    Raises:
        DataError: a row does not; the message names file and row, and says what to write.
    """
    ids = set()
    before: Prediction | None = None  # an answer that consists of scores, all of which are compared with one another
    for example in harness.examples(task):
        ids.add(example.id)
        made = prediction_of(task, rows, example)
        if made.value is not None or made.status != "ok":
            continue
        before = before or made
        if len(made.scores) != len(before.scores):
            raise DataError(
                f"{rows[example.id].where}: {example.id!r:.80} has {len(made.scores)} numbers and "
                f"{before.example_id!r:.80} has {len(before.scores)}; give all examples equally many"
            )
    for name, row in rows.items():
        if name not in ids:
            raise DataError(f"{row.where}: {task.name} has no example {name!r:.80}{near(name, ids)}")


def prediction_of(task: TaskSpec, rows: Rows, example: Example) -> Prediction:
    """Return the prediction for an example; it is an empty answer if the file has none.

    Raises:
        DataError: the prediction has another form than the task type asks for.
    """
    row, kind = rows.get(example.id), task.task_type
    if row is None or row.is_empty:
        return Prediction(example_id=example.id, value=None, status="empty")
    try:
        made = kind.given(example, row.given, task.labels)
        if problem := _problem(task, example, made):
            raise ValueError(problem)
    except ValueError as error:
        problem, cure, *_ = (*error.args, f"write {kind.given_form}")
        raise DataError(f"{row.where}: the prediction for {example.id!r:.80} is invalid: {problem}; {cure}") from error
    return made


def _problem(task: TaskSpec, example: Example, made: Prediction) -> str:
    """Return why a prediction is not an answer to the example or cannot be stored, or an empty text."""
    try:
        wrong = made.value is not None and task.task_type.value_problem(made.value, example, task.labels)
    except Exception as error:  # a plugin's type need not expect the values of a file
        return f"{made.value!r:.80} cannot be an answer ({describe(error)})"
    return wrong or form_problem(task.task_type, example, made)


def dialogue(task: TaskSpec, rows: Rows, example: Example, _context: PromptContext) -> Dialogue:
    """Answer an example from the file, without any request."""
    yield from ()
    return prediction_of(task, rows, example)


def _run(
    config: RunConfig, harness: Harness, observer: Observer, found: Sequence[tuple[TaskSpec, Rows]]
) -> tuple[RunRecord, Path]:
    """Score the predictions of one system, or of one of its seeds."""
    model = Model(config.model, BACKEND, GivenModel(config.model_args["sha256"]), config.model_args)
    plans = list(_plans(config, harness, model, found))
    check_temperature([plan.route for plan in plans], config)
    check_columns(config, [plan.available for plan in plans])
    return carry_out(config, harness, observer, (model, plans, []))


def _plans(config: RunConfig, harness: Harness, model: Model, found: Sequence[tuple[TaskSpec, Rows]]) -> Iterator[Plan]:
    """Yield the plan of each task; probes and prompts would be other predictions, so they are left out."""
    planner = Planner(replace(config, augment=NOT_AUGMENTED), harness, model)
    for task, rows in found:
        first = next(harness.examples(task))
        route = task.task_type.given_route(partial(dialogue, task, rows), first)
        plan = next(planner.plans(task, route))
        absent = sum(example.id not in rows or rows[example.id].is_empty for example in plan.examples())
        what = "has no prediction; it counts as an empty answer, not as a wrong one"
        if absent > 1:
            what = "have no prediction; they count as empty answers, not as wrong ones"
        remark = f"{absent} of {plan.n} examples {what}"
        yield replace(plan, remarks=(remark,)) if absent else plan


def name_of(sources: Mapping[str, Source], name: str | None) -> str:
    """Return the name of the system: the given one, or that of its only file.

    Raises:
        OptionError: the name is blank, or there are several files and no name.
    """
    stems = {source.stem if isinstance(source, Path) else "" for source in sources.values()}
    if name is None and len(stems) == 1:
        name = stems.pop()
    if name is None or not name.strip():
        raise OptionError("the predictions need a name for tables; give that of the system that made them with --name")
    return name
