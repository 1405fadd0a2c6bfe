"""Paired comparison of two runs by the contrasts of suites: how well each model tells the examples of tasks apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from figeval import TaskRecord, quotient
from figeval.metrics.discrimination import NUMBERS, ContrastAnswer, Judged, area, area_features
from figeval.metrics.paired import SIGN_FLIPS, PairedTest, compare_paired
from figeval.records.schema import ContrastRecord
from figeval.wings.comparison.exchange import statistic_over_languages
from figeval.wings.comparison.task_comparison import (
    ALL_SEEN,
    DEFAULT,
    DISJOINT,
    SEEDED,
    UNSTORED,
    RunSide,
    TaskComparison,
    is_chosen_on_test,
)

Floats = NDArray[np.float64]
NO_SCORES = "have no scores to rank by"
OTHER_TASKS = "the runs contrast other tasks under this name"
KINDS = {"positive": 1, "negative": 3}  # indices of the numbers that count the examples of a kind


def compare_contrasts(
    side_a: RunSide, side_b: RunSide, metric: str, prompts: tuple[str, str] | None, seed: int, draws: int
) -> Iterator[tuple[str, Sequence[str], TaskComparison | str]]:
    """Yield each contrast that both runs have: its name, its tasks, and the comparison or why there is none.

    Examples that a model was trained or chosen on are left out. Nothing is yielded for metrics of tasks.
    """
    if metric not in NUMBERS:
        return
    prompt_a, prompt_b = prompts or (None, None)
    contrasts_b = _contrasts(side_b, prompt_b)
    for name, contrast in _contrasts(side_a, prompt_a).items():
        if name in contrasts_b:
            a, b = (side_a, contrast), (side_b, contrasts_b[name])
            yield name, contrast.tasks, _compare_contrast(name, a, b, metric, seed, draws)


def _contrasts(side: RunSide, prompt: str | None) -> dict[str, ContrastRecord]:
    """Return the contrasts of a run by the names under which they are compared, with a prompt by those without it."""
    contrasts = side.record.contrasts
    if prompt is None:
        return {contrast.name: contrast for contrast in contrasts}
    return {
        f"{contrast.suite}:{contrast.contrast}": contrast
        for contrast in contrasts
        if (contrast.variant or DEFAULT) == prompt
    }


def _tasks(side: RunSide, contrast: ContrastRecord) -> list[TaskRecord]:
    """Return the records of the tasks that a contrast was computed from, in its variant."""
    tasks = {(task.of or task.task, task.variant): task for task in side.runs[0][0].tasks}
    return [tasks[name, contrast.variant] for name in contrast.tasks]


def _compare_contrast(
    name: str, a: tuple[RunSide, ContrastRecord], b: tuple[RunSide, ContrastRecord], metric: str, seed: int, draws: int
) -> TaskComparison | str:
    if problem := _find_problem(a, b, metric):
        return problem
    all_a, all_b, within = _answers(*a), _answers(*b), a[1].within
    common = [example for example in all_a if example in all_b]
    unseen = [example for example in common if all_a[example].seen is None and all_b[example].seen is None]
    if not unseen:
        return ALL_SEEN if common else DISJOINT
    answers_a, answers_b = ([answers[example] for example in unseen] for answers in (all_a, all_b))
    for key, answers in zip("AB", (answers_a, answers_b), strict=True):
        if metric == "auc" and all(answer.score is None for answer in answers):
            return f"the answers of {key} {NO_SCORES}"
    answered = sum(x.answered and y.answered for x, y in zip(answers_a, answers_b, strict=True))
    test = paired_discrimination(metric, answers_a, answers_b, within=within is not None, seed=seed, draws=draws)
    if within is not None:
        units = f"n counts values of {within} that have both kinds"
        test = replace(test, note="; ".join(filter(None, (units, test.note))))
    return TaskComparison(
        task=name,
        comparison=test,
        unmatched_a=len(all_a) - len(common),
        unmatched_b=len(all_b) - len(common),
        unanswered=len(unseen) - answered,
        seen=len(common) - len(unseen),
    )


def _find_problem(a: tuple[RunSide, ContrastRecord], b: tuple[RunSide, ContrastRecord], metric: str) -> str:
    """Return the reason why two contrasts cannot be compared, whatever was answered; empty if they can."""
    (side_a, contrast_a), (side_b, contrast_b) = a, b
    if len(side_a.runs) > 1 or len(side_b.runs) > 1:
        return f"{metric} {SEEDED}"
    designs = [(contrast.tasks, contrast.label, contrast.within) for contrast in (contrast_a, contrast_b)]
    if designs[0] != designs[1]:
        return OTHER_TASKS
    if is_chosen_on_test(contrast_a, contrast_b):
        return ALL_SEEN
    sides = zip("AB", (side_a, side_b), (contrast_a, contrast_b), strict=True)
    unstored = [key for key, side, contrast in sides if not all(map(side.has_predictions, _tasks(side, contrast)))]
    return f"{' and '.join(unstored)} {UNSTORED}" if unstored else ""


def _answers(side: RunSide, contrast: ContrastRecord) -> dict[tuple[str, str], ContrastAnswer]:
    """Return the answers of a run to the examples of a contrast that have a gold label, by task and id."""
    answers = {}
    for task in _tasks(side, contrast):
        for row in side.folder.rows(task.task):
            if (answer := ContrastAnswer.of_row(row, contrast.label, contrast.within)) is not None:
                answers[task.of or task.task, row["id"]] = answer
    return answers


# ---- the test --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Measure:
    """The value of a judgement, the features of the examples, and the function of their sums."""

    value: Callable[[Judged], float | None]
    features: Callable[[Floats, NDArray[np.bool_]], Floats]
    combine: Callable[[Floats], Floats]


def _accuracy_features(values: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Return right answers and examples of either kind, shape (n, 4)."""
    return np.stack((values * positive, positive, values * ~positive, ~positive), axis=1).astype(np.float64)


