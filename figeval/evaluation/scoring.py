"""Stored rows → scores. Scores are always summed up from the rows, so a resumed run and a whole one cannot differ."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from figeval.evaluation.breakdown import breakdown
from figeval.evaluation.harness import Harness
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
        scores = [tally.score(seed) for tally in self.tallies.values()]
        if self.strict is not None:
            strict = self.strict.score(seed)
            scores.append(strict)
            self.seen[strict.metric] = Counter(self.seen_groups.values())
        return [
            withheld(ScoreRecord(**asdict(self._exact(score))), self.seen.get(score.metric, {})) for score in scores
        ]

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


class Baselines:
    """The trivial models of a run; each is opened once and serves every task that declares it."""

    def __init__(self, harness: Harness, seed: int) -> None:
        self.harness = harness
        self.seed = seed
        self._opened: dict[str, Respondent] = {}

    def of(self, plan: Plan, rest: Rest | None = None) -> tuple[list[BaselineRecord], list[BaselineRecord]]:
        """The task's baselines on all of its examples, and on the rest of them where a part was seen by the model."""
        whole, others = [], []
        for name in plan.baselines:
            scores, unseen = self._scores(name, plan, rest)
            whole.append(BaselineRecord(baseline=name, scores=scores))
            others.append(BaselineRecord(baseline=name, scores=unseen))
        return whole, others if rest is not None else []

    def _scores(self, name: str, plan: Plan, rest: Rest | None) -> tuple[list[ScoreRecord], list[ScoreRecord]]:
        if name not in self._opened:
            self._opened[name] = Respondent(open_model(self.harness.backends, name, {}, {"seed": self.seed}))
        respondent = self._opened[name]
        route = choose(plan.task.type, respondent.model.offers, self.harness.routes)
        metrics = self.harness.metrics.applicable(plan.task.metrics, plan.task.type, route.name)
        context = replace(plan.context, settings=settings_of(plan.task, route, plan.config))
        measures = Measures(metrics, plan.task.labels)
        respondent.learn(plan)
        cards = [measures.scorecard(strict=plan.task.group is not None) for _ in range(2)]
        rows: Iterable[JSON] = Interview(plan, respondent, route, context, measures).rows(plan.examples())
        if measures.collective:
            settings, rows = replace(plan, route=route, context=context).settings, list(rows)
            others = measures.related(list(rest.of(rows)), settings) if rest is not None else []
            for card, related in zip(cards, (measures.related(rows, settings), others), strict=True):
                for row in related:
                    card.add(row)
        else:
            for row in rows:
                cards[0].add(row)
                for unseen in rest.of([row]) if rest is not None else ():
                    cards[1].add(unseen)
        return cards[0].scores(self.seed), cards[1].scores(self.seed)


def sum_up(
    task: TaskRecord,
    rows: Callable[[], Iterable[JSON]],
    measures: Measures,
    *,
    strict: bool,
    by: Iterable[str],
    seed: int,
) -> None:
    """Put scores, counts, breakdowns and the overlap with what the model has seen into the record of a task.

    `rows` may be read several times.
    """
    card = measures.scorecard(strict=strict)
    seen: Counter[Role] = Counter()
    for row in rows():
        card.add(row)
        seen.update([row["seen"]] if row.get("seen") else ())
    task.scores = card.scores(seed)
    task.counts = {key: count for key, count in sorted(card.counts.items()) if count}
    task.breakdowns = [breakdown(key, rows, measures, seed, task.settings) for key in by]
    task.overlap = overlap(task, rows, seen, partial(scores_of, measures=measures, strict=strict, seed=seed))


def scores_of(
    rows: Iterable[JSON], settings: Mapping[str, Any], *, measures: Measures, strict: bool, seed: int
) -> list[ScoreRecord]:
    """The scores of these rows alone, also by the metrics that depend on the other rows."""
    card = measures.scorecard(strict=strict)
    for row in measures.related(list(rows), settings) if measures.collective else rows:
        card.add(row)
    return card.scores(seed)
