"""Paired comparison of two finished runs, example by example. Neither a model nor benchmark data are needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from figeval.errors import RecordError, near
from figeval.evaluation.stored import Values, seen_ids, stored_languages, stored_metrics, stored_values
from figeval.metrics.paired import PairedTest, holm, paired, paired_over_languages
from figeval.records.run_folder import RunFolder, read_run
from figeval.records.schema import CHOSEN_ON_TEST, RunRecord, TaskRecord

DEFAULT = "default"  # a task's own prompt
OTHER_ARGUMENT = "A and B computed the metric with different models or arguments, so its scores are not comparable"
DISJOINT = "the runs have no example of it in common; give both the same --sample and --seed"
ALL_SEEN = "a model was trained or chosen on these examples, so no valid test exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """Run A minus run B on one task.

    None of the examples that are counted here are compared.

    Attributes:
        unmatched_a: number of examples of run A for which run B has no row.
        unmatched_b: number of examples of run B for which run A has no row.
        unanswered: number of examples to which at least one run gave no valid answer.
        seen: number of examples that one of the models was trained or chosen on.
        p_holm: Holm-corrected p-value over all tests.
    """

    task: str
    comparison: PairedTest
    unmatched_a: int = 0
    unmatched_b: int = 0
    unanswered: int = 0
    seen: int = 0
    p_holm: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Run A minus run B on all tasks.

    Attributes:
        family: number of tests for which p-values were corrected.
        left_out: reason why a task could not be compared, by task.
    """

    metric: str
    a: RunRecord
    b: RunRecord
    tasks: tuple[TaskComparison, ...]
    family: int
    left_out: Mapping[str, str]
    prompts: tuple[str, str] | None = None


def compare_runs(
    path_a: Path, path_b: Path, metric: str = "acc", seed: int = 0, prompts: tuple[str, str] | None = None
) -> RunComparison:
    """Compare two run folders (or their `run.json`) on every task that both have.

    A task with rows in several languages has one comparison per language, and one of the means over the languages under
    its own name.

    Args:
        path_a: run A; differences are A minus B.
        path_b: run B.
        metric: name of a metric that is a mean over examples.
        seed: random seed of the sign-flip test.
        prompts: prompt of each task in run A and in run B, where `default` is the task's own; the two folders may be
            the same. If None, tasks of the same name are compared.

    Raises:
        RecordError: a run or its predictions are missing, the runs have no task in common, a task has another version
            or other examples in one of them, or there is no such metric or prompt.
    """
    (a, folder_a), (b, folder_b) = read_run(path_a), read_run(path_b)
    tasks_a, tasks_b = (tasks_of(run, prompt) for run, prompt in zip((a, b), prompts or (None, None), strict=True))
    _refuse_without_predictions(tasks_a, tasks_b, folder_a, folder_b)
    left_out = dict.fromkeys(tasks_b, "only in B")
    compared = []
    for name, task in tasks_a.items():
        left_out[name] = "only in A"
        if name not in tasks_b:
            continue
        other = tasks_b[name]
        _refuse_other_examples(task, other)
        values_a = stored_values(folder_a, task.task, metric)
        values_b = stored_values(folder_b, other.task, metric)
        if problem := _problem(task, other, values_a, values_b, metric):
            left_out[name] = problem
            continue
        seen = seen_ids(folder_a, task.task) | seen_ids(folder_b, other.task)
        unseen_a, unseen_b = (_without(values, seen) for values in (values_a, values_b))
        # A model was chosen on the test split, and it is not known on which examples.
        on_test = any(score.interval == CHOSEN_ON_TEST for one in (task, other) for score in one.scores)
        if on_test or (seen and not unseen_a.keys() & unseen_b.keys()):
            left_out[name] = ALL_SEEN
            continue
        del left_out[name]
        left_seen = [example for example in values_a if example in values_b and example in seen]
        languages = stored_languages(folder_a, task)
        for part, members in languages.items():
            found = compare_values(f"{name} ({part})", _only(unseen_a, members), _only(unseen_b, members), seed)
            compared.append(replace(found, seen=sum(example in members for example in left_seen)))
        compared.append(replace(compare_values(name, unseen_a, unseen_b, seed, languages), seen=len(left_seen)))
    if not compared:
        stored = [stored_metrics(folder_a, task.task) for task in tasks_a.values()]
        means = sorted({name for metrics in stored for name, is_mean in metrics.items() if is_mean})
        raise RecordError(_excluded(left_out) or _nothing_in_common(tasks_a, tasks_b, metric, means))
    adjusted = iter(holm([one.comparison.p for one in compared if one.comparison.p is not None]))
    tasks = tuple(one if one.comparison.p is None else replace(one, p_holm=next(adjusted)) for one in compared)
    family = sum(one.p_holm is not None for one in tasks)
    return RunComparison(metric=metric, a=a, b=b, tasks=tasks, family=family, left_out=left_out, prompts=prompts)


