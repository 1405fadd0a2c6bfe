"""The content of a leaderboard: runs found below some folders, grouped by what may be compared, and ranked.

Two results are on one leaderboard only if they belong to the same task in the same version, were computed from the same
examples, and were recorded with the same major version of the schema; prompts must have the same text where both runs
used one. All others are on leaderboards of their own, which say what is different.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from figeval.errors import FigevalError, RecordError
from figeval.frontend import warn
from figeval.io.text import one_line
from figeval.records import conditions
from figeval.records.notes import shared_notes
from figeval.records.provenance import installed, now
from figeval.records.run_folder import find_record
from figeval.records.schema import BaselineRecord, MacroRecord, RunRecord, ScoreRecord, TaskRecord
from figeval.records.sweep import SEEDS, SeedsRecord, read
from figeval.runs.harness import Harness
from figeval.spec.loader import INCLUDED, Catalogue
from figeval.types import Interval
from figeval.wings.comparison.sides import Side
from figeval.wings.report.board_record import Absence, BoardRecord, Leaderboard
from figeval.wings.report.board_rows import Data, Entry, Kind, Standing, rows_of

OTHERS = "other tasks"  # benchmark of tasks that are not installed
INSIDE_RUNS = frozenset({"earlier", "shards", "predictions", "replies", "logs"})  # no runs of their own are there


def board_content(paths: Sequence[Path], harness: Harness, seed: int = 0) -> tuple[BoardRecord, list[Entry]]:
    """Collect the leaderboards of all runs below some folders, and the entries on them.

    A damaged run is skipped with a warning.

    Args:
        paths: folders that contain runs at any depth.
        harness: the installed tasks, which say what benchmark a task belongs to.
        seed: random seed of the sign-flip tests.

    Raises:
        RecordError: a folder does not exist, or there is no readable run below any of them.
    """
    entries = _entries(_sides(paths))
    if not entries:
        where = ", ".join(map(str, paths))
        raise RecordError(f"there is no readable run (run.json) below {where}; give a folder in which runs are stored")
    owners = _owners(harness)
    found: dict[tuple[Kind, str], list[Standing]] = {}
    absent = [one for entry in entries for one in _absent(entry)]
    for entry in entries:
        for one in _standings(entry, harness):
            found.setdefault((one.kind, one.name), []).append(one)
    boards = [board for standings in found.values() for board in _leaderboards(standings, owners, seed)]
    kinds: dict[Kind, int] = {"suite": 0, "contrast": 1, "task": 2}
    places = {name: place for place, name in enumerate(owners)}
    boards.sort(
        key=lambda one: (
            *(one.benchmark == OTHERS, one.benchmark, kinds[one.kind]),
            places.get(re.split("[@:]", one.name)[0], len(places)),
        )
    )
    version = installed("figeval") or "unknown"
    return BoardRecord(made=now(), figeval=version, runs=len(entries), leaderboards=boards, absent=absent), entries


# ---- the runs below a folder -----------------------------------------------------------------------------------------


def _sides(paths: Sequence[Path]) -> dict[Path, Side]:
    """Return the runs below some folders by their own; those of several seeds count as one."""
    places: dict[Path, Path] = {}
    for path in paths:
        if not path.exists():
            raise RecordError(f"{path} does not exist; give a folder in which runs are stored")
        for place in _places(path if path.is_dir() else path.parent):
            places.setdefault(place.resolve(), place)
    found: dict[Path, Side] = {}
    members: set[Path] = set()
    # Folders of several seeds come first, because the runs of their seeds are no entries of their own.
    for own, place in sorted(places.items(), key=lambda item: not (item[0] / SEEDS).is_file()):
        if own in members:
            continue
        try:
            found[place] = Side.at(place)
            if (own / SEEDS).is_file():
                runs = read(SeedsRecord, own / SEEDS).runs.values()
                members |= {find_record(own / run).parent.resolve() for run in runs}
        except (FigevalError, OSError) as error:
            warn(f"{place} is skipped: {error}")
    return _without_copies(found)


def _places(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top, onerror=lambda error: warn(f"{error.filename} is skipped: {error}")):
        here = Path(folder)
        is_run = "run.json" in files
        if is_run or SEEDS in files:
            yield here
        folders[:] = sorted(one for one in folders if not one.startswith(".") and not (is_run and one in INSIDE_RUNS))


def _without_copies(sides: Mapping[Path, Side]) -> dict[Path, Side]:
    """Return the runs without copies of the same run in another folder, which would be tied with it."""
    known: dict[str, Path] = {}
    for place, side in sides.items():
        content = side.record.model_dump_json(exclude={"schema_version", "digests"})
        first = known.setdefault(content, place)
        if first != place:
            warn(f"{place} is skipped: it is a copy of {first}")
    return {place: sides[place] for place in known.values()}


def _entries(sides: Mapping[Path, Side]) -> list[Entry]:
    """Return the entries, the newest run first, with a label and a page of its own for each."""
    ordered = sorted(sides.items(), key=lambda item: item[1].record.started, reverse=True)
    labels = conditions.labels([side.record for _, side in ordered])
    pages: dict[str, None] = {}
    for (_, side), label in zip(ordered, labels, strict=True):
        stem = re.sub(r"[^0-9a-z]+", "-", f"{label} {side.record.identity}".lower()).strip("-")[-60:].lstrip("-")
        name, times = stem, 1
        while name in pages:
            times += 1
            name = f"{stem}-{times}"
        pages[name] = None
    return [
        Entry(place, side, one_line(label, 120), f"runs/{name}.html")
        for (place, side), label, name in zip(ordered, labels, pages, strict=True)
    ]


# ---- results ---------------------------------------------------------------------------------------------------------


def _owners(harness: Harness) -> dict[str, str]:
    """Return the benchmark of each installed task and suite: its plugin, or the folder of the user's own task file."""
    catalogue = harness.catalogue
    return {
        entry.name: _folder_of(entry.name, catalogue) if entry.owner == INCLUDED else entry.owner.rpartition(".")[2]
        for registry in (catalogue.tasks, catalogue.suites)
        for entry in registry
    }


