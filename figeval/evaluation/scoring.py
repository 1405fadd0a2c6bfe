"""Stored rows → scores. Scores are always summed up from the rows, so a resumed run and a whole one cannot differ."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from figeval.evaluation.breakdown import breakdown
from figeval.evaluation.choices import choices
from figeval.evaluation.harness import Harness
from figeval.evaluation.languages import Scored, by_language
from figeval.evaluation.overlap import Rest, overlap, strongest, withheld
from figeval.evaluation.plan import Plan
from figeval.evaluation.prompting import settings_of
from figeval.metrics.aggregation import GroupAggregator, MetricAggregator
from figeval.metrics.catalogue import statistic_of
from figeval.metrics.statistic import Collective, Family, Statistic
from figeval.models.converse import Conversation
from figeval.models.memo import Memo
from figeval.models.model import Model, open_model
from figeval.prompts import PromptContext
from figeval.records.rows import prediction_row
from figeval.records.schema import (
    BaselineRecord,
    Role,
    ScoreRecord,
    TaskRecord,
)
from figeval.task_types.base import Metric
from figeval.task_types.routes import Route, choose
from figeval.types import JSON, Example, Prediction, Score


class Measures:
    """The metrics of one task on one route, ready to be computed."""

    def __init__(self, metrics: Sequence[Metric], labels: tuple[str, ...]) -> None:
        self.metrics = metrics
        self.statistics: dict[str, Statistic] = {metric.name: statistic_of(metric, labels) for metric in metrics}

    def features(self, example: Example, prediction: Prediction) -> dict[str, float | list[float]]:
        """Per metric what scores are summed up from: the value of a mean, the features of another statistic."""
        found: dict[str, float | list[float]] = {}
        for name, statistic in self.statistics.items():
            features = statistic.features(example, prediction)
            if features is not None:
                found[name] = _stored(name, statistic, features, example.id)
        return found

    @property
    def collective(self) -> bool:
        """Whether there are metrics that depend on all rows."""
        return any(isinstance(statistic, Collective) for statistic in self.statistics.values())

    @property
    def pooled(self) -> bool:
        """Whether there are metrics that are computed anew for a part of the rows."""
        return any(isinstance(statistic, Collective) and statistic.pooled for statistic in self.statistics.values())

    def related(self, rows: Sequence[JSON], settings: Mapping[str, Any], *, pooled: bool = False) -> list[JSON]:
        """The rows with the features of the metrics that depend on the other rows; `settings` are the task's.

        With `pooled`, the rows are a part of the task's, and only the metrics that describe it as a whole are computed.
        """
        families: dict[Family, list[str]] = defaultdict(list)
        for name, statistic in self.statistics.items():
            if isinstance(statistic, Collective) and statistic.family is not None and (statistic.pooled or not pooled):
                families[statistic.family].append(name)
        metrics: list[dict[str, Any]] = [dict(row["metrics"]) for row in rows]
        for family, names in families.items():
            for name, features in family(rows, names, settings).items():
                for row, own, found in zip(rows, metrics, features, strict=True):
                    own.pop(name, None)
                    if found is not None:
                        own[name] = _stored(name, self.statistics[name], found, row["id"])
        return [{**row, "metrics": own} for row, own in zip(rows, metrics, strict=True)]

    def scorecard(self, *, strict: bool) -> Scorecard:
        """An empty scorecard; `strict` adds the accuracy of whole minimal pairs."""
        return Scorecard(self, strict)


def _stored(name: str, statistic: Statistic, features: Sequence[float], example: str) -> float | list[float]:
    """Features as a row keeps them: the value of a mean, a list otherwise."""
    if not all(map(math.isfinite, features)):  # before it is stored, where a mended metric could not undo it
        raise ValueError(f"metric {name!r} gave {features} for example {example!r}; return None instead")
    return features[0] if statistic.is_mean else list(features)


class Scorecard:
    """Sums up rows, one at a time; memory grows with the clusters, not with the rows."""

    def __init__(self, measures: Measures, strict: bool) -> None:
        self.tallies = {
            metric.name: MetricAggregator(metric.name, measures.statistics[metric.name], metric.higher_is_better)
            for metric in measures.metrics
        }
        wanted = strict and "acc" in self.tallies
        self.strict = GroupAggregator("acc", measures.statistics["acc"]) if wanted else None
        self.counts: Counter[str] = Counter()
        self.answers = 0
        self.seen: dict[str, Counter[Role]] = defaultdict(Counter)  # metric → its examples that the model has seen
        self.seen_groups: dict[str, Role] = {}

    def add(self, row: JSON) -> None:
        """Count one row in."""
        answers = row.get("answers") or [row]  # one for each order of the options
        self.answers += len(answers)
        self.counts.update(answer["status"] for answer in answers)
        self.counts["ties"] += sum(answer.get("tied", 1) > 1 for answer in answers)
        self.counts["truncated_inputs"] += row["truncated"]
        self.counts["spans_unanswered"] += sum(part["status"] != "ok" for part in row.get("parts", ()))
        role: Role | None = row.get("seen")
        for name, stored in row["metrics"].items():
            if name in self.tallies:
                self.tallies[name].add(row["cluster"], _features(stored))
                if role is not None:
                    self.seen[name][role] += 1
        if self.strict is not None and row["group"] is not None:
            accuracy = row["metrics"].get("acc")
            self.strict.add(row["group"], row["cluster"], None if accuracy is None else _features(accuracy))
            if role is not None:
                self.seen_groups[row["group"]] = strongest((role, self.seen_groups.get(row["group"]))) or role

    def scores(self, seed: int) -> list[ScoreRecord]:
        """The scores so far; without an interval where the model has seen examples behind one."""
        seen = self.seen_by_metric()
        return [withheld(ScoreRecord(**asdict(score)), seen.get(score.metric, {})) for score, _ in self.summed(seed)]

    def summed(self, seed: int) -> list[tuple[Score, MetricAggregator]]:
        """The scores so far with the sums behind them, whatever the model has seen."""
        sums = [*self.tallies.values(), *([] if self.strict is None else [self.strict.groups()])]
        return [(self._exact(one.score(seed)), one) for one in sums]

    def seen_by_metric(self) -> dict[str, Counter[Role]]:
        """How many of the examples behind each score the model has seen, by role."""
        strict = {} if self.strict is None else {self.strict.name: Counter(self.seen_groups.values())}
        return {**self.seen, **strict}

    def _exact(self, score: Score) -> Score:
        """A model that ties on every example and gets the same everywhere is chance in closed form: the value is an
        expectation, and other examples would not change it.
        """
        all_tied = self.counts["ties"] == self.answers
        if not (all_tied and score.stderr is None and score.low is not None):
            return score
        return replace(score, low=None, high=None, interval="none: an exact expectation")


def _features(stored: float | list[float]) -> Sequence[float]:
    """What `Measures.features` made of them, undone: a mean adds (value, 1)."""
    return stored if isinstance(stored, list) else (stored, 1.0)


@dataclass(slots=True)
class Respondent:
    """A model with what it remembers: its answers, and what it was last fitted on."""

    model: Model
    memo: Memo = field(default_factory=Memo)
    learned: tuple[str, ...] | None = None

    def learn(self, plan: Plan) -> None:
        """Let a model that learns word weights or label frequencies from the task do so, on the whole task even
        under --limit: an answer must not depend on how many others are asked for.
        """
        splits = getattr(self.model.backend, "fit_splits", ("prior", "train", "test"))
        source = plan.source(splits)
        if source != self.learned and self.model.fit(plan.fit_examples(splits)):
            self.memo.clear()
        self.learned = source


@dataclass(frozen=True, slots=True)
class Interview:
    """One task put to one respondent along one route."""

    plan: Plan
    respondent: Respondent
    route: Route
    context: PromptContext
    measures: Measures
    samples: bool = False  # keep texts and all scores in the rows

    def rows(self, examples: Iterable[Example]) -> Iterator[JSON]:
        """A row for each example, in order."""
        start = partial(self.route.begin, context=self.context)
        conversation = Conversation(self.respondent.model.backend, start, self.respondent.memo)
        for example, prediction in conversation.predictions(examples):
            features = self.measures.features(example, prediction)
            yield prediction_row(self.plan.task.task_type, example, prediction, features, samples=self.samples)


@dataclass(slots=True)
class BaselineScores:
    """The trivial models of a task: on all of its examples, on those that the model has not seen, and by language."""

    whole: list[BaselineRecord] = field(default_factory=list)
    rest: list[BaselineRecord] = field(default_factory=list)
    languages: dict[str, list[BaselineRecord]] = field(default_factory=lambda: defaultdict(list))


class Baselines:
    """The trivial models of a run; each is opened once and serves every task that declares it."""

    def __init__(self, harness: Harness, seed: int) -> None:
        self.harness = harness
        self.seed = seed
        self._opened: dict[str, Respondent] = {}

    def of(self, plan: Plan, rest: Rest | None = None) -> BaselineScores:
        """The task's baselines; on the rest of the examples where a part was seen by the model."""
        found = BaselineScores()
        for name in plan.baselines:
            whole, unseen = self._scores(name, plan, rest)
            found.whole.append(BaselineRecord(baseline=name, scores=whole.scores))
            for one in whole.languages:
                found.languages[one.language].append(BaselineRecord(baseline=name, scores=one.scores))
            if rest is not None:
                found.rest.append(BaselineRecord(baseline=name, scores=unseen.scores))
        return found

    def _scores(self, name: str, plan: Plan, rest: Rest | None) -> tuple[Scored, Scored]:
        if name not in self._opened:
            self._opened[name] = Respondent(open_model(self.harness.backends, name, {}, {"seed": self.seed}))
        respondent = self._opened[name]
        route = choose(plan.task.type, respondent.model.offers, self.harness.routes)
        metrics = self.harness.metrics.applicable(plan.task.metrics, plan.task.type, route.name)
        context = replace(plan.context, settings=settings_of(plan.task, route, plan.config))
        measures = Measures(metrics, plan.task.labels)
        respondent.learn(plan)
        strict = plan.task.group is not None
        rows: Iterable[JSON] = Interview(plan, respondent, route, context, measures).rows(plan.examples())
        if measures.collective or len(plan.task.languages) > 1:
            settings, rows = replace(plan, route=route, context=context).settings, list(rows)
            others = rest.of(rows) if rest is not None else ()
            one, other = (
                scores_of(part, settings, measures=measures, strict=strict, seed=self.seed) for part in (rows, others)
            )
            return one, other
        cards = [measures.scorecard(strict=strict) for _ in range(2)]
        for row in rows:
            cards[0].add(row)
            for unseen in rest.of([row]) if rest is not None else ():
                cards[1].add(unseen)
        return Scored(cards[0].scores(self.seed)), Scored(cards[1].scores(self.seed))


