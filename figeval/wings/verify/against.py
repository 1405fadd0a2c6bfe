"""Differences between two runs that should be equal, e.g. of one command on two machines.

Times, memory, hardware, the command and the device are expected to differ and are ignored. So are the digests, which
cover them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from figeval.config import IDENTITY
from figeval.errors import RecordError
from figeval.io.text import one_line
from figeval.records.run_folder import RunFolder, find_record, read_record
from figeval.records.schema import RunRecord
from figeval.wings.verify.differences import Difference, differences, listed
from figeval.wings.verify.verify import Check, refuse_later

FLAGS = (*IDENTITY, "by", "baselines")  # flags that can change what is stored
SCORES = ("scores", "baselines", "breakdowns", "languages", "choices", "overlap", "counts")
MEASURED = ("seconds", "baseline_seconds", "peak_memory_mb")
NOT_SETTINGS = (*SCORES, *MEASURED, "task", "predictions", "predictions_sha256", "warnings", "error")
SUMMARY = ("macro", "contrasts", "spreads")
MOST_ROWS = 3  # rows that are named for each task


def compare(path: Path, other: Path) -> list[Check]:
    """Return a check for each kind of difference between two runs.

    Raises:
        RecordError: a record cannot be read, or was written by a later version of figeval.
    """
    files = find_record(path), find_record(other)
    one, two = (read_record(file) for file in files)
    for record, file in zip((one, two), files, strict=True):
        refuse_later(record, file)
    return [
        _check("tasks", _tasks(one, two), "the same tasks"),
        _check("settings", _settings(one, two), "the same settings, examples and prompts"),
        _check("model", _model(one, two), "the same model"),
        _versions(one, two),
        *_scores(one, two),
        _rows(RunFolder(files[0].parent), RunFolder(files[1].parent), one, two),
    ]


def _check(name: str, found: list[str], fine: str) -> Check:
    return Check("against", name, "problem" if found else "ok", one_line(listed(found), 900) if found else fine)


def _told(found: Iterator[Difference]) -> list[str]:
    return [one.told("is", "there") for one in found]


def _tasks(one: RunRecord, two: RunRecord) -> list[str]:
    """Return the tasks that only one of the runs has, and those that ended differently."""
    names = [{task.task: task.status for task in run.tasks} for run in (one, two)]
    only = [f"only this run has {one_line(name, 80)}" for name in names[0] if name not in names[1]]
    only += [f"only the other run has {one_line(name, 80)}" for name in names[1] if name not in names[0]]
    return only + [
        f"{name} is {status} here, {names[1][name]} there"
        for name, status in names[0].items()
        if names[1].get(name, status) != status
    ]


def _shared(one: RunRecord, two: RunRecord, keys: tuple[str, ...], *, without: bool = False) -> Iterator[Difference]:
    """Yield the differences of the tasks that both runs have, in these fields or in all but these."""
    choice: dict[str, Any] = {"exclude" if without else "include": set(keys)}
    there = {task.task: task for task in two.tasks}
    for task in one.tasks:
        if task.task in there:
            first, second = (each.model_dump(mode="json", **choice) for each in (task, there[task.task]))
            yield from differences(first, second, one_line(task.task, 80))


def _settings(one: RunRecord, two: RunRecord) -> list[str]:
    here, there = ({f"--{flag}": run.config.get(flag) for flag in FLAGS if flag != "tasks"} for run in (one, two))
    return [*_told(differences(here, there)), *_told(_shared(one, two, NOT_SETTINGS, without=True))]


def _model(one: RunRecord, two: RunRecord) -> list[str]:
    keys = {"name", "backend", "options", "capabilities", "fingerprint"}
    here, there = (run.model.model_dump(mode="json", include=keys) for run in (one, two))
    return _told(differences(here, there))


def _versions(one: RunRecord, two: RunRecord) -> Check:
    """Return the versions that differ; a note, because equal scores may come from different versions."""
    versions = []
    for run in (one, two):
        packages = run.provenance.get("packages")
        own = packages if isinstance(packages, Mapping) else {}
        versions.append({"schema": run.schema_version, "python": run.provenance.get("python"), **own})
    found = _told(differences(versions[0], versions[1]))
    state = Check("against", "versions", "note", one_line("; ".join(found), 900))
    return state if found else Check("against", "versions", "ok", "the same versions")


def _scores(one: RunRecord, two: RunRecord) -> Iterator[Check]:
    """Yield the scores that differ, and those that differ by rounding only."""
    summary = (run.model_dump(mode="json", include=set(SUMMARY)) for run in (one, two))
    first, second = ({key: value for key, value in each.items() if key in SUMMARY} for each in summary)
    found = [*_shared(one, two, SCORES), *differences(first, second)]
    yield _check("scores", _told(each for each in found if not each.is_rounding), "the same scores")
    if rounding := _told(each for each in found if each.is_rounding):
        yield Check("against", "scores", "note", one_line(listed(rounding), 900))


def _rows(here: RunFolder, there: RunFolder, one: RunRecord, two: RunRecord) -> Check:
    """Return the first rows that differ in each task that both runs have, by id and field, and those that one lacks."""
    known = {task.task for task in two.tasks}
    problems, compared, missing = [], 0, []
    for task in (task.task for task in one.tasks if task.task in known):
        if not (here.has_predictions(task) and there.has_predictions(task)):
            missing.append(task)
            continue
        try:
            first, second = ({row["id"]: row for row in folder.rows(task)} for folder in (here, there))
        except RecordError as error:
            problems.append(str(error))
            continue
        problems += _lacking(task, first, second)
        shared = [name for name in first if name in second]
        compared += len(shared)
        differing = {}
        for name in shared:
            found = differences(first[name], second[name])
            if (exact := next((each for each in found if not each.is_rounding), None)) is not None:
                place = f"{one_line(task, 80)}, row {one_line(name, 60)!r}{exact.place and ': '}{exact.place}"
                differing[name] = replace(exact, place=place).told("is", "there")
        if differing:
            count = f"{len(differing)} of {len(shared)} rows differ"
            problems.append(f"{count}: {'; '.join(list(differing.values())[:MOST_ROWS])}")
    if missing and not problems:
        return Check("against", "rows", "not checked", f"no predictions of {', '.join(map(one_line, missing[:3]))}")
    return _check("rows", problems, f"{compared} equal rows")


def _lacking(task: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[str]:
    """Yield how many rows of a task each run lacks, and the ids of the first ones."""
    both = len({*here, *there})
    for whose, own, other in (("this run", here, there), ("the other run", there, here)):
        if lacks := [f"{one_line(name, 60)!r}" for name in other if name not in own]:
            named = ", ".join(lacks[:MOST_ROWS]) + (", …" if len(lacks) > MOST_ROWS else "")
            yield f"{one_line(task, 80)}: {whose} lacks {len(lacks)} of {both} rows ({named})"
