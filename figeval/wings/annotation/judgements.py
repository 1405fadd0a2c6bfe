"""Judgements of annotators in the files of several tools, read into one form.

* sheets of `figeval annotate export` and `sheets`: a column for each criterion, one file per annotator;
* long CSV: `item,annotator,label`, with or without `criterion` and `time`;
* Label Studio: its JSON export (not JSON-MIN);
* Potato: `user_state.json`, `annotated_instances.jsonl`, and its CSV or TSV;
* answers that `figeval annotate serve` stored, of which the last one to each question counts.

Nothing is checked here against a key or a scale; `where` names the place of each judgement for messages.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from figeval.data.formats import max_row_bytes, whole_text
from figeval.data.packed_file import HEAD_BYTES
from figeval.data.table_format import find_format
from figeval.errors import DataError
from figeval.io.files import read_text
from figeval.io.json_files import MAX_BYTES, InvalidJSON, parse_json, read_json
from figeval.io.text import csv_cell, csv_text
from figeval.io.validation import validated
from figeval.wings.annotation.journal import is_journal, numbered_answers
from figeval.wings.annotation.sheets import ITEM

LONG = (ITEM, "annotator", "label")
LABELS, STATE = "label_annotations", "instance_id_to_label_to_value"  # keys of Potato's files
SEPARATOR = ":::"  # between schema and label in the columns of Potato's CSV
SCALE_STEP = re.compile(r"scale_(\d+)")  # a label of Potato's Likert scales
FORMS = (
    "give sheets, a CSV with the columns item, annotator and label, the JSON export of Label Studio, or Potato's "
    "user_state.json, annotated_instances.jsonl or CSV"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One label that an annotator gave to an item.

    `criterion` is empty if the file names none. `time` is the time stamp of the file, empty if it has none.
    """

    item: str
    annotator: str
    criterion: str
    label: str
    time: str
    where: str


@dataclass(frozen=True, slots=True)
class Judgements:
    """Judgements in the order of the files.

    Attributes:
        found: the judgements.
        skipped: number of items that an annotator left without a label, or cancelled.
        skipped_by: how many of these are whose.
        ground_truth: number of Label Studio's annotations that are marked as ground truth and do not count.
    """

    found: tuple[Judgement, ...]
    skipped: int
    ground_truth: int
    skipped_by: Mapping[str, int] = field(default_factory=dict)


class _GroundTruth:
    """An annotation that is the expected one, not an annotator's."""


GROUND_TRUTH = _GroundTruth()
Found = Judgement | _GroundTruth  # a judgement without a label was skipped


def read_judgements(files: Sequence[Path], criteria: Sequence[str]) -> Judgements:
    """Read files of any of the forms, which may be mixed.

    Args:
        files: the files.
        criteria: names of the criteria, which are the columns of sheets.

    Raises:
        DataError: a file is given twice, cannot be read, or has none of the forms.
    """
    given: dict[Path, Path] = {}
    for file in files:
        if (other := given.setdefault(file.resolve(), file)) is not file:
            raise DataError(f"{file} is given twice (as {other}); give each file once")
    every = list(chain.from_iterable(_read(file, criteria) for file in files))
    judgements = [one for one in every if isinstance(one, Judgement)]
    skipped = Counter(one.annotator for one in judgements if not one.label)
    return Judgements(
        found=tuple(one for one in judgements if one.label),
        skipped=skipped.total(),
        ground_truth=every.count(GROUND_TRUTH),
        skipped_by=dict(sorted(skipped.items())),
    )


def _read(file: Path, criteria: Sequence[str]) -> Iterator[Found]:
    if is_journal(file):
        return _journal(file)
    suffix = file.suffix.lower()
    if suffix == ".json":
        content = read_json(file, DataError, cure=FORMS)
        if isinstance(content, dict) and STATE in content:
            return _potato_state(file, content)
        return _label_studio(file, content)
    if suffix in (".jsonl", ".ndjson"):
        return _potato_lines(file)
    return _table(file, criteria)


