"""Paired comparison of two runs on the examples of one task.

Means over examples are compared by `figeval.metrics.paired`. The numbers whose sums give another score, such as
macro-F1, are exchanged between the runs (`exchange`); those of a correlation or an area depend on the other examples,
so they are computed anew from the rows of the examples that are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from figeval import Collective, Harness, RunRecord, TaskRecord
from figeval.metrics.differences import ALPHA
from figeval.metrics.intervals import Bounds
from figeval.metrics.paired import SIGN_FLIPS, PairedTest, compare_paired, paired_over_languages, paired_over_seeds
from figeval.records.run_folder import RunFolder
from figeval.records.schema import CHOSEN_ON_TEST, ContrastRecord
from figeval.records.sweep import run_or_seeds
from figeval.runs.stored import (
    Features,
    Values,
    declared_bounds,
    pooled_features,
    seen_ids,
    stored_features,
    stored_languages,
    stored_statistic,
    stored_values,
)
from figeval.wings.comparison.exchange import statistic_over_languages

GIVEN = "predictions"  # backend of a run that was made from the predictions of another system
DEFAULT = "default"  # a task's own prompt


@dataclass(frozen=True)
class RunSide:
    """A run with its predictions, or the runs of several seeds and a record of their means.

    Everything is read once, since a run may be in many comparisons. `subsets` limits tasks to some of their examples.
    """

    record: RunRecord
    runs: list[tuple[RunRecord, RunFolder]]
    subsets: Mapping[str, Collection[str]] = field(default_factory=dict)
    _values: dict[tuple[str, str], list[Values]] = field(default_factory=dict)
    _features: dict[tuple[str, str], Mapping[str, tuple[Features, str | None]]] = field(default_factory=dict)
    _seen: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path) -> RunSide:
        """Read a run folder, or that of several seeds. Raises `RecordError` if there is no run."""
        return cls(*run_or_seeds(path))

    @property
    def folder(self) -> RunFolder:
        """Folder of the run, or of that of the first seed."""
        return self.runs[0][1]

    def has_predictions(self, task: TaskRecord) -> bool:
        """Return whether the predictions of a task are there, of every seed."""
        return all(folder.has_predictions(task.task) for _, folder in self.runs)

    @property
    def varies(self) -> bool:
        """True if another training could give other answers: the model was trained with a seed, or came as predictions.

        A model that figeval did not train, such as TF-IDF or a published checkpoint, is what it is. Nothing is known
        about the origin of predictions that were imported.
        """
        return self.runs[0][0].model.backend == GIVEN or self.is_trained

    @property
    def is_trained(self) -> bool:
        """True if figeval trained the model, or what it was trained from, with a random seed."""
        lineage = self.runs[0][0].model.lineage
        return lineage is not None and any("seed" in ancestor.about for ancestor in lineage.ancestors)

    def values(self, task: str, metric: str) -> list[Values]:
        """Return the values of a mean for every run, each empty if the metric is no mean."""
        if (task, metric) not in self._values:
            self._values[task, metric] = [stored_values(folder, task, metric) for _, folder in self.runs]
        return [self._in_subset(values, task) for values in self._values[task, metric]]

    def features(self, task: str, metric: str) -> Mapping[str, tuple[Features, str | None]]:
        """Return the numbers of a score that is no mean, for the (first) run; empty if the metric is a mean."""
        if (task, metric) not in self._features:
            self._features[task, metric] = stored_features(self.folder, task, metric)
        return self._in_subset(self._features[task, metric], task)

    def _in_subset(self, values: Mapping[str, Value], task: str) -> Mapping[str, Value]:
        return keep_ids(values, self.subsets[task]) if task in self.subsets else values

    def answered_ids(self, task: str, metric: str) -> set[str]:
        """Return the ids of the examples to which all runs gave a valid answer that the metric applies to."""
        runs: list[Mapping[str, tuple[object, str | None]]] = [*self.values(task, metric)]
        if not all(runs):
            runs = [self.features(task, metric)]
        return set.intersection(*({name for name, (value, _) in run.items() if value is not None} for run in runs))

    def seen_ids(self, task: str) -> set[str]:
        """Return the ids of the examples that a training was trained or chosen on."""
        if task not in self._seen:
            self._seen[task] = set[str]().union(*(seen_ids(folder, task) for _, folder in self.runs))
        return self._seen[task]


def keep_ids(values: Mapping[str, Value], ids: Collection[str]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name in ids}


def drop_ids(values: Mapping[str, Value], ids: Collection[str]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name not in ids}


Value = TypeVar("Value")
Clustered: TypeAlias = Mapping[str, tuple[Value, str | None]]  # example id → (value, cluster)
TOKENIZER = re.compile(r"(?:tok|words):[^|;]*")  # in the signature of a metric
# Why tasks are left out.
DISJOINT = "the runs have no example of it in common; give both the same --sample and --seed"
ALL_SEEN = "a model was trained or chosen on these examples, so no valid test exists"
UNSTORED = "lacks predictions of it"
SEEDED = "is no mean over examples, which alone can be compared over seeds; compare the runs of single seeds"
MIXED = "depends on the other texts of a run, which an exchange between runs would mix, so there is no valid test"
NO_VALUE = "has no value on the examples that both runs answered"
OTHER_ARGUMENT = (
    "A and B computed the metric with different models, arguments or words, so its scores are not comparable"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """Run A minus run B on one task.

    None of the examples that are counted here are compared.

    Attributes:
        unmatched_a: number of examples of run A for which run B has no row.
        unmatched_b: number of examples of run B for which run A has no row.
        unanswered: number of examples to which at least one run gave no valid answer.
        seen: number of examples that one of the models was trained or chosen on.
        same_as: an earlier task on which both runs have the same rows, so that both tasks are one test; else empty.
        p_adjusted: p-value corrected for all tests.
        level: level of this test at which its corrected p is below .05, whatever the other tests find.
        detectable: true difference that a test at this level would find with probability .8.
        p_equivalence: p-value of the hypothesis that the runs differ by the margin or more.
    """

    task: str
    comparison: PairedTest
    unmatched_a: int = 0
    unmatched_b: int = 0
    unanswered: int = 0
    seen: int = 0
    same_as: str = ""
    p_adjusted: float | None = None
    level: float = ALPHA
    detectable: float | None = None
    p_equivalence: float | None = None


def compare_task(
    name: str,
    a: tuple[RunSide, TaskRecord],
    b: tuple[RunSide, TaskRecord],
    metric: str,
    seed: int,
    draws: int = SIGN_FLIPS,
) -> list[TaskComparison] | str:
    """Return the comparisons of two runs on a task, one for each language and one for all, or why there is none.

    The examples that a model was trained or chosen on are left out.
    """
    (side_a, task_a), (side_b, task_b) = a, b
    if argument_of(task_a, metric) != argument_of(task_b, metric):
        has_metric = all(any(score.metric == metric for score in task.scores) for task in (task_a, task_b))
        return OTHER_ARGUMENT if has_metric else no_value(metric)
    runs_a, runs_b = side_a.values(task_a.task, metric), side_b.values(task_b.task, metric)
    if all(runs_a) and all(runs_b):
        return _compare_means(name, a, b, metric, seed, draws)
    if len(runs_a) == len(runs_b) == 1:
        return _compare_statistics(name, a, b, metric, seed, draws)
    is_stored = all(any(runs) or side.features(task.task, metric) for runs, (side, task) in ((runs_a, a), (runs_b, b)))
    return f"{metric} {SEEDED}" if is_stored else no_value(metric)


def no_value(metric: str) -> str:
    """Return the reason why a task is left out that does not have the metric."""
    return f"no {metric} stored"


def is_chosen_on_test(*records: TaskRecord | ContrastRecord) -> bool:
    """Return whether a model was chosen on the test split, when it is not known on which examples."""
    return any(score.interval.reason == CHOSEN_ON_TEST for record in records for score in record.scores)


def argument_of(task: TaskRecord, metric: str) -> Mapping[str, Any]:
    """Return what a task's record says about the argument of a metric, except its name; empty for most metrics.

    The tokenizer of its signature belongs to it, because scores of other words are other scores.
    """
    argument = dict(task.settings.get("metric_arguments", {}).get(metric, {}))
    argument.pop("argument", None)
    signature = str(task.settings.get("signatures", {}).get(metric, ""))
    if tokenizer := TOKENIZER.findall(signature):
        argument["tokenizer"] = tokenizer
    return argument


# ---- means over examples ---------------------------------------------------------------------------------------------


def _compare_means(
    name: str, a: tuple[RunSide, TaskRecord], b: tuple[RunSide, TaskRecord], metric: str, seed: int, draws: int
) -> list[TaskComparison] | str:
    (side_a, task_a), (side_b, task_b) = a, b
    runs_a, runs_b = side_a.values(task_a.task, metric), side_b.values(task_b.task, metric)
    common = runs_a[0].keys() & runs_b[0].keys()
    if not common:
        return DISJOINT
    seen = side_a.seen_ids(task_a.task) | side_b.seen_ids(task_b.task)
    if is_chosen_on_test(task_a, task_b) or not common - seen:
        return ALL_SEEN
    unseen_a, unseen_b = ([drop_ids(values, seen) for values in runs] for runs in (runs_a, runs_b))
    varies = side_a.varies, side_b.varies
    languages, comparisons = stored_languages(side_a.folder, task_a), []
    for language, ids in languages.items():
        of_a, of_b = ([keep_ids(values, ids) for values in runs] for runs in (unseen_a, unseen_b))
        comparison = _compare_seeds(f"{name} ({language})", of_a, of_b, seed, varies, draws)
        comparisons.append(replace(comparison, seen=len(common & seen & ids.keys())))
    if not languages:
        comparison = _compare_seeds(name, unseen_a, unseen_b, seed, varies, draws)
        comparisons.append(replace(comparison, seen=len(common & seen)))
    elif len(runs_a) == len(runs_b) == 1:  # the spread over seeds of a mean over languages is not known
        comparison = _compare_values(name, unseen_a[0], unseen_b[0], seed, languages, draws)
        comparisons.append(replace(comparison, seen=len(common & seen)))
    bounds = _bounds(task_a, metric, [*runs_a, *runs_b])
    return [replace(each, comparison=each.comparison.within(bounds)) for each in comparisons]


def _compare_values(
    task: str, a: Values, b: Values, seed: int, languages: Mapping[str, Collection[str]] | None, draws: int
) -> TaskComparison:
    """Compare two runs on the examples that both have; with `languages`, compare the means over the languages."""
    common = [example for example in a if example in b]
    values_a, values_b = ([values[example][0] for example in common] for values in (a, b))
    bounds = _unit_bounds(value for value in (*values_a, *values_b) if value is not None)
    if languages:
        comparison = paired_over_languages(*_by_part(a, b, common, languages), bounds, seed, draws)
    else:
        comparison = compare_paired(values_a, values_b, [a[example][1] for example in common], bounds, seed, draws)
    return _count_omissions(task, a, b, common, comparison)


def _compare_seeds(
    task: str, a: Sequence[Values], b: Sequence[Values], seed: int, varies: tuple[bool, bool], draws: int
) -> TaskComparison:
    """Compare two models on the examples that all their trainings have.

    `varies` says whether another training of A, and of B, would give other values (`RunSide.varies`).
    """
    if len(a) == len(b) == 1:
        return _compare_values(task, a[0], b[0], seed, None, draws)
    common = [example for example in a[0] if all(example in values for values in (*a, *b))]
    answered = [example for example in common if all(values[example][0] is not None for values in (*a, *b))]
    of_a, of_b = ([[values[example][0] or 0.0 for example in answered] for values in runs] for runs in (a, b))
    bounds = _unit_bounds(value for values in (*of_a, *of_b) for value in values)
    comparison = paired_over_seeds(of_a, of_b, [a[0][example][1] for example in answered], bounds, varies)
    return _count_omissions(task, a[0], b[0], common, comparison)


def _unit_bounds(values: Iterable[float]) -> Bounds:
    return (0.0, 1.0) if all(0 <= value <= 1 for value in values) else None


def _bounds(task: TaskRecord, metric: str, runs: Iterable[Values]) -> Bounds:
    """Return the limits of a metric's values on a task, e.g. those of a rating scale; None without any.

    Values from 0 to 1 need no declaration, so that most metrics are compared without the plugin that defines them.
    """
    values = [value for run in runs for value, _ in run.values() if value is not None]
    if _unit_bounds(values):
        return None
    bounds = declared_bounds(task, metric, Harness().metrics)
    return bounds if bounds is not None and bounds[0] <= min(values) <= max(values) <= bounds[1] else None


# ---- scores that are no means ----------------------------------------------------------------------------------------


def _compare_statistics(
    name: str, a: tuple[RunSide, TaskRecord], b: tuple[RunSide, TaskRecord], metric: str, seed: int, draws: int
) -> list[TaskComparison] | str:
    (side_a, task_a), (side_b, task_b) = a, b
    all_a, all_b = side_a.features(task_a.task, metric), side_b.features(task_b.task, metric)
    if not all_a or not all_b:
        return no_value(metric)
    statistic = stored_statistic(task_a, metric, Harness().metrics)
    if is_chosen_on_test(task_a, task_b):
        return ALL_SEEN
    seen = side_a.seen_ids(task_a.task) | side_b.seen_ids(task_b.task)
    common = all_a.keys() & all_b.keys()
    if not common - seen:
        return ALL_SEEN if common else DISJOINT
    features_a: Clustered[Features] = drop_ids(all_a, seen)
    features_b: Clustered[Features] = drop_ids(all_b, seen)
    languages, comparisons = stored_languages(side_a.folder, task_a), []
    if isinstance(statistic, Collective) and statistic.pooled:
        if not statistic.size_invariant:
            return f"{metric} {MIXED}"
        answered = {example for example in common - seen if None not in (all_a[example][0], all_b[example][0])}
        parts = [answered & ids.keys() for ids in languages.values()] or [answered]
        features_a = _recompute_features(features_a, side_a, task_a, metric, parts)
        features_b = _recompute_features(features_b, side_b, task_b, metric, parts)
        for features in (features_a, features_b):
            if all(numbers is None for numbers, _ in features.values()):
                return f"{metric} {NO_VALUE}: {statistic.absent}"
    test = partial(
        statistic_over_languages, combine=statistic.combine, seed=seed, draws=draws, kinds=dict(statistic.kinds)
    )
    for language, ids in languages.items():
        of_a, of_b = keep_ids(features_a, ids), keep_ids(features_b, ids)
        comparison = _compare_features(f"{name} ({language})", of_a, of_b, test)
        comparisons.append(replace(comparison, seen=len(common & seen & ids.keys())))
    comparison = _compare_features(name, features_a, features_b, test, languages)
    return [*comparisons, replace(comparison, seen=len(common & seen))]


def _compare_features(
    task: str,
    a: Clustered[Features],
    b: Clustered[Features],
    test: Callable[..., PairedTest],
    languages: Mapping[str, Collection[str]] | None = None,
) -> TaskComparison:
    """Compare two runs by a score that is no mean; with `languages`, compare the means of the languages' scores.

    `test` is `statistic_over_languages` of the score.
    """
    common = [example for example in a if example in b]
    comparison = test(*_by_part(a, b, common, languages or {"": dict.fromkeys(common)}))
    return _count_omissions(task, a, b, common, comparison)


def _recompute_features(
    features: Clustered[Features],
    side: RunSide,
    task: TaskRecord,
    metric: str,
    parts: Collection[Collection[str]],
) -> Clustered[Features]:
    """Return the numbers of a metric as they are if a task has only the rows of one part; None for other rows."""
    recomputed: dict[str, Features] = {}
    for part in parts:
        recomputed |= pooled_features(side.folder, task, metric, Harness().metrics, part)
    return {example: (recomputed.get(example), cluster) for example, (_, cluster) in features.items()}


# ---- of both kinds ---------------------------------------------------------------------------------------------------


def _by_part(
    a: Clustered[Value], b: Clustered[Value], common: Sequence[str], parts: Mapping[str, Collection[str]]
) -> tuple[dict[str, list[Value]], dict[str, list[Value]], dict[str, list[str | None]]]:
    """Return the values of A, those of B and the clusters of the common examples in each part."""
    ids = {name: [example for example in common if example in members] for name, members in parts.items()}
    of_a, of_b = ({name: [run[example][0] for example in members] for name, members in ids.items()} for run in (a, b))
    return of_a, of_b, {name: [a[example][1] for example in members] for name, members in ids.items()}


def _count_omissions(
    task: str, a: Collection[str], b: Collection[str], common: Collection[str], comparison: PairedTest
) -> TaskComparison:
    """Return the comparison of a task on the examples that both have, with the numbers of those left out."""
    return TaskComparison(
        task=task,
        comparison=comparison,
        unmatched_a=len(a) - len(common),
        unmatched_b=len(b) - len(common),
        unanswered=len(common) - comparison.n,
    )