def sum_up(
    task: TaskRecord,
    rows: Callable[[], Iterable[JSON]],
    measures: Measures,
    *,
    strict: bool,
    by: Iterable[str],
    seed: int,
) -> None:
    """Put what the rows say into the record of a task: scores, counts, breakdowns, the kinds of options that were
    chosen, and the overlap with what the model has seen.

    `rows` may be read several times. Baselines of languages stay as they are.
    """
    card = measures.scorecard(strict=strict)
    seen: Counter[Role] = Counter()
    for row in rows():
        card.add(row)
        seen.update([row["seen"]] if row.get("seen") else ())
    several = task.settings.get("languages", ())
    found = by_language(rows, several, measures, task.settings, strict=strict, seed=seed) if several else None
    task.scores = card.scores(seed) if found is None else found.scores
    known = {one.language: one.baselines for one in task.languages}
    task.languages = [] if found is None else found.languages
    for one in task.languages:
        one.baselines = known.get(one.language, [])
    task.choices = choices(rows, seed)
    task.counts = {key: count for key, count in sorted(card.counts.items()) if count}
    task.breakdowns = [breakdown(key, rows, measures, seed, task.settings) for key in by]
    scores = partial(scores_of, measures=measures, strict=strict, seed=seed)
    task.overlap = overlap(task, rows, seen, lambda rest, settings: scores(rest, settings).scores)


def scores_of(
    rows: Iterable[JSON], settings: Mapping[str, Any], *, measures: Measures, strict: bool, seed: int
) -> Scored:
    """The scores of these rows alone, also by the metrics that depend on the other rows."""
    several = settings.get("languages", ())
    related = measures.related(list(rows), settings) if measures.collective else rows
    if several:
        kept = list(related)
        return by_language(lambda: kept, several, measures, settings, strict=strict, seed=seed)
    card = measures.scorecard(strict=strict)
    for row in related:
        card.add(row)
    return Scored(card.scores(seed))
