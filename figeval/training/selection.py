"""Which checkpoint is the best one, and when to stop looking for a better one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict


class Criterion(BaseModel):
    """What is compared: metrics in order, the later ones break ties of the earlier; each with its direction."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    metrics: tuple[tuple[str, bool], ...]  # (name, higher is better)

    def key(self, scores: Mapping[str, float | None]) -> tuple[float, ...]:
        """Larger is better. A score that is not there is worse than any."""
        found = ((scores.get(name), higher) for name, higher in self.metrics)
        return tuple(float("-inf") if value is None else value if higher else -value for value, higher in found)

    def better(self, scores: Mapping[str, float | None], best: Mapping[str, float | None] | None) -> bool:
        """Whether these scores beat the best so far; equal ones do not."""
        return best is None or self.key(scores) > self.key(best)


class Evaluation(BaseModel):
    """The scores of one checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int
    scores: dict[str, float | None]


def best_of(evaluations: Sequence[Evaluation], criterion: Criterion) -> Evaluation | None:
    """The first of the best ones, None before the first evaluation."""
    best: Evaluation | None = None
    for evaluation in evaluations:
        if criterion.better(evaluation.scores, best.scores if best else None):
            best = evaluation
    return best


def exhausted(evaluations: Sequence[Evaluation], criterion: Criterion, patience: int | None) -> bool:
    """Whether the last `patience` evaluations were no better than an earlier one."""
    best = best_of(evaluations, criterion)
    if best is None or patience is None:
        return False
    return len(evaluations) - 1 - [one.step for one in evaluations].index(best.step) >= patience
