"""The best checkpoint, and when to stop."""

from __future__ import annotations

from figeval.wings.training.selection import Criterion, Evaluation, best_of, exhausted

BOTH = Criterion(metrics=(("acc", True), ("mrr", True)))
LOSS = Criterion(metrics=(("loss", False),))


def told(*values: tuple[float | None, float | None]) -> list[Evaluation]:
    return [Evaluation(step=10 * n, scores={"acc": a, "mrr": m}) for n, (a, m) in enumerate(values, 1)]


def test_later_metrics_break_ties_and_equal_ones_change_nothing() -> None:
    found = best_of(told((0.5, 0.6), (0.5, 0.7), (0.4, 0.9), (0.5, 0.7)), BOTH)
    assert found is not None and found.step == 20


def test_less_loss_is_better_and_no_score_is_worse_than_any() -> None:
    losses = [Evaluation(step=1, scores={"loss": 2.0}), Evaluation(step=2, scores={"loss": 1.0})]
    found = best_of(losses, LOSS)
    assert found is not None and found.step == 2
    found = best_of(told((None, 0.9), (0.0, 0.0)), BOTH)
    assert found is not None and found.step == 20


def test_patience_counts_evaluations_after_the_best_one() -> None:
    falling = told((0.5, 0), (0.4, 0), (0.3, 0))
    assert not exhausted(falling[:2], BOTH, 2)
    assert exhausted(falling, BOTH, 2)
    assert not exhausted(falling, BOTH, None)
    assert not exhausted([], BOTH, 1)
