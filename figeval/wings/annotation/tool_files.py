"""Judgements of annotators in the files of several tools, read into one form.

* sheets of `figeval annotate export` and `sheets`: a column for each criterion, one file per annotator;
* long CSV: `item,annotator,label`, with or without `criterion` and `time`;
* Label Studio: its JSON export (not JSON-MIN);
* Potato: `user_state.json`, `annotated_instances.jsonl`, and its CSV or TSV;
* answers that `figeval annotate serve` stored, of which the last one to each question counts.

Nothing is checked here against a key or a scale; `source` says where each judgement stands, for messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel

from figeval import DataError
from figeval.data.sheets import read_cells
from figeval.io.files import read_text
from figeval.io.json_files import MAX_BYTES, InvalidJSON, parse_json, read_json
from figeval.io.text import csv_cell, csv_text
from figeval.io.validation import validate
from figeval.wings.annotation.items import CATEGORY, COMMENT, ITEM, REMARKS, SHEET_CURE
from figeval.wings.annotation.journal import is_journal, numbered_answers

LONG_FORM = (ITEM, "annotator", "label")  # columns that it needs
LABELS, STATE = "label_annotations", "instance_id_to_label_to_value"  # keys of Potato's files
SEPARATOR = ":::"  # between schema and label in the columns of Potato's CSV
NOT_CHOSEN = {"", "none", "false"}
SCALE_STEP = re.compile(r"scale_(\d+)")  # a label of Potato's Likert scales
FORMS = (
    "give sheets, a CSV with the columns item, annotator and label, the JSON export of Label Studio, or Potato's "
    "user_state.json, annotated_instances.jsonl or CSV"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One label that an annotator gave to an item.

    `criterion` is empty if the file names none. `time` is the time stamp of the file, empty if it has none. `source` is
    the file and the place in it. `cells` are those of the row or task, if the file shows the texts of its items.
    """

    item: str
    annotator: str
    criterion: str
    label: str
    time: str
    source: str
    cells: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class JudgementBatch:
    """Judgements in the order of the files.

    Attributes:
        judgements: the judgements.
        skipped: number of items that an annotator left without a label, or cancelled.
        skipped_by: how many of these are whose.
        ground_truth: number of Label Studio's annotations that are marked as ground truth and do not count.
    """

    judgements: tuple[Judgement, ...]
    skipped: int
    ground_truth: int
    skipped_by: Mapping[str, int] = field(default_factory=dict)


class _GroundTruth:
    """An annotation that is the expected one, not an annotator's."""


GROUND_TRUTH = _GroundTruth()
Entry: TypeAlias = Judgement | _GroundTruth  # a judgement without a label was skipped


def read_judgements(
    files: Sequence[Path], criteria: Sequence[str], remarks: Sequence[str] = (COMMENT,)
) -> JudgementBatch:
    """Read files of any of the forms, which may be mixed.

    Args:
        files: the files.
        criteria: names of the criteria, which are the columns of sheets.
        remarks: names of further columns of sheets, whose cells may be empty.

    Raises:
        DataError: a file is given twice, cannot be read, or has none of the forms.
    """
    by_path: dict[Path, Path] = {}
    for file in files:
        if (other := by_path.setdefault(file.resolve(), file)) is not file:
            raise DataError(f"{file} is given twice (as {other}); give each file once")
    entries = list(chain.from_iterable(_read_file(file, criteria, remarks) for file in files))
    judgements = [entry for entry in entries if isinstance(entry, Judgement)]
    skipped = Counter(
        judgement.annotator for judgement in judgements if not (judgement.label or judgement.criterion in REMARKS)
    )
    return JudgementBatch(
        judgements=tuple(judgement for judgement in judgements if judgement.label),
        skipped=skipped.total(),
        ground_truth=entries.count(GROUND_TRUTH),
        skipped_by=dict(sorted(skipped.items())),
    )


def _read_file(file: Path, criteria: Sequence[str], remarks: Sequence[str]) -> Iterator[Entry]:
    if is_journal(file):
        return _read_journal(file)
    suffix = file.suffix.lower()
    if suffix == ".json":
        content = read_json(file, DataError, cure=FORMS)
        if isinstance(content, dict) and STATE in content:
            return _read_potato_state(file, content)
        return _read_label_studio(file, content)
    if suffix in (".jsonl", ".ndjson"):
        return _read_potato_lines(file)
    return _read_table(file, criteria, remarks)


