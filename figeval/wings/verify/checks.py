"""Verification of a run: everything in its record that can be recomputed is recomputed and compared.

Scores are recomputed from the stored rows, rows from the task's data, and baselines by asking them again. Digests
protect what no computation confirms, such as times and versions (`figeval.records.integrity`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from figeval import (
    DataError,
    FigevalError,
    Harness,
    RecordError,
    RunConfig,
    RunRecord,
    TaskRecord,
    TaskSpec,
    UnknownName,
)
from figeval.errors import MissingData
from figeval.io.text import one_line
from figeval.io.validation import first_problem
from figeval.plugins import describe
from figeval.prompts import Shots
from figeval.records.integrity import changed_parts
from figeval.records.predictions import PredictionRow
from figeval.records.provenance import installed
from figeval.records.run_folder import RunFolder, find_record, read_record
from figeval.records.schema import SCHEMA_VERSION, BaselineRecord
from figeval.runs.baselines import Baselines, BaselineScores, is_superseded, substitute_name
from figeval.runs.contrasts import Discrimination, contrasts_of
from figeval.runs.plan import Plan, baselines_of, context_of, pool_of, template_of
from figeval.runs.rescore import AnswerReader, reader_of, reading_of, recorded_metrics, recorded_route
from figeval.runs.score import MetricSet, TaskScorer, summarize
from figeval.runs.selection_bias import unseen_examples, withhold_intervals
from figeval.runs.stored import metrics_in
from figeval.runs.variants import Variant, recorded_variant
from figeval.spec.survey import Portion, Survey, survey
from figeval.wings.verify.json_differences import find_differences, join_texts
from figeval.wings.verify.rows import RecomputedRows

State: TypeAlias = Literal["ok", "problem", "note", "not checked"]
SCORES = ("scores", "counts", "breakdowns", "languages", "choices", "overlap", "baselines")
SUMMARY = ("macro", "contrasts", "spreads")
NO_DATA = "needs the task's data (--no_data)"


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
    record, file = read_checkable(path)
    verification = _Verification(record, RunFolder(file.parent), harness, data, _config_of(record, file))
    verification.check_record(file)
    for task, fresh in zip(record.tasks, verification.fresh.tasks, strict=True):
        progress(task.task)
        verification.check_task(task, fresh)
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


def _config_of(record: RunRecord, file: Path) -> RunConfig:
    """Return the configuration of a recorded run; flags that the record does not have yet have their default.

    Raises:
        RecordError: a flag has a value that it cannot have.
    """
    names = {flag.name for flag in fields(RunConfig)}
    flags: dict[str, Any] = {"tasks": (), "model": ""}
    flags |= {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.config.items()
        if name in names
    }
    try:
        TypeAdapter(RunConfig).validate_python(flags)  # which may turn 1 into 1.0, and that changes the identity
        return RunConfig(**flags)
    except ValidationError as error:
        raise RecordError(f"{file}: `config` has an invalid value ({one_line(first_problem(error), 200)})") from error


@dataclass(slots=True)
class _Verification:
    """The checks of one run; `fresh` is a copy of its record, into which recomputed scores are written."""

    record: RunRecord
    folder: RunFolder
    harness: Harness
    data: bool
    config: RunConfig
    checks: list[Check] = field(default_factory=list)
    scored: set[str] = field(default_factory=set)  # tasks whose scores were recomputed
    fresh: RunRecord = field(init=False)
    discrimination: Discrimination = field(init=False)
    baselines: Baselines = field(init=False)

    def __post_init__(self) -> None:
        self.fresh = self.record.model_copy(deep=True)
        try:
            self.discrimination = Discrimination(contrasts_of(self.config, self.harness))
        except FigevalError as error:
            self.discrimination = Discrimination(())
            self.add("run", "contrasts", "not checked", str(error))
        self.baselines = Baselines(self.harness, self.config.seed, self.discrimination.note)

    def add(self, part: str, name: str, state: State, detail: str = "") -> None:
        """Add the result of a check."""
        self.checks.append(Check(part, name, state, one_line(detail, 600)))

    def report(self, part: str, name: str, problems: Sequence[str], success: str, rounding: Sequence[str] = ()) -> None:
        """Add a check that lists the problems, or that all is well, and a note on rounding."""
        self.add(part, name, "problem" if problems else "ok", join_texts(problems) if problems else success)
        if rounding:
            self.add(part, name, "note", join_texts(rounding))

    # ---- run.json ----------------------------------------------------------------------------------------------------

    def check_record(self, file: Path) -> None:
        """Compare the record with its digests, and its identity with its settings."""
        names = Counter(task.task for task in self.record.tasks)
        if duplicates := [f"{name} is listed {count} times" for name, count in names.items() if count > 1]:
            self.report("run.json", "tasks", duplicates, "")
        self._check_digests(file)
        packages = self.record.provenance.get("packages")
        writer = packages.get("figeval") if isinstance(packages, Mapping) else None
        if writer != (verifier := installed("figeval")):
            text = f"figeval {writer} wrote it, {verifier} verifies it; scores may differ because the code changed"
            self.add("run.json", "version", "note", text)
        if self.record.schema_version.startswith("1."):
            return
        identity, recorded = self.config.identity(), self.record.identity
        problems = [] if identity == recorded else [f"is {recorded}, the settings give {identity}"]
        self.report("run.json", "identity", problems, f"identity {identity}")

    def _check_digests(self, file: Path) -> None:
        version = f"schema {self.record.schema_version}"
        parts = changed_parts(file)
        if parts is None:
            gap = "times, versions, hardware and the command: the record has no digests"
            self.add("run.json", "digests", "not checked", f"{gap} ({version})")
        elif parts == ["layout"]:
            self.add("run.json", "digests", "problem", "spaces, the order of keys or a digest were changed")
        else:
            problems = [f"{part} was changed since it was written" for part in parts]
            self.report("run.json", "digests", problems, f"unchanged since it was written ({version})")

    # ---- a task ------------------------------------------------------------------------------------------------------

    def check_task(self, task: TaskRecord, fresh: TaskRecord) -> None:
        """Check the predictions of a task and recompute its scores into `fresh`."""
        rows = self._rows(task)
        if rows is None:
            return
        if task.status != "done":
            self.add(task.task, "scores", "not checked", f"the status of the task is {task.status}")
            return
        try:
            spec = self._spec(task)
            metrics = self._metrics(task, rows, spec)
        except FigevalError as error:
            self.add(task.task, "scores", "not checked", str(error))
            return
        if gap := self._check_with_data(task, fresh, rows, spec, metrics):
            self.add(task.task, "data and baselines", "not checked", gap)
        has_groups = (
            any(score.metric == "acc_strict" for score in task.scores) if spec is None else spec.group is not None
        )
        scorer = TaskScorer(metrics=metrics, strict=has_groups, seed=self.config.seed, settings=task.settings)
        try:
            scorer.sum_up(fresh, lambda: rows, by=[breakdown.by for breakdown in task.breakdowns])
        except Exception as error:  # damaged rows may make a metric fail in any way
            self.add(task.task, "scores", "problem", f"cannot be computed from the rows: {describe(error)}")
            return
        self.scored.add(task.task)

    def _rows(self, task: TaskRecord) -> list[PredictionRow] | None:
        """Return the stored rows after checking the file, or None if there are none to work with."""
        try:
            if not self.folder.has_predictions(task.task):
                self.add(task.task, "predictions", "not checked", f"{task.predictions} is not there")
                return None
            problems = []
            try:
                self.folder.check(task)
            except RecordError as error:
                problems.append(str(error))
            rows = list(self.folder.rows(task.task))
            if task.predictions != f"predictions/{task.task}.jsonl":
                problems.append(f"`predictions` names {task.predictions}, not predictions/{task.task}.jsonl")
            if task.status == "done" and len(rows) != task.n:
                problems.append(f"{task.predictions} has {len(rows)} complete rows, `n` is {task.n}")
            elif self.folder.is_torn(task.task):
                problems.append(f"{task.predictions} does not end with a line feed")
        except RecordError as error:
            self.add(task.task, "predictions", "problem", str(error))
            return None
        digest = "" if task.predictions_sha256 else ", no digest to compare the file with"
        self.report(task.task, "predictions", problems, f"{len(rows)} rows{digest}")
        return rows

    def _spec(self, task: TaskRecord) -> TaskSpec | None:
        """Return the task if it is installed in the version that was run, else None."""
        try:
            (spec,) = self.harness.catalogue.expand([task.of or task.task])
        except UnknownName:
            return None
        return spec if spec.version == task.version else None

    def _metrics(self, task: TaskRecord, rows: Iterable[PredictionRow], spec: TaskSpec | None) -> MetricSet:
        """Return the metrics of a task, or without the task those that the record and its rows name."""
        metrics = None if spec is None else recorded_metrics(task, spec, self.config, self.harness)
        return metrics_in(task, rows, self.harness.metrics) if metrics is None else metrics

    # ---- what needs the data -----------------------------------------------------------------------------------------

    def _check_with_data(
        self,
        task: TaskRecord,
        fresh: TaskRecord,
        rows: list[PredictionRow],
        spec: TaskSpec | None,
        metrics: MetricSet,
    ) -> str:
        """Check data, rows and baselines, and write the baselines into `fresh`; return why that is impossible."""
        if not self.data:
            return NO_DATA
        if spec is None:
            return f"version {task.version} of {task.of or task.task} is not installed (--include_path)"
        try:
            variant = recorded_variant(task, self.config.seed, self.harness)
            flags = ("limit", "sample", "stratify", "seed")
            portion = Portion(**{name: getattr(self.config, name) for name in flags})
            available = survey(task.task, variant.examples, portion, variant.task.annotations)
        except (DataError, RecordError) as error:
            if isinstance(error, MissingData):
                return str(error)
            self.add(task.task, "data", "problem", str(error))
            return ""
        except FigevalError as error:
            return str(error)
        self._check_data(task, spec, variant, available)
        self._check_rows(task, rows, variant, available, metrics)
        self._ask_baselines(task, fresh, rows, variant, available, metrics)
        return ""

    def _check_data(self, task: TaskRecord, spec: TaskSpec, variant: Variant, available: Survey) -> None:
        route = recorded_route(task, self.harness)
        subset = available.subset
        expected: dict[str, Any] = {
            "n": subset.n,
            "available": available.n,
            "hidden": subset.hidden,
            "examples_sha256": available.sha256,
            "sample_sha256": subset.sample_sha256,
            "only_label": spec.only_label,
            "task_type": spec.type,
            "kind": variant.kind,
        }
        if route is not None:
            template = template_of(variant.task, route)
            expected["template"] = template.name if template else None
            expected["template_sha256"] = template.sha256 if template else None
        differences = find_differences({key: getattr(task, key) for key in expected}, expected)
        problems = [difference.describe("the task says") for difference in differences]
        self.report(task.task, "data", problems, f"{available.n} examples as recorded")

    def _check_rows(
        self, task: TaskRecord, rows: list[PredictionRow], variant: Variant, available: Survey, metrics: MetricSet
    ) -> None:
        examples = {example.id: example for example in available.subset.of(variant.examples())}
        recomputed = RecomputedRows(variant.task, examples, metrics, pool_of(variant.task, self.harness))
        recomputed.compare(rows, task.settings, self._row_reader(task, variant))
        success = f"{recomputed.n_recomputed} of {len(rows)} recomputed from their examples"
        self.report(task.task, "rows", recomputed.problems, success, recomputed.rounding)
        for reason, count in recomputed.gaps.items():
            self.add(task.task, "rows", "not checked", f"the metrics of {count} rows, which {reason}")
        for reason in dict.fromkeys(recomputed.metric_gaps.values()):
            names = ", ".join(name for name, gap in recomputed.metric_gaps.items() if gap == reason)
            self.add(task.task, "rows", "not checked", f"{names} of each row, {reason}")

    def _row_reader(self, task: TaskRecord, variant: Variant) -> AnswerReader | None:
        reader = reader_of(task, self.harness)
        if reader is None:
            return None
        if reader.version != task.extractor:
            reason = f"version {task.extractor} of the extractor read them, {reader.version} is installed"
            self.add(task.task, "replies", "not checked", reason)
            return None
        try:
            return reading_of(task, self.record, variant, self.harness)[0]
        except FigevalError as error:
            self.add(task.task, "replies", "not checked", str(error))
            return None

    def _ask_baselines(
        self,
        task: TaskRecord,
        fresh: TaskRecord,
        rows: list[PredictionRow],
        variant: Variant,
        available: Survey,
        metrics: MetricSet,
    ) -> None:
        """Ask the trivial models again and write their scores into `fresh`."""
        if trained := ", ".join(baseline.baseline for baseline in task.baselines if baseline.weights):
            self.add(task.task, "baselines", "not checked", f"{trained}: trained, so only its run confirms it")
        names = baselines_of(variant, self.config) if self.config.baselines else ()
        route = recorded_route(task, self.harness)
        if not names or route is None:
            return
        plan = self._plan(variant, available, names, metrics)
        unseen = unseen_examples(rows) if task.overlap is not None and task.overlap.scores else None
        scores = self.baselines.scores(plan, unseen)
        for failure in scores.failures:
            self.add(task.task, "baselines", "not checked", failure)
        _write_baselines(task, fresh, scores)

    def _plan(self, variant: Variant, available: Survey, names: tuple[str, ...], metrics: MetricSet) -> Plan:
        """Return the plan by which trivial models are asked; it has no model and no prompt."""
        task, config, harness = variant.task, self.config, self.harness
        route = next(iter(harness.routes.of(task.type)))
        context = context_of(task, route, None, Shots((), 0, 0), config)
        return Plan(
            variant=variant,
            route=route,
            metrics=tuple(metrics.metrics),
            baselines=names,
            context=replace(context, pool=pool_of(task, harness)),
            template=None,
            fit_examples=lambda splits: map(task.with_language, harness.examples(task, task.split(*splits) or "test")),
            available=available,
            notes=harness.notes(task),
            signatures={},
            augment=None,
            retrieval={},
            config=config,
        )

    # ---- scores ------------------------------------------------------------------------------------------------------

    def _check_floors(self) -> None:
        """Check that a probe which stands in for the floor of a task does so for a reason, and that none is missing."""
        tasks = {task.task: task for task in self.record.tasks if task.task in self.scored}
        for name, floor in tasks.items():
            substitute = tasks.get(substitute_name(floor))
            task = tasks.get(floor.of or "")
            spec = None if task is None else self._spec(task)
            if task is None or substitute is None or spec is None or spec.floor != floor.variant:
                continue
            if is_superseded(task, floor, self.folder.rows) != (substitute.is_floor and not floor.is_floor):
                variant = substitute.variant if substitute.is_floor else floor.variant
                self.add(name, "floor", "problem", f"`is_floor` makes {variant} the floor, the rows do not")

    def check_scores(self) -> None:
        """Compute what depends on several tasks, and compare all scores with the stored ones."""
        suites = {macro.suite for macro in self.record.macro} | {contrast.suite for contrast in self.record.contrasts}
        missing_suites = sorted(name for name in suites if name not in self.harness.catalogue.suites)
        finished = {task.task for task in self.record.tasks if task.status == "done"}
        has_ended = self.record.status != "running"
        if not missing_suites and has_ended and finished == self.scored:
            self.fresh.contrasts = list(self.discrimination.records(self.fresh, self.folder.rows))
        withhold_intervals(self.fresh, self.harness)
        self._check_floors()
        if not missing_suites and has_ended:
            summarize(self.fresh, self.config.tasks, self.harness)
        for task, fresh in zip(self.record.tasks, self.fresh.tasks, strict=True):
            if task.task in self.scored:
                stored, computed = (record.model_dump(mode="json", include=set(SCORES)) for record in (task, fresh))
                self._compare(task.task, "scores", stored, computed, "scores recomputed from the rows")
        if missing_suites:
            names = ", ".join(missing_suites)
            self.add("run", "summary", "not checked", f"suite {names} is not installed (--include_path)")
        elif not has_ended:
            self.add("run", "summary", "not checked", "the run has not ended")
        elif finished != self.scored:
            reason = f"the scores of {', '.join(sorted(finished - self.scored))} were not recomputed"
            self.add("run", "summary", "not checked", reason)
        elif any(getattr(self.record, name) or getattr(self.fresh, name) for name in SUMMARY):
            self._compare_summary()

    def _compare_summary(self) -> None:
        names = set(SUMMARY)
        if self.record.schema_version.startswith("1.") and not self.record.contrasts and self.fresh.contrasts:
            names.discard("contrasts")
            self.add("run", "contrasts", "note", "the version of figeval that wrote the record computed none")
        stored, computed = (record.model_dump(mode="json", include=names) for record in (self.record, self.fresh))
        self._compare("run", "summary", stored, computed, "means, spreads and contrasts recomputed")

    def _compare(
        self, part: str, name: str, stored: Mapping[str, Any], computed: Mapping[str, Any], success: str
    ) -> None:
        differences = list(find_differences(stored, computed))
        problems = [each.describe("recomputed") for each in differences if not each.is_rounding]
        self.report(
            part, name, problems, success, [each.describe("recomputed") for each in differences if each.is_rounding]
        )


def _write_baselines(task: TaskRecord, fresh: TaskRecord, scores: BaselineScores) -> None:
    """Write scores of trivial models into `fresh`; those that could not be asked, and floors, stay as they are."""

    def merge(stored: Sequence[BaselineRecord], computed: Sequence[BaselineRecord]) -> list[BaselineRecord]:
        by_name = {record.baseline: record for record in computed}
        names = {record.baseline for record in stored}
        return [
            *(record if record.weights else by_name.get(record.baseline, record) for record in stored),
            *(record for record in computed if record.baseline not in names),
        ]

    fresh.baselines = merge(task.baselines, scores.whole)
    for language in fresh.languages:
        language.baselines = merge(language.baselines, scores.languages.get(language.language, []))
    if fresh.overlap is not None and fresh.overlap.scores:
        fresh.overlap.baselines = merge(fresh.overlap.baselines, scores.unseen)
