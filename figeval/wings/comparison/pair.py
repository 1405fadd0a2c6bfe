"""Paired comparison of two finished runs, example by example. Neither a model nor benchmark data are needed.

A run may be the folder of several seeds, whose spread then counts, too. `family` corrects the p-values for the number
of tests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from figeval import RecordError, RunRecord, TaskRecord
from figeval.io.text import near, one_line
from figeval.metrics.discrimination import NUMBERS
from figeval.metrics.paired import SIGN_FLIPS
from figeval.records.run_folder import RunFolder
from figeval.runs.stored import stored_metrics
from figeval.wings.comparison.contrast_comparison import NO_SCORES, OTHER_TASKS, compare_contrasts
from figeval.wings.comparison.task_comparison import (
    ALL_SEEN,
    DEFAULT,
    DISJOINT,
    MIXED,
    NO_VALUE,
    OTHER_ARGUMENT,
    SEEDED,
    UNSTORED,
    RunSide,
    TaskComparison,
    compare_task,
    no_value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    """Run A minus run B on all tasks.

    Attributes:
        family: number of tests for which p-values were corrected.
        left_out: reason why a task could not be compared, by task.
        problem: reason why nothing could be compared.
        caveats: what the comparison does not say, or what differs between the runs apart from the model.
    """

    metric: str
    a: RunRecord
    b: RunRecord
    left_out: Mapping[str, str]
    tasks: tuple[TaskComparison, ...] = ()
    family: int = 0
    prompts: tuple[str, str] | None = None
    problem: str = ""
    caveats: tuple[str, ...] = ()


def compare_sides(
    side_a: RunSide,
    side_b: RunSide,
    metric: str,
    seed: int,
    prompts: tuple[str, str] | None = None,
    draws: int = SIGN_FLIPS,
) -> RunComparison:
    """Compare two runs on every task that both have; p-values are not corrected yet.

    A task with rows in several languages has one comparison per language, and one of the means over the languages under
    its own name. A test that has to draw random signs or permutations draws at most `draws`.

    Raises:
        RecordError: predictions are missing, the runs have no task in common, a task has another version or other
            examples in one of them, or there is no such metric or prompt.
    """
    a, b = side_a.record, side_b.record
    tasks_a, tasks_b = (tasks_of(run, prompt) for run, prompt in zip((a, b), prompts or (None, None), strict=True))
    _refuse_without_predictions((side_a, tasks_a), (side_b, tasks_b))
    left_out = dict.fromkeys(tasks_b, "only in B") | dict.fromkeys(tasks_a, "only in A")
    comparisons: list[TaskComparison] = []
    for name, task in tasks_a.items():
        if name in tasks_b:
            comparison = _compare_stored(name, (side_a, task), (side_b, tasks_b[name]), metric, seed, draws)
            if isinstance(comparison, str):
                left_out[name] = comparison
            else:
                del left_out[name]
                comparisons += comparison
    pairs = {name: (task, tasks_b[name]) for name, task in tasks_a.items() if name not in left_out}
    comparisons = _mark_repeats(comparisons, (side_a, side_b), pairs, metric)
    for name, members, contrast in compare_contrasts(side_a, side_b, metric, prompts, seed, draws):
        if isinstance(contrast, str):
            left_out[name] = contrast
            continue
        comparisons.append(contrast)
        for member in members:
            if left_out.get(member) == no_value(metric):
                del left_out[member]
    if not comparisons:
        raise RecordError(
            _explain_omissions(left_out)
            or _explain_nothing_in_common(side_a.folder, side_b.folder, tasks_a, tasks_b, metric)
        )
    differences = () if prompts else _differing_conditions(tasks_a, tasks_b, left_out)
    return RunComparison(
        metric=metric,
        a=a,
        b=b,
        tasks=tuple(comparisons),
        left_out=left_out,
        prompts=prompts,
        caveats=(*_seed_caveats(side_a, side_b), *differences),
    )


def _compare_stored(
    name: str, a: tuple[RunSide, TaskRecord], b: tuple[RunSide, TaskRecord], metric: str, seed: int, draws: int
) -> list[TaskComparison] | str:
    """Compare two runs on a task, like `compare_task`, unless predictions are missing or examples differ."""
    refuse_other_examples(a[1], b[1])
    unstored = [key for key, (side, task) in zip("AB", (a, b), strict=True) if not side.has_predictions(task)]
    if unstored:
        return f"{' and '.join(unstored)} {UNSTORED}"
    return compare_task(name, a, b, metric, seed, draws)


def _mark_repeats(
    comparisons: Sequence[TaskComparison],
    sides: tuple[RunSide, RunSide],
    pairs: Mapping[str, tuple[TaskRecord, TaskRecord]],
    metric: str,
) -> list[TaskComparison]:
    """Return the comparisons, with `same_as` on tasks whose rows repeat those of an earlier task in both runs."""
    first: list[tuple[str, object]] = []
    repeats: dict[str, str] = {}
    for name, tasks in pairs.items():
        rows = [_rows(side, task, metric) for side, task in zip(sides, tasks, strict=True)]
        original = next((earlier for earlier, content in first if content == rows), None)
        if original is None:
            first.append((name, rows))
        else:
            repeats[name] = original
    present = {comparison.task for comparison in comparisons}
    marked_comparisons = []
    for comparison in comparisons:
        name, blank, part = comparison.task.partition(" (")
        original = f"{repeats[name]}{blank}{part}" if name in repeats else ""
        marked_comparisons.append(replace(comparison, same_as=original) if original in present else comparison)
    return marked_comparisons


def _rows(side: RunSide, task: TaskRecord, metric: str) -> tuple[object, ...]:
    """Return what a comparison by a metric knows of the rows of a task: values, clusters, and which were seen."""
    values = side.values(task.task, metric)
    return (values if all(values) else side.features(task.task, metric), side.seen_ids(task.task))


def _seed_caveats(side_a: RunSide, side_b: RunSide) -> Iterator[str]:
    trained = [name for name, side in zip("AB", (side_a, side_b), strict=True) if side.is_trained]
    if len(side_a.runs) == len(side_b.runs) == 1 and trained:
        subject = "A and B are single trainings" if len(trained) > 1 else f"{trained[0]} is a single training"
        yield f"{subject}: p does not cover other seeds; compare folders of at least three seeds for that"


def _differing_conditions(
    a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], left_out: Collection[str]
) -> Iterator[str]:
    """Yield what differs between the runs in how they asked the tasks that were compared, or read the answers."""
    tasks = [task for task in a if task not in left_out]
    if names := [task for task in tasks if a[task].template_sha256 != b[task].template_sha256]:
        yield f"the runs asked with different prompts: {', '.join(names)}"
    for condition, key in (("routes", "route"), ("versions of the extractor of answers", "extractor")):
        differing: dict[tuple[str, str], list[str]] = {}
        for task in tasks:
            of_a, of_b = (getattr(records[task], key) or "none" for records in (a, b))
            if of_a != of_b:
                differing.setdefault((of_a, of_b), []).append(task)
        if differing:
            shown = "; ".join(f"{', '.join(names)}: {' and '.join(pair)}" for pair, names in differing.items())
            yield f"the runs have different {condition}: {one_line(shown)}"


# ---- the tasks of two runs -------------------------------------------------------------------------------------------


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
    variants = [task for task in run.tasks if task.kind != "probe"]
    tasks = {task.of or task.task: task for task in variants if (task.variant or DEFAULT) == prompt}
    if not tasks:
        prompts = list(dict.fromkeys(task.variant or DEFAULT for task in variants))
        cure = f"{near(prompt, prompts)}; it has {', '.join(prompts)}"
        raise RecordError(f"--prompts {prompt}: the run of {run.model.name} has no such prompt{cure}")
    return tasks


def _refuse_without_predictions(*runs: tuple[RunSide, Mapping[str, TaskRecord]]) -> None:
    (_, tasks_a), (_, tasks_b) = runs
    common = tasks_a.keys() & tasks_b.keys()
    for side, tasks in runs:
        if common and not any(side.folder.has_predictions(tasks[name].task) for name in common):
            raise RecordError(
                f"{side.folder.path} has no predictions (predictions/*.jsonl next to run.json), but runs are compared "
                "example by example; repeat the run, or copy its predictions there"
            )


def refuse_other_examples(a: TaskRecord, b: TaskRecord) -> None:
    """Raise `RecordError` if two runs of a task had another version of it, or other examples."""
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


def _explain_omissions(left_out: Mapping[str, str]) -> str:
    """Name the tasks that have values in both runs but were left out, and say why; empty if there are none."""
    for text in (ALL_SEEN, OTHER_ARGUMENT, DISJOINT, MIXED, NO_VALUE, SEEDED, UNSTORED, NO_SCORES, OTHER_TASKS):
        reasons = {name: reason for name, reason in left_out.items() if text in reason}
        if reasons:
            return f"{', '.join(reasons)}: {next(iter(reasons.values()))}"
    return ""


def _explain_nothing_in_common(
    folder_a: RunFolder, folder_b: RunFolder, a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], metric: str
) -> str:
    """Say why there is nothing to compare, and what could be compared instead."""
    tasks = a.keys() & b.keys()
    if not tasks:
        return f"the runs have no task in common: A has {', '.join(a)}; B has {', '.join(b)}"
    if metric in NUMBERS:
        return (
            f"no task has {metric!r} per example in both runs, and they have no contrast in common; run a suite that "
            "declares one (figeval show SUITE) as a whole, with both models"
        )
    stored_by_both = (stored_metrics(folder_a, task).keys() & stored_metrics(folder_b, task).keys() for task in tasks)
    shared = sorted(set().union(*stored_by_both))
    return (
        f"no task has {metric!r} per example in both runs{near(metric, shared)}; choose another --metric: both have "
        f"{', '.join(shared) or 'none'}"
    )


# ---- examples on which two runs differ -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Changes:
    """The examples of a task on which one of two runs has the better value; over seeds, the better mean.

    Attributes:
        a_better: ids of the examples on which run A is better.
        b_better: ids of the examples on which run B is better.
        both_right: number of examples that both got right.
        both_wrong: number of examples that both got wrong.
        is_binary: whether all values are 0 for a wrong answer or 1 for a right one.
    """

    task: str
    a_better: list[str]
    b_better: list[str]
    both_right: int
    both_wrong: int
    is_binary: bool


def find_changes(a: RunSide, b: RunSide, comparison: RunComparison) -> Iterator[Changes]:
    """Yield the examples that differ, counted as in the comparison: both runs answered, and no model has seen them.

    A task that was not compared by a mean has none.
    """
    metric, tasks_b = comparison.metric, tasks_of(b.record, None)
    for name, task in tasks_of(a.record, None).items():
        if name in comparison.left_out or name not in tasks_b:
            continue
        means_a, means_b = (_means(side, name, metric) for side in (a, b))
        if not means_a or not means_b:
            continue
        seen = a.seen_ids(name) | b.seen_ids(name)
        pairs = {
            example: (mean, means_b[example])
            for example, mean in means_a.items()
            if example in means_b and example not in seen
        }
        rises = next((score.higher_is_better for score in task.scores if score.metric == metric), True)
        sign = 1 if rises else -1
        yield Changes(
            task=name,
            a_better=[example for example, (x, y) in pairs.items() if sign * x > sign * y],
            b_better=[example for example, (x, y) in pairs.items() if sign * x < sign * y],
            both_right=sum(values == (1, 1) for values in pairs.values()),
            both_wrong=sum(values == (0, 0) for values in pairs.values()),
            is_binary=rises and all(value in (0, 1) for values in pairs.values() for value in values),
        )


def _means(side: RunSide, task: str, metric: str) -> Mapping[str, float]:
    """Return the value of each example that all runs of a side answered, or its mean over seeds; empty for no mean."""
    runs = side.values(task, metric)
    means: dict[str, float] = {}
    for example in runs[0]:
        values = [value for run in runs if (value := run.get(example, (None, None))[0]) is not None]
        if len(values) == len(runs):
            means[example] = fmean(values)
    return means
