"""Evaluation of a model on one task along one route: examples become rows on disk."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from figeval.errors import DataError, FigevalError, ModelError, PluginError, RecordError
from figeval.language.words import TaskWords
from figeval.models.batching import Answered, BatchScheduler, Memo
from figeval.models.model import Model
from figeval.prompts import PromptContext
from figeval.records.ids import Ids, digest_of
from figeval.records.predictions import PredictionRow
from figeval.records.run_folder import RunFolder
from figeval.records.schema import TaskRecord
from figeval.runs.inquiry import Inquiry, store_answers
from figeval.runs.plan import Plan
from figeval.runs.score import Measurements, MetricSet
from figeval.spec import TaskSpec
from figeval.task_types.routes import Dialogue, Route
from figeval.types import Example, KeptReply, Prediction

if TYPE_CHECKING:
    from figeval.runs.retrieval.augmentation import Augmenter

# ---- one model, one task ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class CachedModel:
    """A model with a cache of its outputs, and the source of the data that it was last fitted on."""

    model: Model
    memo: Memo = field(default_factory=Memo)
    fitted_on: tuple[str, ...] | None = None
    words: TaskWords | None = None

    def fit(self, plan: Plan) -> None:
        """Prepare a model for a task: say to a model of words what a word is, and fit one that learns.

        It learns from the whole task even with --limit, since an answer must not depend on how many others are wanted.
        """
        if self.model.counts_words and self.words != (words := plan.words):
            self.model.use_words(words)
            self.words, self.fitted_on = words, None
            self.memo.clear()
        splits = getattr(self.model.backend, "fit_splits", ("prior", "train", "test"))
        needs_split = getattr(self.model.backend, "needs_fit_split", False)
        if needs_split and "test" not in splits and plan.task.split(*splits) is None:
            raise DataError(
                f"{self.model.name} is to learn from the split {' or '.join(splits)}, which {plan.task.name} lacks"
            )
        if callable(use_task_type := getattr(self.model.backend, "use_task_type", None)):
            use_task_type(plan.task.task_type)
        source = plan.source(splits)
        if self.model.learns and source != self.fitted_on:
            self.model.fit(plan.fit_examples(splits))
            self.memo.clear()
        self.fitted_on = source


@dataclass(frozen=True, slots=True)
class TaskEvaluator:
    """Puts one task to one model along one route.

    Attributes:
        plan: plan of the task.
        model: model, fitted on the task if it learns from it.
        route: route of the plan, or the one that a trivial model takes.
        context: context of the task for the route.
        metrics: metrics to compute for each prediction.
        texts: True to keep texts and all scores in the rows.
        replies: replies of the model in an earlier session (`RunFolder.replies`).
        augment: augmenter of the examples that the route sees; rows and metrics use the original examples.
    """

    plan: Plan
    model: CachedModel
    route: Route
    context: PromptContext
    metrics: MetricSet
    texts: bool = False
    replies: Mapping[str, KeptReply] = field(default_factory=dict)
    augment: Augmenter | None = None

    @property
    def scheduler(self) -> BatchScheduler:
        """A new scheduler that puts examples to the model."""

        def start(example: Example) -> Dialogue:
            return self.route.begin(example if self.augment is None else self.augment(example), self.context)

        return BatchScheduler(self.model.model.backend, start, self.model.memo, replies=self.replies)

    def measurements(self, examples: Iterable[Answered]) -> dict[str, Measurements]:
        """Return the measurements of metrics that read many examples at a time, by example id.

        Raises:
            Exception: any error that such a metric raises.
        """
        cases = [(answered.example, answered.made) for answered in examples if isinstance(answered.made, Prediction)]
        pairs = zip(cases, self.metrics.measured(cases), strict=True)
        return {example.id: measured for (example, _), measured in pairs}

    def row(self, answered: Answered, measured: Measurements) -> PredictionRow:
        """Return the row of one example, with its measurements.

        Raises:
            PluginError: the predicted value is not a possible answer to the example.
            Exception: any error that the reply reader, a metric, or `row()` of a task type raises.
        """
        example, prediction, task = answered.example, answered.prediction, self.plan.task
        for answer in prediction.samples or (prediction,):
            check_value(task, self.route, example, answer)
        retrieved = () if self.augment is None else self.augment.retrieved(example)
        return self.metrics.row(task.task_type, example, prediction, measured, texts=self.texts, retrieved=retrieved)

    def rows(self, examples: Iterable[Example]) -> Iterator[PredictionRow]:
        """Yield a row for each example, in order."""
        for chunk in self.scheduler.chunks(examples):
            measured = self.measurements(chunk)
            yield from (self.row(answered, measured.get(answered.example.id, ())) for answered in chunk)


def check_value(task: TaskSpec, route: Route, example: Example, prediction: Prediction) -> None:
    """Raise `PluginError` if the predicted value cannot be an answer to the example."""
    if prediction.value is None:
        return
    problem = task.task_type.value_problem(prediction.value, example, task.labels)
    if problem:
        raise PluginError(
            f"{route.name} predicted an invalid value for example {example.id!r:.80}: {problem}; correct the route, "
            "its reader or the model"
        )


# ---- storing the rows of a task --------------------------------------------------------------------------------------


class Executor(Protocol):
    """Computes the missing rows of a task: `InProcess`, or the `WorkerPool` of --processes."""

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Store a row for every example that has none, in the order of the examples; yield the number of new rows.

        Time and memory are added to the task's record.
        """

    def description(self) -> dict[str, Any]:
        """Return the model's description of itself."""


