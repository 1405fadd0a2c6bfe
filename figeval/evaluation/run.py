"""Puts one task after the other to the model; whatever has been computed stays on disk."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol

from figeval.config import RunConfig
from figeval.errors import BudgetExhausted
from figeval.evaluation.answering import Alone, Answering, failed, noted
from figeval.evaluation.begin import begin, warnings_of_run
from figeval.evaluation.estimate import announce
from figeval.evaluation.harness import Harness
from figeval.evaluation.overlap import marked, rest_of, roles_of
from figeval.evaluation.plan import Plan, prepare
from figeval.evaluation.processes import several
from figeval.evaluation.resume import resume
from figeval.evaluation.scoring import Baselines, Measures, Respondent, sum_up
from figeval.evaluation.summary import summed_up
from figeval.evaluation.trained import described, line_of, own_up, warn_of_helpers
from figeval.records import provenance
from figeval.records.folder import RunFolder
from figeval.records.schema import RunRecord, TaskRecord
from figeval.training.seen import Lineage
from figeval.types import JSON

RUNS = Path("results/runs")


class Observer(Protocol):
    """Hears how a run goes on: a progress bar, plain lines, or nothing."""

    def resumed(self, folder: Path, kept: int, n: int) -> None: ...  # noqa: D102
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
        line = line_of(model)
        record = begin(folder, config, model, plans, described(line))
        warn_of_helpers(record, plans, line, harness)
        record.warnings = list(warnings_of_run(plans, left_out, config))
        harness.manager.each("run_started", lambda _: {"run": record.model_copy(deep=True)})
        kept = resume(folder, record, plans)
        if kept.rows:
            observer.resumed(folder.path, kept.rows, kept.examples)
        announce(model, plans, folder)
        alone = Alone(Respondent(model), folder, config.log_samples)
        with nullcontext(alone) if config.processes == 1 else several(config, folder, plans, alone) as answering:
            session = _Session(config, harness, observer, folder, answering, record, line)
            for plan in plans:
                session.do(plan)
            _end(record, config, harness)
            folder.write(record)
            harness.manager.each("run_finished", lambda _: {"run": record.model_copy(deep=True)})
    if config.model not in harness.guests.models:
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


@dataclass(frozen=True)
class _Session:
    """What the tasks of a run share."""

    config: RunConfig
    harness: Harness
    observer: Observer
    folder: RunFolder
    answering: Answering
    record: RunRecord
    line: Lineage

    @cached_property
    def baselines(self) -> Baselines:
        """Trivial models, opened when first needed."""
        return Baselines(self.harness, self.config.seed)

    def do(self, plan: Plan) -> None:
        """One task, from where it was left; a failure is written down and does not stop the others."""
        task = next(task for task in self.record.tasks if task.task == plan.name)
        try:
            with noted(task):
                measures = Measures(plan.metrics, plan.task.labels)
                self._predict(plan, task)
                self._score(plan, task, measures)
                task.status = "done"
                self.folder.seal(task)
        except BudgetExhausted:  # what was spent belongs into the record
            self._keep(task)
            raise
        task.peak_memory_mb = max(task.peak_memory_mb, provenance.peak_memory_mb())
        self._keep(task)
        self.observer.task_ended(task)
        if task.status == "done":
            self.harness.manager.each(
                "task_finished", lambda _: {"task": task.model_copy(deep=True), "rows": self.folder.rows(plan.name)}
            )

    def _keep(self, task: TaskRecord) -> None:
        with noted(task):
            self.record.model.description = self.answering.description()
        own_up(self.record, self.harness)
        self.folder.write(self.record)

    def _predict(self, plan: Plan, task: TaskRecord) -> None:
        """Have the predictions computed that are not there yet."""
        answered = sum(1 for _ in self.folder.rows(plan.name))
        self.observer.task_started(plan.name, plan.n, answered)
        if answered < plan.n:
            for rows in self.answering.answer(plan, task):
                self.observer.advanced(rows)

    def _score(self, plan: Plan, task: TaskRecord, measures: Measures) -> None:
        """Sum up the stored rows, and compute baselines once."""
        self.observer.scoring("scores")
        stored, strict = partial(self.folder.rows, plan.name), plan.task.group is not None
        self._mark(task, plan)
        if measures.collective:
            self._relate(task, measures)
        keys = [key for key in self.config.by if key in plan.available.meta_keys]
        sum_up(task, stored, measures, strict=strict, by=keys, seed=self.config.seed)
        task.warnings.extend(failures(stored()))
        rest = rest_of(stored()) if task.overlap is not None and task.overlap.scores else None
        known = task.baselines if rest is None or task.overlap is None else task.overlap.baselines
        if self.config.baselines and not known:
            self.observer.scoring("baselines")
            began = time.monotonic()
            found = self.baselines.of(plan, rest)
            task.baselines = found.whole
            for one in task.languages:
                one.baselines = found.languages.get(one.language, [])
            if task.overlap is not None:
                task.overlap.baselines = found.rest
            task.baseline_seconds = round(time.monotonic() - began, 3)

    def _relate(self, task: TaskRecord, measures: Measures) -> None:
        """Give the rows what depends on all of them, if it is not there."""
        before = list(self.folder.rows(task.task))
        after = measures.related(before, task.settings)
        if after != before:
            self._replace(task, after)

    def _mark(self, task: TaskRecord, plan: Plan) -> None:
        """Write on the rows how the model has seen their examples, if that is known and not there."""
        if not self.line.seen:
            return
        roles = roles_of(plan, self.line)
        if any(row.get("seen") != roles.get(row["id"]) for row in self.folder.rows(task.task)):
            self._replace(task, (marked(row, roles.get(row["id"])) for row in self.folder.rows(task.task)))

    def _replace(self, task: TaskRecord, rows: Iterable[JSON]) -> None:
        """Put other rows in the place of the stored ones."""
        if task.predictions_sha256 is not None:  # a kill between the two must not leave a digest of other rows
            task.predictions_sha256 = None
            self.folder.write(self.record)
        self.folder.replace(task.task, rows)


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
