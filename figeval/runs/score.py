"""Scores from stored rows: of a task, and of its parts (languages, values of a column).

Scores are always computed from the rows on disk, so those of a resumed run and of an uninterrupted one cannot differ.
A `MetricSet` computes what a row stores for each metric, an `Aggregator` accumulates rows, and a `TaskScorer` writes
the scores of a task into its record.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean
from types import MappingProxyType
from typing import Any, TypeAlias

from figeval.metrics.aggregation import GroupAggregator, MetricAggregator
from figeval.metrics.catalogue import statistic_of
from figeval.metrics.intervals import EXACT_EXPECTATION
from figeval.metrics.statistic import Batched, Case, Collective, Family, Measured, OfSamples, Statistic
from figeval.plugins import foreign_code
from figeval.records.predictions import (
    PredictionRow,
    RowForm,
    answers_of,
    parts_of,
    prediction_row,
    sample_rows,
    tokens_of,
    with_samples,
)
from figeval.records.schema import (
    BreakdownRecord,
    ChoicesRecord,
    GroupRecord,
    LanguageRecord,
    Role,
    ScoreRecord,
    TaskRecord,
)
from figeval.runs.selection_bias import overlap, strongest, withheld
from figeval.task_types.base import Metric
from figeval.types import Example, Interval, Prediction, Score

Measurements: TypeAlias = Sequence[Mapping[str, Measured]]  # of one example: by metric, for each of its samples


class MetricSet:
    """The metrics of one task on one route.

    Args:
        metrics: metrics in the order in which scores are reported.
        labels: labels of the task, for metrics with a score per label.
        as_read: returns an example with the language and segmenter that metrics see (`TaskSpec.with_language`).
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        labels: tuple[str, ...],
        as_read: Callable[[Example], Example] = lambda example: example,
    ) -> None:
        self.metrics = metrics
        self.as_read = as_read
        self.statistics: dict[str, Statistic] = {metric.name: statistic_of(metric, labels) for metric in metrics}
        self._titles = {metric.name: f"plugin {metric.owner!r}: metric {metric.name!r}" for metric in metrics}

    def measured(self, cases: Sequence[Case]) -> list[Measurements]:
        """Return, for each case, the measurements of the metrics that read many examples in one call."""
        of_samples = [
            (example, sample) for example, prediction in cases for sample in prediction.samples or (prediction,)
        ]
        measurements = iter(self._measure_answers(of_samples))
        return [list(islice(measurements, max(1, len(prediction.samples)))) for _, prediction in cases]

    def _measure_answers(self, cases: Sequence[Case]) -> list[dict[str, Measured]]:
        measurements: list[dict[str, Measured]] = [{} for _ in cases]
        for name, statistic in self.statistics.items():
            if not (cases and isinstance(statistic, Batched) and statistic.batch is not None):
                continue
            try:
                with foreign_code(self._titles[name]):
                    for by_metric, measured in zip(measurements, statistic.batch(cases), strict=True):
                        by_metric[name] = measured
            except BaseException as error:
                error.add_note(f"metric {name!r}, {len(cases)} examples together")
                raise
        return measurements

    def row(
        self,
        form: RowForm,
        example: Example,
        prediction: Prediction,
        measured: Measurements = (),
        *,
        texts: bool = False,
        retrieved: Sequence[str] = (),
    ) -> PredictionRow:
        """Return the row of one example; the metrics of several samples are means over those that have them.

        Args:
            form: type of the task.
            example: the example.
            prediction: its answer.
            measured: its measurements, if `measured` was called.
            texts: True to keep texts and all scores.
            retrieved: ids of the examples that were added to the input.
        """
        measured = measured or [{}] * max(1, len(prediction.samples))
        rows = [
            prediction_row(form, example, answer, self.features(example, answer, measurements))
            for answer, measurements in zip(prediction.samples or (prediction,), measured, strict=True)
        ]
        features = mean_metrics(rows) if prediction.samples else rows[0]["metrics"]
        row = prediction_row(form, example, prediction, features, samples=texts, retrieved=retrieved)
        row = with_samples(row, rows) if prediction.samples else row
        row["metrics"] |= self.of_samples(example, row)
        return with_remarks(row, measured)

    def of_samples(self, example: Example, row: PredictionRow) -> dict[str, float]:
        """Return the metrics that are computed from all samples of a row."""
        example = self.as_read(example)
        statistics = {name: each for name, each in self.statistics.items() if isinstance(each, OfSamples)}
        values = {name: statistic.of_row(example, row) for name, statistic in statistics.items()}
        return {name: value for name, value in values.items() if value is not None}

    def features(
        self, example: Example, prediction: Prediction, measured: Mapping[str, Measured] = MappingProxyType({})
    ) -> dict[str, float | list[float]]:
        """Return what a row stores per metric: the value of a mean, or the features of another statistic.

        Metrics that give None for the example are left out. Metrics in `measured` are not computed again.
        """
        numbers: dict[str, float | list[float]] = {}
        example = self.as_read(example)
        for name, statistic in self.statistics.items():
            try:
                with foreign_code(self._titles[name]):
                    if name not in measured:
                        features = statistic.features(example, prediction)
                    else:
                        value = measured[name].value
                        features = None if value is None else (value, 1.0)
            except BaseException as error:
                error.add_note(f"metric {name!r}, example {example.id!r}")
                raise
            if features is not None:
                numbers[name] = _row_value(name, statistic, features, example.id)
        return numbers

    @property
    def collective(self) -> tuple[str, ...]:
        """Names of the metrics that depend on all rows of the task."""
        return tuple(name for name, statistic in self.statistics.items() if isinstance(statistic, Collective))

    @property
    def size_dependent(self) -> tuple[str, ...]:
        """Names of the metrics whose value depends on the number of rows."""
        collectives = (
            (name, statistic) for name, statistic in self.statistics.items() if isinstance(statistic, Collective)
        )
        return tuple(name for name, statistic in collectives if not statistic.size_invariant)

    @property
    def pooled(self) -> bool:
        """True if some metrics have to be recomputed for a part of the rows."""
        return any(isinstance(statistic, Collective) and statistic.pooled for statistic in self.statistics.values())

    def related(
        self, rows: Sequence[PredictionRow], settings: Mapping[str, Any], *, pooled: bool = False
    ) -> list[PredictionRow]:
        """Return the rows with the features of metrics that depend on the other rows, or on the same sample of them.

        Args:
            rows: all rows of the task, or with `pooled` a part of them.
            settings: settings of the task's record.
            pooled: True to compute only the metrics that describe the given rows as a whole.
        """
        samples = [sample_rows(row) for row in rows]
        if not any("samples" in row for row in rows):
            return self._related(rows, settings, pooled=pooled)
        columns = [
            self._related([of_row[index % len(of_row)] for of_row in samples], settings, pooled=pooled)
            for index in range(max(map(len, samples)))
        ]
        return [
            with_samples({**row, "metrics": row["metrics"] | mean_metrics(new)}, new) if "samples" in row else new[0]
            for row, new in zip(rows, map(list, zip(*columns, strict=True)), strict=True)
        ]

    def _related(
        self, rows: Sequence[PredictionRow], settings: Mapping[str, Any], *, pooled: bool
    ) -> list[PredictionRow]:
        families: dict[Family, list[str]] = defaultdict(list)
        for name, statistic in self.statistics.items():
            if isinstance(statistic, Collective) and statistic.family is not None and (statistic.pooled or not pooled):
                families[statistic.family].append(name)
        metrics: list[dict[str, Any]] = [dict(row["metrics"]) for row in rows]
        for family, names in families.items():
            try:
                with foreign_code(self._titles[names[0]]):
                    features = {name: list(column) for name, column in family(rows, names, settings).items()}
                for name, column in features.items():
                    for row, row_metrics, row_features in zip(rows, metrics, column, strict=True):
                        row_metrics.pop(name, None)
                        if row_features is not None:
                            row_metrics[name] = _row_value(name, self.statistics[name], row_features, row["id"])
            except BaseException as error:
                of_which = f"metric {names[0]!r}" if len(names) == 1 else f"metrics {', '.join(map(repr, names))}"
                error.add_note(f"{of_which}, all {len(rows)} examples together")
                raise
        return [{**row, "metrics": row_metrics} for row, row_metrics in zip(rows, metrics, strict=True)]


