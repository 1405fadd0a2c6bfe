"""Calibration of the scores of options: reliability diagram, calibration error, Brier score, selective accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Origin: TypeAlias = Literal["probabilities", "normalised log-likelihoods"]

BINS = 10  # of equal width, as usual for the expected calibration error
COVERAGES = tuple(step / 20 for step in range(1, 21))
LOWEST_COSINE = -1.0  # a score below it is not a cosine


@dataclass(frozen=True, slots=True)
class Bin:
    """The answers whose confidence is in one interval: their number, mean confidence and accuracy."""

    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """Calibration of `n` answers.

    Attributes:
        origin: what the probabilities were made from.
        ece: expected calibration error over ten bins of equal width.
        brier: mean over examples of the squared error summed over options, between 0 and 2.
        bins: bins with at least one answer, the lowest confidence first.
        selective: (coverage, accuracy): accuracy on the share of examples with the highest confidence.
    """

    origin: Origin
    n: int
    accuracy: float
    ece: float
    brier: float
    bins: tuple[Bin, ...]
    selective: tuple[tuple[float, float], ...]


def reliability(scores: Sequence[Sequence[float]], gold: Sequence[int]) -> Reliability | None:
    """Return the calibration of the scores of options, or None if they are neither probabilities nor log-likelihoods.

    Options that tie for the best share one answer, so it is right in part.

    Args:
        scores: scores of each example's options.
        gold: index of the right option of each example.
    """
    found = _probabilities(scores)
    if found is None:
        return None
    origin, rows = found
    confidence = np.array([row.max() for row in rows])
    best = [row == row.max() for row in rows]
    right = np.array([one[place] / one.sum() for one, place in zip(best, gold, strict=True)], dtype=np.float64)
    squared = [(row**2).sum() - 2 * row[place] + 1 for row, place in zip(rows, gold, strict=True)]
    places = np.minimum((confidence * BINS).astype(int), BINS - 1)
    bins = tuple(
        Bin(int(own.sum()), float(confidence[own].mean()), float(right[own].mean()))
        for own in (places == place for place in range(BINS))
        if own.any()
    )
    ece = sum(one.n * abs(one.accuracy - one.confidence) for one in bins) / len(rows)
    selective = _selective(confidence, right)
    return Reliability(origin, len(rows), float(right.mean()), ece, float(np.mean(squared)), bins, selective)


def _probabilities(scores: Sequence[Sequence[float]]) -> tuple[Origin, list[Floats]] | None:
    rows = [np.asarray(row, dtype=np.float64) for row in scores]
    if not rows or any(len(row) < 2 or not np.isfinite(row).all() for row in rows):
        return None
    if all((row >= 0).all() and abs(row.sum() - 1) < 1e-3 for row in rows):
        return "probabilities", rows
    if all((row <= 0).all() for row in rows) and min(row.min() for row in rows) < LOWEST_COSINE:
        powers = [np.exp(row - row.max()) for row in rows]
        return "normalised log-likelihoods", [row / row.sum() for row in powers]
    return None


def _selective(confidence: Floats, right: Floats) -> tuple[tuple[float, float], ...]:
    """Return the accuracy at each coverage; examples of equal confidence have the mean of their group."""
    levels, groups = np.unique(-confidence, return_inverse=True)
    means = np.bincount(groups, right, len(levels)) / np.bincount(groups, minlength=len(levels))
    running = np.cumsum(means[np.sort(groups)])
    counts = [max(1, round(share * len(right))) for share in COVERAGES]
    return tuple((share, float(running[count - 1] / count)) for share, count in zip(COVERAGES, counts, strict=True))
