"""Two finished runs held against each other, example by example. No model and no benchmark data are needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from figeval.errors import RecordError, near
from figeval.evaluation.stored import Values, seen_ids, stored_languages, stored_metrics, stored_values
from figeval.metrics.paired import PairedTest, holm, paired, paired_over_languages
from figeval.records.folder import RunFolder, read_run
from figeval.records.schema import CHOSEN_ON_TEST, RunRecord, TaskRecord

DEFAULT = "default"  # a task's own prompt
OTHER_ARGUMENT = "A and B have the metric from different models or other arguments, so its scores are not comparable"
ALL_SEEN = "a model was trained or chosen on these examples, so no valid test exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """Run A minus run B on one task.

    `unmatched_a` and `unmatched_b` count examples that the other run has no row for, `unanswered` those to which at
    least one run gave no valid answer, `seen` those that one of the models was trained on or chosen on: none of them
    enters the comparison. `p_holm` is p corrected over all tests.
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
    """Run A minus run B; `family` tests were corrected for, `left_out` says why a task could not be compared."""

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

    A task with rows in several languages has a comparison for each, and one of the means over them under its own name.

    Args:
        path_a: run A; differences are A minus B.
        path_b: run B.
        metric: one that is a mean over examples.
        seed: of the sign-flip test.
        prompts: which prompt of each task in run A and which in run B, `default` is the task's own; the two folders may
            be the same. Without it a task is compared with the one of the same name.

    Raises:
        RecordError: no run there, no predictions of it, no task in common, another version of a task or other examples
            behind its name, no such metric or prompt.
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
        if not values_a or not values_b or argument_of(task, metric) != argument_of(other, metric):
            left_out[name] = OTHER_ARGUMENT if values_a and values_b else f"it has no {metric} per example"
            continue
        seen = seen_ids(folder_a, task.task) | seen_ids(folder_b, other.task)
        unseen_a, unseen_b = (_without(values, seen) for values in (values_a, values_b))
        # Chosen on the test split, and which examples that were is not known.
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
    """Return what the record of a task holds of what a metric was made from, but the name; empty for most metrics."""
    found = dict(task.settings.get("metric_arguments", {}).get(metric, {}))
    found.pop("argument", None)
    return found


def _only(values: Values, members: Collection[str]) -> Values:
    return {name: value for name, value in values.items() if name in members}


def _without(values: Values, seen: Collection[str]) -> Values:
    return {name: value for name, value in values.items() if name not in seen}


def tasks_of(run: RunRecord, prompt: str | None) -> dict[str, TaskRecord]:
    """The tasks of a run by what they are compared as: their own names, with a prompt those of the tasks that it asks.

    Raises:
        RecordError: no task of the run was asked with this prompt.
    """
    if prompt is None:
        return {task.task: task for task in run.tasks}
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
                f"{folder.path} has no predictions (predictions/*.jsonl beside run.json), and runs are compared "
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
    """Compare on the examples that both runs have; with `languages`, the means over these."""
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
    """Why tasks with values in both runs could not be compared, and which; empty if there are no such tasks."""
    for why in (ALL_SEEN, OTHER_ARGUMENT):
        if names := ", ".join(name for name, reason in left_out.items() if reason == why):
            return f"{names}: {why}"
    return ""


def _nothing_in_common(a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], metric: str, known: list[str]) -> str:
    """Why there is nothing to compare, and what could be."""
    if not a.keys() & b.keys():
        has_a, has_b = ", ".join(a), ", ".join(b)
        return f"the runs have no task in common: A has {has_a}; B has {has_b}"
    return (
        f"no task has {metric!r} for each example of both runs{near(metric, known)}; choose another --metric that is "
        f"a mean over examples: A has {', '.join(known) or 'none'}"
    )
