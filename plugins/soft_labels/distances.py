"""Distances between two distributions over the same outcomes, each a sequence of probabilities that sum to 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

LEAST_PROBABILITY = 1e-12  # of an outcome in a cross-entropy, as in the evaluation of LeWiDi 2023


def normalized(weights: Sequence[float]) -> tuple[float, ...] | None:
    """Return weights divided by their sum; None if one is negative, NaN or infinite, or if all are 0."""
    if not weights or not all(map(math.isfinite, weights)) or min(weights) < 0 or not any(weights):
        return None
    top = max(weights)
    shares = [weight / top for weight in weights]  # a sum of huge weights would overflow
    total = math.fsum(shares)
    return tuple(share / total for share in shares)


def manhattan(p: Sequence[float], q: Sequence[float]) -> float:
    """Return Σ |p − q|, from 0 to 2."""
    return math.fsum(abs(left - right) for left, right in zip(p, q, strict=True))


def jensen_shannon(p: Sequence[float], q: Sequence[float]) -> float:
    """Return the Jensen–Shannon divergence in bits, from 0 to 1: the square of scipy's distance with base 2."""
    mean = [(left + right) / 2 for left, right in zip(p, q, strict=True)]
    return max(0.0, (_divergence(p, mean) + _divergence(q, mean)) / 2)


def _divergence(p: Sequence[float], q: Sequence[float]) -> float:
    return math.fsum(left * math.log2(left / right) for left, right in zip(p, q, strict=True) if left > 0 < right)


def cross_entropy(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """Return −Σ gold · ln(predicted), in nats; a probability below `LEAST_PROBABILITY` counts as that."""
    return math.fsum(
        -share * math.log(max(probability, LEAST_PROBABILITY))
        for share, probability in zip(gold, predicted, strict=True)
    )


def wasserstein(points: Sequence[float], p: Sequence[float], q: Sequence[float]) -> float:
    """Return the least work that turns p into q, in units of the scale; `points` are in rising order.

    It is the area between the two cumulative distribution functions (Vallender 1974).
    """
    differences = accumulate(left - right for left, right in zip(p, q, strict=True))
    widths = (high - low for low, high in pairwise(points))
    return math.fsum(abs(difference) * width for difference, width in zip(differences, widths, strict=False))
