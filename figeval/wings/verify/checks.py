"""Verification of a run: its files are compared with their digests, and all that it says with what is recomputed.

`figeval.recompute` computes the record and the rows of the run again from its stored rows and the tasks' data, so that
renewed digests do not help a forger. What it leaves as it is, such as times and versions, only the digests protect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from figeval import Harness, RecomputedRun, RecomputedTask, RecordError, RunRecord, recompute
from figeval.io.text import one_line
from figeval.records.provenance import installed_version, recorded_packages
from figeval.records.run_folder import RunFolder, find_record, read_record
from figeval.records.schema import SCHEMA_VERSION
from figeval.wings.verify.json_differences import Difference, find_differences, join_texts

State: TypeAlias = Literal["ok", "problem", "note", "not checked"]
DESCRIPTION = {  # fields of a task that say what was asked, and how
    *("task", "kind", "of", "variant", "version", "task_type", "route", "n", "available", "only_label", "hidden"),
    *("examples_sha256", "sample_sha256", "template", "template_sha256", "settings", "words", "legend", "predictions"),
}
WORDING = {"route", "settings", "words", "legend", "warnings", "tokens"}  # other versions of figeval may differ there
MAX_DETAIL_CHARS = 900
SUMMARY = {"macro", "contrasts", "spreads", "variances"}
OF_THE_TASKS = {"tasks", "identity"}  # fields of a run that are compared apart from the others


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    Attributes:
        part: the part of the run that was checked: `run.json`, a task, or `run`.
        name: what was checked.
        state: `problem` makes the verification fail; a `note` does not.
        detail: what was found, or why it could not be checked; one line.
    """

    part: str
    name: str
    state: State
    detail: str = ""


@dataclass(slots=True)
class Report:
    """The results of checks, in order."""

    checks: list[Check] = field(default_factory=list)

    def add(self, part: str, name: str, state: State, detail: str) -> None:
        """Add the result of a check."""
        self.checks.append(Check(part, name, state, one_line(detail, MAX_DETAIL_CHARS)))

    def judge(self, part: str, name: str, problems: Sequence[str], success: str) -> None:
        """Add a check that lists the problems, or that all is well."""
        self.add(part, name, "problem" if problems else "ok", join_texts(problems) if problems else success)

    def compare(
        self,
        part: str,
        name: str,
        differences: Iterable[Difference],
        success: str,
        *,
        second: str = "recomputed",
        problems: Iterable[str] = (),
    ) -> None:
        """Add a check that lists problems and differences, and a note on those that are only rounding.

        `second` introduces the second value of each difference. Without a text for success, none is added.
        """
        texts: dict[bool, list[str]] = {False: [*problems], True: []}
        for difference in differences:
            texts[difference.is_rounding].append(difference.describe(second))
        if texts[False] or success:
            self.judge(part, name, texts[False], success)
        if texts[True]:
            self.add(part, name, "note", join_texts(texts[True]))


def check_run(
    path: Path, harness: Harness, *, data: bool = True, progress: Callable[[str], None] = lambda _: None
) -> list[Check]:
    """Recompute what a run contains and compare it with what is stored; nothing is written.

    Args:
        path: the folder of the run, or its `run.json`.
        harness: registries that provide tasks, metrics and baselines.
        data: False to leave out what needs the data of the tasks.
        progress: function that receives the name of each task before it is checked.

    Raises:
        RecordError: `run.json` cannot be read, or was written by a later version of figeval.
    """
    _, file = read_checkable(path)
    verification = _Verification(run=recompute(path, harness, data=data), folder=RunFolder(file.parent))
    verification.check_record()
    tasks = verification.run.tasks()
    for record in verification.run.stored.tasks:
        progress(record.task)
        verification.check_task(next(tasks))
    verification.check_scores()
    verification.add("run", "model", "not checked", "its answers; only running it again can confirm them")
    return verification.checks


def read_checkable(path: Path) -> tuple[RunRecord, Path]:
    """Return the record of a run and its file.

    Raises:
        RecordError: it cannot be read, or a later figeval wrote it, which may have fields that this one cannot check.
    """
    file = find_record(path)
    record = read_record(file)
    major, _, minor = record.schema_version.partition(".")
    known_major, known_minor = SCHEMA_VERSION.split(".")
    if major == known_major and (not minor.isdecimal() or int(minor) > int(known_minor)):
        raise RecordError(
            f"{file} has schema version {record.schema_version}, and this version of figeval verifies up to "
            f"{SCHEMA_VERSION}; update figeval"
        )
    return record, file


