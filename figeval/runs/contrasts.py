"""The contrasts of suites, which measure how well a model tells the examples of several tasks apart.

A suite declares contrasts (`contrasts` of `SuiteSpec`) if all, or nearly all, examples of each of its tasks have the
same right answer. Examples whose gold label is the first label of their task are positive, all others negative;
`figeval.metrics.discrimination` defines the metrics. A contrast is computed for every prompt and probe that all of its
tasks were asked with, and for their baselines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from figeval.config import RunConfig
from figeval.errors import TaskError
from figeval.io.text import near
from figeval.metrics.discrimination import NUMBERS, ContrastAnswer, compared_examples
from figeval.records.predictions import PredictionRow
from figeval.records.schema import BaselineRecord, ContrastRecord, RunRecord, ScoreRecord, TaskRecord
from figeval.runs.counterparts import counterparts
from figeval.runs.harness import Harness
from figeval.runs.selection_bias import withheld
from figeval.spec import SuiteSpec, TaskSpec
from figeval.spec.loader import Catalogue
from figeval.types import Interval, Score

Rows: TypeAlias = Callable[[str], Iterable[PredictionRow]]  # task@variant → its stored rows


@dataclass(frozen=True, slots=True)
class Contrast:
    """A contrast declared by a suite of this run, with the tasks that are run for it.

    `origin` is the file of the suite, or its name if it was made in Python; errors begin with it.
    """

    suite: str
    origin: str
    name: str
    tasks: tuple[TaskSpec, ...]
    within: str | None

    @property
    def label(self) -> str:
        """Label of the positive examples."""
        return self.tasks[0].labels[0]

    def answer(self, row: PredictionRow) -> ContrastAnswer | None:
        """Return the answer in a row, or None if the gold label is hidden."""
        return ContrastAnswer.of_row(row, self.label, self.within)


def contrasts_of(config: RunConfig, harness: Harness) -> list[Contrast]:
    """Return the contrasts of the suites among --tasks, and of the suites nested in these, each once.

    Raises:
        TaskError: the tasks of a contrast differ in their first label, or do not belong to the suite.
        UnknownName: there is no such task.
    """
    contrasts: dict[tuple[tuple[str, ...], str | None], Contrast] = {}
    suites = harness.catalogue.suites
    waiting = [name for name in config.tasks if name in suites]
    for name in waiting:
        suite = suites.get(name)
        waiting += [member for member in suite.tasks if member in suites and member not in waiting]
        for contrast in declared_contrasts(
            suite, harness.catalogue, partial(counterparts, config=config, harness=harness)
        ):
            key = tuple(task.name for task in contrast.tasks), contrast.within
            contrasts.setdefault(key, contrast)
    return list(contrasts.values())


def declared_contrasts(
    suite: SuiteSpec, catalogue: Catalogue, chosen: Callable[[Iterable[TaskSpec]], Iterable[TaskSpec]] = iter
) -> Iterator[Contrast]:
    """Yield the contrasts of a suite.

    Args:
        suite: the suite.
        catalogue: its tasks and suites.
        chosen: gives the tasks that are asked in the place of those that are listed.

    Raises:
        TaskError: the tasks of a contrast differ in their first label, or do not belong to the suite.
        UnknownName: there is no such task.
    """
    origin = suite.origin or suite.name
    for name, contrast in suite.contrasts.items():
        tasks = tuple(chosen(catalogue.contrasted(suite, name)))
        firsts = {task.labels[:1] for task in tasks}
        if len(firsts) != 1 or () in firsts:
            first_labels = ", ".join(f"{task.name}: {task.labels[0] if task.labels else 'none'}" for task in tasks)
            raise TaskError(
                f"{origin}: contrast {name!r}: the tasks have different first labels ({first_labels}); "
                "list tasks whose first label is the same"
            )
        yield Contrast(suite.name, origin, name, tasks, contrast.within)


def check_columns(contrasts: Iterable[Contrast], columns: Mapping[str, Collection[str]]) -> None:
    """Raise `TaskError` if a contrast is within a column that the examples of its tasks lack.

    Args:
        contrasts: contrasts of the run.
        columns: the meta keys of tasks, by their names; a contrast is skipped unless it has all of its tasks.
    """
    for contrast in contrasts:
        names = [task.name for task in contrast.tasks]
        if contrast.within is None or not all(name in columns for name in names):
            continue
        meta_keys = list(dict.fromkeys(key for name in names for key in columns[name]))
        if contrast.within not in meta_keys:
            cure = f"write one of {', '.join(meta_keys)}" if meta_keys else "give the tasks a field `meta`"
            raise TaskError(
                f"{contrast.origin}: contrast {contrast.name!r}: no example has {contrast.within!r} in meta"
                f"{near(contrast.within, meta_keys)}; {cure}, or leave `within` out"
            )


@dataclass(slots=True)
class Discrimination:
    """Computes the contrasts of a run.

    Rows of baselines are not stored, so `note` collects their answers while they are scored. If an earlier session has
    scored them, the stored scores of the contrast are kept; if there are none, the baselines are asked again.

    Attributes:
        contrasts: contrasts of the run.
        ask: `ask(baseline, task)` puts a task to a baseline once more, which calls `note` unless it fails; None if no
            model can be asked.
    """

    contrasts: Sequence[Contrast]
    ask: Callable[[str, str], None] | None = None
    _noted: dict[tuple[str, str], list[list[ContrastAnswer]]] = field(default_factory=dict)
    _attempts: set[tuple[str, str]] = field(default_factory=set)

    def note(self, baseline: str, task: str, rows: Iterable[PredictionRow]) -> Iterator[PredictionRow]:
        """Yield the rows of a baseline unchanged, and keep its answers to the examples of a task or probe."""
        contrasts = self._of(task)
        answers_by_contrast: list[list[ContrastAnswer]] = [[] for _ in contrasts]
        for row in rows:
            for answers, contrast in zip(answers_by_contrast, contrasts, strict=True):
                if (answer := contrast.answer(row)) is not None:
                    answers.append(answer)
            yield row
        if contrasts:
            self._noted[baseline, task] = answers_by_contrast

    def records(self, run: RunRecord, rows: Rows) -> Iterator[ContrastRecord]:
        """Yield a record for each contrast and variant whose tasks are all done or failed.

        If one of the tasks failed, the record has no values and names it.

        Args:
            run: record of the run; the baselines of the contrasts in it are kept.
            rows: function that opens the stored rows of a task.
        """
        done: dict[str | None, dict[str, TaskRecord]] = defaultdict(dict)  # variant → task → record
        ended: dict[str | None, dict[str, TaskRecord]] = defaultdict(dict)  # including failed tasks
        for task in run.tasks:
            if task.status in ("done", "failed"):
                ended[task.variant][task.of or task.task] = task
            if task.status == "done":
                done[task.variant][task.of or task.task] = task
        before = {
            (tuple(contrast_record.tasks), contrast_record.within): contrast_record.baselines
            for contrast_record in run.contrasts
            if contrast_record.variant is None
        }
        floors = {task.variant for task in run.tasks if task.is_floor}
        unasked = set() if run.config.get("probes") else {task.variant for task in run.tasks if task.kind == "probe"}
        for contrast in self.contrasts:
            for variant, tasks in ended.items():
                if variant in floors | unasked or not all(task.name in tasks for task in contrast.tasks):
                    continue
                task_records = [tasks[task.name] for task in contrast.tasks]
                if failed := [task.task for task in task_records if task.status == "failed"]:
                    failure = Interval(reason=f"{' and '.join(failed)} failed")
                    nothing = (Score(metric=name, value=None, interval=failure) for name in NUMBERS)
                    yield _record_of(contrast, task_records, [ScoreRecord.of(score) for score in nothing])
                    continue
                record = self._record(contrast, task_records, rows)
                if variant is None:
                    stored_baselines = before.get((tuple(task.name for task in contrast.tasks), contrast.within), [])
                    record.baselines = list(self._baselines(contrast, done, floors, rows, stored_baselines))
                yield record

    def _of(self, task: str) -> list[Contrast]:
        name = task.partition("@")[0]
        return [contrast for contrast in self.contrasts if any(spec.name == name for spec in contrast.tasks)]

    def _record(self, contrast: Contrast, tasks: Sequence[TaskRecord], rows: Rows) -> ContrastRecord:
        """Return the record of the model's own answers."""
        answers = [answer for task in tasks for row in rows(task.task) if (answer := contrast.answer(row)) is not None]
        answered = [answer for answer in answers if answer.answered]
        record = _record_of(contrast, tasks, scores(answered, contrast))
        if contrast.within is not None:  # most idioms have examples of one kind only: the numbers do not rest on these
            answers, answered = compared_examples(answers), compared_examples(answered)
        record.positive = sum(answer.positive for answer in answered)
        record.negative = len(answered) - record.positive
        record.unanswered = len(answers) - len(answered)
        return record

    def _baselines(
        self,
        contrast: Contrast,
        done: Mapping[str | None, Mapping[str, TaskRecord]],
        floors: Collection[str | None],
        rows: Rows,
        before: Sequence[BaselineRecord],
    ) -> Iterator[BaselineRecord]:
        """Yield the trivial models that all tasks share, and the floors: the probes and the models trained on them."""
        tasks = [done[None][task.name] for task in contrast.tasks]
        # A finished task also lists floors among its baselines; here they are computed from their own rows.
        trivial = [
            baseline for baseline in tasks[0].baselines if not baseline.weights and baseline.baseline not in floors
        ]
        yield from self._trivial(contrast, tasks, trivial, before)
        for variant in floors:
            probed = (done[variant].get(task.name) for task in contrast.tasks)
            probes = [probe for probe in probed if probe is not None and probe.is_floor]
            if len(probes) == len(contrast.tasks):
                floor_record = self._record(contrast, probes, rows)
                yield BaselineRecord(baseline=str(variant), scores=floor_record.scores)
                yield from self._trivial(contrast, probes, probes[0].baselines, before)

    def _trivial(
        self,
        contrast: Contrast,
        tasks: Sequence[TaskRecord],
        baselines: Iterable[BaselineRecord],
        before: Sequence[BaselineRecord],
    ) -> Iterator[BaselineRecord]:
        """Yield the baselines that all of these tasks or probes share, from collected, stored or new answers."""
        for baseline in baselines:
            counterparts = [
                next((candidate for candidate in t.baselines if candidate.baseline == baseline.baseline), None)
                for t in tasks
            ]
            if not all(
                counterpart is not None and counterpart.weights == baseline.weights for counterpart in counterparts
            ):
                continue
            names = [task.task for task in tasks]
            missing = [name for name in names if (baseline.baseline, name) not in self._noted]
            stored = (
                record
                for record in before
                if (record.baseline, record.weights) == (baseline.baseline, baseline.weights)
            )
            if missing and (same := next(stored, None)) is not None:
                yield same
                continue
            for name in missing:
                if self.ask is not None and (baseline.baseline, name) not in self._attempts:
                    self._attempts.add((baseline.baseline, name))  # once, even if it fails
                    self.ask(baseline.baseline, name)
            noted = [self._noted.get((baseline.baseline, name)) for name in names]
            if all(answer_lists is not None for answer_lists in noted):
                indexes = [self._of(name).index(contrast) for name in names]
                answers = [
                    answer
                    for answer_lists, index in zip(noted, indexes, strict=True)
                    for answer in (answer_lists or [])[index]
                ]
                score_records = scores([answer for answer in answers if answer.answered], contrast)
                yield BaselineRecord(baseline=baseline.baseline, weights=baseline.weights, scores=score_records)


