"""The baselines of a task: trivial models, the floor among them, and the floor that the model was trained with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import tee
from typing import TYPE_CHECKING, Any, TypeAlias

from figeval.models.model import open_model
from figeval.plugins import describe
from figeval.records.predictions import PredictionRow
from figeval.records.schema import BaselineRecord, Role, RunRecord, TaskRecord
from figeval.runs.evaluate import CachedModel, TaskEvaluator, notes_of
from figeval.runs.harness import Harness
from figeval.runs.lineage import line_of
from figeval.runs.plan import Plan, model_of, route_of, settings_of
from figeval.runs.score import Aggregator, MetricSet, Scored, TaskScorer
from figeval.runs.selection_bias import UnseenExamples, roles_of, with_role
from figeval.runs.task_metrics import metrics_of
from figeval.task_types.probes import SUBSTITUTES
from figeval.task_types.routes import Route, choose
from figeval.types import Example

if TYPE_CHECKING:
    from figeval.records.training import Floor
    from figeval.runs.retrieval.augmentation import Augmenter


@dataclass(slots=True)
class BaselineScores:
    """The scores of a task's baselines.

    Attributes:
        whole: scores on all examples.
        unseen: scores on the examples that the model has not seen.
        languages: scores by language, for a task with several.
        failures: a sentence for each baseline that could not be computed.
    """

    whole: list[BaselineRecord] = field(default_factory=list)
    unseen: list[BaselineRecord] = field(default_factory=list)
    languages: dict[str, list[BaselineRecord]] = field(default_factory=lambda: defaultdict(list))
    failures: list[str] = field(default_factory=list)


def are_scored(plan: Plan, records: Iterable[BaselineRecord]) -> bool:
    """Return whether the records contain all baselines of the task; a trained floor must have its current weights."""
    identities = {(record.baseline, record.weights) for record in records}
    return identities.issuperset((name, _weights(name, plan)) for name in plan.baselines)


def _weights(name: str, plan: Plan) -> str:
    """Return the digest of a baseline's weights, which is empty for trivial models."""
    return plan.floor.weights if plan.floor is not None and plan.floor.name == name else ""


Scoring: TypeAlias = Generator[None, None, tuple[Scored, Scored]]  # yields after each row; scores on all and unseen
Noted: TypeAlias = Callable[[str, str, Iterable[PredictionRow]], Iterable[PredictionRow]]  # baseline, task, rows