def _read_journal(file: Path) -> Iterator[Entry]:
    last = {(answer.item, answer.criterion): (line, answer) for line, answer in numbered_answers(file)}
    for line, answer in last.values():
        yield Judgement(**answer.model_dump(), source=f"{file}:{line}")


# ---- tables ----------------------------------------------------------------------------------------------------------


def _read_table(file: Path, criteria: Sequence[str], remarks: Sequence[str]) -> Iterator[Entry]:
    """Read a sheet, a long CSV, or the CSV of Potato, which the first row tells apart."""
    header, *rows = [[cell.strip() for cell in row] for row in read_cells(file, SHEET_CURE)] or [[]]
    numbered = [(f"{file}, row {n}", row) for n, row in enumerate(rows, 2) if any(row)]
    for source, row in numbered:
        if any(row[len(header) :]):
            raise DataError(f"{source}: it has {len(row)} cells, but the first row has {len(header)}; check the quotes")
    cells = [(source, dict(zip(header, row, strict=False))) for source, row in numbered]
    columns = {name: csv_cell(name) for name in criteria if csv_cell(name) in header}
    if set(LONG_FORM) <= set(header):
        return _read_long_form(cells)
    if {"user", "instance_id"} <= set(header):
        return _read_potato_table(cells)
    if ITEM in header and columns:
        return _read_sheet(file, cells, columns, remarks)
    if ITEM in header:
        missing = f"a column for a criterion ({', '.join(criteria)})" if criteria else "the columns annotator and label"
        raise DataError(f"{file}: the first row has {ITEM!r}, but lacks {missing}; {FORMS}")
    raise DataError(f"{file}: the first row is none that can be read; {FORMS}")


Cells: TypeAlias = Sequence[tuple[str, Mapping[str, str]]]  # (source, column → cell) of each row


def _read_long_form(rows: Cells) -> Iterator[Entry]:
    for source, row in rows:
        item, annotator, label, criterion = (csv_text(row.get(name, "")) for name in (*LONG_FORM, "criterion"))
        if not item or not annotator:
            missing = ITEM if not item else "annotator"
            raise DataError(f"{source}: the cell in column {missing!r} is empty; fill it in, or remove the row")
        yield Judgement(item, annotator, criterion, label, row.get("time", ""), source)
        if (comment := csv_text(row.get(COMMENT, ""))) and criterion != CATEGORY:
            yield Judgement(item, annotator, COMMENT, comment, row.get("time", ""), source)


def _read_sheet(file: Path, rows: Cells, columns: Mapping[str, str], remarks: Sequence[str]) -> Iterator[Entry]:
    for source, row in rows:
        for name in remarks:
            if text := csv_text(row.get(name, "")):
                yield Judgement(row.get(ITEM, ""), file.stem, name, text, "", source, row)
        for name, column in columns.items():
            yield Judgement(row.get(ITEM, ""), file.stem, name, row.get(column, ""), "", source, row)


def _read_potato_table(rows: Cells) -> Iterator[Entry]:
    for source, row in rows:
        schemas: dict[str, dict[str, str]] = {}
        for column, cell in row.items():
            schema, separator, label = column.partition(SEPARATOR)
            if separator and not schema.startswith("span_annotation"):
                schemas.setdefault(schema, {})[label] = cell
        yield from _potato_labels(row["instance_id"], row["user"], schemas, source)


# ---- Potato ----------------------------------------------------------------------------------------------------------


def _read_potato_lines(file: Path) -> Iterator[Entry]:
    """Read `annotated_instances.jsonl`, which is in a folder that has the name of the annotator."""
    text = read_text(file, DataError, cure=FORMS, max_bytes=MAX_BYTES)
    for number, line in enumerate(text.split("\n"), 1):  # not splitlines, since texts may contain U+2028
        if not line.strip():
            continue
        source = f"{file}:{number}"
        try:
            row = parse_json(line)
        except InvalidJSON as error:
            raise DataError(f"{source}: not valid JSON: {error}; copy the file again") from error
        if not isinstance(row, dict) or not isinstance(row.get(LABELS), dict):
            raise DataError(f"{source}: there is no {LABELS!r}; {FORMS}")
        item, user = row.get("id", row.get("instance_id", "")), row.get("user_id", row.get("user"))
        yield from _potato_labels(str(item), str(user or file.resolve().parent.name), row[LABELS], source)


