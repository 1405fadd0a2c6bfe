"""Runs tasks one after the other and keeps everything that was computed on disk.

`run` makes the plans, begins or resumes the record, and passes each plan to an executor that stores rows. Scores are
then computed from the rows, and those of baselines are added.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from figeval.config import RunConfig
from figeval.errors import BudgetExhausted, ModelError, NotFinished
from figeval.io.frontend import warn
from figeval.io.observer import Observer
from figeval.models.model import Model
from figeval.records import conditions, provenance
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.records.seen import Lineage
from figeval.runs.baselines import Baselines, are_scored, choose_floor, note_substitutes
from figeval.runs.evaluate import (
    CachedModel,
    Executor,
    InProcess,
    TaskEvaluator,
    has_no_reply,
    recorded_failure,
    task_inquiry,
)
from figeval.runs.harness import Harness
from figeval.runs.inquiry import announce_cost, answer_in_batches
from figeval.runs.lineage import line_of, lineage_record
from figeval.runs.omissions import Omission, omission_records
from figeval.runs.plan import Plan, Planner, prepare, route_of
from figeval.runs.resume import RowCounts, begin, resume
from figeval.runs.score import Aggregator, MetricSet, TaskScorer
from figeval.runs.selection_bias import (
    note,
    roles_of,
    unseen_examples,
    warn_of_augmentation,
    warn_of_helpers,
    with_role,
    withhold_intervals,
)
from figeval.runs.summary import summarize
from figeval.spec import TaskSpec
from figeval.task_types.given import GIVEN
from figeval.types import Example

if TYPE_CHECKING:
    from figeval.runs.contrasts import Discrimination
    from figeval.runs.workers.protocol import Staff

RUNS = Path("results/runs")


Log: TypeAlias = Callable[[TaskRecord], None]


def run(config: RunConfig, harness: Harness, observer: Observer) -> tuple[RunRecord, Path]:
    """Run all tasks, or continue an interrupted run; return the record and its folder.

    Raises:
        FigevalError: an error that the user can fix, before the first task or later (full disk, unusable weights).
    """
    if config.trackers:
        from figeval.runs.trackers import check_trackers

        check_trackers(config.trackers)
    with staff_of(config) as staff:
        prepared = prepare(config, harness, lambda task: observer.wait(f"reading {task}", later=True))
        return carry_out(config, harness, observer, prepared, staff)


def carry_out(
    config: RunConfig,
    harness: Harness,
    observer: Observer,
    prepared: tuple[Model, list[Plan], list[Omission]],
    staff: Staff | None = None,
) -> tuple[RunRecord, Path]:
    """Run or continue what `prepare` returned, with workers if there is a staff. Raises what `run` raises."""
    model, plans, left_out = prepared
    discrimination = discrimination_of(config, harness, plans)
    folder = RunFolder(config.output_path or default_folder(config))
    is_guest = config.model in harness.guest_models  # belongs to the calling program, so it is not closed
    with nullcontext() if is_guest else closing(model), folder.locked():
        line = line_of(model)
        record = begin(folder, config, model, plans, lineage_record(line))
        warn_of_helpers(record, plans, line, harness)
        warn_of_augmentation(record, plans, line)
        record.warnings = list(conditions.partial(record))
        record.left_out = omission_records(left_out)
        harness.manager.each("run_started", lambda _: {"run": record.model_copy(deep=True)})
        row_counts = resume(folder, record, plans)
        if row_counts.rows:
            portion = f"{row_counts.rows:,} of {row_counts.examples:,} answers kept"
            observer.say(f"continuing, {portion} in {folder.path}")
        announce(model, plans, folder)
        in_process = InProcess(CachedModel(model), folder, config.log_samples)
        with (
            executor_of(staff, config, folder, record, plans, in_process) as executor,
            trackers_of(config, record, folder) as log,
        ):
            session = _Session(
                config, harness, observer, folder, executor, record, row_counts, line, discrimination, log
            )
            if config.batch:
                session.batch(model, plans)
            for plan in plans:
                if session.needs(plan):
                    session.do(plan)
            note_substitutes(record, plans)
            session.contrast(plans)
            done = all(task.status == "done" and not task.counts.get("error") for task in record.tasks)
            record.status = "complete" if done else "incomplete"
            record.finished = provenance.now()
            summarize(record, config.tasks, harness, folder.rows)
            folder.write(record)
            harness.manager.each("run_finished", lambda _: {"run": record.model_copy(deep=True)})
    return record, folder.path


def discrimination_of(config: RunConfig, harness: Harness, plans: Iterable[Plan]) -> Discrimination | None:
    """Return what computes the contrasts of suites, or None if no suite is run. Raises `TaskError` for a wrong one."""
    if not any(name in harness.catalogue.suites for name in config.tasks):
        return None
    from figeval.runs.contrasts import Discrimination, check_columns, contrasts_of

    contrasts = contrasts_of(config, harness)
    check_columns(contrasts, {plan.name: plan.available.meta_keys for plan in plans})
    return Discrimination(contrasts)


def default_folder(config: RunConfig, record: str = "run.json") -> Path:
    """Return `results/runs/<UTC>-<model>-<identity>`: that of the same earlier command, if any, unless with --fresh.

    `record` is the file by which an earlier folder is recognised.
    """
    ending = f"{model_in_path(config.model)}-{config.identity()}"
    earlier = sorted(RUNS.glob(f"*-{ending}/{record}"))
    if earlier and not config.fresh:
        return earlier[-1].parent
    return RUNS / f"{provenance.now().replace('-', '').replace(':', '')}-{ending}"


def model_in_path(model: str) -> str:
    """Return the name of a model as a part of the name of a folder; not unique, and empty if it has no letters."""
    plain = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in model)
    return plain.strip("-")[-60:]


@contextmanager
def staff_of(config: RunConfig) -> Iterator[Staff | None]:
    """Yield the workers that --processes or --ray asks for; None if this process computes all rows itself.

    Raises:
        FigevalError: no cluster answers, or it has no room for the workers.
    """
    if config.ray:
        from figeval.runs.workers.cluster import RayCluster, cluster_connection

        with cluster_connection(config.ray):
            yield RayCluster.of(config)
        return
    if config.processes == 1:
        yield None
        return
    from figeval.runs.workers.local import Processes

    yield Processes(config.processes)


def executor_of(
    staff: Staff | None,
    config: RunConfig,
    folder: RunFolder,
    record: RunRecord,
    plans: Sequence[Plan],
    in_process: InProcess,
) -> AbstractContextManager[Executor]:
    """Return what computes the rows: this process, or workers."""
    if staff is None:
        return nullcontext(in_process)
    from figeval.runs.workers.pool import worker_pool

    return worker_pool(staff, config, folder, record, plans, in_process)


def trackers_of(config: RunConfig, record: RunRecord, folder: RunFolder) -> AbstractContextManager[Log]:
    """Return the function that sends a finished task to the trackers of --trackers."""
    if not config.trackers:
        return nullcontext(lambda _task: None)
    from figeval.runs.trackers import tracking

    return tracking(config, record, folder.path)


def announce(model: Model, plans: Sequence[Plan], folder: RunFolder) -> None:
    """Print on stderr what is left out, and the cost of the missing answers if the model can estimate it.

    The estimate covers only the first round of requests, since later ones are not known beforehand.
    """
    for plan in plans:
        for remark in plan.remarks if plan.route.name != GIVEN else ():
            warn(f"{plan.name}: {remark}")
    announce_cost(model, (task_inquiry(plan, folder) for plan in plans))


@dataclass(frozen=True)
class _Session:
    """The state that the tasks of one call of `run` share."""

    config: RunConfig
    harness: Harness
    observer: Observer
    folder: RunFolder
    executor: Executor
    record: RunRecord
    row_counts: RowCounts
    line: Lineage
    discrimination: Discrimination | None
    log: Log

    @cached_property
    def baselines(self) -> Baselines:
        """Baselines of the run; trivial models are opened on first use."""
        if self.discrimination is None:
            return Baselines(self.harness, self.config.seed)
        return Baselines(self.harness, self.config.seed, self.discrimination.note)

    def batch(self, model: Model, plans: Sequence[Plan]) -> None:
        """Ask all questions of the run in batches. Raises `NotFinished` while one is being processed."""
        try:
            answer_in_batches(model.backend, [task_inquiry(plan, self.folder) for plan in plans])
        except ModelError:  # the record names the batches, and what they have cost so far
            self.record.model.describe(self.executor.description())
            self.folder.write(self.record)
            raise

    def needs(self, plan: Plan) -> bool:
        """Return whether a plan is to be carried out; one that stands in for no floor is dropped from the record."""
        if not plan.variant.substitute_for or choose_floor(self.record, plan, self.folder.rows):
            return True
        self.record.tasks = [task for task in self.record.tasks if task.task != plan.name]
        self.folder.write(self.record)
        return False

    def do(self, plan: Plan) -> None:
        """Run or continue one task; a failure is recorded and does not stop the others."""
        task = self._record_of(plan.name)
        try:
            with recorded_failure(task):
                self._predict(plan, task)
                self._score(plan, task)
                task.status = "done"
                self.folder.seal(task)
                if not task.counts.get("error"):  # the other samples of an example are not asked for again
                    self.folder.forget_replies(plan.name)
        except (BudgetExhausted, NotFinished):  # the record says what was spent
            self._keep(task)
            raise
        task.peak_memory_mb = max(task.peak_memory_mb, provenance.peak_memory_mb())
        self._keep(task)
        outcome = "done" if task.status == "done" else "FAILED"
        self.observer.end(f"{outcome} in {task.seconds + task.baseline_seconds:.1f} s")
        if task.status == "done":
            self.log(task)
            self.harness.manager.each(
                "task_finished", lambda _: {"task": task.model_copy(deep=True), "rows": self.folder.rows(plan.name)}
            )

    def contrast(self, plans: Sequence[Plan]) -> None:
        """Write the contrasts of the suites into the record, with those of their baselines."""
        if self.discrimination is None:
            return
        by_name = {plan.name: plan for plan in plans}

        def ask(baseline: str, task: str) -> None:
            if failure := self.baselines.ask(baseline, by_name[task]):
                note(self._record_of(task).warnings, f"for the contrasts, {failure}")

        self.discrimination.ask = ask
        self.record.contrasts = list(self.discrimination.records(self.record, self.folder.rows))
        withhold_intervals(self.record, self.harness)

    def _record_of(self, task: str) -> TaskRecord:
        return next(record for record in self.record.tasks if record.task == task)

    def _keep(self, task: TaskRecord) -> None:
        with recorded_failure(task):
            self.record.model.describe(self.executor.description())
        withhold_intervals(self.record, self.harness)
        self.folder.write(self.record)

    def _predict(self, plan: Plan, task: TaskRecord) -> None:
        """Compute the missing rows."""
        answered = self.row_counts.by_task[plan.name]  # workers may already have stored further rows
        self.observer.start(plan.name, plan.n, answered)
        if answered < plan.n:
            for rows in self.executor.answer(plan, task):
                answered += rows
                self.observer.reach(answered)

    def _score(self, plan: Plan, task: TaskRecord) -> None:
        """Compute the scores of the stored rows, and score baselines if that is not done yet."""
        self.observer.wait("computing scores", later=True)
        rows = partial(self.folder.rows, plan.name)
        metrics = MetricSet(plan.metrics, plan.task.labels, plan.task.with_language)
        self._mark_seen(task, plan)
        if metrics.collective:
            before = list(rows())
            after = metrics.related(before, task.settings)
            if after != before:
                self._replace(task, after)
        scorer = TaskScorer(
            metrics=metrics, strict=plan.task.group is not None, seed=self.config.seed, settings=task.settings
        )
        scorer.sum_up(task, rows, by=[key for key in self.config.by if key in plan.available.meta_keys])
        errors = (str(row.get("error", "")) for row in rows() if has_no_reply(row))
        if (first := next(errors, None)) is not None:
            failed = 1 + sum(1 for _ in errors)
            examples, them = ("1 example", "it") if failed == 1 else (f"{failed} examples", "them")
            task.warnings.append(f"{examples} failed (first: {first}); run the same command again to retry {them}")
        if self.config.baselines:
            self._score_baselines(plan, task)

    def _score_baselines(self, plan: Plan, task: TaskRecord) -> None:
        """Add the scores of baselines, including those on unseen examples, if some are missing."""
        overlap = task.overlap if task.overlap is not None and task.overlap.scores else None
        if are_scored(plan, task.baselines if overlap is None else overlap.baselines):
            return
        self.observer.wait("computing baselines", later=True)
        began = time.monotonic()
        unseen = None if overlap is None else unseen_examples(self.folder.rows(plan.name))
        baseline_scores = self.baselines.scores(plan, unseen)
        task.baselines = baseline_scores.whole
        for language_record in task.languages:
            language_record.baselines = baseline_scores.languages.get(language_record.language, [])
        if task.overlap is not None:
            task.overlap.baselines = baseline_scores.unseen
        task.warnings.extend(baseline_scores.failures)
        task.baseline_seconds = round(time.monotonic() - began, 3)

    def _mark_seen(self, task: TaskRecord, plan: Plan) -> None:
        """Mark the rows of examples that the model has seen, unless their marks are already up to date."""
        if not self.line.seen:
            return
        roles = roles_of(plan, self.line)
        if any(row.get("seen") != roles.get(row["id"]) for row in self.folder.rows(task.task)):
            self._replace(task, (with_role(row, roles.get(row["id"])) for row in self.folder.rows(task.task)))

    def _replace(self, task: TaskRecord, rows: Iterable[PredictionRow]) -> None:
        if task.predictions_sha256 is not None:  # if killed in between, no outdated digest may remain
            task.predictions_sha256 = None
            self.folder.write(self.record)
        self.folder.replace(task.task, rows)


# ---- scores without a run ------------------------------------------------------------------------------------------


def score_examples(
    task: TaskSpec,
    model: Model,
    examples: Sequence[Example],
    harness: Harness,
    *,
    share: slice = slice(None),
    gather: Callable[[list[PredictionRow]], list[PredictionRow]] = list,
) -> dict[str, float | None]:
    """Return the scores of a model on examples of a task, as `figeval run` would compute them; nothing is stored.

    Args:
        task: the task.
        model: the model.
        examples: the examples as the model sees them; no text is added to them.
        harness: its plugins.
        share: the examples that this process puts to the model.
        gather: adds the rows of the other processes.
    """
    task = task.model_copy(update={"examples": lambda: iter(examples), "baselines": (), "augment": {}})
    config = RunConfig(tasks=(task.name,), model=model.name, baselines=False)
    route = route_of(task, model, harness, config)
    plan = next(iter(Planner(config, harness, model).plans(task, route)))
    metrics = MetricSet(plan.metrics, task.labels, task.with_language)
    evaluator = TaskEvaluator(plan, CachedModel(model), route, plan.context, metrics)
    rows = gather(list(evaluator.rows(examples[share])))
    positions = {example.id: position for position, example in enumerate(examples)}
    rows.sort(key=lambda row: positions[row["id"]])  # same order as in a single process
    if metrics.collective:
        rows = metrics.related(rows, plan.settings)
    total = Aggregator(metrics, strict=task.group is not None)
    for row in rows:
        total.add(row)
    return {score.metric: score.value for score in total.scores(seed=0)}