@dataclass(slots=True, kw_only=True)
class _Verification(Report):
    """The checks of one run."""

    run: RecomputedRun
    folder: RunFolder

    @property
    def _uncompared(self) -> set[str]:
        """Fields in which the version of figeval that wrote the run may differ from this one."""
        return WORDING if self._writer != installed_version("figeval") else set()

    @property
    def _writer(self) -> str | None:
        return recorded_packages(self.run.stored.provenance).get("figeval")

    # ---- run.json ----------------------------------------------------------------------------------------------------

    def check_record(self) -> None:
        """Compare the record with its digests, and its identity with its settings."""
        record = self.run.stored
        names = Counter(task.task for task in record.tasks)
        if duplicates := [f"{name} is listed {count} times" for name, count in names.items() if count > 1]:
            self.judge("run.json", "tasks", duplicates, "")
        self._check_digests(record.schema_version)
        if self._writer != (verifier := installed_version("figeval")):
            text = (
                f"figeval {self._writer} wrote it, {verifier} verifies it; scores may differ because the code changed"
            )
            self.add("run.json", "version", "note", text)
        if record.schema_version.startswith("1."):
            return
        identity = self.run.config.identity()
        problems = [] if identity == record.identity else [f"is {record.identity}, the settings give {identity}"]
        self.judge("run.json", "identity", problems, f"identity {identity}")

    def _check_digests(self, schema_version: str) -> None:
        version = f"schema {schema_version}"
        parts = self.folder.changed_parts()
        if parts is None:
            gap = "times, versions, hardware and the command: the record has no digests"
            self.add("run.json", "digests", "not checked", f"{gap} ({version})")
        elif parts == ["layout"]:
            self.add("run.json", "digests", "problem", "spaces, the order of keys or a digest were changed")
        else:
            problems = [f"{part} was changed since it was written" for part in parts]
            self.judge("run.json", "digests", problems, f"unchanged since it was written ({version})")

    # ---- a task ------------------------------------------------------------------------------------------------------

    def check_task(self, task: RecomputedTask) -> None:
        """Check the file of a task's predictions, and compare the task and its rows with what was recomputed."""
        name = task.stored.task
        if not self._check_file(task):
            return
        if task.example_ids is not None:
            differences = _differences(task.stored, task.record, DESCRIPTION - self._uncompared)
            examples = f"{task.record.available} examples as recorded"
            self.compare(name, "data", differences, examples, second="the task says")
            self._compare_rows(task, task.example_ids)
        for gap in task.gaps:
            self.add(name, gap.name, "problem" if gap.is_damage else "not checked", gap.reason)

    def _check_file(self, task: RecomputedTask) -> bool:
        """Check the file with the rows of a task; return whether there are rows to work with."""
        record, folder = task.stored, self.folder
        problems = [gap.reason for gap in task.gaps if gap.name == "predictions"]
        if not problems and not folder.has_predictions(record.task):
            self.add(record.task, "predictions", "not checked", f"{record.predictions} is not there")
            return False
        if problems:
            self.judge(record.task, "predictions", problems, "")
            return False
        try:
            folder.check(record)
        except RecordError as error:
            problems.append(str(error))
        if record.predictions != f"predictions/{record.task}.jsonl":
            problems.append(f"`predictions` names {record.predictions}, not predictions/{record.task}.jsonl")
        if record.status == "done" and len(task.rows) != record.n:
            problems.append(f"{record.predictions} has {len(task.rows)} complete rows, `n` is {record.n}")
        elif folder.is_torn(record.task):
            problems.append(f"{record.predictions} does not end with a line feed")
        digest = "" if record.predictions_sha256 else ", no digest to compare the file with"
        self.judge(record.task, "predictions", problems, f"{len(task.rows)} rows{digest}")
        return True

    def _compare_rows(self, task: RecomputedTask, example_ids: Sequence[str]) -> None:
        """Compare the stored rows of a task with the recomputed ones, and their ids with those of its examples."""
        row_ids, known_ids = {row["id"] for row in task.rows}, set(example_ids)
        unknown = (row["id"] for row in task.rows if row["id"] not in known_ids)
        problems = [f"row {one_line(row_id, 60)!r} is for an example that the run does not have" for row_id in unknown]
        problems += [f"there is no row for {one_line(row_id, 60)!r}" for row_id in example_ids if row_id not in row_ids]
        differences = (
            difference.within(f"row {one_line(row['id'], 60)!r}")
            for row, new_row in zip(task.rows, task.new_rows, strict=True)
            for difference in find_differences(row, new_row)
        )
        success = f"{task.n_recomputed} of {len(task.rows)} recomputed from their examples"
        self.compare(task.stored.task, "rows", differences, success, problems=problems)

    # ---- scores ------------------------------------------------------------------------------------------------------

    def check_scores(self) -> None:
        """Compare the scores of the tasks, and what the record says about all of them, with what was recomputed."""
        stored, new = self.run.stored, self.run.record
        for task, new_task in zip(stored.tasks, new.tasks, strict=True):
            if task.task in self.run.scored:
                fields = set(type(task).model_fields) - DESCRIPTION - self._uncompared
                differences = _differences(task, new_task, fields)
                self.compare(task.task, "scores", differences, "scores recomputed from the rows")
        for gap in self.run.gaps:
            self.add("run", gap.name, "problem" if gap.is_damage else "not checked", gap.reason)
        if any(gap.name == "summary" for gap in self.run.gaps):
            return
        fields = set(RunRecord.model_fields) - OF_THE_TASKS - self._uncompared
        if stored.schema_version.startswith("1.") and not stored.contrasts and new.contrasts:
            fields.discard("contrasts")
            self.add("run", "contrasts", "note", "the version of figeval that wrote the record computed none")
        has_summary = any(getattr(stored, name) or getattr(new, name) for name in SUMMARY & fields)
        success = "means, spreads and contrasts recomputed" if has_summary else ""
        self.compare("run", "summary", _differences(stored, new, fields), success)


def _differences(stored: Any, new: Any, fields: set[str]) -> Iterable[Difference]:
    """Return the differences of two records in these fields, as JSON."""
    return find_differences(*(record.model_dump(mode="json", include=fields) for record in (stored, new)))
