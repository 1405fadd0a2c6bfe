"""Selection of the best checkpoint, and early stopping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from figeval import Harness

LOSS = "loss"  # may be a criterion like a metric


class SelectionCriterion(BaseModel):
    """Metrics for comparing checkpoints, with their directions; later ones break ties of earlier ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: tuple[tuple[str, bool], ...]  # (name, higher is better)

    def key(self, scores: Mapping[str, float | None]) -> tuple[float, ...]:
        """Return a sort key; larger is better, and a missing score is the worst."""
        scores_and_directions = ((scores.get(name), higher) for name, higher in self.metrics)
        return tuple(
            float("-inf") if value is None else value if higher else -value for value, higher in scores_and_directions
        )

    def is_better(self, scores: Mapping[str, float | None], best: Mapping[str, float | None] | None) -> bool:
        """Return whether these scores are better than the best so far; equal ones are not."""
        return best is None or self.key(scores) > self.key(best)


class Evaluation(BaseModel):
    """The scores of one checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    scores: dict[str, float | None]


def best_evaluation(evaluations: Sequence[Evaluation], criterion: SelectionCriterion) -> Evaluation | None:
    """Return the best evaluation, or the first of several best; None before the first evaluation."""
    best: Evaluation | None = None
    for evaluation in evaluations:
        if criterion.is_better(evaluation.scores, best.scores if best else None):
            best = evaluation
    return best


def is_improvement(
    before: Mapping[str, float | None] | None, evaluations: Sequence[Evaluation], criterion: SelectionCriterion
) -> bool | None:
    """Return whether the best checkpoint is better than the model before training; None if either is unknown."""
    best = best_evaluation(evaluations, criterion)
    return None if before is None or best is None else criterion.is_better(best.scores, before)


def is_stalled(evaluations: Sequence[Evaluation], criterion: SelectionCriterion, patience: int | None) -> bool:
    """Return whether the last `patience` evaluations were no better than an earlier one."""
    best = best_evaluation(evaluations, criterion)
    if best is None or patience is None:
        return False
    return len(evaluations) - 1 - [evaluation.step for evaluation in evaluations].index(best.step) >= patience


def make_criterion(names: Sequence[str], harness: Harness) -> SelectionCriterion:
    """Return the criterion that compares these metrics in order.

    Raises:
        UnknownName: One of them is not a metric.
    """
    return SelectionCriterion(
        metrics=tuple((LOSS, False) if name == LOSS else _metric_direction(name, harness) for name in names)
    )


def _metric_direction(name: str, harness: Harness) -> tuple[str, bool]:
    """Return the name of a metric as used in records, and whether higher is better.

    Raises:
        UnknownName: There is no such metric.
    """
    metric = harness.metrics.named(name)[0]
    return metric.name, metric.higher_is_better
