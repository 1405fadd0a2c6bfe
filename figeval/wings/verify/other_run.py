"""Differences between two runs that should be equal, e.g. of one command on two machines.

Times, memory, hardware, the command and the device are expected to differ and are ignored. So are the digests, which
cover them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from figeval import RecordError, RunRecord
from figeval.config import IDENTITY, complete
from figeval.io.text import one_line
from figeval.records.provenance import recorded_packages
from figeval.records.run_folder import RunFolder
from figeval.wings.verify.checks import SUMMARY, Check, Report, read_checkable
from figeval.wings.verify.json_differences import Difference, find_differences

FLAGS = [*(flag for flag in IDENTITY if flag != "tasks"), "by", "baselines"]  # flags that can change what is stored
SCORES = {"scores", "baselines", "breakdowns", "languages", "choices", "overlap", "counts"}
COSTS = {"seconds", "baseline_seconds", "peak_memory_mb"}
NOT_SETTINGS = {*SCORES, *COSTS, "task", "predictions", "predictions_sha256", "warnings", "error"}
MODEL = {"name", "backend", "options", "capabilities", "fingerprint"}
MAX_ROWS = 3  # rows that are named for each task


def compare_runs(path: Path, other_path: Path) -> list[Check]:
    """Return a check for each kind of difference between two runs.

    Raises:
        RecordError: a record cannot be read, or was written by a later version of figeval.
    """
    (run, file), (other, other_file) = read_checkable(path), read_checkable(other_path)
    flags, other_flags = ({f"--{name}": complete(record.config)[name] for name in FLAGS} for record in (run, other))
    settings = [*find_differences(flags, other_flags), *_differences(run, other, exclude=NOT_SETTINGS)]
    model, other_model = (record.model.model_dump(mode="json", include=MODEL) for record in (run, other))
    versions = [difference.describe("there") for difference in find_differences(_versions(run), _versions(other))]
    summary, other_summary = (record.model_dump(mode="json", include=SUMMARY) for record in (run, other))
    scores = [*_differences(run, other, include=SCORES), *find_differences(summary, other_summary)]
    report = Report()
    report.judge("against", "tasks", _compare_tasks(run, other), "the same tasks")
    texts = [difference.describe("there") for difference in settings]
    report.judge("against", "settings", texts, "the same settings, examples and prompts")
    report.compare("against", "model", find_differences(model, other_model), "the same model", second="there")
    state: tuple[Any, str] = ("note", "; ".join(versions)) if versions else ("ok", "the same versions")
    report.add("against", "versions", *state)  # a note, because equal scores may come from different versions
    report.compare("against", "scores", scores, "the same scores", second="there")
    _compare_rows(RunFolder(file.parent), RunFolder(other_file.parent), _shared_tasks(run, other), report)
    return report.checks


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


def _differences(run: RunRecord, other: RunRecord, **fields: set[str]) -> Iterator[Difference]:
    """Yield the differences of the tasks that both runs have, in the fields to `include` or not to `exclude`."""
    other_tasks = {task.task: task for task in other.tasks}
    for task in run.tasks:
        if task.task in other_tasks:
            records = (task, other_tasks[task.task])
            first, second = (record.model_dump(mode="json", **fields) for record in records)  # type: ignore[arg-type]
            yield from find_differences(first, second, one_line(task.task, 80))


def _versions(run: RunRecord) -> dict[str, Any]:
    versions = {"schema": run.schema_version, "python": run.provenance.get("python")}
    return {**versions, **recorded_packages(run.provenance)}


def _compare_rows(folder: RunFolder, other_folder: RunFolder, tasks: Iterable[str], report: Report) -> None:
    """Report the first rows that differ in each of the tasks, by id and field, and those that one run lacks."""
    problems: list[str] = []
    without_rows: list[str] = []
    n_compared = 0
    for task in tasks:
        if not (folder.has_predictions(task) and other_folder.has_predictions(task)):
            without_rows.append(one_line(task))
            continue
        try:
            rows, other_rows = ({row["id"]: row for row in each.rows(task)} for each in (folder, other_folder))
        except RecordError as error:
            problems.append(str(error))
            continue
        n_compared += len(rows.keys() & other_rows.keys())
        problems += _different_rows(one_line(task, 80), rows, other_rows)
    if without_rows and not problems:
        report.add("against", "rows", "not checked", f"no predictions of {', '.join(without_rows[:3])}")
    else:
        report.judge("against", "rows", problems, f"{n_compared} equal rows")


def _different_rows(task: str, rows: Mapping[str, Any], other_rows: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many rows of a task, by id, each run lacks or are different by more than rounding, and the first."""
    total = len({*rows, *other_rows})
    for run, ids, other_ids in (("this run", rows, other_rows), ("the other run", other_rows, rows)):
        if missing := [f"{one_line(row_id, 60)!r}" for row_id in other_ids if row_id not in ids]:
            names = ", ".join(missing[:MAX_ROWS]) + (", …" if len(missing) > MAX_ROWS else "")
            yield f"{task}: {run} lacks {len(missing)} of {total} rows ({names})"
    texts = []
    shared_ids = [row_id for row_id in rows if row_id in other_rows]
    for row_id in shared_ids:
        differences = find_differences(rows[row_id], other_rows[row_id])
        difference = next((each for each in differences if not each.is_rounding), None)
        if difference is not None:
            texts.append(difference.within(f"{task}, row {one_line(row_id, 60)!r}").describe("there"))
    if texts:
        yield f"{len(texts)} of {len(shared_ids)} rows differ: {'; '.join(texts[:MAX_ROWS])}"