def scores(answered: Sequence[ContrastAnswer], contrast: Contrast) -> list[ScoreRecord]:
    """Return AUC and balanced accuracy; without an interval if they include seen examples.

    A score without a value gives the reason as its interval.
    """
    scored_answers = [answer for answer in answered if answer.score is not None]
    judged_answers = [answer for answer in answered if answer.right is not None]
    records = []
    for (name, number), answers in zip(NUMBERS.items(), (scored_answers, judged_answers), strict=True):
        score = number(answers, within=contrast.within is not None)
        if score.value is None:
            in_words = answered and not answers and name == "auc"
            reason = "answers in words have no scores to rank by" if in_words else _absence_reason(answers, contrast)
            records.append(ScoreRecord.of(replace(score, interval=Interval(reason=reason))))
            continue
        basis = compared_examples(answers) if contrast.within is not None else answers
        seen = Counter(answer.seen for answer in basis if answer.seen is not None)
        records.append(withheld(ScoreRecord.of(score), seen, len(basis)))
    return records


def _absence_reason(answers: Sequence[ContrastAnswer], contrast: Contrast) -> str:
    """Return the reason why these answers have neither an AUC nor a balanced accuracy."""
    kinds = {answer.positive for answer in answers}
    if not kinds:
        return "no example was answered"
    if len(kinds) > 1:
        return f"no {contrast.within} has answered examples of both kinds"
    quantifier = "every" if kinds == {True} else "no"
    return f"{quantifier} answered example has the right answer {contrast.label}"


def _record_of(contrast: Contrast, tasks: Sequence[TaskRecord], score_records: Sequence[ScoreRecord]) -> ContrastRecord:
    """Return the record of a contrast of these tasks, whose counts are still 0."""
    return ContrastRecord(
        suite=contrast.suite,
        contrast=contrast.name,
        variant=tasks[0].variant,
        tasks=[task.of or task.task for task in tasks],
        label=contrast.label,
        within=contrast.within,
        positive=0,
        negative=0,
        scores=list(score_records),
    )