def _folder_of(name: str, catalogue: Catalogue) -> str:
    """Return the name of the folder with a task, or with the first task of a suite."""
    try:
        folders = [task.folder for task in catalogue.expand([name])]
    except FigevalError:  # a task file with an error
        folders = []
    return next((one_line(folder.resolve().name, 60) for folder in folders if isinstance(folder, Path)), OTHERS)


def _absent(entry: Entry) -> Iterator[Absence]:
    for task in entry.side.record.tasks:
        if task.kind != "probe" and not _is_ranked(task):
            why = (
                "failed" if task.status == "failed" else "has no score" if task.status == "done" else "is not finished"
            )
            yield Absence(model=entry.label, task=task.task, why=why)


def _is_ranked(task: TaskRecord) -> bool:
    return task.status == "done" and any(score.value is not None for score in task.scores)


def _standings(entry: Entry, harness: Harness) -> Iterator[Standing]:
    """Yield the results of an entry: its tasks and prompts, the contrasts, and the means over suites."""
    record = entry.side.record
    major = min(
        int(run.schema_version.partition(".")[0]) for run, _ in entry.side.runs
    )  # a mean is always a new record
    own = {task.task: task for task in record.tasks if task.kind != "probe" and _is_ranked(task)}
    for name, task in own.items():
        data = Data(_portion(task, record), major, task.version, task.examples_sha256, task.template_sha256 or "")
        yield Standing(entry, name, "task", data, task.n, task.scores, _floors(task.baselines, record), task)
    for contrast in record.contrasts:
        if members := [own[name] for name in contrast.tasks if name in own]:
            data = _joint(members, record, major)
            examples, floors = contrast.positive + contrast.negative, _floors(contrast.baselines, record)
            yield Standing(entry, contrast.name, "contrast", data, examples, contrast.scores, floors)
    macros: dict[str, list[MacroRecord]] = {}
    for macro in record.macro:
        if macro.value is not None:
            macros.setdefault(macro.suite, []).append(macro)
    for suite, means in macros.items():
        if members := _members(suite, own, harness):
            scores = [_mean(one) for one in means]
            yield Standing(entry, suite, "suite", _joint(members, record, major), means[0].tasks, scores, [])


def _floors(baselines: Sequence[BaselineRecord], record: RunRecord) -> list[BaselineRecord]:
    """Return baselines of which those that are this model on a probe are named after it."""
    probes = {one.variant for one in record.tasks if one.kind == "probe"}

    def is_own(one: BaselineRecord) -> bool:
        return bool(one.weights) or one.baseline in probes

    name = record.model.name
    return [
        one.model_copy(update={"baseline": f"{name} on {one.baseline}"}) if is_own(one) else one for one in baselines
    ]


def _mean(macro: MacroRecord) -> ScoreRecord:
    why = Interval(reason=f"an unweighted mean over {macro.tasks} tasks")
    return ScoreRecord(
        metric=macro.metric,
        value=macro.value,
        low=None,
        high=None,
        stderr=None,
        n=macro.tasks,
        clusters=macro.tasks,
        interval=why,
        seen=macro.seen,
    )


def _members(suite: str, own: Mapping[str, TaskRecord], harness: Harness) -> list[TaskRecord]:
    try:
        names = [task.name for task in harness.catalogue.expand([suite])]
    except FigevalError:  # the suite or one of its tasks is not installed
        names = []
    return [own[name] for name in names if name in own] or [one for one in own.values() if one.kind == "task"]