def _journal(file: Path) -> Iterator[Found]:
    last = {(one.item, one.criterion): (number, one) for number, one in numbered_answers(file)}
    for number, one in last.values():
        where = f"{file}:{number}"
        yield Judgement(one.item, one.annotator, one.criterion, one.label, one.time, where)


# ---- tables ----------------------------------------------------------------------------------------------------------


def csv_rows(file: Path) -> list[list[str]]:
    """Return the rows of a CSV file with any of the usual delimiters.

    Raises:
        DataError: the file cannot be read, or is not a CSV file.
    """
    csv.field_size_limit(max(max_row_bytes(), csv.field_size_limit()))
    if file.exists() and not file.is_file():  # reading a pipe may never end
        raise DataError(f"{file} is not a regular file; give a filled-in sheet")
    text = whole_text(file, cure="give a filled-in sheet")
    table_format = find_format(text[:HEAD_BYTES].encode(), ",", str(file))
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), table_format.dialect, strict=True))
    except csv.Error as error:
        raise DataError(f"{file} is not a CSV file ({error}); save the sheet as `CSV UTF-8`") from error
    return rows[int(table_format.is_named) :]


def _table(file: Path, criteria: Sequence[str]) -> Iterator[Found]:
    """Read a sheet, a long CSV, or the CSV of Potato, which the first row tells apart."""
    header, *rows = [[cell.strip() for cell in row] for row in csv_rows(file)] or [[]]
    numbered = [(f"{file}, row {n}", row) for n, row in enumerate(rows, 2) if any(row)]
    for where, row in numbered:
        if any(row[len(header) :]):
            raise DataError(f"{where}: it has {len(row)} cells, but the first row has {len(header)}; check the quotes")
    cells = [(where, dict(zip(header, row, strict=False))) for where, row in numbered]
    columns = {name: csv_cell(name) for name in criteria if csv_cell(name) in header}
    if set(LONG) <= set(header):
        return _long(cells)
    if {"user", "instance_id"} <= set(header):
        return _potato_table(cells)
    if ITEM in header and columns:
        return _sheet(file, cells, columns)
    if ITEM in header:
        what = f"a column for a criterion ({', '.join(criteria)})" if criteria else "the columns annotator and label"
        raise DataError(f"{file}: the first row has {ITEM!r}, but lacks {what}; {FORMS}")
    raise DataError(f"{file}: the first row is none that can be read; {FORMS}")


Cells = Sequence[tuple[str, Mapping[str, str]]]


def _long(rows: Cells) -> Iterator[Found]:
    for where, row in rows:
        item, annotator, label, criterion = (csv_text(row.get(name, "")) for name in (*LONG, "criterion"))
        if not item or not annotator:
            missing = ITEM if not item else "annotator"
            raise DataError(f"{where}: the cell in column {missing!r} is empty; fill it in, or remove the row")
        yield Judgement(item, annotator, criterion, label, row.get("time", ""), where)


def _sheet(file: Path, rows: Cells, columns: Mapping[str, str]) -> Iterator[Found]:
    for where, row in rows:
        for name, column in columns.items():
            yield Judgement(row.get(ITEM, ""), file.stem, name, row.get(column, ""), "", where)


def _potato_table(rows: Cells) -> Iterator[Found]:
    for where, row in rows:
        schemas: dict[str, dict[str, str]] = {}
        for column, cell in row.items():
            schema, separator, label = column.partition(SEPARATOR)
            if separator and not schema.startswith("span_annotation"):
                schemas.setdefault(schema, {})[label] = cell
        yield from _potato(row["instance_id"], row["user"], schemas, where)


# ---- Potato ----------------------------------------------------------------------------------------------------------


def _potato_lines(file: Path) -> Iterator[Found]:
    """Read `annotated_instances.jsonl`, which is in a folder that has the name of the annotator."""
    text = read_text(file, DataError, cure=FORMS, max_bytes=MAX_BYTES)
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines, since texts may contain U+2028
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            row = parse_json(line)
        except InvalidJSON as error:
            raise DataError(f"{where}: not valid JSON: {error}; copy the file again") from error
        if not isinstance(row, dict) or not isinstance(row.get(LABELS), dict):
            raise DataError(f"{where}: there is no {LABELS!r}; {FORMS}")
        item, user = row.get("id", row.get("instance_id", "")), row.get("user_id", row.get("user"))
        yield from _potato(str(item), str(user or file.resolve().parent.name), row[LABELS], where)


