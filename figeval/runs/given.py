"""Scoring of predictions that another system has made: a run whose answers come from a file instead of a model.

`given_rows` reads the files. `score` checks every prediction against its example before anything is written, and then
does what a run does, so that rows, metrics, baselines, intervals and the folder are those of a run. An example without
a prediction is an empty answer, which is not a wrong one. If the file has a column `seed`, each seed is a run in a
subfolder, and `seeds.json` above them has the means. `write_template` writes a file to fill in.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from figeval.config import RunConfig
from figeval.errors import DataError, OptionError, RecordError
from figeval.io.files import cure, replace_text
from figeval.io.frontend import notice
from figeval.io.observer import Observer
from figeval.io.text import csv_cell, near, one_line
from figeval.models.model import Model
from figeval.plugins import describe
from figeval.prompts import PromptContext
from figeval.records.predictions import form_problem
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord
from figeval.records.sweep import SEEDS, SeedsRecord, mean_of, write
from figeval.runs.given_rows import GivenRow, Predictions, Rows, Source
from figeval.runs.harness import Harness
from figeval.runs.limits import check_columns
from figeval.runs.plan import Plan, Planner
from figeval.runs.run import carry_out, default_folder
from figeval.runs.seeds import scores_of, warnings_of
from figeval.runs.task_metrics import check_metrics
from figeval.runs.task_settings import refuse_unused_settings
from figeval.runs.variants import chosen_tasks
from figeval.spec import TaskSpec
from figeval.spec.survey import Portion, survey
from figeval.task_types.given import without_decimals
from figeval.task_types.routes import Dialogue
from figeval.types import Example, Prediction

BACKEND, RUN = "predictions", "run.json"
NOT_AUGMENTED = {"add": "none"}  # a task file may ask for augmentation, which would change only what a model sees


@dataclass(frozen=True, slots=True)
class GivenModel:
    """The system that made the predictions, as the model of a run; it has no capabilities."""

    sha256: Mapping[str, str]

    def fingerprint(self) -> str:
        """Return the digests of the files."""
        return " ".join(self.sha256.values())


def score(config: RunConfig, predictions: Predictions, harness: Harness, observer: Observer) -> tuple[RunRecord, Path]:
    """Score predictions, or continue an interrupted scoring; return the record and its folder.

    With several seeds, it is the record of their means.

    Raises:
        FigevalError: a task, an example or a prediction does not fit, before anything is written; or what `run` raises.
    """
    tasks = chosen_tasks(config, harness)
    check_metrics(tasks, config, harness.metrics)
    config = replace(config, model_args={"sha256": predictions.sha256})
    output_folder = config.output_path
    if (
        output_folder is not None
        and not config.fresh
        and (output_folder / (RUN if predictions.seeds else SEEDS)).exists()
    ):
        has = "a run without seeds" if predictions.seeds else "runs of several seeds"
        raise RecordError(f"{output_folder} contains {has}; choose another --output_path")
    rows_by_seed = {seed: _by_task(predictions.rows[seed], tasks, harness) for seed in predictions.seeds or (None,)}
    task_names = dict.fromkeys(name for rows in predictions.rows.values() for name in rows if name)
    if left_out := [name for name in task_names if name not in {task.name for task in tasks}]:
        notice(f"left out, since --tasks does not name them: predictions for {', '.join(left_out)}")
    if not predictions.seeds:
        return _run(config, harness, observer, rows_by_seed[None])
    output_folder = output_folder or default_folder(config, SEEDS)
    if config.fresh and output_folder.exists():
        folder = RunFolder(output_folder)
        with folder.locked():
            folder.put_aside()
        folder.predictions_file("x").parent.rmdir()  # only a single run has rows of its own
    runs, folders = {}, {}
    for seed in predictions.seeds:
        seed_config = replace(
            config, model_args={**config.model_args, "seed": seed}, output_path=output_folder / f"seed-{seed}"
        )
        runs[seed], folders[str(seed)] = _run(seed_config, harness, observer, rows_by_seed[seed])
    record = SeedsRecord(
        task=", ".join(config.tasks),
        model=config.model,
        seeds=[*runs],
        wanted=[*runs],
        runs={seed: folder.name for seed, folder in folders.items()},
        scores=scores_of(runs, folders),
        warnings=warnings_of(runs),
    )
    write(record, output_folder / SEEDS)
    return mean_of(record, [*runs.values()]), output_folder


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
    task_rows = []
    for name, predictions in rows.items():
        if name and name not in names and name not in harness.catalogue.tasks:
            first = next(iter(predictions.values()))
            raise DataError(f"{first.where}: there is no task {name!r:.80}{near(name, names)}")
    for task in tasks:
        predictions = rows.get(task.name) or rows.get("", {})
        if all(row.is_empty for row in predictions.values()):
            detail = f"; all {len(predictions)} rows are empty" if predictions else ""
            raise DataError(f"there are no predictions for {task.name}{detail}; add them, or leave it out of --tasks")
        if task.corpus is not None:
            predictions = documents_to_indexes(predictions, harness.corpus(task).places)
        check(task, predictions, harness)
        task_rows.append((task, predictions))
    return task_rows


def documents_to_indexes(rows: Rows, indexes: Mapping[str, int]) -> Rows:
    """Return rows with the ids of documents replaced by their `indexes`; texts stay.

    Raises:
        DataError: a number is no id of the corpus.
    """

    def index_of(value: Any, row: GivenRow) -> Any:
        if not isinstance(value, str | int | float):
            return value
        text = str(value).strip()
        text = text if text in indexes else without_decimals(text)
        if text not in indexes and (text.isdecimal() or not isinstance(value, str)):
            raise DataError(f"{row.where}: {value!r:.80} is not an id of the corpus ({len(indexes)} documents)")
        return indexes.get(text, value)

    indexed_rows = {}
    for name, row in rows.items():
        value = row.given.parsed
        new = [index_of(document, row) for document in value] if isinstance(value, list) else index_of(value, row)
        indexed_rows[name] = replace(row, given=replace(row.given, value=new))
    return indexed_rows


def check(task: TaskSpec, rows: Rows, harness: Harness) -> None:
    """Check that every row belongs to an example and can be read.

    Raises:
        DataError: a row does not; the message names file and row, and says what to write.
    """
    ids: dict[str, None] = {}  # as the file writes them
    before: Prediction | None = None  # an answer that consists of scores, all of which are compared with one another
    for example in harness.examples(task):
        name = example.id if example.id in rows else csv_cell(example.id)
        ids[name] = None
        prediction = prediction_of(task, rows, example)
        if prediction.value is not None or prediction.status != "ok":
            continue
        before = before or prediction
        if len(prediction.scores) != len(before.scores):
            raise DataError(
                f"{rows[name].where}: {example.id!r:.80} has {len(prediction.scores)} numbers and "
                f"{before.example_id!r:.80} has {len(before.scores)}; give all examples equally many"
            )
    if unknown := [row_id for row_id in rows if row_id not in ids]:
        first, n_more = unknown[0], len(unknown) - 1
        remark = f" ({n_more} more of {len(rows)} ids are unknown)" if n_more else ""
        raise DataError(
            f"{rows[first].where}: {task.name} has no example {first!r:.80}{remark}; its ids are like "
            f"{next(iter(ids))!r:.80}, and `figeval score --tasks {task.name} --write_template FILE` writes all of them"
            f"{near(first, ids)}"
        )


def _row_of(example: Example, rows: Rows) -> GivenRow | None:
    """Return the row of an example, whose id may be written as `csv_cell` writes it for spreadsheets."""
    return rows.get(example.id) or rows.get(csv_cell(example.id))


def prediction_of(task: TaskSpec, rows: Rows, example: Example) -> Prediction:
    """Return the prediction for an example; it is an empty answer if the file has none.

    Raises:
        DataError: the prediction has another form than the task type asks for.
    """
    row, kind = _row_of(example, rows), task.task_type
    if row is None or row.is_empty:
        return Prediction(example_id=example.id, value=None, status="empty")
    try:
        prediction = kind.given(example, row.given, task.labels)
        if problem := _problem(task, example, prediction):
            raise ValueError(problem)
    except ValueError as error:
        problem, cure, *_ = (*error.args, f"write {form_of(task)}")
        raise DataError(f"{row.where}: the prediction for {example.id!r:.80} is invalid: {problem}; {cure}") from error
    return prediction


def form_of(task: TaskSpec) -> str:
    """Return what to write as a prediction for an example of the task, in words."""
    if task.corpus is not None:
        return "the ids or the texts of documents in a list, the best first"
    return task.task_type.given_form


def _problem(task: TaskSpec, example: Example, prediction: Prediction) -> str:
    """Return why a prediction is not an answer to the example or cannot be stored, or an empty text."""
    try:
        wrong = prediction.value is not None and task.task_type.value_problem(prediction.value, example, task.labels)
    except Exception as error:  # a plugin's type need not expect the values of a file
        return f"{prediction.value!r:.80} cannot be an answer ({describe(error)})"
    return wrong or form_problem(task.task_type, example, prediction)


def dialogue(task: TaskSpec, rows: Rows, example: Example, _context: PromptContext) -> Dialogue:
    """Answer an example from the file, without any request."""
    yield from ()
    return prediction_of(task, rows, example)


def _run(
    config: RunConfig, harness: Harness, observer: Observer, task_rows: Sequence[tuple[TaskSpec, Rows]]
) -> tuple[RunRecord, Path]:
    """Score the predictions of one system, or of one of its seeds."""
    model = Model(config.model, BACKEND, GivenModel(config.model_args["sha256"]), config.model_args)
    plans = list(_plans(config, harness, model, task_rows))
    refuse_unused_settings([(plan.task, plan.route) for plan in plans], config, harness)
    check_columns(config, [plan.available for plan in plans])
    return carry_out(config, harness, observer, (model, plans, []))


def _plans(
    config: RunConfig, harness: Harness, model: Model, task_rows: Sequence[tuple[TaskSpec, Rows]]
) -> Iterator[Plan]:
    """Yield the plan of each task; probes and prompts would be other predictions, so they are left out."""
    planner = Planner(replace(config, augment=NOT_AUGMENTED), harness, model)
    for task, rows in task_rows:
        first = next(harness.examples(task))
        route = task.task_type.given_route(partial(dialogue, task, rows), first)
        plan = next(planner.plans(task, route))
        example_rows = (_row_of(example, rows) for example in plan.examples())
        absent = sum(row is None or row.is_empty for row in example_rows)
        predicate = "has no prediction; it counts as an empty answer, not as a wrong one"
        if absent > 1:
            predicate = "have no prediction; they count as empty answers, not as wrong ones"
        remark = f"{absent} of {plan.n} examples {predicate}"
        yield replace(plan, remarks=(*plan.remarks, remark)) if absent else plan


def name_of(sources: Mapping[str, Source], name: str | None) -> str:
    """Return the name of the system: the given one, or that of its only file.

    Raises:
        OptionError: the name is blank, or there are several files and no name.
    """
    stems = {_stem(source) if isinstance(source, Path) else "" for source in sources.values()}
    if name is None and len(stems) == 1:
        name = stems.pop()
    if name is None or not one_line(name):
        raise OptionError("the predictions need a name for tables; give that of the system that made them with --name")
    return name


def _stem(source: Path) -> str:
    """Return the name of a file, or that in an address such as `parquet:FILE`, without its suffix."""
    return source.stem if source.exists() else Path(source.name.rpartition(":")[2]).stem


SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".jsonl", ".json")


@dataclass(frozen=True, slots=True)
class ToFill:
    """The rows of one task in a file to fill in.

    Attributes:
        task: name of the task.
        n: number of its examples.
        form: what to write as a prediction, in words.
    """

    task: str
    n: int
    form: str


def write_template(file: Path, config: RunConfig, seeds: Sequence[int], harness: Harness) -> list[ToFill]:
    """Write a file with a row for every example of the tasks, and no predictions; return what to write in it.

    Args:
        file: file to create, in the format of its suffix; an existing one may have been filled in, so it is refused.
        config: tasks, and the portion of their examples.
        seeds: seeds of the system, each with a row for every example; if empty, there is no column for them.
        harness: registries.

    Raises:
        OptionError: the file exists, or has another suffix.
        FigevalError: a task is unknown, its data cannot be read, or the file cannot be written.
    """
    if (suffix := file.suffix.lower()) not in SUFFIXES:
        raise OptionError(f"--write_template {file}: the name must end in {', '.join(SUFFIXES)}")
    if file.exists():
        raise OptionError(f"{file} exists and may have been filled in; choose another --write_template")
    portion = Portion(limit=config.limit, sample=config.sample, stratify=config.stratify, seed=config.seed)
    tasks = chosen_tasks(config, harness)
    surveys = [survey(task.name, partial(harness.examples, task), portion, task.annotations) for task in tasks]
    check_columns(config, surveys)
    ids = {
        task.name: [example.id for example in task_survey.subset.of(harness.examples(task))]
        for task, task_survey in zip(tasks, surveys, strict=True)
    }
    columns = ("id", "prediction", *["task"] * (len(tasks) > 1), *["seed"] * bool(seeds))

    def rows() -> Iterator[dict[str, str | int | None]]:
        for name, example_ids in ids.items():
            for seed in seeds or (None,):
                for example_id in example_ids:
                    row = {"id": example_id, "prediction": None, "task": name, "seed": seed}
                    yield {column: row[column] for column in columns}

    text = io.StringIO()
    if suffix in SEPARATORS:
        writer = csv.writer(text, delimiter=SEPARATORS[suffix], lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(map(csv_cell, row.values()) for row in rows())
    elif suffix == ".jsonl":
        text.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows())
    else:
        json.dump([*rows()], text, indent=1, ensure_ascii=False)
    with cure(file, "--write_template"):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, text.getvalue())
    return [ToFill(task.name, len(ids[task.name]), _form(task)) for task in tasks]


def _form(task: TaskSpec) -> str:
    """Return what to write as a prediction, with the labels if the task has some."""
    labels = f": {one_line(', '.join(task.labels), 200)}" if task.labels else ""
    return f"{form_of(task)}{labels}"