class RowWriter(Protocol):
    """Takes the rows of one task."""

    def write(self, row: Mapping[str, Any], /) -> None:
        """Store a row. Raises `PluginError` if it could not be read back."""


class RowStore(Protocol):
    """Place where rows go as soon as they are computed: a `RunFolder`, or the run that a worker works for."""

    def appending(self, task: str, /) -> AbstractContextManager[RowWriter]:
        """Return a context with a writer for the rows of a task."""

    def replies(self, task: str, /) -> Mapping[str, KeptReply]:
        """Return the replies of earlier sessions that did not become rows."""

    def keep_replies(self, task: str, replies: Mapping[str, KeptReply], /) -> None:
        """Store replies that did not become rows."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Computes rows with a model, and stores each as soon as it is computed."""

    model: CachedModel
    store: RowStore
    samples: bool

    def record(self, plan: Plan, examples: Iterable[Example]) -> Iterator[int]:
        """Store a row for each of these examples as soon as it is answered, and yield 1 for each.

        If the reply reader, a metric or the row of an example fails, the task ends, but only after the other rows that
        were answered with it are stored. Replies that did not become rows are kept, so the next session does not ask
        for them.
        """
        self.model.fit(plan)
        metrics = MetricSet(plan.metrics, plan.task.labels, plan.task.with_language)
        stored_replies = self.store.replies(plan.name)
        evaluator = TaskEvaluator(
            plan, self.model, plan.route, plan.context, metrics, self.samples, stored_replies, plan.augment
        )
        measurements: dict[str, Measurements] = {}

        def prepare(part: Sequence[Answered]) -> None:
            nonlocal measurements
            measurements = evaluator.measurements(part)

        def set_aside(part: Sequence[Answered]) -> None:
            replies = (pair for answered in part for pair in answered.replies.items())
            self.store.keep_replies(plan.name, {name: reply for name, reply in replies if name not in stored_replies})

        scheduler = evaluator.scheduler
        if plan.config.samples > 1:  # a row has to wait for the last sample
            scheduler.keep = partial(self.store.keep_replies, plan.name)
        with self.store.appending(plan.name) as writer:
            yield from store_answers(
                scheduler.parts(examples),
                lambda answered: writer.write(evaluator.row(answered, measurements.get(answered.example.id, ()))),
                prepare=prepare,
                set_aside=set_aside,
            )


@dataclass(frozen=True, slots=True)
class InProcess:
    """Computes rows with the model in this process and appends them to a run's folder."""

    model: CachedModel
    folder: RunFolder
    samples: bool

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Store a row for every example that has none; yield 1 for each."""
        began = time.monotonic()
        order = bytearray()
        missing = task_inquiry(plan, self.folder, order).missing()
        yield from Recorder(self.model, self.folder, self.samples).record(plan, missing)
        stored = self.folder.arrange(plan.name, order)
        task.seconds += round(time.monotonic() - began, 3)
        if stored < plan.n:
            raise RuntimeError(f"{plan.n - stored} rows of {plan.name} are missing, although all were computed")

    def description(self) -> dict[str, Any]:
        """Return the model's description of itself."""
        return self.model.model.description()


def has_no_reply(row: PredictionRow) -> bool:
    """Return whether the model gave no reply according to a stored row, so that its example is asked again."""
    return row["status"] == "error"


def task_inquiry(plan: Plan, folder: RunFolder, order: bytearray | None = None) -> Inquiry[Example]:
    """Return what a task asks: about the examples that have no row in the folder, or only one without a reply.

    `order` receives the digest of every example's id, so that nobody has to read the examples again to sort the rows.
    """

    def examples() -> Iterator[Example]:
        for example in plan.examples():
            if order is not None:
                order.extend(digest_of(example.id))
            yield example

    return Inquiry(
        examples,
        lambda example: plan.route.begin(plan.asked(example), plan.context),
        lambda: Ids.of(row["id"] for row in folder.rows(plan.name) if not has_no_reply(row)),
    )


@contextmanager
def recorded_failure(task: TaskRecord) -> Iterator[None]:
    """Write a failure into the record of the task, so that it does not stop the other tasks.

    Every exception except those below is a failure of the task, including `SystemExit` from a model or a library.

    Raises:
        RecordError, ModelError: other tasks would fail, too, e.g. because the disk is full, a budget is exhausted, or
            the model cannot be used.
        KeyboardInterrupt: the user ends the run.
    """
    try:
        yield
    except (RecordError, ModelError, KeyboardInterrupt):
        raise
    except FigevalError as error:
        task.status, task.error = "failed", f"{error}{notes_of(error)}"
    except BaseException as error:  # neither a bug nor a library's sys.exit() may stop the other tasks
        notes = notes_of(error)
        error.__notes__ = []  # moved to the last line, which tables show
        task.status, task.error = "failed", f"{traceback.format_exc().rstrip()}{notes}\n"


def notes_of(error: BaseException) -> str:
    """Return the notes of an exception in parentheses, e.g. the metric and the example on which it failed."""
    return "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
