"""Stored rows → scores. Scores are always summed up from the rows, so a resumed run and a whole one cannot differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from figeval.backends.converse import Conversation
from figeval.backends.memo import Memo
from figeval.backends.models import Model, open_model
from figeval.metrics.catalogue import Metric, applicable
from figeval.metrics.statistic import Statistic
from figeval.metrics.tally import StrictTally, Tally
from figeval.pipeline.harness import Harness
from figeval.pipeline.plan import Plan
from figeval.protocols.routes import Route, choose
from figeval.records.rows import prediction_row
from figeval.records.schema import BaselineRecord, BreakdownRecord, GroupRecord, ScoreRecord
from figeval.types import JSON, Example, Prediction


class Measures:
    """The metrics of one task on one route, ready to be computed."""

    def __init__(self, metrics: Sequence[Metric], labels: tuple[str, ...]) -> None:
        self.metrics = metrics
        self.statistics: dict[str, Statistic] = {metric.name: metric.statistic(labels) for metric in metrics}

    def features(self, example: Example, prediction: Prediction) -> dict[str, Sequence[float]]:
        """Per metric the numbers of one example that scores are summed up from."""
        found = {}
        for name, statistic in self.statistics.items():
            features = statistic.features(example, prediction)
            if features is not None:
                found[name] = features
        return found

    def scorecard(self, *, strict: bool) -> Scorecard:
        """An empty scorecard; `strict` adds the accuracy of whole minimal pairs."""
        return Scorecard(self, strict)


class Scorecard:
    """Sums up rows, one at a time; memory grows with the clusters, not with the rows."""

    def __init__(self, measures: Measures, strict: bool) -> None:
        self.tallies = {
            metric.name: Tally(metric.name, measures.statistics[metric.name], metric.higher_is_better)
            for metric in measures.metrics
        }
        wanted = strict and "acc" in self.tallies
        self.strict = StrictTally("acc", measures.statistics["acc"]) if wanted else None
        self.counts: Counter[str] = Counter()

    def add(self, row: JSON) -> None:
        """Count one row in."""
        self.counts[row["status"]] += 1
        self.counts["ties"] += row["tied"] > 1
        self.counts["truncated_inputs"] += row["truncated"]
        for name, features in row["metrics"].items():
            if name in self.tallies:
                self.tallies[name].add(row["cluster"], features)
        if self.strict is not None and row["group"] is not None:
            self.strict.add(row["group"], row["cluster"], row["metrics"].get("acc"))

    def scores(self, seed: int) -> list[ScoreRecord]:
        """The scores so far."""
        scores = [tally.score(seed) for tally in self.tallies.values()]
        if self.strict is not None:
            scores.append(self.strict.score(seed))
        return [ScoreRecord(**asdict(score)) for score in scores]


@dataclass(frozen=True, slots=True)
class Interview:
    """One task put to one model along one route."""

    plan: Plan
    model: Model
    route: Route
    measures: Measures
    memo: Memo
    samples: bool = False  # keep texts and all scores in the rows

    def rows(self, examples: Iterable[Example]) -> Iterator[JSON]:
        """A row for each example, in order."""
        start = partial(self.route.start, briefing=self.plan.briefing)
        for example, prediction in Conversation(self.model.backend, start, self.memo).predictions(examples):
            features = self.measures.features(example, prediction)
            yield prediction_row(example, prediction, features, samples=self.samples)


def fit(plan: Plan, model: Model, memo: Memo) -> None:
    """Let a model that learns word weights or label frequencies from the task do so, on the whole task even under
    --limit: an answer must not depend on how many others are asked for.
    """
    splits = getattr(model.backend, "fit_splits", ("prior", "train", "test"))
    if model.fit(plan.fit_examples(splits)):
        memo.clear()


def baselines(plan: Plan, harness: Harness, seed: int) -> list[BaselineRecord]:
    """The task's trivial models on the same examples."""
    return [BaselineRecord(baseline=name, scores=_baseline(name, plan, harness, seed)) for name in plan.task.baselines]


def _baseline(name: str, plan: Plan, harness: Harness, seed: int) -> list[ScoreRecord]:
    model = open_model(harness.backends, name, {}, {"seed": seed})
    route = choose(plan.task.protocol, model.offers, harness.routes)
    metrics = applicable(harness.metrics, plan.task.metrics, plan.task.protocol, route.name)
    measures = Measures(metrics, plan.task.labels)
    memo = Memo()
    fit(plan, model, memo)
    card = measures.scorecard(strict=plan.task.group is not None)
    for row in Interview(plan, model, route, measures, memo).rows(plan.examples()):
        card.add(row)
    model.close()
    return card.scores(seed)


def breakdown(key: str, rows: Iterable[JSON], measures: Measures, seed: int) -> BreakdownRecord:
    """Scores per value of a meta column, the most frequent value first."""
    cards: dict[str, Scorecard] = {}
    for row in rows:
        value: Any = row["meta"].get(key)
        if value is not None:
            cards.setdefault(value, measures.scorecard(strict=False)).add(row)
    groups = [GroupRecord(value=value, scores=card.scores(seed)) for value, card in cards.items()]
    groups.sort(key=lambda group: (-group.scores[0].n, group.value))
    return BreakdownRecord(by=key, groups=groups)
