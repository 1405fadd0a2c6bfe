"""Summaries of several tasks of a run: floors, macro means of suites, the variance over prompts and samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import TypeAlias

from figeval.metrics.variance import split_variance
from figeval.records.predictions import PredictionRow
from figeval.records.schema import (
    BaselineRecord,
    MacroRecord,
    Role,
    RunRecord,
    ScoreRecord,
    SpreadRecord,
    TaskRecord,
)
from figeval.records.variance import VarianceRecord
from figeval.runs.harness import Harness
from figeval.runs.selection_bias import strongest
from figeval.runs.stored import declared_bounds
from figeval.types import Interval

Rows: TypeAlias = Callable[[str], Iterable[PredictionRow]]  # name of a task → its stored rows


def summarize(record: RunRecord, suites: Iterable[str], harness: Harness, rows: Rows) -> None:
    """Write floors, macro means of suites and the variance over prompts and samples into the record of a run."""
    for probe in record.tasks:
        if probe.is_floor and probe.status == "done":
            add_floor(next(task for task in record.tasks if task.task == probe.of), probe)
    record.macro = [macro for name in suites for macro in macro_means(name, record, harness)]
    record.spreads = list(spreads(record))
    record.variances = list(variances(record, harness, rows))


def add_floor(task: TaskRecord, probe: TaskRecord) -> None:
    """Add the scores of a probe to the baselines of its task, including those by language and on unseen examples.

    The baselines of the probe itself, i.e. the scores of a model that was trained on the probe, are added as well.
    """
    from figeval.records.training import name_of

    replaced = (str(probe.variant), name_of(str(probe.variant)))

    def merge_baselines(
        baselines: Iterable[BaselineRecord], scores: list[ScoreRecord], trained: Iterable[BaselineRecord]
    ) -> list[BaselineRecord]:
        other_baselines = [record for record in baselines if record.baseline not in replaced]
        return [*other_baselines, BaselineRecord(baseline=replaced[0], scores=scores), *trained]

    task.baselines = merge_baselines(task.baselines, probe.scores, probe.baselines)
    for language, probe_language in zip(task.languages, probe.languages, strict=False):
        language.baselines = merge_baselines(language.baselines, probe_language.scores, probe_language.baselines)
    if task.overlap is not None and task.overlap.scores and probe.overlap is not None:
        task.overlap.baselines = merge_baselines(task.overlap.baselines, probe.overlap.scores, probe.overlap.baselines)


def macro_means(suite: str, record: RunRecord, harness: Harness) -> list[MacroRecord]:
    """Return the macro means of a suite for the metrics that all of its tasks share, without prompts and probes.

    The list is empty if the suite declares no macro mean or has several task types: a mean of the accuracies among 250
    candidates and among 5 options would be meaningless.
    """
    if suite not in harness.catalogue.suites or not harness.catalogue.suites.get(suite).macro_mean:
        return []
    names = {task.name for task in harness.catalogue.expand([suite])}
    tasks = [task for task in record.tasks if task.task in names]
    if len({task.task_type for task in tasks}) != 1:
        return []
    columns = [{score.metric: score.value for score in task.scores} for task in tasks]
    shared = [metric for metric in (columns[0] if columns else ()) if all(metric in column for column in columns)]
    means = []
    for metric in shared:
        values = [column[metric] for column in columns]
        numbers = [value for value in values if value is not None]
        mean = fmean(numbers) if len(numbers) == len(values) else None
        seen = strongest(score.seen for task in tasks for score in task.scores if score.metric == metric)
        means.append(MacroRecord(suite=suite, metric=metric, value=mean, tasks=len(values), seen=seen))
    return means


def spreads(record: RunRecord) -> Iterator[SpreadRecord]:
    """Yield, per task or contrast and metric, the lowest, highest and mean value over prompts, if it has several."""
    probes = {task.variant for task in record.tasks if task.kind == "probe"}
    scores_by_prompt = [(task.of or task.task, task.variant, task.scores) for task in record.tasks]
    scores_by_prompt += [
        (f"{contrast.suite}:{contrast.contrast}", contrast.variant, contrast.scores) for contrast in record.contrasts
    ]
    prompts: dict[tuple[str, str], dict[str, float]] = {}
    seen: dict[tuple[str, str], Role | None] = {}
    for name, variant, scores in scores_by_prompt:
        for score in scores if variant not in probes else ():
            if score.value is not None:
                key = (name, score.metric)
                prompts.setdefault(key, {})[variant or "default"] = score.value
                seen[key] = strongest((score.seen, seen.get(key)))
    for (name, metric), values in prompts.items():
        if len(values) > 1:
            low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
            yield SpreadRecord(
                task=name,
                metric=metric,
                prompts=len(values),
                mean=fmean(values.values()),
                lowest=values[low],
                lowest_prompt=low,
                highest=values[high],
                highest_prompt=high,
                range=values[high] - values[low],
                seen=seen[name, metric],
            )


def variances(record: RunRecord, harness: Harness, rows: Rows) -> Iterator[VarianceRecord]:
    """Yield, per task that was asked for several samples and metric, the split of the variance of its values."""
    by_task: dict[str, list[TaskRecord]] = {}
    for task in record.tasks:
        if task.kind != "probe" and task.status == "done" and task.settings.get("samples", 1) > 1:
            by_task.setdefault(task.of or task.task, []).append(task)
    for name, prompts in by_task.items():
        values = [sampled_values(rows(prompt.task)) for prompt in prompts]
        for score in prompts[0].scores:
            columns = [by_metric.get(score.metric, {}) for by_metric in values]
            items = [item for item in columns[0] if all(item in column for column in columns)]
            if not items:
                continue
            cells = [[column[item][0] for column in columns] for item in items]
            bounds = declared_bounds(prompts[0], score.metric, harness.metrics)
            split = split_variance(cells, [columns[0][item][1] for item in items], bounds)
            of_prompts = [each for prompt in prompts for each in prompt.scores if each.metric == score.metric]
            is_score = len(prompts) == 1 and not prompts[0].languages  # which would be a mean over languages
            interval = of_prompts[0].interval if is_score else interval_over_prompts(of_prompts, split.interval)
            yield VarianceRecord(
                task=name,
                metric=score.metric,
                samples=prompts[0].settings["samples"],
                prompts=len(prompts),
                items=len(items),
                mean=split.mean,
                low=interval.low,
                high=interval.high,
                stderr=interval.stderr,
                interval=interval,
                sampling=split.sampling,
                interaction=split.interaction,
                between_items=split.items,
                between_clusters=split.clusters,
                between_prompts=split.prompts,
                sampling_share=split.sampling_share,
                enough_samples=split.enough_samples,
            )


def interval_over_prompts(scores: Sequence[ScoreRecord], interval: Interval) -> Interval:
    """Return the interval of the mean over prompts, of which there is none if the score of a prompt has none."""
    return next((score.interval for score in scores if score.low is None), interval)


def sampled_values(rows: Iterable[PredictionRow]) -> dict[str, dict[str, tuple[list[float], str | None]]]:
    """Return by metric and example the values of its samples, and the cluster of the example."""
    values: dict[str, dict[str, tuple[list[float], str | None]]] = defaultdict(dict)
    for row in rows:
        for sample in row.get("samples", ()):
            for metric, value in sample["metrics"].items():
                if not isinstance(value, list):
                    values[metric].setdefault(row["id"], ([], row["cluster"]))[0].append(value)
    return values
