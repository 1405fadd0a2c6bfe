"""Calibration of the scores of options: reliability diagram, calibration error, Brier score, selective accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.intervals import TAILS, blocks, by_cluster, cluster_places, interval_of_mean, resample, spread_of

Floats: TypeAlias = NDArray[np.float64]
Limits: TypeAlias = tuple[float, float] | None  # of a 95 % interval; None if there is no valid one
Origin: TypeAlias = Literal["probabilities", "log-probabilities", "normalised log-likelihoods"]

LOG_LIKELIHOODS = "log-likelihoods"  # the kind of scores that are normalised over the options
MAX_ROUNDING = 1e-3  # how far probabilities may be from adding up to 1
BINS = 10  # of equal width, as usual for the expected calibration error
COVERAGES = tuple(step / 20 for step in range(1, 21))
RESAMPLES = 10_000  # of the answers of a calibrated model
ERROR_RESAMPLES = 2_000  # of the clusters
MIN_DRAWS = 1_000  # for many answers, whose error varies less
CELLS = 2_000_000  # numbers of one block of draws: 16 MB


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers whose confidence is in one interval: their number, mean confidence, and accuracy with its limits."""

    n: int
    confidence: float
    accuracy: float
    limits: Limits


@dataclass(frozen=True, slots=True)
class Reliability:
    """Calibration of `n` answers.

    Attributes:
        origin: what the probabilities were made from.
        ece: calibration error over ten bins of equal width. It is above 0 for calibrated models, too, because the
            accuracy of few answers differs from their confidence by chance.
        calibrated_ece: mean error of a perfectly calibrated model with the same confidences.
        calibrated_ece_high: the error that such a model exceeds in one of twenty data sets of this size.
        accuracy_limits, ece_limits, brier_limits: their 95 % intervals.
        brier: mean over examples of the squared error summed over options, between 0 and 2.
        bins: bins with at least one answer, the lowest confidence first.
        selective: (coverage, accuracy): accuracy on the share of examples with the highest confidence.
    """

    origin: Origin
    n: int
    accuracy: float
    accuracy_limits: Limits
    ece: float
    ece_limits: Limits
    calibrated_ece: float
    calibrated_ece_high: float
    brier: float
    brier_limits: Limits
    bins: tuple[Bin, ...]
    selective: tuple[tuple[float, float], ...]


def reliability(
    scores: Sequence[Sequence[float]],
    gold: Sequence[int],
    kind: str = "",
    clusters: Sequence[str | None] | None = None,
) -> Reliability | None:
    """Return the calibration of the scores of options, or None if they are neither probabilities nor log-likelihoods.

    Options that tie for the best share one answer, so it is right in part.

    Args:
        scores: scores of each example's options.
        gold: index of the right option of each example.
        kind: what the scores are, as their route declares it (`Route.scores`). Numbers do not tell log-likelihoods from
            negative distances.
        clusters: cluster of each example, which the intervals take into account; None for an example of its own. By
            default, all examples are independent.
    """
    probabilities = _probabilities(scores, kind)
    if probabilities is None:
        return None
    origin, rows = probabilities
    confidence = np.array([row.max() for row in rows])
    best = [row == row.max() for row in rows]
    right = np.array(
        [options[index] / options.sum() for options, index in zip(best, gold, strict=True)], dtype=np.float64
    )
    squared = np.array([(row**2).sum() - 2 * row[index] + 1 for row, index in zip(rows, gold, strict=True)])
    cluster_indices = cluster_places([None] * len(rows) if clusters is None else clusters)
    bin_indices = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = tuple(
        Bin(
            int(members.sum()),
            float(confidence[members].mean()),
            float(right[members].mean()),
            _limits_of_mean(right[members], cluster_indices[members], 1),
        )
        for members in (bin_indices == index for index in range(BINS))
        if members.any()
    )
    ece = sum(each.n * abs(each.accuracy - each.confidence) for each in bins) / len(rows)
    tied = np.array([options.sum() for options in best], dtype=np.float64)
    errors = _calibrated_errors(confidence, tied, bin_indices)
    limit = float(np.quantile(errors, 0.95))
    return Reliability(
        origin=origin,
        n=len(rows),
        accuracy=float(right.mean()),
        accuracy_limits=_limits_of_mean(right, cluster_indices, 1),
        ece=ece,
        ece_limits=_limits_of_error(right - confidence, bin_indices, cluster_indices, ece, limit),
        calibrated_ece=float(errors.mean()),
        calibrated_ece_high=limit,
        brier=float(squared.mean()),
        brier_limits=_limits_of_mean(squared, cluster_indices, 2),
        bins=bins,
        selective=_selective(confidence, right),
    )


