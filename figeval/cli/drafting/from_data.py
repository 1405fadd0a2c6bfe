"""Task files from data: `figeval new task NAME --from FILE` or `hub:OWNER/NAME`.

The rows are read, a shape is recognised, and the task is checked with all of its rows before anything is written, so
that a file that has been written works.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from figeval.cli.drafting.columns import Column, sample_columns
from figeval.cli.drafting.eval_yaml import hub_drafts
from figeval.cli.drafting.shapes import COMMON_FIELDS, FIELDS, Draft, Sheet, recognise
from figeval.cli.drafting.task_text import task_text, with_common_fields
from figeval.data.readers import DataContext, Row, fetch, read
from figeval.data.row_files import RowFile, read_columns
from figeval.errors import DataError, FigevalError, OptionError, TaskError
from figeval.io.text import one_line
from figeval.io.yaml_files import parse_yaml
from figeval.runs.harness import Harness
from figeval.runs.validate import validate
from figeval.spec import TaskSpec

EXPECTED = "give a file with rows, or an address such as hub:OWNER/NAME#SPLIT"
SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "val": "dev", "test": "test"}
SPLIT = re.compile(rf"(?<![^\W_])({'|'.join(sorted(SPLITS, key=len, reverse=True))})(?![^\W_])", re.IGNORECASE)
HUB = "hub:"
MAX_NAME_CHARS = 60  # a longer name of a column is a text


@dataclass(frozen=True)
class NewTask:
    """A task that was recognised.

    Attributes:
        name: name of the task.
        text: text of its file.
        files: files and folders with its rows.
        facts: what the check of all rows has found.
    """

    name: str
    text: str
    files: tuple[Path, ...]
    facts: tuple[str, ...]


def draft_tasks(name: str, source: str, kind: str, columns: str, warn: Callable[[str], None]) -> list[NewTask]:
    """Return the tasks that are in a file or a data set: one, or those of its `eval.yaml`.

    Args:
        name: name of the task, or the beginning of the names of several.
        source: a file with rows, or the address of rows.
        kind: task type; empty to recognise it.
        columns: columns of fields, as `FIELD=COLUMN,…`.
        warn: receives a line about a split that is left out, or a task of `eval.yaml` that figeval cannot express.

    Raises:
        TaskError: no task is recognised, or the rows do not fit it.
        DataError: the rows cannot be read.
        OptionError: `columns` names an unknown field.
    """
    harness = Harness()
    if kind:
        harness.task_types.get(kind)
        if kind not in FIELDS:
            raise OptionError(
                f"--from recognises {', '.join(FIELDS)}, not {kind!r}; leave out --from to begin with a scaffold"
            )
    members = [*dict.fromkeys(field for fields in FIELDS.values() for field in fields), *COMMON_FIELDS]
    column_names = read_columns(
        columns, FIELDS[kind] + COMMON_FIELDS if kind else members, "text=tweet,label=sarcastic"
    )
    if source.startswith(HUB) and not (kind or column_names):
        listed = hub_drafts(name, source, warn)
        if listed:
            return [_check_draft(task, draft, data, (), Path(), harness) for task, draft, data in listed]
    splits = hub_splits(source, harness) if source.startswith(HUB) else file_splits(source)
    return [_recognised(name, splits, kind, column_names, harness, warn)]


# ---- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitRows:
    """Rows of a split.

    Attributes:
        address: where they are, in a task file beside the file.
        rows: function that reads them.
        file: the file; None for a data set of the hub.
    """

    address: str
    rows: Callable[[], Iterator[Row]]
    file: Path | None = None


def file_splits(source: str) -> dict[str, SplitRows]:
    """Return the rows of a file as the split `test`, and files beside it that are named as its other splits.

    If the file is named as a train split, a test split beside it is `test`, or a dev split if the answers of the test
    split are hidden.
    """
    source_rows = _file_rows(source)
    match = None if source_rows.file is None else list(SPLIT.finditer(source_rows.file.name))[-1:]
    if not match or source_rows.file is None or source_rows.file.is_dir() or "#" in source:
        return {"test": source_rows}
    begin, end = source_rows.file.name[: match[0].start()], source_rows.file.name[match[0].end() :]
    files = {word: source_rows.file.with_name(f"{begin}{word}{end}") for word in SPLITS}
    siblings: dict[str, SplitRows] = {}
    for word, file in files.items():
        if file.is_file() and file != source_rows.file and SPLITS[word] not in siblings:
            with suppress(DataError):
                siblings[SPLITS[word]] = _file_rows(str(file))
    split = SPLITS[match[0][1].lower()]
    candidates = ("test", "dev") if split == "train" else ()
    test = next(
        (name for name in candidates if name in siblings and not _hides_answers(siblings[name], source_rows)), ""
    )
    splits = {"test": siblings.pop(test), split: source_rows} if test else {"test": source_rows}
    return {**splits, **{name: rows for name, rows in siblings.items() if name not in ("test", split)}}


def _hides_answers(rows: SplitRows, source_rows: SplitRows) -> bool:
    """Return whether rows lack, or hide throughout, a column that the source has, as published test splits do."""
    try:
        columns = sample_columns(rows.rows(), rows.address)
    except FigevalError:
        return True
    sources = sample_columns(source_rows.rows(), source_rows.address)
    return any(column.filled and not (name in columns and columns[name].filled) for name, column in sources.items())


def _file_rows(source: str) -> SplitRows:
    rows = RowFile(Path(source), EXPECTED, flag="")
    scheme, path = rows.address()
    file = path.partition("#")[0].partition("?")[0] if scheme == "xlsx" else path
    return SplitRows(
        f"{scheme}:{Path(file).name}{path.removeprefix(file)}", lambda: (row for _, row in rows.numbered()), Path(file)
    )


def hub_splits(source: str, harness: Harness) -> dict[str, SplitRows]:
    """Return a split of a data set as `test`, and its other splits if nothing must be downloaded for them.

    If no split is named, it is the first of test, validation, dev and train whose answers are not hidden.
    """

    def split_rows(address: str, context: DataContext) -> SplitRows:
        return SplitRows(address, lambda: read(address, context, harness.readers))

    def refuse(_benchmark: str, _path: str) -> Path:
        raise DataError("it is not on this machine")

    online, offline = DataContext(Path(), fetch), DataContext(Path(), refuse)
    base, _, fragment = source.partition("#")
    config, slash, split = fragment.rpartition("/")
    candidates = [source] if split else [source, *(f"{base}#{name}" for name in ("test", "validation", "dev", "train"))]
    problem: FigevalError | None = None
    hidden_splits: dict[str, SplitRows] | None = None
    for address in candidates:
        try:
            next(iter(read(address, online, harness.readers)), None)
        except DataError as error:
            problem = problem or error
            continue
        splits = {"test": split_rows(address, online)}
        for other in ("train", "validation", "dev"):
            sibling = f"{base}#{config}{slash}{other}"
            if sibling != address and SPLITS[other] not in splits and "#" in address:
                with suppress(FigevalError):
                    next(iter(read(sibling, offline, harness.readers)), None)
                    splits[SPLITS[other]] = split_rows(sibling, online)
        source_rows = splits.get("train") or splits.get("dev")
        if split or source_rows is None or not _hides_answers(splits["test"], source_rows):
            return splits
        hidden_splits = hidden_splits or splits
    if hidden_splits is not None:
        return hidden_splits
    assert problem is not None
    raise problem


# ---- tasks -----------------------------------------------------------------------------------------------------------


def _recognised(
    name: str,
    splits: Mapping[str, SplitRows],
    kind: str,
    column_names: Mapping[str, str],
    harness: Harness,
    warn: Callable[[str], None],
) -> NewTask:
    """Return the task that the columns of the rows have the shape of. Raises `TaskError` if they have none."""
    test = splits["test"]
    source = str(test.file or test.address)
    columns = sample_columns(test.rows(), source)
    sheet = Sheet(columns, column_names)
    draft = recognise(sheet, kind)
    if draft is None:
        raise TaskError(_unrecognised(source, columns, kind, column_names))
    draft = with_common_fields(draft, sheet)
    data, files = {"test": test.address}, [test.file]
    for split, rows in splits.items():
        if split != "test":
            try:
                draft = _with_split(draft, sheet, sample_columns(rows.rows(), rows.address))
            except FigevalError as error:
                warn(f"the split {split} ({rows.address}) is left out: {one_line(str(error), 300)}")
                continue
            data[split], files = rows.address, [*files, rows.file]
    task = _check_draft(name, draft, data, tuple(file for file in files if file), Path(source).parent, harness)
    return replace(task, facts=(_shape(draft, sheet), *task.facts))


def _shape(draft: Draft, sheet: Sheet) -> str:
    """Return what the rows are taken for, and the columns that the task does not read."""
    unread = [column.title for column in sheet.columns.values() if not column.is_read_by(draft.fields)]
    if not unread:
        return f"a {draft.kind} task"
    names = one_line(", ".join(unread), 300)
    return f"a {draft.kind} task, which does not read {names}; name another with --type and --columns"


def _with_split(draft: Draft, sheet: Sheet, split_columns: Mapping[str, Column]) -> Draft:
    """Return a draft that is also one for the columns of another split.

    Raises:
        TaskError: it lacks a column, hides answers that the first split does not hide, or has another shape.
    """
    if lacking := [name for name in sheet.columns if name not in split_columns]:
        raise TaskError(f"it has no column {lacking[0]!r:.80}")
    again = recognise(Sheet(split_columns, sheet.column_names), draft.kind)
    if again is None or dict(again.fields) == {key: draft.fields[key] for key in again.fields}:
        return replace(draft, labels=_united(draft, again))
    for name, column in sheet.columns.items():
        values = split_columns[name].values
        if split_columns[name].has_hidden and not column.has_hidden and column.is_read_by(draft.fields):
            count = f"{len(values) - len(split_columns[name].filled):,} of {len(values):,}"
            raise TaskError(f"{count} values of {column.title} are hidden; remove these rows")
    columns = {
        name: Column(name, [*column.values, *split_columns[name].values]) for name, column in sheet.columns.items()
    }
    both = recognise(Sheet(columns, sheet.column_names), draft.kind)
    if both is None or both.fields.keys() != again.fields.keys():
        raise TaskError(f"its columns do not make the same {draft.kind} task")
    return replace(draft, fields={**draft.fields, **both.fields}, labels=_united(draft, both))


def _united(draft: Draft, other: Draft | None) -> list[str]:
    """Return the labels of a draft, and those that another split has in addition."""
    return list(dict.fromkeys([*draft.labels, *(other.labels if other else ())]))


def _unrecognised(source: str, columns: Mapping[str, object], kind: str, column_names: Mapping[str, str]) -> str:
    listed = one_line(", ".join(map(repr, columns)), 300)
    missing = [field for field in FIELDS.get(kind, ()) if field not in column_names]
    if kind and missing:
        fields = ",".join(f"{field}=COLUMN" for field in missing)
        return f"{source}: no columns for a {kind} task among {listed}; name them with --columns {fields}"
    if kind:
        return f"{source}: the values of these columns make no {kind} task; name siblings of {listed} with --columns"
    if any(len(name) > MAX_NAME_CHARS for name in columns):
        return f"{source}: the first row holds texts, not names of columns; write a row with names above it"
    cure = "say what they are, as in --type classification --columns text=COLUMN,label=COLUMN"
    return f"{source}: the columns {listed} are of no known shape; {cure}"


def _check_draft(
    name: str, draft: Draft, data: Mapping[str, str], files: tuple[Path, ...], folder: Path, harness: Harness
) -> NewTask:
    """Return a task whose rows have all been read. Raises `TaskError` with the first problem."""
    text = task_text(name, draft, data)
    task = TaskSpec.model_validate(parse_yaml(text)).model_copy(
        update={"folder": folder, "origin": f"{name}.task.yaml"}
    )
    verdict = validate(task.bound(harness.task_types), harness)
    errors = [finding.message for finding in verdict.findings if finding.level == "error"]
    if errors:
        fields = FIELDS[draft.kind]
        cure = f"name the columns yourself: --type {draft.kind} --columns {','.join(f'{f}=COLUMN' for f in fields)}"
        raise TaskError(f"taken as {draft.kind}, the rows do not fit: {one_line(errors[0], 500)}; {cure}")
    return NewTask(name, text, files, tuple(verdict.facts))
