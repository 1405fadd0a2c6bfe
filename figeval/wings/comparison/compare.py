"""Paired comparison of two finished runs, example by example. Neither a model nor benchmark data are needed.

A run may be the folder of several seeds, whose spread then counts, too. `comparisons` corrects the p-values for the
number of tests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from figeval.errors import RecordError, near
from figeval.io.text import one_line
from figeval.metrics.discrimination import NUMBERS
from figeval.metrics.intervals import Bounds
from figeval.metrics.paired import DRAWS
from figeval.records.run_folder import RunFolder
from figeval.records.schema import CHOSEN_ON_TEST, RunRecord, TaskRecord
from figeval.runs.stored import Values, declared_bounds, stored_languages, stored_metrics
from figeval.wings.comparison.contrast_comparison import NO_SCORES, OTHER_TASKS, compare_contrasts
from figeval.wings.comparison.sides import DEFAULT, Side, only, without
from figeval.wings.comparison.statistic_comparison import MIXED, UNKNOWN, compare_statistic, no_value
from figeval.wings.comparison.task_comparison import (
    ALL_SEEN,
    DISJOINT,
    SEEDED,
    UNSTORED,
    TaskComparison,
    compare_seeds,
    compare_values,
    within,
)

OTHER_ARGUMENT = (
    "A and B computed the metric with different models, arguments or words, so its scores are not comparable"
)
TOKENIZER = re.compile(r"(?:tok|words):[^|;]*")  # in the signature of a metric


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
    side_a: Side,
    side_b: Side,
    metric: str,
    seed: int,
    prompts: tuple[str, str] | None = None,
    draws: int = DRAWS,
) -> RunComparison:
    """Compare two runs on every task that both have; p-values are not corrected yet.

    A task with rows in several languages has one comparison per language, and one of the means over the languages under
    its own name. A test that has to draw random signs or permutations draws at most `draws`.

    Raises:
        RecordError: predictions are missing, the runs have no task in common, a task has another version or other
            examples in one of them, or there is no such metric or prompt.
    """
    a, b, folder_a, folder_b = side_a.record, side_b.record, side_a.folder, side_b.folder
    tasks_a, tasks_b = (tasks_of(run, prompt) for run, prompt in zip((a, b), prompts or (None, None), strict=True))
    _refuse_without_predictions(tasks_a, tasks_b, folder_a, folder_b)
    tasks = {"A": tasks_a, "B": tasks_b}
    left_out = dict.fromkeys(tasks_b, "only in B")
    compared: list[TaskComparison] = []
    for name, task in tasks_a.items():
        left_out[name] = "only in A"
        if name not in tasks_b:
            continue
        other = tasks_b[name]
        refuse_other_examples(task, other)
        if without := [key for key, side in zip("AB", (side_a, side_b), strict=True) if not side.has(tasks[key][name])]:
            left_out[name] = f"{' and '.join(without)} {UNSTORED}"
            continue
        found = compare_task(name, (side_a, task), (side_b, other), metric, seed, draws)
        if isinstance(found, str):
            left_out[name] = found
        else:
            del left_out[name]
            compared += found
    pairs = {name: (task, tasks_b[name]) for name, task in tasks_a.items() if name not in left_out}
    compared = _with_repeats(compared, (side_a, side_b), pairs, metric)
    for name, members, contrast in compare_contrasts(side_a, side_b, metric, prompts, seed, draws):
        if isinstance(contrast, str):
            left_out[name] = contrast
            continue
        compared.append(contrast)
        left_out = {task: why for task, why in left_out.items() if not (task in members and why == no_value(metric))}
    if not compared:
        stored = [stored_metrics(folder_a, task.task) for task in tasks_a.values()]
        known = sorted({name for metrics in stored for name in metrics})
        raise RecordError(_excluded(left_out) or _nothing_in_common(tasks_a, tasks_b, metric, known))
    return RunComparison(
        metric=metric,
        a=a,
        b=b,
        tasks=tuple(compared),
        left_out=left_out,
        prompts=prompts,
        caveats=(*_caveats(side_a, side_b), *(() if prompts else _conditions(tasks_a, tasks_b, left_out))),
    )


def _with_repeats(
    compared: Sequence[TaskComparison],
    sides: tuple[Side, Side],
    pairs: Mapping[str, tuple[TaskRecord, TaskRecord]],
    metric: str,
) -> list[TaskComparison]:
    """Return the comparisons, with `same_as` on tasks whose rows repeat those of an earlier task in both runs."""
    first: list[tuple[str, object]] = []
    repeats: dict[str, str] = {}
    for name, tasks in pairs.items():
        rows = [_rows(side, task, metric) for side, task in zip(sides, tasks, strict=True)]
        repeated = next((other for other, earlier in first if earlier == rows), None)
        if repeated is None:
            first.append((name, rows))
        else:
            repeats[name] = repeated
    present = {comparison.task for comparison in compared}
    marked = []
    for comparison in compared:
        name, blank, part = comparison.task.partition(" (")
        same = f"{repeats[name]}{blank}{part}" if name in repeats else ""
        marked.append(replace(comparison, same_as=same) if same in present else comparison)
    return marked


def _rows(side: Side, task: TaskRecord, metric: str) -> tuple[object, ...]:
    """Return what a comparison by a metric knows of the rows of a task: values, clusters, and which were seen."""
    values = side.values(task.task, metric)
    return (values if all(values) else side.features(task.task, metric), side.seen(task.task))


def _caveats(side_a: Side, side_b: Side) -> Iterator[str]:
    """Yield what has to be said about a comparison as a whole."""
    single = [name for name, side in zip("AB", (side_a, side_b), strict=True) if side.is_trained]
    if len(side_a.runs) == len(side_b.runs) == 1 and single:
        which = "A and B are single trainings" if len(single) > 1 else f"{single[0]} is a single training"
        yield f"{which}: p does not cover other seeds; compare folders of at least three seeds for that"


def _conditions(a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], left_out: Collection[str]) -> Iterator[str]:
    """Yield what differs between the runs in how they asked the tasks that were compared, or read the answers."""
    compared = [one for one in a if one not in left_out]
    if names := [one for one in compared if a[one].template_sha256 != b[one].template_sha256]:
        yield f"the runs asked with different prompts: {', '.join(names)}"
    for what, key in (("routes", "route"), ("versions of the extractor of answers", "extractor")):
        differing: dict[tuple[str, str], list[str]] = {}
        for one in compared:
            of_a, of_b = (getattr(each[one], key) or "none" for each in (a, b))
            if of_a != of_b:
                differing.setdefault((of_a, of_b), []).append(one)
        if differing:
            shown = "; ".join(f"{', '.join(names)}: {' and '.join(pair)}" for pair, names in differing.items())
            yield f"the runs have different {what}: {one_line(shown)}"


def compare_task(
    name: str,
    a: tuple[Side, TaskRecord],
    b: tuple[Side, TaskRecord],
    metric: str,
    seed: int,
    draws: int = DRAWS,
) -> list[TaskComparison] | str:
    """Return the comparisons of two runs on a task, one for each language and one for all, or why there is none."""
    (side_a, task), (side_b, other) = a, b
    all_a, all_b = side_a.values(task.task, metric), side_b.values(other.task, metric)
    if argument_of(task, metric) != argument_of(other, metric):
        return OTHER_ARGUMENT
    seeded = len(all_a) > 1 or len(all_b) > 1
    if not all(all_a) or not all(all_b):
        if not seeded:
            return compare_statistic(name, a, b, metric, seed, draws)
        known = all(
            any(values) or side.features(task.task, metric) for values, (side, task) in ((all_a, a), (all_b, b))
        )
        return f"{metric} {SEEDED}" if known else no_value(metric)
    values_a, values_b = all_a[0], all_b[0]
    if not values_a.keys() & values_b.keys():
        return DISJOINT
    seen = side_a.seen(task.task) | side_b.seen(other.task)
    # A model was chosen on the test split, and it is not known on which examples.
    on_test = any(score.interval.reason == CHOSEN_ON_TEST for one in (task, other) for score in one.scores)
    if on_test or (seen and not (values_a.keys() & values_b.keys()) - seen):
        return ALL_SEEN
    left_seen = [example for example in values_a if example in values_b and example in seen]
    unseen_a, unseen_b = ([without(values, seen) for values in every] for every in (all_a, all_b))
    varies = side_a.varies, side_b.varies
    languages, compared = stored_languages(side_a.folder, task), []
    for part, members in languages.items():
        of_a, of_b = ([only(values, members) for values in every] for every in (unseen_a, unseen_b))
        found = compare_seeds(f"{name} ({part})", of_a, of_b, seed, varies, draws)
        compared.append(replace(found, seen=sum(example in members for example in left_seen)))
    if not (seeded and languages):  # the spread over seeds of a mean over languages is not known
        found = (
            compare_values(name, unseen_a[0], unseen_b[0], seed, languages, draws)
            if languages
            else compare_seeds(name, unseen_a, unseen_b, seed, varies, draws)
        )
        compared.append(replace(found, seen=len(left_seen)))
    bounds = _bounds(task, metric, [*all_a, *all_b])
    return [replace(comparison, comparison=within(comparison.comparison, bounds)) for comparison in compared]


def _bounds(task: TaskRecord, metric: str, values: Iterable[Values]) -> Bounds:
    """Return the limits of a metric's values on a task, e.g. those of a rating scale; None without any.

    Values from 0 to 1 need no declaration, so that most metrics are compared without the plugin that defines them.
    """
    numbers = [value for every in values for value, _ in every.values() if value is not None]
    if all(0 <= value <= 1 for value in numbers):
        return None
    from figeval.runs.harness import Harness  # with all plugins

    bounds = declared_bounds(task, metric, Harness().metrics)
    return bounds if bounds is not None and bounds[0] <= min(numbers) <= max(numbers) <= bounds[1] else None


def argument_of(task: TaskRecord, metric: str) -> Mapping[str, Any]:
    """Return what a task's record says about the argument of a metric, except its name; empty for most metrics.

    The tokenizer of its signature belongs to it, because scores of other words are other scores.
    """
    found = dict(task.settings.get("metric_arguments", {}).get(metric, {}))
    found.pop("argument", None)
    signature = str(task.settings.get("signatures", {}).get(metric, ""))
    if tokenizer := TOKENIZER.findall(signature):
        found["tokenizer"] = tokenizer
    return found


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


def _excluded(left_out: Mapping[str, str]) -> str:
    """Name the tasks that have values in both runs but were left out, and say why; empty if there are none."""
    for why in (ALL_SEEN, OTHER_ARGUMENT, DISJOINT, MIXED, UNKNOWN, SEEDED, UNSTORED, NO_SCORES, OTHER_TASKS):
        having = {name: reason for name, reason in left_out.items() if why in reason}
        if having:
            return f"{', '.join(having)}: {next(iter(having.values()))}"
    return ""


def _nothing_in_common(a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], metric: str, known: list[str]) -> str:
    """Say why there is nothing to compare, and what could be compared instead."""
    if not a.keys() & b.keys():
        has_a, has_b = ", ".join(a), ", ".join(b)
        return f"the runs have no task in common: A has {has_a}; B has {has_b}"
    if metric in NUMBERS:
        return (
            f"no task has {metric!r} per example in both runs, and they have no contrast in common; run a suite that "
            "declares one (figeval show SUITE) as a whole, with both models"
        )
    return (
        f"no task has {metric!r} per example in both runs{near(metric, known)}; choose another --metric: A has "
        f"{', '.join(known) or 'none'}"
    )