def argument_of(task: TaskRecord, metric: str) -> Mapping[str, Any]:
    """Return what a task's record says about the argument of a metric, except its name; empty for most metrics."""
    found = dict(task.settings.get("metric_arguments", {}).get(metric, {}))
    found.pop("argument", None)
    return found


def _problem(a: TaskRecord, b: TaskRecord, values_a: Values, values_b: Values, metric: str) -> str:
    """Return the reason why the values of a task in the two runs cannot be compared, or an empty string."""
    if not values_a or not values_b:
        return f"it has no {metric} per example"
    if argument_of(a, metric) != argument_of(b, metric):
        return OTHER_ARGUMENT
    return "" if values_a.keys() & values_b.keys() else DISJOINT


def _only(values: Values, members: Collection[str]) -> Values:
    return {name: value for name, value in values.items() if name in members}


def _without(values: Values, seen: Collection[str]) -> Values:
    return {name: value for name, value in values.items() if name not in seen}


def tasks_of(run: RunRecord, prompt: str | None) -> dict[str, TaskRecord]:
    """Return the tasks of a run by the names under which they are compared.

    Without a prompt, these are all tasks by their own names; with one, the variants with that prompt by the name of the
    task that they belong to. Probes count only if `--probes` asked for them: a task's own floor would make the family
    of tests larger, and with it the adjusted p-values, by tests that nobody wants to know.

    Raises:
        RecordError: no task of the run was asked with this prompt.
    """
    if prompt is None:
        return {task.task: task for task in run.tasks if task.kind != "probe" or run.config.get("probes")}
    asked = [task for task in run.tasks if task.kind != "probe"]
    found = {task.of or task.task: task for task in asked if (task.variant or DEFAULT) == prompt}
    if not found:
        known = list(dict.fromkeys(task.variant or DEFAULT for task in asked))
        has = ", ".join(known)
        raise RecordError(
            f"--prompts {prompt}: the run of {run.model.name} has no such prompt{near(prompt, known)}; it has {has}"
        )
    return found


def _refuse_without_predictions(
    a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], folder_a: RunFolder, folder_b: RunFolder
) -> None:
    common = a.keys() & b.keys()
    for tasks, folder in ((a, folder_a), (b, folder_b)):
        if common and not any(folder.has_predictions(tasks[name].task) for name in common):
            raise RecordError(
                f"{folder.path} has no predictions (predictions/*.jsonl next to run.json), but runs are compared "
                "example by example; repeat the run, or copy its predictions there"
            )


def _refuse_other_examples(a: TaskRecord, b: TaskRecord) -> None:
    if a.version != b.version:
        raise RecordError(
            f"{a.task}: A is a run of version {a.version} of the task, B of version {b.version}, and scores of "
            "different versions are not comparable; repeat the older run"
        )
    if a.examples_sha256 != b.examples_sha256:
        raise RecordError(
            f"{a.task}: the two runs were made on different examples ({a.examples_sha256[:8]} and "
            f"{b.examples_sha256[:8]}); run both with the same version of figeval and its data"
        )


def compare_values(
    task: str, a: Values, b: Values, seed: int = 0, languages: Mapping[str, Collection[str]] | None = None
) -> TaskComparison:
    """Compare two runs on the examples that both have; with `languages`, compare the means over the languages."""
    common = [example for example in a if example in b]
    values_a = [a[example][0] for example in common]
    values_b = [b[example][0] for example in common]
    known = [value for value in (*values_a, *values_b) if value is not None]
    bounds = (0.0, 1.0) if all(0 <= value <= 1 for value in known) else None
    if languages:
        ids = {name: [example for example in common if example in members] for name, members in languages.items()}
        of_a, of_b = ({name: [run[one][0] for one in own] for name, own in ids.items()} for run in (a, b))
        clusters = {name: [a[one][1] for one in own] for name, own in ids.items()}
        comparison = paired_over_languages(of_a, of_b, clusters, bounds, seed)
    else:
        comparison = paired(values_a, values_b, [a[example][1] for example in common], bounds, seed)
    return TaskComparison(
        task=task,
        comparison=comparison,
        unmatched_a=len(a) - len(common),
        unmatched_b=len(b) - len(common),
        unanswered=len(common) - comparison.n,
    )


def _excluded(left_out: Mapping[str, str]) -> str:
    """Name the tasks that have values in both runs but were left out, and say why; empty if there are none."""
    for why in (ALL_SEEN, OTHER_ARGUMENT, DISJOINT):
        if names := ", ".join(name for name, reason in left_out.items() if reason == why):
            return f"{names}: {why}"
    return ""


def _nothing_in_common(a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], metric: str, known: list[str]) -> str:
    """Say why there is nothing to compare, and what could be compared instead."""
    if not a.keys() & b.keys():
        has_a, has_b = ", ".join(a), ", ".join(b)
        return f"the runs have no task in common: A has {has_a}; B has {has_b}"
    return (
        f"no task has {metric!r} per example in both runs{near(metric, known)}; choose another --metric that is "
        f"a mean over examples: A has {', '.join(known) or 'none'}"
    )
