"""Paired comparison of two finished runs, example by example. Neither a model nor benchmark data are needed.

A run may be the folder of several seeds, whose spread then counts, too. `figeval.evaluation.comparisons` corrects the
p-values for the number of tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from figeval.errors import RecordError, near
from figeval.evaluation.stored import (
    Features,
    Values,
    seen_ids,
    stored_features,
    stored_languages,
    stored_metrics,
    stored_values,
)
from figeval.metrics.catalogue import Metrics, statistic_of
from figeval.metrics.exchange import statistic_over_languages
from figeval.metrics.paired import (
    DRAWS,
    PairedTest,
    paired,
    paired_over_languages,
    paired_over_seeds,
)
from figeval.metrics.statistic import Collective
from figeval.records.run_folder import RunFolder
from figeval.records.schema import CHOSEN_ON_TEST, RunRecord, TaskRecord
from figeval.records.sweep import run_or_seeds
from figeval.text import one_line

Stored = TypeVar("Stored")
GIVEN = "predictions"  # backend of a run that was made from the predictions of another system
DEFAULT = "default"  # a task's own prompt
OTHER_ARGUMENT = "A and B computed the metric with different models or arguments, so its scores are not comparable"
DISJOINT = "the runs have no example of it in common; give both the same --sample and --seed"
ALL_SEEN = "a model was trained or chosen on these examples, so no valid test exists"
POOLED = "the score is computed from all examples together, and there is no test of its difference between runs"
UNSTORED = "lacks predictions of it"
SEEDED = "is no mean over examples, which alone can be compared over seeds; compare the runs of single seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskComparison:
    """Run A minus run B on one task.

    None of the examples that are counted here are compared.

    Attributes:
        unmatched_a: number of examples of run A for which run B has no row.
        unmatched_b: number of examples of run B for which run A has no row.
        unanswered: number of examples to which at least one run gave no valid answer.
        seen: number of examples that one of the models was trained or chosen on.
        p_adjusted: p-value corrected for all tests.
        detectable: true difference that p < .05, without correction, would find with probability .8.
        p_equivalence: p-value of the hypothesis that the runs differ by the margin or more.
    """

    task: str
    comparison: PairedTest
    unmatched_a: int = 0
    unmatched_b: int = 0
    unanswered: int = 0
    seen: int = 0
    p_adjusted: float | None = None
    detectable: float | None = None
    p_equivalence: float | None = None


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


@dataclass(frozen=True)
class Side:
    """A run with its predictions, or the runs of several seeds and a record of their means.

    Everything is read once, since a run may be in many comparisons. `only` limits tasks to some of their examples.
    """

    record: RunRecord
    runs: list[tuple[RunRecord, RunFolder]]
    only: Mapping[str, Collection[str]] = field(default_factory=dict)
    _values: dict[tuple[str, str], list[Values]] = field(default_factory=dict)
    _features: dict[tuple[str, str], Mapping[str, tuple[Features, str | None]]] = field(default_factory=dict)
    _seen: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Path) -> Side:
        """Read a run folder, or that of several seeds. Raises `RecordError` if there is no run."""
        return cls(*run_or_seeds(path))

    @property
    def folder(self) -> RunFolder:
        """Folder of the run, or of that of the first seed."""
        return self.runs[0][1]

    def has(self, task: TaskRecord) -> bool:
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
        return lineage is not None and any("seed" in one.about for one in lineage.ancestors)

    def values(self, task: str, metric: str) -> list[Values]:
        """Return the values of a mean for every run, each empty if the metric is no mean."""
        if (task, metric) not in self._values:
            self._values[task, metric] = [stored_values(folder, task, metric) for _, folder in self.runs]
        found = self._values[task, metric]
        return [_only(one, self.only[task]) for one in found] if task in self.only else found

    def features(self, task: str, metric: str) -> Mapping[str, tuple[Features, str | None]]:
        """Return the numbers of a score that is no mean, for the (first) run; empty if the metric is a mean."""
        if (task, metric) not in self._features:
            self._features[task, metric] = stored_features(self.folder, task, metric)
        found = self._features[task, metric]
        return _only(found, self.only[task]) if task in self.only else found

    def answered(self, task: str, metric: str) -> set[str]:
        """Return the ids of the examples to which all runs gave a valid answer that the metric applies to."""
        values: list[Mapping[str, tuple[object, str | None]]] = [*self.values(task, metric)]
        if not all(values):
            values = [self.features(task, metric)]
        return set.intersection(*({name for name, (value, _) in one.items() if value is not None} for one in values))

    def seen(self, task: str) -> set[str]:
        """Return the ids of the examples that a training was trained or chosen on."""
        if task not in self._seen:
            self._seen[task] = set[str]().union(*(seen_ids(folder, task) for _, folder in self.runs))
        return self._seen[task]


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
        return f"{metric} {SEEDED}" if seeded else _statistic_compared(name, a, b, metric, seed, draws)
    values_a, values_b = all_a[0], all_b[0]
    if not values_a.keys() & values_b.keys():
        return DISJOINT
    seen = side_a.seen(task.task) | side_b.seen(other.task)
    # A model was chosen on the test split, and it is not known on which examples.
    on_test = any(score.interval == CHOSEN_ON_TEST for one in (task, other) for score in one.scores)
    if on_test or (seen and not (values_a.keys() & values_b.keys()) - seen):
        return ALL_SEEN
    left_seen = [example for example in values_a if example in values_b and example in seen]
    unseen_a, unseen_b = ([_without(values, seen) for values in every] for every in (all_a, all_b))
    varies = side_a.varies, side_b.varies
    languages, compared = stored_languages(side_a.folder, task), []
    for part, members in languages.items():
        of_a, of_b = ([_only(values, members) for values in every] for every in (unseen_a, unseen_b))
        found = compare_seeds(f"{name} ({part})", of_a, of_b, seed, varies, draws)
        compared.append(replace(found, seen=sum(example in members for example in left_seen)))
    if not (seeded and languages):  # the spread over seeds of a mean over languages is not known
        found = (
            compare_values(name, unseen_a[0], unseen_b[0], seed, languages, draws)
            if languages
            else compare_seeds(name, unseen_a, unseen_b, seed, varies, draws)
        )
        compared.append(replace(found, seen=len(left_seen)))
    return compared


def _statistic_compared(
    name: str,
    a: tuple[Side, TaskRecord],
    b: tuple[Side, TaskRecord],
    metric: str,
    seed: int,
    draws: int = DRAWS,
) -> list[TaskComparison] | str:
    """Return the comparisons by a score that is no mean, one per language and one for all, or why there is none."""
    from figeval.evaluation.harness import Harness  # with all plugins, which means do not need

    (side_a, task), (side_b, other) = a, b
    features_a, features_b = side_a.features(task.task, metric), side_b.features(other.task, metric)
    if not features_a or not features_b:
        return f"no {metric} per example"
    metrics: Metrics = Harness().metrics
    labels = tuple(task.settings.get("labels", ()))
    statistic = statistic_of(metrics.get(metric, task.task_type), labels)
    if isinstance(statistic, Collective) and statistic.pooled:
        return POOLED
    if any(score.interval == CHOSEN_ON_TEST for one in (task, other) for score in one.scores):
        return ALL_SEEN
    seen = side_a.seen(task.task) | side_b.seen(other.task)
    both = features_a.keys() & features_b.keys()
    if not both - seen:
        return ALL_SEEN if both else DISJOINT
    unseen_a, unseen_b = _without(features_a, seen), _without(features_b, seen)
    test = partial(statistic_over_languages, combine=statistic.combine, seed=seed, draws=draws)
    languages, compared = stored_languages(side_a.folder, task), []
    for part, members in languages.items():
        of_a, of_b = _only(unseen_a, members), _only(unseen_b, members)
        found = compare_features(f"{name} ({part})", of_a, of_b, test)
        compared.append(replace(found, seen=len(both & seen & members.keys())))
    found = compare_features(name, unseen_a, unseen_b, test, languages)
    return [*compared, replace(found, seen=len(both & seen))]


def argument_of(task: TaskRecord, metric: str) -> Mapping[str, Any]:
    """Return what a task's record says about the argument of a metric, except its name; empty for most metrics."""
    found = dict(task.settings.get("metric_arguments", {}).get(metric, {}))
    found.pop("argument", None)
    return found


