"""Ranking metrics that are exact over ties, as the expectation over all orders of equally scored candidates.

Ranks come from the scores themselves, in float64: softmax outputs saturate and underflow to ties at 0, whose order is
whatever the sort returns. A candidate in a block of t equal scores, behind `a` better candidates, is at each of the
places a + 1 to a + t with probability 1/t, from which the closed forms below follow (McSherry and Najork 2008).

The plain metrics rank the `candidates`; the `*_all` ones rank candidates + background. `*_norm` and `*_pmi` rank by
other functions of a language model's log-likelihoods. Every metric is None without an answer, without relevant
candidates or without scores, and raises `ValueError` for scores that are NaN or not parallel to the candidates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.statistic import PerExample
from figeval.metrics.ties import answered
from figeval.task_types.ranking import RankingExample
from figeval.types import Prediction

Floats: TypeAlias = NDArray[np.float64]
RankedBy: TypeAlias = Callable[[RankingExample, Prediction], "Floats | None"]


@dataclass(frozen=True, slots=True)
class Standing:
    """Ranks of the r relevant candidates.

    Attributes:
        above: number of candidates that score higher than each, shape (r,).
        tied: number of candidates with the same score as each, itself included, shape (r,).
        grades: relevance of each, greater than 0, shape (r,). Only nDCG uses it.
    """

    above: NDArray[np.int64]
    tied: NDArray[np.int64]
    grades: Floats


def standing(scores: Floats, relevant: NDArray[np.int64], grades: Floats) -> Standing:
    """Return the standing of the candidates with the indexes `relevant`, shape (r,), among `scores`, shape (n,)."""
    relevant_scores = scores[relevant, None]  # (r, 1)
    return Standing((scores > relevant_scores).sum(axis=1), (scores == relevant_scores).sum(axis=1), grades)


# ---- the scores that rank candidates --------------------------------------------------------------------------------


def all_scores(example: RankingExample, prediction: Prediction) -> Floats | None:
    """Return the scores of candidates and background, shape (n,).

    The result is None without an answer, without relevant candidates or without scores.

    Raises:
        ValueError: the scores are not parallel to candidates + background.
    """
    if not (answered(prediction) and example.relevant and prediction.scores):
        return None
    n_candidates, n_background = len(example.candidates), len(example.background)
    if len(prediction.scores) != n_candidates + n_background:
        raise ValueError(
            f"prediction {prediction.example_id!r} has {len(prediction.scores)} scores for {n_candidates} candidates "
            f"and {n_background} background ones"
        )
    return np.asarray(prediction.scores, dtype=np.float64)


def candidate_scores(example: RankingExample, prediction: Prediction) -> Floats | None:
    """Return the scores of the candidates alone, under the same conditions as `all_scores`."""
    scores = all_scores(example, prediction)
    return None if scores is None else scores[: len(example.candidates)]


def per_character(example: RankingExample, prediction: Prediction) -> Floats | None:
    """Return the log-likelihood per character of each candidate, so that a short one is not favoured for its length.

    lm-eval's `acc_norm` divides by the same length (`process_results` of its multiple-choice tasks).
    """
    scores = candidate_scores(example, prediction)
    return None if scores is None else scores / [max(1, len(candidate)) for candidate in example.candidates]


def above_prior(example: RankingExample, prediction: Prediction) -> Floats | None:
    """Return log P(candidate | query) − log P(candidate), so that a likely sentence is not taken for a likely answer.

    This is PMI_DC of Holtzman et al. 2021, section 3. The result is None without `priors`, or if a candidate is
    impossible with and without the query.

    Raises:
        ValueError: the priors are not parallel to the scores, or a score or a prior is NaN.
    """
    scores = candidate_scores(example, prediction)
    if scores is None or not prediction.priors:
        return None
    if len(prediction.priors) != len(prediction.scores):
        raise ValueError(
            f"prediction {prediction.example_id!r} has {len(prediction.priors)} priors for "
            f"{len(prediction.scores)} scores"
        )
    priors = np.asarray(prediction.priors[: len(scores)], dtype=np.float64)
    if np.isnan(scores).any() or np.isnan(priors).any():
        raise ValueError(f"prediction {prediction.example_id!r} has NaN among its scores or priors")
    with np.errstate(invalid="ignore"):  # -inf minus -inf
        gains = scores - priors
    return None if np.isnan(gains).any() else gains


# ---- measures of a standing -----------------------------------------------------------------------------------------


def top_share(ranks: Standing) -> float:
    """Return the probability that the first candidate is relevant: the share of relevant ones among the tied best."""
    best = ranks.tied[ranks.above == 0]  # r equal numbers
    return len(best) / int(best[0]) if len(best) else 0.0


def reciprocal_rank(ranks: Standing) -> float:
    """Return the expected 1 / rank of the first relevant candidate.

    It follows from the best block with a relevant member: t tied candidates, r of them relevant, behind `a` better
    ones. P(first relevant at place j of the block) = C(t - j, r - 1) / C(t, r), computed from P(1) = r / t by ratios.
    """
    a = int(ranks.above.min())
    leading = ranks.above == a
    r, t = int(leading.sum()), int(ranks.tied[leading][0])
    positions = np.arange(1, t - r + 2)  # (t - r + 1,)
    steps = (t - positions[:-1] - r + 1) / (t - positions[:-1])
    chances = r / t * np.concatenate(([1.0], np.cumprod(steps)))
    return float(np.sum(chances / (a + positions)))


def expected_hits(ranks: Standing, k: int) -> float:
    """Return the expected number of relevant candidates among the first k.

    A block of t tied candidates, r of them relevant, that has m of the first k places contributes r · m / t. A sum of r
    probabilities m / t would round to more than r for some t.
    """
    total = 0.0
    for a in np.unique(ranks.above):
        block = ranks.above == a
        r, t = int(block.sum()), int(ranks.tied[block][0])
        total += r * min(t, max(0, k - int(a))) / t
    return total


def share_within(ranks: Standing, k: int) -> float:
    """Return the expected share of the relevant candidates that are among the first k (recall@k)."""
    return expected_hits(ranks, k) / len(ranks.above)


def precision_within(ranks: Standing, k: int) -> float:
    """Return the expected share of relevant candidates among the first k.

    The divisor is k even if there are fewer candidates (`P_k` of trec_eval).
    """
    return expected_hits(ranks, k) / k


def precision_at_relevant(ranks: Standing) -> float:
    """Return the expected R-precision: the share of relevant ones among the first R, for R relevant candidates."""
    return share_within(ranks, len(ranks.above))


def expected_average_precision(ranks: Standing) -> float:
    """Return the expected average precision: the mean of the precisions at the relevant candidates' places.

    Take a block of t tied candidates, r of them relevant, behind `a` better candidates, q of them relevant. A relevant
    one is at place j of the block with probability 1/t, and then (j − 1)(r − 1) / (t − 1) other relevant ones are
    expected before it in the block, so the block contributes
    r/t · Σ_j (q + 1 + (j − 1)(r − 1) / (t − 1)) / (a + j) (McSherry and Najork 2008). Grades are ignored, and the sum
    is divided by the number of relevant candidates, as in `map` of trec_eval.
    """
    total, before = 0.0, 0
    for a in np.unique(ranks.above):
        block = ranks.above == a
        r, t = int(block.sum()), int(ranks.tied[block][0])
        positions = np.arange(1, t + 1)
        hits = before + 1 + (positions - 1) * ((r - 1) / max(1, t - 1))
        total += r / t * float(np.sum(hits / (a + positions)))
        before += r
    return total / len(ranks.above)


def expected_ndcg(ranks: Standing, k: int | None = None) -> float:
    """Return the expected nDCG among the first k places, or among all places if k is None.

    The gain of a candidate is its grade (linear, not 2^grade − 1), the discount of place p is 1 / log2(1 + p), and the
    sum is divided by that of the best order (Järvelin and Kekäläinen 2002, in the form of trec_eval's `ndcg` and
    `ndcg_cut`, which ir_measures' `nDCG` computes). A candidate in a block of t tied ones, behind `a` better ones, has
    the mean discount of the places a + 1 to a + t, where places after k count 0 (McSherry and Najork 2008). The result
    is capped at 1, since differences of sums may round to a little more.
    """
    last = int((ranks.above + ranks.tied).max())
    depth = max(last, len(ranks.grades))
    discounts = 1.0 / np.log2(np.arange(2, depth + 2))  # (depth,), of place 1 at index 0
    if k is not None:
        discounts[k:] = 0.0
    up_to = np.concatenate(([0.0], np.cumsum(discounts)))  # sums of the first 0, 1, … discounts
    means = (up_to[ranks.above + ranks.tied] - up_to[ranks.above]) / ranks.tied
    best = np.sort(ranks.grades)[::-1] @ discounts[: len(ranks.grades)]
    return min(1.0, float(ranks.grades @ means / best))


# ---- the metrics ----------------------------------------------------------------------------------------------------


def _metric(name: str, measure: Callable[[Standing], float], by: RankedBy = candidate_scores) -> PerExample:
    """Return a metric of the relevant candidates' standing when candidates are ranked by `by(example, prediction)`."""

    def metric(example: RankingExample, prediction: Prediction) -> float | None:
        scores = by(example, prediction)
        if scores is None:
            return None
        if np.isnan(scores).any():
            raise ValueError(f"prediction {prediction.example_id!r} has NaN among its scores")
        relevant = sorted(example.relevant)
        grades = np.array([example.grades.get(index, 1.0) for index in relevant], dtype=np.float64)
        return measure(standing(scores, np.array(relevant, dtype=np.int64), grades))

    metric.__name__ = name
    metric.__doc__ = measure.__doc__
    return metric


def at_depth(k: int, name: str, measure: Callable[[Standing, int], float]) -> PerExample:
    """Return the metric `name@k`, which considers the first k places."""

    def measure_at_k(ranks: Standing) -> float:
        return measure(ranks, k)

    measure_at_k.__doc__ = f"{measure.__doc__}\n\n    Here k = {k}."
    return _metric(f"{name}@{k}", measure_at_k)


def acc_near(example: RankingExample, prediction: Prediction) -> float | None:
    """Return the accuracy if candidates with the same meaning as a relevant one (`near`) also count as right."""
    return accuracy(replace(example, relevant=example.relevant | example.near), prediction)


accuracy = _metric("accuracy", top_share)
acc_all = _metric("acc_all", top_share, all_scores)
acc_norm = _metric("acc_norm", top_share, per_character)
acc_pmi = _metric("acc_pmi", top_share, above_prior)
mrr = _metric("mrr", reciprocal_rank)
mrr_all = _metric("mrr_all", reciprocal_rank, all_scores)
mrr_norm = _metric("mrr_norm", reciprocal_rank, per_character)
mrr_pmi = _metric("mrr_pmi", reciprocal_rank, above_prior)
recall_at_1, recall_at_5, recall_at_10 = (at_depth(k, "recall", share_within) for k in (1, 5, 10))
precision_at_1, precision_at_5, precision_at_10 = (at_depth(k, "precision", precision_within) for k in (1, 5, 10))
r_precision = _metric("r_precision", precision_at_relevant)
average_precision = _metric("map", expected_average_precision)
ndcg = _metric("ndcg", expected_ndcg)
ndcg_at_5, ndcg_at_10 = (at_depth(k, "ndcg", expected_ndcg) for k in (5, 10))