def _read_potato_state(file: Path, state: Mapping[str, Any]) -> Iterator[Entry]:
    """Read `user_state.json`, whose labels are pairs [{"schema": …, "name": …}, value] or mappings by schema."""
    user = str(state.get("user_id") or file.resolve().parent.name)
    labels = state[STATE]
    for item, content in labels.items() if isinstance(labels, dict) else ():
        source = f"{file}, item {item!r:.40}"
        schemas: dict[str, dict[str, Any]] = {}
        for pair in content if isinstance(content, list) else ():
            if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], dict)):
                raise DataError(f"{source}: a label is not a pair of schema and value; {FORMS}")
            schemas.setdefault(str(pair[0].get("schema", "")), {})[str(pair[0].get("name", ""))] = pair[1]
        yield from _potato_labels(item, user, content if isinstance(content, dict) else schemas, source)


def _potato_labels(item: str, user: str, schemas: Mapping[str, Any], source: str) -> Iterator[Entry]:
    """Yield the label of each schema; it is the name of the chosen one, or the step of a Likert scale."""
    for schema, values in schemas.items():
        by_name = values if isinstance(values, dict) else {str(values): values}
        chosen = {str(name): value for name, value in by_name.items() if str(value).lower() not in NOT_CHOSEN}
        if len(chosen) > 1:
            labels = ", ".join(chosen)
            raise DataError(f"{source}: several labels of {schema!r} ({labels:.80}); remove all but one")
        for name, value in chosen.items():
            if name == "text_box":
                yield Judgement(item, user, COMMENT, str(value), "", source)
                continue
            step = SCALE_STEP.fullmatch(name)
            label = step[1] if step else str(value) if name in {"slider", "scale_"} else name
            yield Judgement(item, user, schema, label, "", source)
        if not chosen:
            yield Judgement(item, user, schema, "", "", source)


# ---- Label Studio ----------------------------------------------------------------------------------------------------


class _LabelStudioResult(BaseModel):
    from_name: str = ""
    value: dict[str, Any] = {}


class _Annotation(BaseModel):
    id: Any = None
    result: list[_LabelStudioResult] = []
    completed_by: dict[str, Any] | int | str | None = None
    was_cancelled: bool = False
    ground_truth: bool = False
    created_at: str = ""
    updated_at: str = ""

    @property
    def person(self) -> str:
        """Address or number of the annotator, empty if it is not known."""
        by = self.completed_by
        name = (by.get("email") or by.get("id")) if isinstance(by, dict) else by
        return "" if name is None else str(name)


class _Task(BaseModel):
    id: Any = ""
    data: dict[str, Any] = {}
    annotations: list[_Annotation]


def _read_label_studio(file: Path, tasks: Any) -> Iterator[Entry]:
    for number, content in enumerate(tasks if isinstance(tasks, list) else [tasks]):
        hint = "export as JSON, not as JSON-MIN"
        task = validate(content, f"{file}, task {number}", _Task, DataError, cure=hint)
        item = str(task.data.get(ITEM, task.data.get("id", task.id)))
        for annotation in task.annotations:
            source = f"{file}, item {item!r:.40}, annotation {annotation.id}"
            if annotation.ground_truth:
                yield GROUND_TRUTH
            elif annotation.was_cancelled or not annotation.result:
                yield Judgement(item, annotation.person, "", "", "", source)
            else:
                cells = {name: str(text) for name, text in task.data.items()}
                yield from (replace(entry, cells=cells) for entry in _label_studio_results(item, annotation, source))


def _label_studio_results(item: str, annotation: _Annotation, source: str) -> Iterator[Judgement]:
    if not annotation.person:
        raise DataError(f"{source}: `completed_by` is missing, so the annotator is not known; export the tasks again")
    time = annotation.updated_at or annotation.created_at
    for result in annotation.result:
        value, name = result.value, result.from_name
        if value.keys() == {"text"}:  # regions of a text have more
            texts = value["text"]
            text = "; ".join(map(str, texts)) if isinstance(texts, list) else str(texts)
            yield Judgement(item, annotation.person, COMMENT, text, time, source)
            continue
        choices = value.get("rating", value.get("choices", value.get("number", [])))
        labels = choices if isinstance(choices, list) else [choices]
        if len(labels) > 1:
            raise DataError(f"{source}: {name!r} has several choices; make it a single choice, and correct the task")
        yield from (Judgement(item, annotation.person, name, str(label), time, source) for label in labels)