def _only(values: Mapping[str, Stored], members: Collection[str]) -> dict[str, Stored]:
    return {name: value for name, value in values.items() if name in members}


def _without(values: Mapping[str, Stored], seen: Collection[str]) -> dict[str, Stored]:
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


def compare_values(
    task: str,
    a: Values,
    b: Values,
    seed: int = 0,
    languages: Mapping[str, Collection[str]] | None = None,
    draws: int = DRAWS,
) -> TaskComparison:
    """Compare two runs on the examples that both have; with `languages`, compare the means over the languages."""
    common = [example for example in a if example in b]
    values_a = [a[example][0] for example in common]
    values_b = [b[example][0] for example in common]
    known = [value for value in (*values_a, *values_b) if value is not None]
    bounds = (0.0, 1.0) if all(0 <= value <= 1 for value in known) else None
    if languages:
        comparison = paired_over_languages(*_in_parts(a, b, common, languages), bounds, seed, draws)
    else:
        comparison = paired(values_a, values_b, [a[example][1] for example in common], bounds, seed, draws)
    return _on_common(task, a, b, comparison, len(common))


def compare_features(
    task: str,
    a: Mapping[str, tuple[Features, str | None]],
    b: Mapping[str, tuple[Features, str | None]],
    test: Callable[..., PairedTest],
    languages: Mapping[str, Collection[str]] | None = None,
) -> TaskComparison:
    """Compare two runs by a score that is no mean; with `languages`, compare the means of the languages' scores.

    `test` is `statistic_over_languages` of the score.
    """
    common = [example for example in a if example in b]
    comparison = test(*_in_parts(a, b, common, languages or {"": dict.fromkeys(common)}))
    return _on_common(task, a, b, comparison, len(common))


