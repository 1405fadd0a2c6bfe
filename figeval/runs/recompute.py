"""A stored run computed again from its rows and the data of its tasks, without its model. Nothing is written.

What follows from the settings, the data and the rows of a run is computed as the run itself computed it: how each task
was put to the model, every row, the scores, the trivial baselines, and what is said about several tasks. Everything
else stays as it was stored: the model and its answers, trained baselines, times, versions and hardware.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from figeval.config import RunConfig, complete
from figeval.errors import CapabilityError, DataError, FigevalError, MissingData, RecordError, UnknownName
from figeval.io.text import one_line
from figeval.io.validation import first_problem, type_adapter
from figeval.metrics.catalogue import split
from figeval.plugins import describe
from figeval.prompts import Shots
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder, find_record, read_record
from figeval.records.schema import BaselineRecord, RunRecord, TaskRecord
from figeval.runs.baselines import Baselines, BaselineScores, has_scores, mark_floor, substitute_name
from figeval.runs.contrasts import Discrimination, contrasts_of
from figeval.runs.harness import Harness
from figeval.runs.limits import apply_flags, config_on
from figeval.runs.omissions import solved_tasks
from figeval.runs.plan import Plan, baselines_of, context_of, is_allowed, pool_of, template_of
from figeval.runs.recomputed_rows import RowRecomputation, as_json
from figeval.runs.rescore import AnswerReader, reader_of, reading_of, recorded_route
from figeval.runs.resume import task_record
from figeval.runs.retrieval.shot_pools import shot_source
from figeval.runs.score import MetricSet, TaskScorer
from figeval.runs.selection_bias import note, unseen_examples, withhold_intervals
from figeval.runs.stored import metrics_in, recorded_variant
from figeval.runs.summary import summarize
from figeval.runs.task_metrics import metrics_of, signatures
from figeval.runs.task_settings import apply_settings, settings_of
from figeval.runs.variants import Variant, chosen_tasks
from figeval.spec import TaskSpec
from figeval.spec.survey import Portion, Survey, survey
from figeval.task_types.routes import Route, choose, fitting_route

OF_THE_DATA = ("kind", "of", "variant", "n", "available", "hidden", "only_label", "examples_sha256", "sample_sha256")
OF_THE_TASK = (*OF_THE_DATA, "version", "task_type", "predictions")
OF_THE_ROUTE = ("template", "template_sha256", "settings", "words", "legend")
OF_THE_MODEL = ("stop", "max_new_tokens", "chat_template", "augment", "fewshot_sampler")  # settings


@dataclass(frozen=True, slots=True)
class Gap:
    """Something of a run that was not computed again, and why; `is_damage` if the stored run itself prevents it."""

    name: str
    reason: str
    is_damage: bool = False


@dataclass(slots=True)
class RecomputedTask:
    """A task of a stored run, computed again.

    Attributes:
        stored: the record of the task as it is stored.
        record: the record computed again; complete once all tasks have been.
        rows: the stored rows.
        new_rows: the same rows computed again; a row that no example belongs to is left as it is.
        example_ids: ids of the task's examples, or None if its data were not read.
        n_recomputed: number of rows whose metrics were computed again.
        gaps: what could not be computed again: its `name`, the `reason`, and `is_damage` if the stored run prevents it.
        is_scored: True if the scores were.
        added_metrics: names of metrics that the task has and the run does not.
    """

    stored: TaskRecord
    record: TaskRecord
    rows: list[PredictionRow] = field(default_factory=list)
    new_rows: list[PredictionRow] = field(default_factory=list)
    example_ids: tuple[str, ...] | None = None
    n_recomputed: int = 0
    gaps: list[Gap] = field(default_factory=list)
    is_scored: bool = False
    added_metrics: frozenset[str] = frozenset()


def recompute(run: Path, harness: Harness, *, data: bool = True) -> RecomputedRun:
    """Return a stored run that is computed again as its tasks are asked for.

    Args:
        run: the folder of the run, or its `run.json`.
        harness: registries that provide tasks, metrics and baselines.
        data: False to leave out what needs the data of the tasks: rows and baselines.

    Raises:
        RecordError: there is no run, or a flag in its record has a value that it cannot have.
    """
    file = find_record(run)
    record = read_record(file)
    return RecomputedRun(record, RunFolder(file.parent), harness, config_in(record, file), data)


def config_in(record: RunRecord, file: Path) -> RunConfig:
    """Return the configuration of a stored run; flags that its record does not have yet have their default.

    Raises:
        RecordError: a flag has a value that it cannot have.
    """
    flags: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in complete(record.config).items()
    }
    try:
        type_adapter(RunConfig).validate_python(flags)  # which may turn 1 into 1.0, and that changes the identity
        return RunConfig(**flags)
    except ValidationError as error:
        raise RecordError(f"{file}: `config` has an invalid value ({one_line(first_problem(error), 200)})") from error


class RecomputedRun:
    """A stored run, computed again: first its `tasks()`, in order, then the `record` of the whole.

    Attributes:
        stored: the record as it is stored.
        config: the configuration of the run.
        gaps: what could not be computed again about several tasks; complete with the record.
    """

    def __init__(
        self, stored: RunRecord, folder: RunFolder, harness: Harness, config: RunConfig, data: bool = True
    ) -> None:
        self.stored, self.config = stored, config
        self.gaps: list[Gap] = []
        self._new = stored.model_copy(deep=True)
        self._folder, self._harness, self._data = folder, harness, data
        try:
            self._discrimination = Discrimination(contrasts_of(config, harness))
        except FigevalError as error:
            self._discrimination = Discrimination(())
            self.gaps.append(Gap("contrasts", str(error)))
        self._baselines = Baselines(harness, config.seed, self._discrimination.note)
        self._recomputed: list[RecomputedTask] = []

    def tasks(self) -> Iterator[RecomputedTask]:
        """Yield each task with its rows computed again; one at a time, since they are all in memory."""
        for stored, new in list(zip(self.stored.tasks, self._new.tasks, strict=True))[len(self._recomputed) :]:
            task = RecomputedTask(stored, new)
            self._recompute(task)
            self._recomputed.append(replace(task, rows=[], new_rows=[]))
            yield task

    @cached_property
    def record(self) -> RunRecord:
        """The record computed again; tasks that have not been asked for are computed first."""
        for _ in self.tasks():
            pass
        self._check_tasks()
        self._summarize()
        return self._new

    @property
    def scored(self) -> set[str]:
        """Names of the tasks whose scores were computed again."""
        return {task.stored.task for task in self._recomputed if task.is_scored}

    # ---- a task ------------------------------------------------------------------------------------------------------

    def _recompute(self, task: RecomputedTask) -> None:
        stored, gaps = task.stored, task.gaps
        try:
            if not self._folder.has_predictions(stored.task):
                return
            task.rows = list(self._folder.rows(stored.task))
        except RecordError as error:
            gaps.append(Gap("predictions", str(error), is_damage=True))
            return
        if stored.status != "done":
            gaps.append(Gap("scores", f"the status of the task is {stored.status}"))
            return
        spec = self._installed_task(stored)
        try:
            route = None if spec is None else self._route(stored, spec)
            metrics = self._metrics(task, spec, route)
        except FigevalError as error:
            gaps.append(Gap("scores", str(error), is_damage=spec is not None and spec.type != stored.task_type))
            return
        self._recompute_from_data(task, spec, route, metrics)
        has_pairs = (
            any(score.metric == "acc_strict" for score in stored.scores) if spec is None else spec.group is not None
        )
        scorer = TaskScorer(metrics=metrics, strict=has_pairs, seed=self.config.seed, settings=stored.settings)
        columns = {key for row in task.rows for key in row["meta"]}
        try:
            scorer.sum_up(task.record, lambda: task.rows, by=[key for key in self.config.by if key in columns])
        except Exception as error:  # damaged rows may make a metric fail in any way
            gaps.append(Gap("scores", f"cannot be computed from the rows: {describe(error)}", is_damage=True))
            return
        task.is_scored = True

    def _installed_task(self, task: TaskRecord) -> TaskSpec | None:
        """Return a task if it is installed in the version that was run, else None."""
        name = task.of or task.task
        try:
            spec = self._chosen.get(name) or self._harness.catalogue.expand([name])[0]
        except UnknownName:
            return None
        return spec if spec.version == task.version else None

    @cached_property
    def _chosen(self) -> dict[str, TaskSpec]:
        """The tasks of the run by name, with its settings; without those that are not installed."""
        config = replace(self.config, tasks=tuple(filter(self._is_installed, self.config.tasks)), template="")
        try:
            tasks = chosen_tasks(replace(config, settings={}), self._harness)
            config = replace(config, settings=settings_of(tasks, config, self._harness))
            return {task.name: task for task in apply_settings(tasks, config, self._harness)}
        except FigevalError:
            return {}

    def _is_installed(self, name: str) -> bool:
        try:
            self._harness.catalogue.expand([name])
        except FigevalError:
            return False
        return True

    def _route(self, task: TaskRecord, spec: TaskSpec) -> Route | None:
        """Return the route that a task took, or None if no plugin provides it any more, as of answers from a file."""
        route = recorded_route(task, self._harness)
        if route is None:
            return None
        offers = frozenset(self.stored.model.capabilities)
        with_parts = fitting_route(route, offers, self._harness.routes.with_parts(spec.type)) if route.of else None
        try:
            return apply_flags(spec, with_parts or route, self.config)
        except CapabilityError:  # an earlier version took a flag that has no effect on the route
            return with_parts or route

    def _metrics(self, task: RecomputedTask, spec: TaskSpec | None, route: Route | None) -> MetricSet:
        """Return the metrics of a task; without its route, those that the record and its rows name."""
        if spec is None or route is None:
            return metrics_in(task.stored, task.rows, self._harness.metrics)
        metrics = metrics_of(spec, route, config_on(route, self.config), self._harness)
        stored = {score.metric for score in task.stored.scores} | {name for row in task.rows for name in row["metrics"]}
        added = {metric.name for metric in metrics} - stored if stored else set()
        added -= {split(name)[0] for name in self.config.metrics}
        if added:
            names = ", ".join(sorted(added))
            task.gaps.append(Gap("scores", f"the run has no {names}, which may have been added to the task since"))
            task.added_metrics = frozenset(added)
            metrics = tuple(metric for metric in metrics if metric.name not in added)
        return MetricSet(metrics, spec.labels, spec.with_language)

    def _recompute_from_data(
        self, task: RecomputedTask, spec: TaskSpec | None, route: Route | None, metrics: MetricSet
    ) -> None:
        """Compute what needs the data of a task: its description, its rows and the scores of its baselines."""
        stored, config = task.stored, self.config
        if not self._data or spec is None:
            missing = f"version {stored.version} of {stored.of or stored.task} is not installed (--include_path)"
            reason = missing if self._data else "needs the task's data (--no_data)"
            task.gaps.append(Gap("data and baselines", reason))
            return
        try:
            variant = _without_metrics(recorded_variant(stored, config.seed, self._harness), task.added_metrics)
            variant = replace(variant, task=variant.task.model_copy(update={"settings": spec.settings}))
            portion = Portion(limit=config.limit, sample=config.sample, stratify=config.stratify, seed=config.seed)
            available = survey(stored.task, variant.examples, portion, variant.task.annotations)
            plan = self._plan(variant, route or self._harness.routes.of(spec.type)[0], available, metrics)
        except FigevalError as error:
            is_damage = isinstance(error, DataError | RecordError) and not isinstance(error, MissingData)
            task.gaps.append(Gap("data" if is_damage else "data and baselines", str(error), is_damage))
            return
        _describe_task(task.record, plan, has_route=route is not None)
        if config.template:  # a file that may not be on this machine
            task.record.template, task.record.template_sha256 = stored.template, stored.template_sha256
        task.record.route = self._chosen_route(spec) or stored.route
        self._recompute_rows(task, plan, metrics)
        if route is not None:
            self._ask_baselines(task, plan)

    def _plan(self, variant: Variant, route: Route, available: Survey, metrics: MetricSet) -> Plan:
        """Return the plan of a task as far as it does not depend on the model."""
        spec, config, harness = variant.task, config_on(route, self.config), self._harness
        template = template_of(spec, route)
        context = context_of(spec, route, template, Shots((), 0, 0), config)
        return Plan(
            variant=variant,
            route=route,
            metrics=tuple(metrics.metrics),
            baselines=baselines_of(variant, config),
            context=replace(context, pool=pool_of(spec, harness)),
            template=template,
            fit_examples=lambda splits: map(spec.with_language, harness.examples(spec, spec.split(*splits) or "test")),
            available=available,
            notes=harness.notes(spec),
            signatures=signatures(metrics.metrics, spec),
            augment=None,
            retrieval=shot_source(spec, config, harness).record if config.fewshot_from else {},
            config=config,
        )

    def _chosen_route(self, spec: TaskSpec) -> str | None:
        """Return the route that a model with the recorded capabilities takes, or None if it has none to choose."""
        name = self.config.routes.get(spec.type, spec.route)
        routes = self._harness.routes.with_parts(spec.type)
        try:
            offers = frozenset(self.stored.model.capabilities)
            return choose(
                spec.type, offers, [route for route in routes if is_allowed(route, spec, self.config, name)], name
            ).name
        except CapabilityError:
            return None

    def _recompute_rows(self, task: RecomputedTask, plan: Plan, metrics: MetricSet) -> None:
        examples = {example.id: example for example in plan.examples()}
        task.example_ids = tuple(examples)
        rows = RowRecomputation(plan, examples, metrics)
        reader = self._answer_reader(task, plan.variant)
        if reader is None:
            task.new_rows = [rows.restored(row) if row["id"] in examples else row for row in task.rows]
        else:
            try:
                task.new_rows = list(rows.reread(task.rows, reader))
            except FigevalError as error:
                task.gaps.append(Gap("rows", f"the stored replies cannot be read again: {error}", is_damage=True))
                task.new_rows = task.rows
        task.new_rows = rows.related(task.new_rows, task.stored.settings)
        task.n_recomputed = rows.n_recomputed
        task.gaps += [Gap("rows", f"the metrics of {n} rows, which {reason}") for reason, n in rows.gaps.items()]
        for reason in dict.fromkeys(rows.metric_gaps.values()):
            names = ", ".join(name for name, gap in rows.metric_gaps.items() if gap == reason)
            task.gaps.append(Gap("rows", f"{names} of each row, {reason}"))

    def _answer_reader(self, task: RecomputedTask, variant: Variant) -> AnswerReader | None:
        """Return the reader of a task's replies; None if its answers are not in words, or another version read them."""
        reader = reader_of(task.stored, self._harness)
        if reader is None:
            return None
        if reader.version != task.stored.extractor:
            reason = f"version {task.stored.extractor} of the extractor read them, {reader.version} is installed"
            task.gaps.append(Gap("replies", reason))
            return None
        try:
            return reading_of(task.stored, self.stored, variant, self._harness)[0]
        except FigevalError as error:
            task.gaps.append(Gap("replies", str(error)))
            return None

    def _ask_baselines(self, task: RecomputedTask, plan: Plan) -> None:
        """Ask the trivial models again, and write their scores into the record of the task."""
        stored = task.stored
        names = {*plan.baselines, *plan.task.task_type.probes}
        unknown = [baseline for baseline in stored.baselines if baseline.baseline not in names]
        if trained := ", ".join(baseline.baseline for baseline in unknown if baseline.weights):
            task.gaps.append(Gap("baselines", f"{trained}: trained, so only its run confirms it"))
        if strangers := [baseline.baseline for baseline in unknown if not baseline.weights]:
            task.gaps.append(Gap("baselines", f"{', '.join(strangers)}: the task has no such baseline"))
        if not plan.baselines or not (self.config.baselines or stored.baselines):
            return
        unseen = unseen_examples(task.rows) if stored.overlap is not None and stored.overlap.scores else None
        scores = self._baselines.scores(plan, unseen)
        task.gaps += [Gap("baselines", failure) for failure in scores.failures]
        _write_baselines(task.record, scores)

    # ---- several tasks -----------------------------------------------------------------------------------------------

    def _check_tasks(self) -> None:
        """Note tasks that the settings do not ask for, and those that they name and the record lacks."""
        try:
            config = replace(self.config, template="")  # whose file may not be on this machine
            tasks, _ = solved_tasks(chosen_tasks(config, self._harness), config, self._harness)
            names = {task.name for task in tasks}
        except FigevalError:  # the gaps of the tasks say what is not installed
            return
        recorded = {task.of or task.task for task in self.stored.tasks}
        if unasked := sorted(recorded - names):
            self.gaps.append(Gap("tasks", f"`config.tasks` does not ask for {', '.join(unasked)}", is_damage=True))
        if missing := sorted(names.intersection(self.config.tasks) - recorded):
            self.gaps.append(Gap("tasks", f"the record lacks {', '.join(missing)}", is_damage=True))

    def _summarize(self) -> None:
        """Compute what depends on several tasks: contrasts, floors, means, and intervals that are withheld."""
        record, stored, harness = self._new, self.stored, self._harness
        suites = {macro.suite for macro in stored.macro} | {contrast.suite for contrast in stored.contrasts}
        missing_suites = sorted(name for name in suites if name not in harness.catalogue.suites)
        unscored = {task.task for task in stored.tasks if task.status == "done"} - self.scored
        has_ended = stored.status != "running"
        if has_ended and not missing_suites and not unscored:
            record.contrasts = list(self._discrimination.records(record, self._folder.rows))
        withhold_intervals(record, harness)
        if has_ended:
            is_done = all(task.status == "done" and not task.counts.get("error") for task in record.tasks)
            record.status = "complete" if is_done else "incomplete"
        self._choose_floors()
        if has_ended and not missing_suites:
            summarize(record, self.config.tasks, harness, self._folder.rows)
        if missing_suites:
            self.gaps.append(Gap("summary", f"suite {', '.join(missing_suites)} is not installed (--include_path)"))
        elif not has_ended:
            self.gaps.append(Gap("summary", "the run has not ended"))
        elif unscored:
            self.gaps.append(Gap("summary", f"the scores of {', '.join(sorted(unscored))} were not recomputed"))

    def _choose_floors(self) -> None:
        """Decide again whether a probe stands in for the floor of its task."""
        tasks = {task.task: task for task in self._new.tasks if task.task in self.scored}
        for floor in tasks.values():
            task, substitute = tasks.get(floor.of or ""), tasks.get(substitute_name(floor))
            spec = None if task is None else self._installed_task(task)
            if task is not None and substitute is not None and spec is not None and spec.floor == floor.variant:
                self._choose_floor(task, floor, substitute)

    def _choose_floor(self, task: TaskRecord, floor: TaskRecord, substitute: TaskRecord) -> None:
        """Decide which of two probes is the floor, or leave it as it is recorded if the rows have no scores to tell."""
        recorded = {each.task: each.is_floor for each in self.stored.tasks}
        if recorded[substitute.task] and not has_scores(self._folder.rows(floor.task)):
            floor.is_floor, substitute.is_floor = recorded[floor.task], True
            reason = f"whether {substitute.task} is rightly the floor: the rows have no scores"
            self.gaps.append(Gap("floor", f"{task.task}: {reason}"))
        else:
            mark_floor(task, floor, substitute, self._folder.rows)