def mean_metrics(rows: Sequence[PredictionRow]) -> dict[str, float | list[float]]:
    """Return the mean of each metric over the rows that have it, element by element where it consists of several."""
    values: dict[str, list[float | list[float]]] = defaultdict(list)
    for row in rows:
        for name, value in row["metrics"].items():
            values[name].append(value)
    means: dict[str, float | list[float]] = {}
    for name, column in values.items():
        lists = [value for value in column if isinstance(value, list)]
        numbers = [value for value in column if not isinstance(value, list)]
        means[name] = [fmean(elements) for elements in zip(*lists, strict=True)] if lists else fmean(numbers)
    return means


def with_remarks(row: PredictionRow, measured: Measurements) -> PredictionRow:
    """Return the row with the metrics' remarks on its example, each one once."""
    measurements = (measurement for by_metric in measured for measurement in by_metric.values())
    remarks = list(dict.fromkeys(remark for measurement in measurements for remark in measurement.remarks))
    return {**row, "remarks": remarks} if remarks else row


def _row_value(name: str, statistic: Statistic, features: Sequence[float], example: str) -> float | list[float]:
    """Return features as a row stores them: the value of a mean, otherwise a list. `_features` is the inverse."""
    if not all(map(math.isfinite, features)):  # check now, since fixing the metric would not fix stored rows
        raise ValueError(f"metric {name!r} gave {features} for example {example!r}; return None instead")
    # A bool, or numpy's float32, becomes a float.
    numbers = [number if type(number) in (int, float) else float(number) for number in features]
    return numbers[0] if statistic.is_mean else numbers


