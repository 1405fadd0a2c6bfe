"""Puts one task after the other to the model; whatever has been computed stays on disk."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

from figeval.backends.models import Model
from figeval.config import RunConfig
from figeval.errors import BudgetExhausted, FigevalError, ModelError, RecordError
from figeval.pipeline.estimate import announce
from figeval.pipeline.harness import Harness
from figeval.pipeline.plan import Plan, prepare
from figeval.pipeline.scoring import Baselines, Interview, Measures, Respondent, sum_up
from figeval.pipeline.summary import summed_up
from figeval.records import provenance
from figeval.records.folder import RunFolder
from figeval.records.schema import ModelRecord, RunRecord, TaskRecord
from figeval.taskdef import TaskSpec
from figeval.types import JSON

RUNS = Path("results/runs")


class Observer(Protocol):
    """Hears how a run goes on: a progress bar, plain lines, or nothing."""

    def task_started(self, task: str, n: int, done: int) -> None: ...  # noqa: D102
    def advanced(self, rows: int) -> None: ...  # noqa: D102
    def scoring(self, what: str) -> None: ...  # noqa: D102
    def task_ended(self, task: TaskRecord) -> None: ...  # noqa: D102


def run(config: RunConfig, harness: Harness, observer: Observer) -> tuple[RunRecord, Path]:
    """Run all tasks, or go on with a run that was cut short; the record and its folder.

    Raises:
        FigevalError: something the user can mend, before any task was begun or (no room, unusable weights) later.
    """
    model, plans, left_out = prepare(config, harness)
    folder = RunFolder(config.output_path or _default_folder(config))
    with folder.locked():
        record = _begin(folder, config, model, plans)
        record.warnings = list(_warnings_of_run(plans, left_out, config))
        harness.host.each("run_started", lambda _: {"run": record.model_dump()})
        announce(model, plans, folder)
        session = _Session(config, harness, observer, folder, model, record)
        for plan in plans:
            session.do(plan)
        _end(record, config, harness)
        folder.write(record)
        harness.host.each("run_finished", lambda _: {"run": record.model_dump()})
    model.close()
    return record, folder.path


def _default_folder(config: RunConfig) -> Path:
    """`results/runs/<UTC>-<model>-<identity>`: that of the same command before, unless it is to begin anew."""
    plain = "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in config.model)
    ending = f"{plain.strip('-')[-60:]}-{config.identity()}"
    earlier = sorted(RUNS.glob(f"*-{ending}/run.json"))
    if earlier and not config.fresh:
        return earlier[-1].parent
    return RUNS / f"{provenance.now().replace('-', '').replace(':', '')}-{ending}"


def _begin(folder: RunFolder, config: RunConfig, model: Model, plans: list[Plan]) -> RunRecord:
    """The record to go on with: a new one, or the stored one of the same run."""
    fresh = RunRecord(
        identity=config.identity(),
        status="running",
        started=provenance.now(),
        command=sys.argv[1:],
        config=config.record(),
        model=ModelRecord(
            name=model.name,
            backend=model.backend_name,
            options=dict(model.options),
            capabilities=sorted(model.offers),
            fingerprint=model.fingerprint(),
        ),
        provenance=provenance.collect(),
    )
    stored = folder.read()
    if stored is None:
        fresh.tasks = [_task_record(plan, config) for plan in plans]
        folder.write(fresh)
        return fresh
    if config.fresh:
        raise RecordError(f"{folder.path} holds a run and --fresh deletes nothing; choose another --output_path")
    _check_same(folder.path, stored, fresh)
    fresh.started = stored.started
    known = {task.task: task for task in stored.tasks}
    fresh.tasks = [_resumed(folder.path, known.get(plan.name), _task_record(plan, config)) for plan in plans]
    return fresh


def _check_same(path: Path, stored: RunRecord, fresh: RunRecord) -> None:
    if stored.identity != fresh.identity:
        before = f"{stored.config.get('model')} on {','.join(stored.config.get('tasks', []))}"
        raise RecordError(f"{path} holds another run ({before}); choose another --output_path")
    if stored.model.fingerprint != fresh.model.fingerprint:
        raise RecordError(f"{path}: the weights of {fresh.model.name} changed since; choose another --output_path")


def _task_record(plan: Plan, config: RunConfig) -> TaskRecord:
    return TaskRecord(
        task=plan.name,
        kind=plan.variant.kind,
        of=plan.task.name if plan.variant.name else None,
        variant=plan.variant.name or None,
        version=plan.task.version,
        protocol=plan.task.protocol,
        route=plan.route.name,
        status="running",
        n=plan.n,
        available=plan.available.n,
        examples_sha256=plan.available.sha256,
        template=plan.template.name if plan.template else None,
        template_sha256=plan.template.sha256 if plan.template else None,
        extractor=plan.extractor,
        settings=plan.settings,
        predictions=f"predictions/{plan.name}.jsonl",
        warnings=_warnings(plan, config),
    )


def _warnings(plan: Plan, config: RunConfig) -> list[str]:
    """What a reader of the number has to know."""
    found = []
    model = config.model.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    if model in plan.task.built_with:
        found.append(f"the wrong options were picked with the help of {model}, which is punished by construction")
    own = plan.task.template
    if own is not None and plan.template is not None and plan.template.name != own:
        blocks = " and ".join(repr(block) for block in sorted(plan.route.blocks))
        found.append(f"{own} has not the block {blocks} of {plan.route.name}; asked with {plan.template.name}")
    if plan.n < plan.available.n and Measures(plan.metrics, plan.task.labels).collective:
        found.append(f"some metrics depend on all {plan.available.n} examples, and --limit leaves {plan.n}: no results")
    return found


def _warnings_of_run(plans: list[Plan], left_out: list[TaskSpec], config: RunConfig) -> Iterator[str]:
    cut = {plan.task.name for plan in plans if plan.n < plan.available.n}
    if cut:
        tasks = {plan.task.name for plan in plans}
        yield f"--limit {config.limit}: the first examples of {len(cut)} of {len(tasks)} tasks, not a random sample"
    if left_out:
        names = ", ".join(task.name for task in left_out)
        yield f"left out, since such a model cannot answer them: {names}; name one in --tasks to hear why"


SAME = ("version", "route", "n", "examples_sha256", "template_sha256", "settings")


def _resumed(path: Path, stored: TaskRecord | None, fresh: TaskRecord) -> TaskRecord:
    """The stored record of a task, provided that it asked the same question."""
    if stored is None:
        return fresh
    if stored.extractor != fresh.extractor:
        raise RecordError(f"{path}: the answers to {fresh.task} were read by an older extractor; `figeval rescore` it")
    changed = [key for key in SAME if getattr(stored, key) != getattr(fresh, key)]
    if changed:
        what = " and ".join(key.removesuffix("_sha256") for key in changed)
        raise RecordError(f"{path}: {what} of {fresh.task} changed since this run began; choose another --output_path")
    return stored.model_copy(update={"warnings": fresh.warnings, "error": None})


class _Session:
    """What the tasks of a run share."""

    def __init__(
        self,
        config: RunConfig,
        harness: Harness,
        observer: Observer,
        folder: RunFolder,
        model: Model,
        record: RunRecord,
    ) -> None:
        self.config = config
        self.harness = harness
        self.observer = observer
        self.folder = folder
        self.respondent = Respondent(model)
        self.record = record
        self.baselines = Baselines(harness, config.seed)

    def do(self, plan: Plan) -> None:
        """One task, from where it was left; a failure is written down and does not stop the others."""
        task = next(task for task in self.record.tasks if task.task == plan.name)
        try:
            measures = Measures(plan.metrics, plan.task.labels)
            self._predict(plan, task, measures)
            self._score(plan, task, measures)
            task.status = "done"
        except BudgetExhausted:  # what was spent belongs into the record
            self._keep()
            raise
        except (RecordError, ModelError):
            raise  # no room left, or weights that cannot be used: it would be the same for every task
        except FigevalError as error:
            task.status, task.error = "failed", str(error)
        except Exception:  # somebody's bug must not cost the other tasks
            task.status, task.error = "failed", traceback.format_exc()
        task.peak_memory_mb = provenance.peak_memory_mb()
        self._keep()
        self.observer.task_ended(task)
        if task.status == "done":
            name = plan.name
            self.harness.host.each("task_finished", lambda _: {"task": name, "rows": self.folder.rows(name)})

    def _keep(self) -> None:
        self.record.model.description = self.respondent.model.description()
        self.folder.write(self.record)

    def _predict(self, plan: Plan, task: TaskRecord, measures: Measures) -> None:
        """Compute the predictions that are not there yet, and those that failed."""
        began = time.monotonic()
        name = plan.name
        self.folder.drop(name, failed)
        answered = {row["id"] for row in self.folder.rows(name)}
        self.observer.task_started(name, plan.n, len(answered))
        if len(answered) < plan.n:
            self.respondent.learn(plan)
            missing = (example for example in plan.examples() if example.id not in answered)
            interview = Interview(plan, self.respondent, plan.route, measures, self.config.log_samples)
            with self.folder.appending(name) as writer:
                for row in interview.rows(missing):
                    writer.write(row)
                    self.observer.advanced(1)
            self.folder.arrange(name, (example.id for example in plan.examples()))
            task.seconds += round(time.monotonic() - began, 3)

    def _score(self, plan: Plan, task: TaskRecord, measures: Measures) -> None:
        """Sum up the stored rows, and compute baselines once."""
        self.observer.scoring("scores")
        stored, strict = partial(self.folder.rows, plan.name), plan.task.group is not None
        if measures.collective:
            self.folder.replace(plan.name, measures.related(list(stored()), task.settings))
        keys = [key for key in self.config.by if key in plan.available.meta_keys]
        sum_up(task, stored, measures, strict=strict, by=keys, seed=self.config.seed)
        task.warnings.extend(failures(stored()))
        if self.config.baselines and not task.baselines:
            self.observer.scoring("baselines")
            began = time.monotonic()
            task.baselines = self.baselines.of(plan)
            task.baseline_seconds = round(time.monotonic() - began, 3)


def failed(row: JSON) -> bool:
    """Whether a stored prediction says that there was no reply."""
    return bool(row["status"] == "error")


def failures(rows: Iterable[JSON]) -> Iterator[str]:
    """A sentence about the examples that got no reply, if there are any."""
    why = [str(row.get("error", "")) for row in rows if failed(row)]
    if why:
        what = "1 example" if len(why) == 1 else f"{len(why)} examples"
        yield f"{what} failed (first: {why[0]}); the same command asks {'it' if len(why) == 1 else 'them'} again"


def _end(record: RunRecord, config: RunConfig, harness: Harness) -> None:
    done = all(task.status == "done" and not task.counts.get("error") for task in record.tasks)
    record.status = "complete" if done else "incomplete"
    record.finished = provenance.now()
    summed_up(record, config.tasks, harness)
