"""Examples → rows on disk: a task is put to a model along one route."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from figeval.errors import FigevalError, ModelError, PluginError, RecordError
from figeval.evaluation.plan import Plan
from figeval.evaluation.retrieval.augmentation import Augmenter
from figeval.evaluation.score import Measurements, MetricSet, remarked
from figeval.models.batching import Answered, BatchScheduler, Memo
from figeval.models.model import Model
from figeval.prompts import PromptContext
from figeval.records.folder import RunFolder
from figeval.records.predictions import PredictionRow, prediction_row
from figeval.records.schema import TaskRecord
from figeval.spec import TaskSpec
from figeval.task_types.routes import Dialogue, Route
from figeval.types import Example, KeptReply, Prediction

# ---- one model, one task ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class CachedModel:
    """A model with the outputs that it has given, and the data that it was last fitted on."""

    model: Model
    memo: Memo = field(default_factory=Memo)
    fitted_on: tuple[str, ...] | None = None

    def fit(self, plan: Plan) -> None:
        """Fit a model that learns word weights or label frequencies from the task.

        It learns from the whole task, even under --limit: an answer must not depend on how many others are asked for.
        """
        splits = getattr(self.model.backend, "fit_splits", ("prior", "train", "test"))
        source = plan.source(splits)
        if source != self.fitted_on and self.model.fit(plan.fit_examples(splits)):
            self.memo.clear()
        self.fitted_on = source


@dataclass(frozen=True, slots=True)
class TaskEvaluator:
    """Puts one task to one model along one route.

    Attributes:
        plan: of the task.
        model: fitted on the task if it learns from it.
        route: that of the plan, or the one that a trivial model takes.
        context: what the route knows of the task.
        metrics: computed for each prediction.
        samples: keep texts and all scores in the rows.
        replies: what the model wrote in an earlier session (`RunFolder.replies`).
        augment: what is added to the examples that the route sees; rows and metrics are of the examples as they are.
    """

    plan: Plan
    model: CachedModel
    route: Route
    context: PromptContext
    metrics: MetricSet
    samples: bool = False
    replies: Mapping[str, KeptReply] = field(default_factory=dict)
    augment: Augmenter | None = None

    def windows(self, examples: Iterable[Example]) -> Iterator[list[Answered]]:
        """Yield what the route makes of the examples, those that were put to the model together at a time."""

        def start(example: Example) -> Dialogue:
            return self.route.begin(example if self.augment is None else self.augment(example), self.context)

        scheduler = BatchScheduler(self.model.model.backend, start, self.model.memo, replies=self.replies)
        return scheduler.windows(examples)

    def measured(self, window: Iterable[Answered]) -> dict[str, Measurements]:
        """Return by id of the example what metrics that read many examples at a time say of them.

        Raises:
            Exception: whatever such a metric raises.
        """
        cases = [(one.example, one.made) for one in window if isinstance(one.made, Prediction)]
        found = zip(cases, self.metrics.measured(cases), strict=True)
        return {example.id: measured for (example, _), measured in found}

    def row(self, answered: Answered, measured: Measurements) -> PredictionRow:
        """Return the row of one example, with what was measured of its window.

        Raises:
            PluginError: the predicted value is not an answer to the example.
            Exception: whatever the reader of the reply, a metric, or `row()` of a task type raises.
        """
        example, prediction, task = answered.example, answered.prediction, self.plan.task
        check_value(task, self.route, example, prediction)
        features = self.metrics.features(example, prediction, measured)
        retrieved = () if self.augment is None else self.augment.retrieved(example)
        made = prediction_row(task.task_type, example, prediction, features, samples=self.samples, retrieved=retrieved)
        return remarked(made, measured)

    def rows(self, examples: Iterable[Example]) -> Iterator[PredictionRow]:
        """Yield a row for each example, in order."""
        for window in self.windows(examples):
            measured = self.measured(window)
            yield from (self.row(answered, measured.get(answered.example.id, {})) for answered in window)


def check_value(task: TaskSpec, route: Route, example: Example, prediction: Prediction) -> None:
    """Raise `PluginError` for a predicted value that cannot be an answer to the example."""
    if prediction.value is None:
        return
    problem = task.task_type.value_problem(prediction.value, example, task.labels)
    if problem:
        raise PluginError(
            f"{route.name} predicted an impossible value for example {example.id!r:.80}: {problem}; correct the route, "
            "its reader or the model"
        )


# ---- storing the rows of a task --------------------------------------------------------------------------------------


class Executor(Protocol):
    """Computes the rows that are missing of a task: `InProcess`, or the `WorkerPool` of --processes."""

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Store a row for every example that has none, in the order of the examples; yield how many came each time.

        Time and memory are added to the task's record.
        """

    def description(self) -> dict[str, Any]:
        """Return the model's description of itself."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """Computes rows with the model in this process and appends them to a run's folder."""

    model: CachedModel
    folder: RunFolder
    samples: bool
    earlier: RunFolder | None = None  # another folder with replies of earlier sessions

    def answer(self, plan: Plan, task: TaskRecord) -> Iterator[int]:
        """Store a row for every example that has none; yield 1 for each."""
        began = time.monotonic()
        yield from self.store(plan, missing_examples(plan, self.folder))
        stored = self.folder.arrange(plan.name, (example.id for example in plan.examples()))
        task.seconds += round(time.monotonic() - began, 3)
        if stored < plan.n:
            raise RuntimeError(f"{plan.n - stored} rows of {plan.name} are missing, although all were computed")

    def store(self, plan: Plan, examples: Iterable[Example]) -> Iterator[int]:
        """Append a row for each of these examples.

        A reader, metric or row that fails on an example ends the task, but only after the rows of those that were put
        to the model with it; replies that did not become rows are kept, and the next session does not ask for them.
        """
        self.model.fit(plan)
        metrics = MetricSet(plan.metrics, plan.task.labels, plan.task.language_of_rows)
        kept = {
            k: v for one in (self.earlier, self.folder) if one is not None for k, v in one.replies(plan.name).items()
        }
        evaluator = TaskEvaluator(plan, self.model, plan.route, plan.context, metrics, self.samples, kept, plan.augment)
        with self.folder.appending(plan.name) as writer:
            for window in evaluator.windows(examples):
                failures: list[BaseException] = []
                try:
                    measured = evaluator.measured(window)
                except BaseException:
                    self._keep_replies(plan, window, kept)
                    raise
                for answered in window:
                    try:
                        writer.write(evaluator.row(answered, measured.get(answered.example.id, {})))
                    except (RecordError, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # a library's sys.exit() included
                        self._keep_replies(plan, [answered], kept)
                        failures.append(error)
                    else:
                        yield 1
                if failures:
                    raise failures[0]

    def _keep_replies(self, plan: Plan, answered: Iterable[Answered], kept: Mapping[str, KeptReply]) -> None:
        """Keep the replies that are not kept yet."""
        replies = (pair for one in answered for pair in one.replies.items())
        self.folder.keep_replies(plan.name, {name: reply for name, reply in replies if name not in kept})

    def description(self) -> dict[str, Any]:
        """Return the model's description of itself."""
        return self.model.model.description()


def has_no_reply(row: PredictionRow) -> bool:
    """Whether a stored row says that the model gave no reply; its example is asked again."""
    return row["status"] == "error"


def missing_examples(plan: Plan, folder: RunFolder) -> Iterator[Example]:
    """Return the examples that have no row in the folder, or one without a reply."""
    answered = {row["id"] for row in folder.rows(plan.name) if not has_no_reply(row)}
    return (example for example in plan.examples() if example.id not in answered)


@contextmanager
def recorded_failure(task: TaskRecord) -> Iterator[None]:
    """Write a failure into the record of the task, so that it does not stop the other tasks.

    Everything but an interrupt is a failure of the task, `SystemExit` from a model or a library included.

    Raises:
        RecordError, ModelError: no room is left, a budget is exhausted, weights cannot be used: every task would fail.
        KeyboardInterrupt: the run is to end.
    """
    try:
        yield
    except (RecordError, ModelError, KeyboardInterrupt):
        raise
    except FigevalError as error:
        task.status, task.error = "failed", str(error)
    except BaseException as error:  # a bug must not cost the other tasks, nor a library's sys.exit() pass for success
        notes = notes_of(error)
        error.__notes__ = []  # on the last line, which tables show
        task.status, task.error = "failed", f"{traceback.format_exc().rstrip()}{notes}\n"


def notes_of(error: BaseException) -> str:
    """Return the notes of an exception, such as the metric and the example that it is about, in parentheses."""
    return "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
