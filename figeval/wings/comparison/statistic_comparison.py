"""Paired comparison of two runs by scores that are no means over examples: macro-F1, correlations, areas.

The numbers whose sums give such a score are exchanged between the runs, cluster by cluster (`exchange`). Those of a
correlation or an area depend on the other examples, so they are computed anew from the rows of the examples that are
compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from figeval.metrics.catalogue import Metrics
from figeval.metrics.statistic import Collective
from figeval.records.schema import CHOSEN_ON_TEST, TaskRecord
from figeval.runs.score import MetricSet
from figeval.runs.stored import Features, stored_languages
from figeval.wings.comparison.exchange import statistic_over_languages
from figeval.wings.comparison.sides import Side, only, without
from figeval.wings.comparison.task_comparison import ALL_SEEN, DISJOINT, TaskComparison, compare_features

MIXED = "depends on the other texts of a run, which an exchange between runs would mix, so there is no valid test"
UNKNOWN = "has no value on the examples that both runs answered"

Given: TypeAlias = Mapping[str, tuple[Features, str | None]]  # example id → (numbers, cluster)


def compare_statistic(
    name: str, a: tuple[Side, TaskRecord], b: tuple[Side, TaskRecord], metric: str, seed: int, draws: int
) -> list[TaskComparison] | str:
    """Return the comparisons on a task, one for each language and one for all, or why there is none.

    The examples that a model was trained or chosen on are left out.
    """
    from figeval.runs.harness import Harness  # with all plugins, which means do not need

    (side_a, task), (side_b, other) = a, b
    all_a, all_b = side_a.features(task.task, metric), side_b.features(other.task, metric)
    if not all_a or not all_b:
        return no_value(metric)
    metrics: Metrics = Harness().metrics
    used = MetricSet([metrics.get(metric, task.task_type)], tuple(task.settings.get("labels", ())))
    statistic = used.statistics[metric]
    if any(score.interval.reason == CHOSEN_ON_TEST for one in (task, other) for score in one.scores):
        return ALL_SEEN
    seen = side_a.seen(task.task) | side_b.seen(other.task)
    both = all_a.keys() & all_b.keys()
    if not both - seen:
        return ALL_SEEN if both else DISJOINT
    features_a: Given = without(all_a, seen)
    features_b: Given = without(all_b, seen)
    languages, compared = stored_languages(side_a.folder, task), []
    if isinstance(statistic, Collective) and statistic.pooled:
        if not statistic.size_invariant:
            return f"{metric} {MIXED}"
        common = {one for one in both - seen if all_a[one][0] is not None and all_b[one][0] is not None}
        parts = [common & members.keys() for members in languages.values()] or [common]
        features_a = _related(features_a, (side_a, task), used, parts)
        features_b = _related(features_b, (side_b, other), used, parts)
        for every in (features_a, features_b):
            if all(one is None for one, _ in every.values()):
                return f"{metric} {UNKNOWN}: {statistic.absent}"
    test = partial(
        statistic_over_languages, combine=statistic.combine, seed=seed, draws=draws, kinds=dict(statistic.kinds)
    )
    for part, members in languages.items():
        found = compare_features(f"{name} ({part})", only(features_a, members), only(features_b, members), test)
        compared.append(replace(found, seen=len(both & seen & members.keys())))
    found = compare_features(name, features_a, features_b, test, languages)
    return [*compared, replace(found, seen=len(both & seen))]


def no_value(metric: str) -> str:
    """Return the reason why a task is left out that does not have the metric."""
    return f"no {metric} stored"


def _related(
    known: Given, run: tuple[Side, TaskRecord], metrics: MetricSet, parts: Collection[Collection[str]]
) -> Given:
    """Return the numbers of a metric as they are if a task has only the rows of one part; None for other rows."""
    (side, task), (metric,) = run, metrics.statistics
    found: dict[str, Features] = {}
    for part in parts:
        rows = [row for row in side.folder.rows(task.task) if row["id"] in part]
        for row in metrics.related(rows, task.settings, pooled=True):
            value = row["metrics"].get(metric)
            found[row["id"]] = value if isinstance(value, list) else None
    return {one: (found.get(one), cluster) for one, (_, cluster) in known.items()}