def _in_parts(
    a: Mapping[str, tuple[Stored, str | None]],
    b: Mapping[str, tuple[Stored, str | None]],
    common: Sequence[str],
    parts: Mapping[str, Collection[str]],
) -> tuple[dict[str, list[Stored]], dict[str, list[Stored]], dict[str, list[str | None]]]:
    """Return the values of A, those of B and the clusters of the common examples in each part."""
    ids = {name: [example for example in common if example in members] for name, members in parts.items()}
    of_a, of_b = ({name: [run[one][0] for one in own] for name, own in ids.items()} for run in (a, b))
    return of_a, of_b, {name: [a[one][1] for one in own] for name, own in ids.items()}


def _on_common(task: str, a: Sized, b: Sized, comparison: PairedTest, common: int) -> TaskComparison:
    """Return the comparison of a task on the examples that both have, with the numbers of those left out."""
    return TaskComparison(
        task=task,
        comparison=comparison,
        unmatched_a=len(a) - common,
        unmatched_b=len(b) - common,
        unanswered=common - comparison.n,
    )


def compare_seeds(
    task: str,
    a: Sequence[Values],
    b: Sequence[Values],
    seed: int = 0,
    varies: tuple[bool, bool] = (False, False),
    draws: int = DRAWS,
) -> TaskComparison:
    """Compare two models on the examples that all their trainings have; for one training each, as `compare_values`.

    `varies` says whether another training of A, and of B, would give other values (`Side.varies`).
    """
    if len(a) == len(b) == 1:
        return compare_values(task, a[0], b[0], seed, None, draws)
    common = [example for example in a[0] if all(example in values for values in (*a, *b))]
    answered = [example for example in common if all(values[example][0] is not None for values in (*a, *b))]
    of_a, of_b = ([[values[example][0] or 0.0 for example in answered] for values in every] for every in (a, b))
    known = [value for values in (*of_a, *of_b) for value in values]
    bounds = (0.0, 1.0) if all(0 <= value <= 1 for value in known) else None
    comparison = paired_over_seeds(of_a, of_b, [a[0][example][1] for example in answered], bounds, varies)
    return TaskComparison(
        task=task,
        comparison=comparison,
        unmatched_a=len(a[0]) - len(common),
        unmatched_b=len(b[0]) - len(common),
        unanswered=len(common) - len(answered),
    )


def _excluded(left_out: Mapping[str, str]) -> str:
    """Name the tasks that have values in both runs but were left out, and say why; empty if there are none."""
    for why in (ALL_SEEN, OTHER_ARGUMENT, DISJOINT, POOLED, SEEDED, UNSTORED):
        having = {name: reason for name, reason in left_out.items() if reason.endswith(why)}
        if having:
            return f"{', '.join(having)}: {next(iter(having.values()))}"
    return ""


def _nothing_in_common(a: Mapping[str, TaskRecord], b: Mapping[str, TaskRecord], metric: str, known: list[str]) -> str:
    """Say why there is nothing to compare, and what could be compared instead."""
    if not a.keys() & b.keys():
        has_a, has_b = ", ".join(a), ", ".join(b)
        return f"the runs have no task in common: A has {has_a}; B has {has_b}"
    return (
        f"no task has {metric!r} per example in both runs{near(metric, known)}; choose another --metric: A has "
        f"{', '.join(known) or 'none'}"
    )