class Baselines:
    """The baselines of a run; a trivial model is opened once and serves every task that declares it.

    Args:
        harness: registries that provide the models.
        seed: random seed.
        note: function that receives the rows of a baseline and passes them on
            (`figeval.runs.contrasts.Discrimination.note`).
    """

    def __init__(self, harness: Harness, seed: int, note: Noted = lambda _baseline, _task, rows: rows) -> None:
        self.harness = harness
        self.seed = seed
        self.note = note
        self._opened: dict[str, CachedModel] = {}

    def scores(self, plan: Plan, unseen: UnseenExamples | None = None) -> BaselineScores:
        """Return the scores of the task's baselines; a failure affects neither other baselines nor the task itself.

        The examples are read once: the baselines take turns, row by row.
        """
        baseline_scores = BaselineScores()
        streams = tee(plan.examples(), len(plan.baselines)) if plan.baselines else ()
        scorings = {
            name: self._scoring(name, plan, examples, unseen)
            for name, examples in zip(plan.baselines, streams, strict=True)
        }
        scores: dict[str, tuple[Scored, Scored]] = {}
        while scorings:
            for name, scoring in list(scorings.items()):
                try:
                    next(scoring)
                except StopIteration as end:
                    scores[name] = end.value
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    baseline_scores.failures.append(_failure(name, error))
                else:
                    continue
                del scorings[name]
        for name in filter(scores.__contains__, plan.baselines):
            record, (full_scores, unseen_scores) = {"baseline": name, "weights": _weights(name, plan)}, scores[name]
            baseline_scores.whole.append(BaselineRecord(**record, scores=full_scores.scores))
            for part in full_scores.languages:
                baseline_scores.languages[part.language].append(BaselineRecord(**record, scores=part.scores))
            if unseen is not None:
                baseline_scores.unseen.append(BaselineRecord(**record, scores=unseen_scores.scores))
        return baseline_scores

    def ask(self, name: str, plan: Plan) -> str | None:
        """Put a task to a baseline once more, so that `note` receives its rows; return why it failed, or None."""
        try:
            for _ in self._scoring(name, plan, plan.examples(), None):
                pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return _failure(name, error)
        return None

    def _scoring(self, name: str, plan: Plan, examples: Iterable[Example], unseen: UnseenExamples | None) -> Scoring:
        """Score a baseline on all examples and on the unseen ones, yielding after each row."""
        if plan.floor is not None and plan.floor.name == name:
            return (yield from self._floor_scoring(plan.floor, plan, examples, unseen))
        if name not in self._opened:
            self._opened[name] = CachedModel(open_model(self.harness.backends, name, {}, {"seed": self.seed}))
        model = self._opened[name]
        route = choose(plan.task.type, model.model.offers, self.harness.routes.with_parts(plan.task.type))
        model.fit(plan)
        return (yield from self._sums(_Baseline(name, model, route), plan, examples, unseen))

    def _floor_scoring(
        self, floor: Floor, plan: Plan, examples: Iterable[Example], unseen: UnseenExamples | None
    ) -> Scoring:
        """Score a trained floor, which is opened, asked and augmented like the model itself.

        Rows of examples that the floor has seen are marked, so that its scores on them have no interval.
        """
        floor.check_weights()
        options = {key: value for key, value in plan.config.model_args.items() if key not in ("pretrained", "model")}
        config = replace(plan.config, model=str(floor.folder), model_args=options, processes=1)
        with closing(model_of(config, self.harness)) as model:
            route = route_of(plan.task, model, self.harness, config)
            roles = roles_of(plan, line_of(model))
            baseline = _Baseline(floor.name, CachedModel(model), route, plan.augment, roles)
            return (yield from self._sums(baseline, plan, examples, unseen))

    def _sums(
        self, baseline: _Baseline, plan: Plan, examples: Iterable[Example], unseen: UnseenExamples | None
    ) -> Scoring:
        """Put the examples to a baseline and sum up its rows."""
        task_metrics = metrics_of(plan.task, baseline.route, plan.config, self.harness)
        metrics = MetricSet(task_metrics, plan.task.labels, plan.task.with_language)
        settings = settings_of(plan.task, baseline.route)
        context = replace(
            plan.context,
            settings=settings,
            metrics=frozenset(metrics.statistics),
            indifferent=getattr(baseline.model.model.backend, "indifferent", False),
        )
        strict = plan.task.group is not None
        evaluator = TaskEvaluator(plan, baseline.model, baseline.route, context, metrics, augment=baseline.augment)
        rows = self.note(
            baseline.name,
            plan.name,
            (with_role(row, baseline.roles.get(row["id"])) for row in evaluator.rows(examples)),
        )
        if metrics.collective or len(plan.task.languages) > 1:
            settings, stored_rows = replace(plan, route=baseline.route, context=context).settings, list[PredictionRow]()
            for row in rows:
                stored_rows.append(row)
                yield
            scorer = TaskScorer(metrics=metrics, strict=strict, seed=self.seed, settings=settings)
            return scorer.scores(stored_rows), scorer.scores(unseen.of(stored_rows) if unseen is not None else ())
        aggregator, unseen_aggregator = Aggregator(metrics, strict=strict), Aggregator(metrics, strict=strict)
        for row in rows:  # accumulate one at a time, since a baseline's rows are not stored
            aggregator.add(row)
            for unseen_row in unseen.of([row]) if unseen is not None else ():
                unseen_aggregator.add(unseen_row)
            yield
        return Scored(aggregator.scores(self.seed)), Scored(unseen_aggregator.scores(self.seed))


def _failure(name: str, error: BaseException) -> str:
    """Return a sentence that says why a baseline has no scores."""
    return f"the baseline {name} has no scores: {describe(error)}{notes_of(error)}"


