"""Differences between two runs that should be equal, e.g. of one command on two machines.

Times, memory, hardware, the command and the device are expected to differ and are ignored. So are the digests, which
cover them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from figeval import RecordError, RunRecord
from figeval.config import IDENTITY
from figeval.io.text import one_line
from figeval.records.run_folder import RunFolder
from figeval.wings.verify.checks import Check, read_checkable
from figeval.wings.verify.json_differences import Difference, find_differences, join_texts

FLAGS = (*IDENTITY, "by", "baselines")  # flags that can change what is stored
SCORES = ("scores", "baselines", "breakdowns", "languages", "choices", "overlap", "counts")
COSTS = ("seconds", "baseline_seconds", "peak_memory_mb")
NOT_SETTINGS = (*SCORES, *COSTS, "task", "predictions", "predictions_sha256", "warnings", "error")
SUMMARY = ("macro", "contrasts", "spreads")
MODEL = {"name", "backend", "options", "capabilities", "fingerprint"}
MAX_ROWS = 3  # rows that are named for each task
MAX_DETAIL_CHARS = 900
Rows = Mapping[str, Any]  # rows of a task by id


def compare_runs(path: Path, other_path: Path) -> list[Check]:
    """Return a check for each kind of difference between two runs.

    Raises:
        RecordError: a record cannot be read, or was written by a later version of figeval.
    """
    (run, file), (other, other_file) = read_checkable(path), read_checkable(other_path)
    return [
        _check("tasks", _compare_tasks(run, other), "the same tasks"),
        _check("settings", _compare_settings(run, other), "the same settings, examples and prompts"),
        _check("model", _compare_models(run, other), "the same model"),
        _compare_versions(run, other),
        *_compare_scores(run, other),
        _compare_rows(RunFolder(file.parent), RunFolder(other_file.parent), _shared_tasks(run, other)),
    ]


def _check(name: str, problems: list[str], success: str) -> Check:
    if problems:
        return Check("against", name, "problem", one_line(join_texts(problems), MAX_DETAIL_CHARS))
    return Check("against", name, "ok", success)


def _describe(differences: Iterable[Difference]) -> list[str]:
    return [difference.describe("there") for difference in differences]


def _shared_tasks(run: RunRecord, other: RunRecord) -> list[str]:
    other_tasks = {task.task for task in other.tasks}
    return [task.task for task in run.tasks if task.task in other_tasks]


def _compare_tasks(run: RunRecord, other: RunRecord) -> list[str]:
    statuses, other_statuses = ({task.task: task.status for task in record.tasks} for record in (run, other))
    problems = [f"only this run has {one_line(name, 80)}" for name in statuses if name not in other_statuses]
    problems += [f"only the other run has {one_line(name, 80)}" for name in other_statuses if name not in statuses]
    return problems + [
        f"{name} is {status} here, {other_statuses[name]} there"
        for name, status in statuses.items()
        if other_statuses.get(name, status) != status
    ]


def _compare_fields(run: RunRecord, other: RunRecord, **fields: set[str]) -> Iterator[Difference]:
    """Yield the differences of the tasks that both runs have, in the fields to `include` or not to `exclude`."""
    other_tasks = {task.task: task for task in other.tasks}
    for task in run.tasks:
        if task.task in other_tasks:
            records = (task, other_tasks[task.task])
            first, second = (record.model_dump(mode="json", **fields) for record in records)  # type: ignore[arg-type]
            yield from find_differences(first, second, one_line(task.task, 80))


def _compare_settings(run: RunRecord, other: RunRecord) -> list[str]:
    flags = [flag for flag in FLAGS if flag != "tasks"]
    first, second = ({f"--{flag}": record.config.get(flag) for flag in flags} for record in (run, other))
    differences = [*find_differences(first, second), *_compare_fields(run, other, exclude=set(NOT_SETTINGS))]
    return _describe(differences)


def _compare_models(run: RunRecord, other: RunRecord) -> list[str]:
    first, second = (record.model.model_dump(mode="json", include=MODEL) for record in (run, other))
    return _describe(find_differences(first, second))


def _compare_versions(run: RunRecord, other: RunRecord) -> Check:
    """Return the versions that differ; a note, because equal scores may come from different versions."""
    differences = _describe(find_differences(_versions(run), _versions(other)))
    if differences:
        return Check("against", "versions", "note", one_line("; ".join(differences), MAX_DETAIL_CHARS))
    return Check("against", "versions", "ok", "the same versions")


def _versions(run: RunRecord) -> dict[str, Any]:
    packages = run.provenance.get("packages")
    versions = {"schema": run.schema_version, "python": run.provenance.get("python")}
    return {**versions, **(packages if isinstance(packages, Mapping) else {})}


def _compare_scores(run: RunRecord, other: RunRecord) -> Iterator[Check]:
    dumps = (record.model_dump(mode="json", include=set(SUMMARY)) for record in (run, other))
    first, second = ({key: value for key, value in dump.items() if key in SUMMARY} for dump in dumps)
    differences = [*_compare_fields(run, other, include=set(SCORES)), *find_differences(first, second)]
    problems = _describe(difference for difference in differences if not difference.is_rounding)
    yield _check("scores", problems, "the same scores")
    if rounding := _describe(difference for difference in differences if difference.is_rounding):
        yield Check("against", "scores", "note", one_line(join_texts(rounding), MAX_DETAIL_CHARS))


def _compare_rows(folder: RunFolder, other_folder: RunFolder, tasks: Iterable[str]) -> Check:
    """Return the first rows that differ in each of the tasks, by id and field, and those that one run lacks."""
    problems: list[str] = []
    without_rows = []
    n_compared = 0
    for task in tasks:
        if not (folder.has_predictions(task) and other_folder.has_predictions(task)):
            without_rows.append(task)
            continue
        try:
            rows, other_rows = ({row["id"]: row for row in each.rows(task)} for each in (folder, other_folder))
        except RecordError as error:
            problems.append(str(error))
            continue
        shared_ids = [row_id for row_id in rows if row_id in other_rows]
        n_compared += len(shared_ids)
        problems += _missing_rows(task, rows, other_rows)
        problems += _differing_rows(task, rows, other_rows, shared_ids)
    if without_rows and not problems:
        names = ", ".join(map(one_line, without_rows[:3]))
        return Check("against", "rows", "not checked", f"no predictions of {names}")
    return _check("rows", problems, f"{n_compared} equal rows")


def _differing_rows(task: str, rows: Rows, other_rows: Rows, ids: list[str]) -> Iterator[str]:
    """Yield how many of the rows differ by more than rounding, with the first difference of the first ones."""
    texts = []
    for row_id in ids:
        differences = find_differences(rows[row_id], other_rows[row_id])
        difference = next((each for each in differences if not each.is_rounding), None)
        if difference is not None:
            field = difference.path and f": {difference.path}"
            path = f"{one_line(task, 80)}, row {one_line(row_id, 60)!r}{field}"
            texts.append(replace(difference, path=path).describe("there"))
    if texts:
        yield f"{len(texts)} of {len(ids)} rows differ: {'; '.join(texts[:MAX_ROWS])}"


def _missing_rows(task: str, rows: Rows, other_rows: Rows) -> Iterator[str]:
    """Yield how many rows of a task each run lacks, and the ids of the first ones."""
    total = len({*rows, *other_rows})
    for run, ids, other_ids in (("this run", rows, other_rows), ("the other run", other_rows, rows)):
        if missing := [f"{one_line(row_id, 60)!r}" for row_id in other_ids if row_id not in ids]:
            names = ", ".join(missing[:MAX_ROWS]) + (", …" if len(missing) > MAX_ROWS else "")
            yield f"{one_line(task, 80)}: {run} lacks {len(missing)} of {total} rows ({names})"
