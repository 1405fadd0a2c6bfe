"""Selection of the best checkpoint, and early stopping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from figeval import Harness

LOSS = "loss"  # may be a criterion like a metric


class Criterion(BaseModel):
    """Metrics for comparing checkpoints, with their directions; later ones break ties of earlier ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: tuple[tuple[str, bool], ...]  # (name, higher is better)

    def key(self, scores: Mapping[str, float | None]) -> tuple[float, ...]:
        """Return a sort key; larger is better, and a missing score is the worst."""
        found = ((scores.get(name), higher) for name, higher in self.metrics)
        return tuple(float("-inf") if value is None else value if higher else -value for value, higher in found)

    def better(self, scores: Mapping[str, float | None], best: Mapping[str, float | None] | None) -> bool:
        """Return whether these scores are better than the best so far; equal ones are not."""
        return best is None or self.key(scores) > self.key(best)


class Evaluation(BaseModel):
    """The scores of one checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    scores: dict[str, float | None]


def best_of(evaluations: Sequence[Evaluation], criterion: Criterion) -> Evaluation | None:
    """Return the best evaluation, or the first of several best; None before the first evaluation."""
    best: Evaluation | None = None
    for evaluation in evaluations:
        if criterion.better(evaluation.scores, best.scores if best else None):
            best = evaluation
    return best


def improved(
    before: Mapping[str, float | None] | None, evaluations: Sequence[Evaluation], criterion: Criterion
) -> bool | None:
    """Return whether the best checkpoint is better than the model before training; None if either is unknown."""
    best = best_of(evaluations, criterion)
    return None if before is None or best is None else criterion.better(best.scores, before)


def exhausted(evaluations: Sequence[Evaluation], criterion: Criterion, patience: int | None) -> bool:
    """Return whether the last `patience` evaluations were no better than an earlier one."""
    best = best_of(evaluations, criterion)
    if best is None or patience is None:
        return False
    return len(evaluations) - 1 - [one.step for one in evaluations].index(best.step) >= patience


def criterion_of(names: Sequence[str], harness: Harness) -> Criterion:
    """Return the criterion that compares these metrics in order.

    Raises:
        UnknownName: One of them is not a metric.
    """
    return Criterion(metrics=tuple((LOSS, False) if name == LOSS else directed(name, harness) for name in names))


def directed(name: str, harness: Harness) -> tuple[str, bool]:
    """Return the name of a metric as used in records, and whether higher is better.

    Raises:
        UnknownName: There is no such metric.
    """
    metric = harness.metrics.named(name)[0]
    return metric.name, metric.higher_is_better