def _limits_of_mean(values: Floats, cluster_indices: NDArray[np.int64], highest: float) -> Limits:
    """Return the 95 % interval of a mean of values between 0 and `highest`, by the number of each value's cluster."""
    spread = spread_of(
        *by_cluster(values, list(map(str, cluster_indices))), binary=set(np.unique(values)) <= {0.0, 1.0}
    )
    interval = interval_of_mean(spread, (0.0, highest))
    return None if interval.low is None or interval.high is None else (interval.low, interval.high)


def _limits_of_error(
    gaps: Floats, bins: NDArray[np.int64], cluster_indices: NDArray[np.int64], ece: float, calibrated_limit: float
) -> Limits:
    """Return the 95 % interval of the calibration error.

    Resampled clusters have larger errors than the data, as the data have than other examples, so the percentiles are
    lowered by that bias: the upper one once, the lower one twice, without which it covers too rarely. An error that
    calibrated models have as well may be 0. For 50 to 400 answers whose confidence is right or up to .3 too high, such
    intervals contain the error in .91 to .97 of 300 data sets.

    Args:
        gaps: how much each answer is more right than its confidence says, shape (n,).
        bins: bin of each answer, shape (n,).
        cluster_indices: number of each answer's cluster, shape (n,).
        ece: the error.
        calibrated_limit: error that a calibrated model exceeds in one of twenty data sets.
    """
    clusters = int(cluster_indices.max()) + 1
    if clusters == 1:
        return None
    sums = np.zeros((clusters, BINS + 1))
    np.add.at(sums, (cluster_indices, bins), gaps)
    sums[:, BINS] = np.bincount(cluster_indices, minlength=clusters)
    draws = max(MIN_DRAWS, min(ERROR_RESAMPLES, 10 * CELLS // clusters))
    errors = resample(
        sums, lambda drawn: np.abs(drawn[..., :BINS]).sum(axis=-1) / drawn[..., BINS], seed=0, resamples=draws
    )
    bias = max(0.0, float(errors.mean()) - ece)
    low, high = (float(limit) for limit in np.quantile(errors, TAILS))
    return (0.0 if ece <= calibrated_limit else max(0.0, low - 2 * bias), max(ece, high - bias))


def _calibrated_errors(confidence: Floats, tied: Floats, bins: NDArray[np.int64]) -> Floats:
    """Return the calibration errors of a perfectly calibrated model in random data sets, shape (draws,).

    Each of its answers is right with the probability that it states, independently of the others: of t options that tie
    with the probability c, one is right with the probability t c, and the answer counts 1 / t then.

    Args:
        confidence: probability of the chosen option of each example, shape (n,).
        tied: number of options that share it, shape (n,).
        bins: bin of each example, shape (n,).
    """
    n = len(confidence)
    order = np.argsort(bins, kind="stable")
    starts = np.flatnonzero(np.diff(bins[order], prepend=-1))
    chance, parts, stated = (values[order] for values in (confidence * tied, 1 / tied, confidence))
    generator = np.random.default_rng(0)
    draws = max(MIN_DRAWS, min(RESAMPLES, 10 * CELLS // n))
    errors = [
        np.abs(np.add.reduceat((generator.random((size, n)) < chance) * parts - stated, starts, axis=1)).sum(axis=1) / n
        for size in blocks(draws, n)
    ]
    return np.concatenate(errors)


def _probabilities(scores: Sequence[Sequence[float]], kind: str) -> tuple[Origin, list[Floats]] | None:
    rows = [np.asarray(row, dtype=np.float64) for row in scores]
    if not rows or any(len(row) < 2 or not np.isfinite(row).all() for row in rows):
        return None
    if all((row >= 0).all() and abs(row.sum() - 1) < MAX_ROUNDING for row in rows):
        return "probabilities", rows
    if kind == LOG_LIKELIHOODS:
        powers = [np.exp(row - row.max()) for row in rows]
        return "normalised log-likelihoods", [row / row.sum() for row in powers]
    if all((row <= 0).all() and abs(np.exp(row).sum() - 1) < MAX_ROUNDING for row in rows):
        return "log-probabilities", [np.exp(row) for row in rows]
    return None


def _selective(confidence: Floats, right: Floats) -> tuple[tuple[float, float], ...]:
    """Return the accuracy at each coverage; examples of equal confidence have the mean of their group."""
    levels, groups = np.unique(-confidence, return_inverse=True)
    means = np.bincount(groups, right, len(levels)) / np.bincount(groups, minlength=len(levels))
    running = np.cumsum(means[np.sort(groups)])
    counts = [max(1, round(share * len(right))) for share in COVERAGES]
    return tuple((share, float(running[count - 1] / count)) for share, count in zip(COVERAGES, counts, strict=True))