def _mean_accuracy(sums: Floats) -> Floats:
    return (quotient(sums[..., 0], sums[..., 1]) + quotient(sums[..., 2], sums[..., 3])) / 2


_MEASURES = {
    "auc": _Measure(lambda judged: judged.score, area_features, area),
    "balanced_acc": _Measure(lambda judged: judged.right, _accuracy_features, _mean_accuracy),
}


def paired_discrimination(
    metric: str,
    a: Sequence[Judged],
    b: Sequence[Judged],
    *,
    within: bool = False,
    seed: int = 0,
    draws: int = SIGN_FLIPS,
) -> PairedTest:
    """Compare the judgements of two models on the same examples.

    An area is compared by the exchange of placements: the share of examples of the other kind that an example is on the
    right side of, within its own run. Scores of two models are therefore never compared with each other. Within strata,
    the units are the strata that have both kinds, and the sign of the difference of a stratum is flipped.

    Args:
        metric: "auc" or "balanced_acc".
        a: judgements of model A, all of one fold.
        b: judgements of model B, in the same order.
        within: compare examples of the same stratum only.
        seed: seed of the draws.
        draws: largest number of draws.

    Raises:
        ValueError: the sequences differ in length.
    """
    measure = _MEASURES[metric]
    rows = [
        (judged_a, value_a, value_b)
        for judged_a, judged_b in zip(a, b, strict=True)
        if (value_a := measure.value(judged_a)) is not None and (value_b := measure.value(judged_b)) is not None
    ]
    examples = [judged for judged, *_ in rows]
    values_a, values_b = (np.array([row[column] for row in rows], dtype=np.float64) for column in (1, 2))
    positive = np.array([judged.positive for judged in examples], dtype=bool)
    if within:
        strata = _indices_by_stratum(examples)

        def score(values: Floats, indices: list[int]) -> float:
            return float(measure.combine(measure.features(values[indices], positive[indices]).sum(axis=0)))

        scores_a, scores_b = ([score(values, indices) for indices in strata] for values in (values_a, values_b))
        return compare_paired(scores_a, scores_b, seed=seed, draws=draws)
    if not 0 < positive.sum() < len(positive):
        return PairedTest(n=len(rows), clusters=0, note="no examples of both kinds that both runs answered")
    clusters = [judged.cluster for judged in examples]
    features_a, features_b = ({"": measure.features(values, positive).tolist()} for values in (values_a, values_b))
    return statistic_over_languages(features_a, features_b, {"": clusters}, measure.combine, seed, draws, kinds=KINDS)


def _indices_by_stratum(examples: Sequence[Judged]) -> list[list[int]]:
    strata: dict[str, list[int]] = {}
    for index, judged in enumerate(examples):
        if judged.stratum is not None:
            strata.setdefault(judged.stratum, []).append(index)
    return [indices for indices in strata.values() if len({examples[index].positive for index in indices}) > 1]