def _without_metrics(variant: Variant, names: frozenset[str]) -> Variant:
    """Return a variant whose task does not name these metrics, so that its baselines are not scored by them."""
    if not names:
        return variant
    metrics = tuple(name for name in variant.task.metrics if split(name)[0] not in names)
    return replace(variant, task=variant.task.model_copy(update={"metrics": metrics}))


def _describe_task(record: TaskRecord, plan: Plan, *, has_route: bool) -> None:
    """Write into a record what a new run would say of its task, its examples and its prompts."""
    new = task_record(plan)
    of_model = {name: record.settings[name] for name in OF_THE_MODEL if name in record.settings}
    new.settings = as_json({key: value for key, value in new.settings.items() if key not in OF_THE_MODEL} | of_model)
    for name in (*OF_THE_TASK, *(OF_THE_ROUTE if has_route else ())):
        setattr(record, name, getattr(new, name))
    record.is_floor = plan.variant.is_floor and plan.config.baselines
    for warning in new.warnings if has_route else ():
        note(record.warnings, warning)


def _write_baselines(record: TaskRecord, scores: BaselineScores) -> None:
    """Write scores of trivial models into a record; others, such as trained floors, stay as they are."""

    def merge(stored: Sequence[BaselineRecord], computed: Sequence[BaselineRecord]) -> list[BaselineRecord]:
        by_name = {baseline.baseline: baseline for baseline in computed}
        names = {baseline.baseline for baseline in stored}
        return [
            *(by_name.get(baseline.baseline, baseline) for baseline in stored),
            *(baseline for baseline in computed if baseline.baseline not in names),
        ]

    record.baselines = merge(record.baselines, scores.whole)
    for language in record.languages:
        language.baselines = merge(language.baselines, scores.languages.get(language.language, []))
    if record.overlap is not None and record.overlap.scores:
        record.overlap.baselines = merge(record.overlap.baselines, scores.unseen)
