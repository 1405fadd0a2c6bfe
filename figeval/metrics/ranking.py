"""Ranking metrics, exact over ties: the expectation over all orders of equally scored candidates.

Ranks come from the scores themselves in float64. Softmax outputs saturate, underflow ties them at 0, and the order
of ties is then whatever the sort returns (McSherry and Najork 2008 give the closed forms for tied scores).
The plain metrics rank among `candidates`; the `*_all` ones among candidates + background.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.statistic import PerExample
from figeval.metrics.ties import answered
from figeval.types import Prediction, RankingExample


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the relevant candidates stand: for each, how many score higher and how many the same (itself included)."""

    above: NDArray[np.int64]  # (r,)
    tied: NDArray[np.int64]  # (r,)


def standing(example: RankingExample, prediction: Prediction, *, background: bool = False) -> Standing | None:
    """None without an answer, without relevant candidates or without scores.

    Raises:
        ValueError: the scores are not parallel to candidates + background, or NaN.
    """
    if not (answered(prediction) and example.relevant and prediction.scores):
        return None
    closed = len(example.candidates)
    if len(prediction.scores) != closed + len(example.background):
        raise ValueError(
            f"prediction {prediction.example_id!r} has {len(prediction.scores)} scores for {closed} candidates "
            f"and {len(example.background)} background ones"
        )
    scores = np.asarray(prediction.scores if background else prediction.scores[:closed], dtype=np.float64)  # (n,)
    if np.isnan(scores).any():
        raise ValueError(f"prediction {prediction.example_id!r} has NaN among its scores")
    relevant = scores[sorted(example.relevant), None]  # (r, 1)
    return Standing((scores > relevant).sum(axis=1), (scores == relevant).sum(axis=1))


def top_share(where: Standing) -> float:
    """Probability that the first candidate is relevant: the share of relevant ones among the tied best."""
    return float(np.sum(1.0 / where.tied[where.above == 0]))


def reciprocal_rank(where: Standing) -> float:
    """Expected 1 / rank of the first relevant candidate.

    It comes from the best block with a relevant member: t tied candidates, r of them relevant, behind a better ones.
    P(first relevant at place j of the block) = C(t - j, r - 1) / C(t, r), reached from P(1) = r / t by ratios.
    """
    a = int(where.above.min())
    leading = where.above == a
    r, t = int(leading.sum()), int(where.tied[leading][0])
    places = np.arange(1, t - r + 2)  # (t - r + 1,)
    steps = (t - places[:-1] - r + 1) / (t - places[:-1])
    chances = r / t * np.concatenate(([1.0], np.cumprod(steps)))
    return float(np.sum(chances / (a + places)))


def share_within(where: Standing, k: int) -> float:
    """Expected share of the relevant candidates among the first k."""
    return float(np.mean(np.clip((k - where.above) / where.tied, 0.0, 1.0)))


def _metric(name: str, measure: Callable[[Standing], float], *, background: bool = False) -> PerExample:
    def metric(example: RankingExample, prediction: Prediction) -> float | None:
        where = standing(example, prediction, background=background)
        return None if where is None else measure(where)

    metric.__name__ = name
    metric.__doc__ = measure.__doc__
    return metric


def acc_near(example: RankingExample, prediction: Prediction) -> float | None:
    """Accuracy where a candidate that says the same as a relevant one is right, too (`near`)."""
    return accuracy(replace(example, relevant=example.relevant | example.near), prediction)


def recall_at(k: int) -> PerExample:
    """The metric recall@k: expected share of the relevant candidates among the first k."""

    def share_within_k(where: Standing) -> float:
        return share_within(where, k)

    share_within_k.__doc__ = f"Expected share of the relevant candidates among the first {k}."
    return _metric(f"recall@{k}", share_within_k)


accuracy = _metric("accuracy", top_share)
acc_all = _metric("acc_all", top_share, background=True)
mrr = _metric("mrr", reciprocal_rank)
mrr_all = _metric("mrr_all", reciprocal_rank, background=True)
recall_at_1, recall_at_5, recall_at_10 = map(recall_at, (1, 5, 10))