def _features(stored: float | list[float]) -> Sequence[float]:
    """Return the features of a stored value: (value, 1) for a mean."""
    return stored if isinstance(stored, list) else (stored, 1.0)


class Aggregator:
    """Accumulates rows one at a time; memory grows with the number of clusters, not of rows.

    Args:
        metrics: metrics of the task.
        strict: True to add the accuracy of whole minimal pairs.
    """

    def __init__(self, metrics: MetricSet, *, strict: bool) -> None:
        self.sums = {
            metric.name: MetricAggregator(metric.name, metrics.statistics[metric.name], metric.higher_is_better)
            for metric in metrics.metrics
        }
        has_groups = strict and "acc" in self.sums
        self.groups = GroupAggregator("acc", metrics.statistics["acc"]) if has_groups else None
        self.counts: Counter[str] = Counter()
        self.answers = 0
        self.seen: dict[str, Counter[Role]] = defaultdict(Counter)  # metric → number of seen examples by role
        self.seen_groups: dict[str, Role] = {}
        self.has_option_kinds = False

    def add(self, row: PredictionRow) -> None:
        answers = answers_of(row)
        self.answers += len(answers)
        self.counts.update(answer["status"] for answer in answers)
        self.counts["ties"] += sum(answer.get("tied", 1) > 1 for answer in answers)
        self.counts["truncated_inputs"] += row["truncated"]
        self.counts["straddling"] += row.get("straddling", False)
        self.counts["shortened_prompts"] += "dropped_shots" in row
        self.counts["dropped_shots"] += row.get("dropped_shots", 0)
        self.counts.update(row.get("remarks", ()))
        self.counts["spans_unanswered"] += sum(part["status"] != "ok" for part in parts_of(row))
        self.has_option_kinds |= bool((choice := row.get("choice")) and choice["kinds"])
        role: Role | None = row.get("seen")
        for name, stored in row["metrics"].items():
            if name in self.sums:
                self.sums[name].add(row["cluster"], _features(stored))
                if role is not None:
                    self.seen[name][role] += 1
        if self.groups is not None and row["group"] is not None:
            accuracy = row["metrics"].get("acc")
            self.groups.add(row["group"], row["cluster"], None if accuracy is None else _features(accuracy))
            if role is not None:
                self.seen_groups[row["group"]] = strongest((role, self.seen_groups.get(row["group"]))) or role

    def scores(self, seed: int) -> list[ScoreRecord]:
        """Return the scores so far; those that include seen examples have no interval."""
        seen = self.seen_by_metric()
        return [withheld(ScoreRecord.of(score), seen.get(score.metric, {})) for score, _ in self.summed(seed)]

    def summed(self, seed: int) -> list[tuple[Score, MetricAggregator]]:
        """Return the scores so far, each with its aggregator, regardless of what the model has seen."""
        sums = [*self.sums.values(), *([] if self.groups is None else [self.groups.groups()])]
        return [(self._exact(aggregator.score(seed)), aggregator) for aggregator in sums]

    def seen_by_metric(self) -> dict[str, Counter[Role]]:
        """Return, per metric, the number of its examples that the model has seen, by role."""
        groups = {} if self.groups is None else {self.groups.name: Counter(self.seen_groups.values())}
        return {**self.seen, **groups}

    def _exact(self, score: Score) -> Score:
        """Remove the interval of a score if the model ties on every example and gets the same value everywhere.

        Such a score is chance in closed form: it is an expectation that other examples would not change.
        """
        all_tied = self.counts["ties"] == self.answers
        if not (all_tied and score.stderr is None and score.low is not None):
            return score
        return replace(score, interval=Interval(reason=EXACT_EXPECTATION))


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of a task; if its rows are in several languages, they are means over the languages."""

    scores: list[ScoreRecord]
    languages: list[LanguageRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScorer:
    """Computes the scores of one task from rows.

    Attributes:
        metrics: metrics of the task.
        strict: True if the task has minimal pairs.
        seed: random seed of the bootstrap.
        settings: settings of the task's record; `languages` is present if the task has several.
    """

    metrics: MetricSet
    strict: bool
    seed: int
    settings: Mapping[str, Any]

    def sum_up(self, task: TaskRecord, rows: Callable[[], Iterable[PredictionRow]], by: Iterable[str] = ()) -> None:
        """Write scores, counts, breakdowns, option kinds and the overlap with seen examples into a task's record.

        The baselines of languages are kept.

        Args:
            task: record of the task.
            rows: function that opens the stored rows; they are read several times.
            by: columns by which to break down the scores.
        """
        total = Aggregator(self.metrics, strict=self.strict)
        seen: Counter[Role] = Counter()
        tokens: Counter[str] = Counter()
        for row in rows():
            total.add(row)
            tokens.update(tokens_of(row))
            if role := row.get("seen"):
                seen[role] += 1
        task_scores = self._by_language(rows) if self._languages else Scored(total.scores(self.seed))
        baselines = {language_record.language: language_record.baselines for language_record in task.languages}
        task.scores, task.languages = task_scores.scores, task_scores.languages
        for language_record in task.languages:
            language_record.baselines = baselines.get(language_record.language, [])
        task.choices = self._option_kinds(rows) if total.has_option_kinds else []
        task.tokens = dict(tokens)
        task.counts = {key: count for key, count in sorted(total.counts.items()) if count}
        task.breakdowns = [self.breakdown(key, rows) for key in by]
        task.overlap = overlap(task, rows, seen, lambda rest: self.scores(rest).scores)

    def scores(self, rows: Iterable[PredictionRow]) -> Scored:
        """Return the scores of these rows alone; metrics that depend on all rows are recomputed."""
        if self.metrics.collective:
            rows = self.metrics.related(list(rows), self.settings)
        if self._languages:
            all_rows = list(rows)
            return self._by_language(lambda: all_rows)
        total = Aggregator(self.metrics, strict=self.strict)
        for row in rows:
            total.add(row)
        return Scored(total.scores(self.seed))

    def breakdown(self, key: str, rows: Callable[[], Iterable[PredictionRow]]) -> BreakdownRecord:
        """Return every score per value of a meta column, the most frequent value first.

        If the column is the cluster column, the rows with one value (e.g. one idiom) are independent, since their
        cluster is held fixed. A minimal pair counts only if all of its members have the value.
        """
        clustered_by = all(row["cluster"] == row["meta"].get(key) for row in rows())
        parts = self._parts(lambda row: row["meta"].get(key), rows, held_fixed=clustered_by)
        groups = [GroupRecord(value=value, scores=part.scores(self.seed)) for value, part in parts.items()]
        groups.sort(key=lambda group: (-max(score.n for score in group.scores), group.value))
        return BreakdownRecord(by=key, groups=groups)

    def _option_kinds(self, rows: Callable[[], Iterable[PredictionRow]]) -> list[ChoicesRecord]:
        """Return a table of the chosen kinds of options for each key of `option_meta`."""
        from figeval.runs.option_kinds import choices

        return choices(rows, self.seed)

    @property
    def _languages(self) -> Sequence[str]:
        languages: Sequence[str] = self.settings.get("languages", ())
        return languages

    def _by_language(self, rows: Callable[[], Iterable[PredictionRow]]) -> Scored:
        """Return the scores per language and their unweighted means.

        A minimal pair counts only if all of its members are in the language. Metrics that describe a set of rows as a
        whole are recomputed for each language; metrics that relate a row to other rows use those of all languages. A
        mean has no interval if it includes seen examples. A language has none if its rows form a single cluster, since
        nothing says how rows of another cluster in this language would differ.
        """
        from figeval.metrics.combination import LanguageScore, mean_over_languages

        aggregators = self._parts(lambda row: row.get("language"), rows, strict=self.strict)
        parts = {
            language: aggregators.get(language) or Aggregator(self.metrics, strict=self.strict)
            for language in self._languages
        }
        seen: dict[str, Counter[Role]] = defaultdict(Counter)
        for part in parts.values():
            for metric, counts in part.seen_by_metric().items():
                seen[metric].update(counts)
        summed = [
            [LanguageScore(language, *pair) for pair in part.summed(self.seed)] for language, part in parts.items()
        ]
        means = [mean_over_languages(scores, self.seed) for scores in zip(*summed, strict=True)]
        return Scored(
            [withheld(ScoreRecord.of(mean), seen.get(mean.metric, {})) for mean in means],
            [LanguageRecord(language=language, scores=part.scores(self.seed)) for language, part in parts.items()],
        )

    def _parts(
        self,
        value_of: Callable[[PredictionRow], str | None],
        rows: Callable[[], Iterable[PredictionRow]],
        strict: bool | None = None,
        *,
        held_fixed: bool = False,
    ) -> dict[str, Aggregator]:
        """Return an aggregator of the rows with each value; rows whose value is None are left out.

        Args:
            value_of: function that returns the value of a row.
            rows: function that opens the stored rows; they are read twice.
            strict: True to score whole minimal pairs; by default, if any row belongs to one.
            held_fixed: True if the values are the clusters themselves, within which rows are independent.
        """
        values: dict[str, set[str | None]] = defaultdict(set)  # minimal pair → values of its members
        for row in rows():
            if row["group"] is not None:
                values[row["group"]].add(value_of(row))
        aggregators: dict[str, Aggregator] = {}
        pooled: dict[str, list[PredictionRow]] = defaultdict(list)
        for row in rows():
            value = value_of(row)
            if value is None:
                continue
            part_row: PredictionRow = {**row, "cluster": None if held_fixed else row["cluster"]}
            if row["group"] is not None and len(values[row["group"]]) > 1:
                part_row["group"] = None
            if value not in aggregators:
                aggregators[value] = Aggregator(self.metrics, strict=bool(values) if strict is None else strict)
            if self.metrics.pooled:
                pooled[value].append(part_row)
            else:
                aggregators[value].add(part_row)
        for value, part in pooled.items():
            for row in self.metrics.related(part, self.settings, pooled=True):
                aggregators[value].add(row)
        return aggregators
