"""Files of predictions to fill in: the ids of the examples that `figeval score` expects, without predictions."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from figeval.config import RunConfig
from figeval.errors import OptionError
from figeval.io.files import cure, replace_text
from figeval.io.text import csv_cell, one_line
from figeval.runs.given import form_of
from figeval.runs.harness import Harness
from figeval.runs.limits import check_columns
from figeval.runs.variants import chosen
from figeval.spec import TaskSpec
from figeval.spec.survey import Portion, survey

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
    tasks = chosen(config, harness)
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
