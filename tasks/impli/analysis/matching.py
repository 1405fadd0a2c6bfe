"""Accuracy on pairs that are matched by the similarity of their two sentences.

A model that calls a pair an entailment because its sentences are similar gets many of the entailing pairs right and few
of the others. Within one decile of similarity this does not help, so the mean of the deciles' balanced accuracies shows
what accuracy is left. A decile is weighted by its number of pairs of the rarer kind, as if each of these were matched
with one of the other kind; a decile with hardly any pair of one kind, whose accuracy is hardly known, thus counts for
hardly anything, and a decile without one is left out. A pair that two tasks of a run ask counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.discrimination import Judged, balanced_accuracy
from figeval.metrics.statistic import Statistic
from figeval.types import Score

from .answers import PairAnswer, each_once

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

DECILES = 10
GROUPS = {  # contrast → prefixes of its tasks' names
    "idioms, gold": ("impli_idioms_gold_",),
    "idioms, silver": ("impli_idioms_silver_",),
    "idioms, seen": ("impli_idioms_seen",),
    "idioms, unseen": ("impli_idioms_unseen",),
    "metaphors, gold": ("impli_metaphors_gold_",),
}


@dataclass(frozen=True, slots=True)
class MatchedAccuracy:
    """Balanced accuracy of a group of tasks, both plain and within deciles of similarity.

    Attributes:
        group: name of the group.
        plain: balanced accuracy of all pairs.
        matched: weighted mean of the balanced accuracies within deciles.
        deciles: number of deciles with pairs of both kinds.
        left_out: number of pairs in the other deciles.
    """

    group: str
    plain: Score
    matched: Score
    deciles: int
    left_out: int


def matched_accuracies(answers: Sequence[PairAnswer], seed: int = 0) -> list[MatchedAccuracy]:
    """Return the plain and the matched accuracy of each group with both kinds of pairs, without unanswered pairs."""
    accuracies = []
    for group, beginnings in GROUPS.items():
        group_answers = each_once(
            answer for answer in answers if answer.task.startswith(beginnings) and answer.right is not None
        )
        if len({answer.is_entailment for answer in group_answers}) == 2:
            accuracies.append(_matched_accuracy(group, group_answers, seed))
    return accuracies


def _matched_accuracy(group: str, answers: Sequence[PairAnswer], seed: int) -> MatchedAccuracy:
    similarities = np.array([answer.similarity for answer in answers])
    edges = np.quantile(similarities, np.linspace(0, 1, DECILES + 1)[1:-1])
    deciles = np.searchsorted(edges, similarities, side="right")
    entailing = np.array([answer.is_entailment for answer in answers])
    kinds = np.array([np.bincount(deciles[entailing == kind], minlength=DECILES) for kind in (False, True)])
    weights = kinds.min(axis=0).astype(np.float64)
    has_both_kinds = weights > 0
    statistic = Statistic(lambda *_: None, partial(standardise, weights))
    aggregator = MetricAggregator("matched_acc", statistic)
    for answer, decile in zip(answers, deciles, strict=True):
        if has_both_kinds[decile] and answer.right is not None:
            features = np.zeros((DECILES, 2, 2))
            features[decile, int(answer.is_entailment)] = answer.right, 1.0
            aggregator.add(answer.cluster, features.ravel())  # type: ignore[arg-type]
    plain = balanced_accuracy(
        Judged(positive=answer.is_entailment, right=answer.right, cluster=answer.cluster) for answer in answers
    )
    return MatchedAccuracy(
        group, plain, aggregator.score(seed), int(has_both_kinds.sum()), int(kinds[:, ~has_both_kinds].sum())
    )


def standardise(weights: Floats, sums: Floats) -> Floats:
    """Return the weighted mean over deciles of the mean accuracy on both kinds.

    Args:
        weights: weights of the deciles, shape (10,).
        sums: right answers and pairs of either kind in each decile, shape (..., 40). A decile that lost one of its
            kinds in a resample gets no weight there.
    """
    cells = sums.reshape(*sums.shape[:-1], DECILES, 2, 2)
    right, count = cells[..., 0], cells[..., 1]
    has_both_kinds = (count > 0).all(axis=-1)
    shares = np.divide(right, count, out=np.zeros_like(right), where=count > 0).mean(axis=-1)
    weight = np.where(has_both_kinds, weights, 0.0)
    total = weight.sum(axis=-1)
    return np.asarray(
        np.divide((weight * shares).sum(axis=-1), total, out=np.full(total.shape, np.nan), where=total > 0)
    )


def histogram(answers: Sequence[PairAnswer], width: int) -> Mapping[tuple[str, bool], dict[int, float]]:
    """Return a histogram of Levenshtein distances for each label and each of right and wrong.

    A histogram maps the lower edge of a bin to a number of pairs; a tie counts partly as right and partly as wrong.

    Args:
        answers: the answers; unanswered pairs are left out.
        width: width of a bin, in characters.
    """
    histograms: dict[tuple[str, bool], dict[int, float]] = {}
    for answer in answers:
        if answer.right is not None:
            edge = answer.distance // width * width
            for is_right, share in ((True, answer.right), (False, 1 - answer.right)):
                if share:
                    bins = histograms.setdefault((answer.label, is_right), {})
                    bins[edge] = bins.get(edge, 0.0) + share
    return histograms