def _potato_state(file: Path, state: Mapping[str, Any]) -> Iterator[Found]:
    """Read `user_state.json`, whose labels are pairs [{"schema": …, "name": …}, value] or mappings by schema."""
    user = str(state.get("user_id") or file.resolve().parent.name)
    labels = state[STATE]
    for item, given in labels.items() if isinstance(labels, dict) else ():
        schemas: dict[str, dict[str, Any]] = {}
        for pair in given if isinstance(given, list) else ():
            if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], dict)):
                raise DataError(f"{file}, item {item!r:.40}: a label is not a pair of schema and value; {FORMS}")
            schemas.setdefault(str(pair[0].get("schema", "")), {})[str(pair[0].get("name", ""))] = pair[1]
        yield from _potato(item, user, given if isinstance(given, dict) else schemas, f"{file}, item {item!r:.40}")


def _potato(item: str, user: str, schemas: Mapping[str, Any], where: str) -> Iterator[Found]:
    """Yield the label of each schema; it is the name of the chosen one, or the step of a Likert scale."""
    for schema, values in schemas.items():
        given = values if isinstance(values, dict) else {str(values): values}
        chosen = {str(name): value for name, value in given.items() if str(value).lower() not in {"", "none", "false"}}
        if len(chosen) > 1:
            several = ", ".join(chosen)
            raise DataError(f"{where}: several labels of {schema!r} ({several:.80}); remove all but one")
        for name, value in chosen.items():
            if name == "text_box":  # a comment
                continue
            step = SCALE_STEP.fullmatch(name)
            label = step[1] if step else str(value) if name in {"slider", "scale_"} else name
            yield Judgement(item, user, schema, label, "", where)
        if not chosen:
            yield Judgement(item, user, schema, "", "", where)


# ---- Label Studio ----------------------------------------------------------------------------------------------------


class _Result(BaseModel):
    from_name: str = ""
    value: dict[str, Any] = {}


class _Annotation(BaseModel):
    id: Any = None
    result: list[_Result] = []
    completed_by: dict[str, Any] | int | str | None = None
    was_cancelled: bool = False
    ground_truth: bool = False
    created_at: str = ""
    updated_at: str = ""

    @property
    def person(self) -> str:
        """Address or number of the annotator, empty if it is not known."""
        by = self.completed_by
        found = (by.get("email") or by.get("id")) if isinstance(by, dict) else by
        return "" if found is None else str(found)


class _Task(BaseModel):
    id: Any = ""
    data: dict[str, Any] = {}
    annotations: list[_Annotation]


def _label_studio(file: Path, tasks: Any) -> Iterator[Found]:
    for place, content in enumerate(tasks if isinstance(tasks, list) else [tasks]):
        hint = "export as JSON, not as JSON-MIN"
        task = validated(content, f"{file}, task {place}", _Task, DataError, cure=hint)
        item = str(task.data.get(ITEM, task.data.get("id", task.id)))
        for annotation in task.annotations:
            where = f"{file}, item {item!r:.40}, annotation {annotation.id}"
            if annotation.ground_truth:
                yield GROUND_TRUTH
            elif annotation.was_cancelled or not annotation.result:
                yield Judgement(item, annotation.person, "", "", "", where)
            else:
                yield from _label_studio_results(item, annotation, where)


def _label_studio_results(item: str, annotation: _Annotation, where: str) -> Iterator[Found]:
    if not annotation.person:
        raise DataError(f"{where}: `completed_by` is missing, so the annotator is not known; export the tasks again")
    time = annotation.updated_at or annotation.created_at
    for result in annotation.result:
        value, name = result.value, result.from_name
        found = value.get("rating", value.get("choices", value.get("number", [])))  # a text is a comment
        labels = found if isinstance(found, list) else [found]
        if len(labels) > 1:
            raise DataError(f"{where}: {name!r} has several choices; make it a single choice, and correct the task")
        yield from (Judgement(item, annotation.person, name, str(label), time, where) for label in labels)