@dataclass(frozen=True, slots=True)
class _Baseline:
    """A baseline that is ready to answer a task.

    Attributes:
        name: name of the baseline.
        model: model, fitted on the task if it learns from it.
        route: route that it takes.
        augment: augmenter of the examples, or None for trivial models.
        roles: role in which it has seen examples, by id.
    """

    name: str
    model: CachedModel
    route: Route
    augment: Augmenter | None = None
    roles: dict[str, Role] = field(default_factory=dict)


NEARLY_ALL = 0.95  # share of the answered examples

Rows = Callable[[str], Iterable[PredictionRow]]  # task@variant → its stored rows


def choose_floor(record: RunRecord, plan: Plan, rows: Rows) -> bool:
    """Mark a substitute as the floor of its task if the declared floor says nothing; return whether it is to be asked.

    It is also asked, without being the floor, with --probes.

    Args:
        record: record of the run; `is_floor` of both probes is written into it.
        plan: plan of a probe that may stand in for a floor; the task and the floor have been carried out.
        rows: function that opens the stored rows of a task.
    """
    tasks = {task.task: task for task in record.tasks}
    task = tasks[plan.task.name]
    floor = tasks.get(f"{plan.task.name}@{plan.variant.substitute_for}")
    if floor is None:
        return not plan.is_reserve
    return mark_floor(task, floor, tasks[plan.name], rows) or not plan.is_reserve


def mark_floor(task: TaskRecord, floor: TaskRecord, substitute: TaskRecord, rows: Rows) -> bool:
    """Mark the floor of a task, or its substitute if the floor says nothing; return whether it is the substitute."""
    substitute.is_floor = _is_superseded(task, floor, rows)
    floor.is_floor = not substitute.is_floor
    return substitute.is_floor


def _is_superseded(task: TaskRecord, floor: TaskRecord, rows: Rows) -> bool:
    """Return whether the answers to a floor say nothing, unlike those to its task.

    A floor beside which a model was trained keeps its place: that model had the same inputs.
    """
    comparable = task.status == floor.status == "done" and not any(baseline.weights for baseline in floor.baselines)
    with_threshold = "threshold" in floor.settings
    return (
        comparable
        and says_nothing(rows(floor.task), with_threshold=with_threshold)
        and not says_nothing(rows(task.task), with_threshold=with_threshold)
    )


def substitute_name(floor: TaskRecord) -> str:
    """Return the name of the probe that stands in for a floor which says nothing."""
    return f"{floor.of}@{SUBSTITUTES.get(floor.variant or '')}"


def note_substitutes(record: RunRecord, plans: Iterable[Plan]) -> None:
    """Add a warning to each task whose floor says nothing, so that another probe stands in for it."""
    tasks = {task.task: task for task in record.tasks}
    for plan in plans:
        if plan.variant.substitute_for and plan.name in tasks and tasks[plan.name].is_floor:
            tasks[plan.task.name].warnings.append(
                f"the floor is {plan.variant.name}, since {plan.variant.substitute_for} says nothing: without the "
                "query, (nearly) all scores are equal"
            )


def says_nothing(rows: Iterable[PredictionRow], *, with_threshold: bool = False) -> bool:
    """Return whether nearly all rows have equal scores: those of all options, or of all examples if each has only one.

    With a threshold, two scores are the one of the example and the threshold. Rows without scores say something, and
    those without a reply are not counted.
    """
    n = tied = 0
    alike: Counter[Any] = Counter()
    for row in rows:
        if row["status"] in ("error", "unasked"):
            continue
        n += 1
        scores = _scores(row)
        if len(scores) > 1 and len(set(scores)) == 1:
            tied += 1
        elif len(scores) == 1 or (with_threshold and len(scores) == 2):
            alike[scores[0]] += 1
    commonest = alike.most_common(1)[0][1] if alike else 0
    return n > 1 and tied + commonest >= NEARLY_ALL * n


def has_scores(rows: Iterable[PredictionRow]) -> bool:
    """Return whether scores of options or candidates are stored with any row."""
    return any(map(_scores, rows))


def _scores(row: PredictionRow) -> Sequence[Any]:
    """Return the scores in a row; of a ranking, those of the best candidates and of the right ones."""
    if "top" in row:
        return [*(score for _, score in row["top"]), *row.get("relevant_scores", ())]
    return row.get("scores", ())
