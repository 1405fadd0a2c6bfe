"""The best checkpoint, and when to stop."""

from __future__ import annotations

from figeval.wings.training.selection import Evaluation, SelectionCriterion, best_evaluation, is_stalled

TWO_METRICS = SelectionCriterion(metrics=(("acc", True), ("mrr", True)))
LOSS = SelectionCriterion(metrics=(("loss", False),))


def describe_preset(*values: tuple[float | None, float | None]) -> list[Evaluation]:
    return [Evaluation(step=10 * n, scores={"acc": a, "mrr": m}) for n, (a, m) in enumerate(values, 1)]


def test_later_metrics_break_ties_and_equal_ones_change_nothing() -> None:
    best = best_evaluation(describe_preset((0.5, 0.6), (0.5, 0.7), (0.4, 0.9), (0.5, 0.7)), TWO_METRICS)
    assert best is not None and best.step == 20


def test_less_loss_is_better_and_no_score_is_worse_than_any() -> None:
    losses = [Evaluation(step=1, scores={"loss": 2.0}), Evaluation(step=2, scores={"loss": 1.0})]
    best = best_evaluation(losses, LOSS)
    assert best is not None and best.step == 2
    best = best_evaluation(describe_preset((None, 0.9), (0.0, 0.0)), TWO_METRICS)
    assert best is not None and best.step == 20


def test_patience_counts_evaluations_after_the_best_one() -> None:
    falling = describe_preset((0.5, 0), (0.4, 0), (0.3, 0))
    assert not is_stalled(falling[:2], TWO_METRICS, 2)
    assert is_stalled(falling, TWO_METRICS, 2)
    assert not is_stalled(falling, TWO_METRICS, None)
    assert not is_stalled([], TWO_METRICS, 1)
