"""The content of `figeval board`: the runs below some folders, and their results on tasks, contrasts and suites."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from figeval import FigevalError, Harness, Interval, RecordError, RunRecord, TaskRecord
from figeval.io.frontend import warn
from figeval.io.text import one_line
from figeval.records import conditions
from figeval.records.provenance import installed_version, now
from figeval.records.run_folder import find_record
from figeval.records.schema import BaselineRecord, MacroRecord, ScoreRecord
from figeval.records.sweep import SEEDS, SeedsRecord, read, run_or_seeds
from figeval.wings.report.content import StoredRuns
from figeval.wings.report.leaderboard import OTHER_BENCHMARK, PART, BoardEntry, BoardResult, Data, Kind, leaderboards
from figeval.wings.report.record import Absence, BoardRecord, Leaderboard

INSIDE_RUNS = frozenset({"earlier", "shards", "predictions", "replies", "logs"})  # no runs of their own are there


def board_content(paths: Sequence[Path], harness: Harness, seed: int = 0) -> tuple[BoardRecord, list[BoardEntry]]:
    """Collect the leaderboards of all runs below some folders, and the entries on them.

    A damaged run is skipped with a warning.

    Args:
        paths: folders that contain runs at any depth.
        harness: the installed tasks, which say what benchmark a task belongs to.
        seed: random seed of the sign-flip tests.

    Raises:
        RecordError: a folder does not exist, or there is no readable run below any of them.
    """
    entries = _entries(_read_runs(paths))
    if not entries:
        folders = ", ".join(map(str, paths))
        raise RecordError(
            f"there is no readable run (run.json) below {folders}; give a folder in which runs are stored"
        )
    owners = _owners(harness)
    results: dict[tuple[Kind, str], list[BoardResult]] = {}
    for board_entry in entries:
        for result in _results(board_entry, harness):
            results.setdefault((result.kind, result.name), []).append(result)
    boards = [board for group in results.values() for board in leaderboards(group, owners, seed)]
    kinds: dict[Kind, int] = {"suite": 0, "contrast": 1, "task": 2}
    order = {name: index for index, name in enumerate(owners)}

    def position(board: Leaderboard) -> tuple[object, ...]:
        is_other, name = board.benchmark == OTHER_BENCHMARK, re.split("[@:]", board.name)[0]
        return (is_other, board.benchmark, kinds[board.kind], order.get(name, len(order)))

    boards.sort(key=position)
    absent = [absence for board_entry in entries for absence in _absences(board_entry)]
    version = installed_version("figeval") or "unknown"
    return BoardRecord(made=now(), figeval=version, runs=len(entries), leaderboards=boards, absent=absent), entries


# ---- the runs below a folder -----------------------------------------------------------------------------------------


def _read_runs(paths: Sequence[Path]) -> dict[Path, StoredRuns]:
    """Return the runs below some folders by their own; those of several seeds count as one."""
    folders: dict[Path, Path] = {}  # by their absolute path
    for path in paths:
        if not path.exists():
            raise RecordError(f"{path} does not exist; give a folder in which runs are stored")
        for folder in _find_folders(path if path.is_dir() else path.parent):
            folders.setdefault(folder.resolve(), folder)
    runs: dict[Path, StoredRuns] = {}
    members: set[Path] = set()
    # Folders of several seeds come first, because the runs of their seeds are no entries of their own.
    for resolved, folder in sorted(folders.items(), key=lambda item: not (item[0] / SEEDS).is_file()):
        if resolved in members:
            continue
        try:
            runs[folder] = run_or_seeds(folder)
            if (resolved / SEEDS).is_file():
                seeds = read(SeedsRecord, resolved / SEEDS).runs.values()
                members |= {find_record(resolved / run).parent.resolve() for run in seeds}
        except (FigevalError, OSError) as error:
            warn(f"{folder} is skipped: {error}")
    return _drop_copies(runs)


def _find_folders(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top, onerror=lambda error: warn(f"{error.filename} is skipped: {error}")):
        is_run = "run.json" in files
        if is_run or SEEDS in files:
            yield Path(folder)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and not (is_run and name in INSIDE_RUNS)
        )


def _drop_copies(runs: Mapping[Path, StoredRuns]) -> dict[Path, StoredRuns]:
    """Return the runs without copies of the same run in another folder, which would be tied with it."""
    originals: dict[str, Path] = {}
    for path, (record, _) in runs.items():
        content = record.model_dump_json(exclude={"schema_version", "digests"})
        first = originals.setdefault(content, path)
        if first != path:
            warn(f"{path} is skipped: it is a copy of {first}")
    return {path: runs[path] for path in originals.values()}


def _entries(runs: Mapping[Path, StoredRuns]) -> list[BoardEntry]:
    """Return the entries, the newest run first, with a label and a page of its own for each."""
    ordered = sorted(runs.items(), key=lambda item: item[1][0].started, reverse=True)
    records = conditions.with_scores_of_all([record for _, (record, _) in ordered])
    labels = conditions.labels(records)
    pages: dict[str, None] = {}
    for record, label in zip(records, labels, strict=True):
        stem = re.sub(r"[^0-9a-z]+", "-", f"{label} {record.identity}".lower()).strip("-")[-60:].lstrip("-")
        name, number = stem, 1
        while name in pages:
            number += 1
            name = f"{stem}-{number}"
        pages[name] = None
    return [
        BoardEntry(path, record, members, one_line(label, 120), f"runs/{name}.html")
        for (path, (_, members)), record, label, name in zip(ordered, records, labels, pages, strict=True)
    ]


# ---- results ---------------------------------------------------------------------------------------------------------


def _owners(harness: Harness) -> dict[str, str]:
    """Return the benchmark of each installed task and suite: its plugin, or the folder of the user's own task file."""
    catalogue, plugins = harness.catalogue, harness.manager.plugins
    return {
        entry.name: entry.owner.rpartition(".")[2] if entry.owner in plugins else _folder_name(entry.name, harness)
        for registry in (catalogue.tasks, catalogue.suites)
        for entry in registry
    }