def _portion(task: TaskRecord, record: RunRecord) -> str:
    """Return which examples a run used, in words; empty if it used all."""
    if task.n >= task.available:
        return ""
    flags = conditions.portion(record.config) or "part of the examples"
    of = f"{task.n:,} of {task.available:,} examples"
    return f"{flags}: a random sample of {of}" if task.sample_sha256 else f"{flags}: the first {of}"


def _joint(tasks: Sequence[TaskRecord], record: RunRecord, major: int) -> Data:
    """Return the data of several tasks together."""
    names = sorted(tasks, key=lambda task: task.task)
    portions = [portion for task in names if (portion := _portion(task, record))]
    examples = _digest(f"{task.task} {task.version} {task.examples_sha256}{_part(task)}" for task in names)
    templates = [task.template_sha256 for task in names if task.template_sha256]
    portion = f"{conditions.portion(record.config) or 'part of the examples'}: not all examples" if portions else ""
    return Data(portion, major, 0, examples, _digest(templates) if templates else "")


def _part(task: TaskRecord) -> str:
    """Return which part of its examples a task used, so that runs on other parts are on other leaderboards."""
    return "" if task.n >= task.available else f" {task.n} {task.sample_sha256 or 'first'}"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


# ---- leaderboards ----------------------------------------------------------------------------------------------------


def _leaderboards(standings: Sequence[Standing], owners: Mapping[str, str], seed: int) -> Iterator[Leaderboard]:
    """Yield the leaderboards of one task, contrast or suite, that of all examples and most runs first."""
    groups: dict[tuple[Data, str], list[Standing]] = {}
    for one in _with_shared_prompts(standings):
        sampled = one.task.sample_sha256 if one.task is not None else ""
        groups.setdefault((one.data, sampled or ""), []).append(one)
    ordered = sorted(
        groups.values(),
        key=lambda standings: (
            not standings[0].data.portion,
            standings[0].data[1:3],
            len(standings),
            standings[0].examples,
            standings[0].entry.side.record.started,
        ),
        reverse=True,
    )
    first = ordered[0][0]
    benchmark = _benchmark(first, owners)
    for place, own in enumerate(ordered):
        apart = "" if place == 0 and not first.data.portion else _apart(own[0], first if place else None)
        metric = next(score.metric for score in own[0].scores)
        rows = rows_of(own, metric, seed)
        yield Leaderboard(
            name=first.name,
            kind=first.kind,
            benchmark=benchmark,
            metric=metric,
            apart=apart,
            examples=own[0].examples,
            examples_sha256=own[0].data.examples,
            rows=rows,
            notes=list(_notes(own)),
        )


def _notes(standings: Sequence[Standing]) -> Iterator[str]:
    """Yield the notes about the results of a leaderboard, with the models that they are about if not about all."""
    records = [standing.entry.side.record for standing in standings]
    metrics = [score.metric for score in standings[0].scores]
    for note, indexes in shared_notes(records, [standings[0].name], metrics).items():
        models = ", ".join(standings[index].entry.label for index in indexes)
        yield note if len(indexes) == len(standings) else f"{models}: {note}"


def _with_shared_prompts(standings: Sequence[Standing]) -> Iterator[Standing]:
    """Yield the results; those with the most frequent prompt are on one leaderboard with those without a prompt."""
    by_data: dict[Data, list[Standing]] = {}
    for one in standings:
        by_data.setdefault(one.data._replace(template=""), []).append(one)
    for own in by_data.values():
        used = Counter(one.data.template for one in own if one.data.template)
        common = used.most_common(1)[0][0] if used else ""
        for one in own:
            yield one._replace(data=one.data._replace(template="")) if one.data.template == common else one


def _benchmark(one: Standing, owners: Mapping[str, str]) -> str:
    name = one.task.of or one.name if one.task is not None else one.name.partition(":")[0]
    return owners.get(name, OTHERS)


def _apart(one: Standing, first: Standing | None) -> str:
    """Return what distinguishes the data of a result from that of the first leaderboard, in words."""
    own, told = one.data, []
    if own.portion:
        told.append(own.portion)
    if first is not None:
        other = first.data
        if own.schema != other.schema:
            told.append(f"recorded with schema {own.schema}.x, not {other.schema}.x")
        if own.version != other.version:
            told.append(f"version {own.version} of the task, not {other.version}")
        if own.examples != other.examples:
            told.append(f"other examples (sha256 {own.examples:.8}…, not {other.examples:.8}…)")
        if own.template != other.template:
            named = one.task.template if one.task is not None and one.task.template else "the template"
            told.append(f"another prompt ({one_line(named, 60)}, sha256 {own.template:.8}…)")
        told = told or ["another random sample"]
    return "; ".join(told)