def _folder_name(name: str, harness: Harness) -> str:
    """Return the name of the folder with a task, or with the first task of a suite."""
    try:
        folders = [task.folder for task in harness.catalogue.expand([name])]
    except FigevalError:  # a task file with an error
        folders = []
    names = (one_line(folder.resolve().name, 60) for folder in folders if isinstance(folder, Path))
    return next(names, OTHER_BENCHMARK)


def _absences(board_entry: BoardEntry) -> Iterator[Absence]:
    for task in board_entry.record.tasks:
        if task.kind != "probe" and not _is_ranked(task):
            reason = {"failed": "failed", "done": "has no score"}.get(task.status, "is not finished")
            yield Absence(model=board_entry.label, task=task.task, why=reason)


def _is_ranked(task: TaskRecord) -> bool:
    return task.status == "done" and any(score.value is not None for score in task.scores)


def _results(board_entry: BoardEntry, harness: Harness) -> Iterator[BoardResult]:
    """Yield the results of an entry: its tasks and prompts, the contrasts, and the means over suites."""
    record = board_entry.record
    # The record of a mean is always new, so the version is that of the runs.
    major = min(int(run.schema_version.partition(".")[0]) for run, _ in board_entry.runs)
    tasks = {task.task: task for task in record.tasks if task.kind != "probe" and _is_ranked(task)}
    for name, task in tasks.items():
        data = Data(_portion(task, record), major, task.version, task.examples_sha256, task.template_sha256 or "")
        yield BoardResult(
            board_entry, name, "task", data, task.n, task.scores, _name_floors(task.baselines, record), task
        )
    for contrast in record.contrasts:
        if members := [tasks[name] for name in contrast.tasks if name in tasks]:
            data = _joint_data(members, record, major)
            examples, floors = contrast.positive + contrast.negative, _name_floors(contrast.baselines, record)
            yield BoardResult(board_entry, contrast.name, "contrast", data, examples, contrast.scores, floors)
    macros: dict[str, list[MacroRecord]] = {}
    for macro in record.macro:
        if macro.value is not None:
            macros.setdefault(macro.suite, []).append(macro)
    for suite, means in macros.items():
        if members := _members(suite, tasks, harness):
            data, scores = _joint_data(members, record, major), list(map(_mean_score, means))
            names = [task.task for task in members]
            yield BoardResult(board_entry, suite, "suite", data, means[0].tasks, scores, [], members=names)


def _name_floors(baselines: Sequence[BaselineRecord], record: RunRecord) -> list[BaselineRecord]:
    """Return baselines of which those that are this model on a probe are named after it."""
    probes = {task.variant for task in record.tasks if task.kind == "probe"}
    return [
        baseline.model_copy(update={"baseline": f"{record.model.name} on {baseline.baseline}"})
        if baseline.weights or baseline.baseline in probes
        else baseline
        for baseline in baselines
    ]


def _mean_score(macro: MacroRecord) -> ScoreRecord:
    return ScoreRecord(
        metric=macro.metric,
        value=macro.value,
        low=None,
        high=None,
        stderr=None,
        n=macro.tasks,
        clusters=macro.tasks,
        interval=Interval(reason=f"an unweighted mean over {macro.tasks} tasks"),
        seen=macro.seen,
    )


def _members(suite: str, tasks: Mapping[str, TaskRecord], harness: Harness) -> list[TaskRecord]:
    try:
        names = [task.name for task in harness.catalogue.expand([suite])]
    except FigevalError:  # the suite or one of its tasks is not installed
        names = []
    return [tasks[name] for name in names if name in tasks] or [t for t in tasks.values() if t.kind == "task"]


def _portion(task: TaskRecord, record: RunRecord) -> str:
    """Return which examples a run used, in words; empty if it used all."""
    if task.n >= task.available:
        return ""
    flags = conditions.portion(record.config) or PART
    size = f"{task.n:,} of {task.available:,} examples"
    return f"{flags}: a random sample of {size}" if task.sample_sha256 else f"{flags}: the first {size}"


def _joint_data(tasks: Sequence[TaskRecord], record: RunRecord, major: int) -> Data:
    """Return the data of several tasks together."""
    ordered = sorted(tasks, key=lambda task: task.task)
    is_partial = any(_portion(task, record) for task in ordered)
    examples = _digest(f"{task.task} {task.version} {task.examples_sha256}{_sample(task)}" for task in ordered)
    templates = [task.template_sha256 for task in ordered if task.template_sha256]
    portion = f"{conditions.portion(record.config) or PART}: not all examples" if is_partial else ""
    return Data(portion, major, 0, examples, _digest(templates) if templates else "")


def _sample(task: TaskRecord) -> str:
    """Return which part of its examples a task used, so that runs on other parts are on other leaderboards."""
    return "" if task.n >= task.available else f" {task.n} {task.sample_sha256 or 'first'}"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
