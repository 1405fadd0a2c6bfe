"""Means of human labels that exist for a part of the items only, with a model's predictions for all of them.

Prediction-powered inference with power tuning (Angelopoulos, Duchi and Zrnic 2023, "PPI++: efficient prediction-powered
inference", sections 2 and 6). With n labelled items (Y, f) and N unlabelled ones (f), the estimate is

    mean(Y) + λ (mean of f over the unlabelled items − mean of f over the labelled ones).

It is unbiased however biased the predictions are, if the labelled items are a random part of all. The tuning λ is
estimated: 0 ignores useless predictions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from figeval.metrics.intervals import (
    NOTHING,
    Bounds,
    Floats,
    by_cluster,
    clip,
    cluster_places,
    effective_wilson,
    spread_of,
    t_interval,
)
from figeval.types import Score

FEWEST_LABELLED = 20  # effective clusters with labels; with fewer, intervals are too narrow (docs/statistics.md)
TOO_FEW = f"none: fewer than {FEWEST_LABELLED} independent human labels"


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """Mean of the labels, estimated with predictions.

    Attributes:
        score: the estimate with its 95 % interval; `n` counts labelled and unlabelled items.
        labelled: number of items with a label and a prediction.
        tuning: λ, between 0 (predictions are ignored) and 1.
        freedom: degrees of freedom of the interval, None if there is none.
        p: p-value of the hypothesis that the mean is 0, None if there is no interval.
    """

    score: Score
    labelled: int
    tuning: float | None = None
    freedom: float | None = None
    p: float | None = None


def prediction_powered_mean(
    labels: Sequence[float | None],
    predictions: Sequence[float],
    clusters: Sequence[str | None] | None = None,
    bounds: Bounds = None,
    name: str = "mean",
) -> PoweredMean:
    """Return the prediction-powered mean of the labels over all items.

    The standard error is clustered: the variances of both parts have the CR2 correction, and clusters with labelled and
    unlabelled items contribute their covariance. The interval is Wilson's on the sample size at which 0/1 values would
    have this variance, as for all means within bounds, and Student's t without bounds; both take the quantile of
    Student's t with Satterthwaite's (1946) degrees of freedom.

    Args:
        labels: label of each item, None if nobody labelled it.
        predictions: prediction of each item, in the same order and on the same scale.
        clusters: cluster of each item, None if it is independent of the others.
        bounds: lowest and highest possible label.
        name: name of the score.

    Raises:
        ValueError: the sequences differ in length.
    """
    names = clusters if clusters is not None else [None] * len(labels)
    if not len(labels) == len(predictions) == len(names):
        raise ValueError("labels, predictions and clusters must have the same length")
    known = np.array([label is not None for label in labels], dtype=bool)
    n, rest = int(known.sum()), int((~known).sum())
    index = cluster_places(names)
    groups = int(index.max(initial=-1)) + 1
    if not n:
        return PoweredMean(Score(metric=name, value=None, n=rest, clusters=groups, interval="none: no labels"), 0)
    f = np.asarray(predictions, dtype=np.float64)
    y = np.array([label for label in labels if label is not None], dtype=np.float64)
    tuning = power_tuning(y, f[known], f[~known])
    value = float(y.mean())
    if rest:
        value += tuning * float(f[~known].mean() - f[known].mean())
    parts = [(y - tuning * f[known], index[known])] + ([(tuning * f[~known], index[~known])] if tuning else [])
    stderr, freedom, effective = _spread(parts, groups)
    value = clip((value, value), bounds)[0]
    if effective < FEWEST_LABELLED:
        score = Score(metric=name, value=value, n=n + rest, clusters=groups, interval=TOO_FEW)
        return PoweredMean(score, n, tuning)
    if stderr <= NOTHING * max(1.0, abs(value)):
        score = Score(metric=name, value=value, n=n + rest, clusters=groups, interval="none: all labels are the same")
        return PoweredMean(score, n, tuning)
    low, high, method = _limits(value, stderr, freedom, bounds)
    from scipy.special import stdtr

    p = max(2 * float(stdtr(freedom, -abs(value) / stderr)), np.finfo(np.float64).tiny)
    score = Score(
        metric=name, value=value, low=low, high=high, stderr=stderr, n=n + rest, clusters=groups, interval=method
    )
    return PoweredMean(score, n, tuning, freedom, float(p))


def _limits(value: float, stderr: float, freedom: float, bounds: Bounds) -> tuple[float, float, str]:
    """Return the limits of the 95 % interval and its method."""
    if bounds is None or value in bounds:
        return (*clip(t_interval(value, stderr, freedom), bounds), "prediction-powered t")
    low, high = bounds
    width = high - low
    limits = effective_wilson((value - low) / width, (stderr / width) ** 2, freedom)
    return low + width * limits[0], low + width * limits[1], "prediction-powered Wilson"


def power_tuning(labels: Floats, predictions: Floats, unlabelled: Floats) -> float:
    """Return the λ in [0, 1] with the least variance, Cov(Y, f) / ((1 + n/N) Var f) (PPI++, section 6).

    Clusters are not considered, which costs precision at most: the estimate is unbiased, and its standard error is
    right, with any λ.

    Args:
        labels: Y of the labelled items, shape (n,).
        predictions: f of these items, shape (n,).
        unlabelled: f of the other items, shape (N,).
    """
    n, rest = len(labels), len(unlabelled)
    every = np.concatenate((predictions, unlabelled))
    if n < 2 or not rest or np.ptp(every) <= NOTHING * max(1.0, float(np.abs(every).max())):
        return 0.0
    covariance = float((labels - labels.mean()) @ (predictions - predictions.mean())) / n
    return min(1.0, max(0.0, covariance / ((1 + n / rest) * float(every.var(ddof=1)))))


def _spread(parts: Sequence[tuple[Floats, Floats]], groups: int) -> tuple[float, float, float]:
    """Return standard error and degrees of freedom of a sum of means, and the effective clusters of the first one.

    Args:
        parts: values of each mean, and the cluster number of each value.
        groups: number of clusters.
    """
    together, variances, freedoms, effective = np.zeros(groups), [], [], []
    for values, index in parts:
        spread = spread_of(*by_cluster(values, [str(one) for one in index]))
        effective.append(spread.effective_clusters)
        deviations = np.bincount(index, weights=(values - values.mean()) / len(values), minlength=groups)
        together += deviations
        variances.append(spread.stderr**2 - float(deviations @ deviations))
        freedoms.append((spread.stderr**2, spread.freedom))
    # The squares of the clusters' sums include the covariance of the parts; what is added is the CR2 correction.
    variance = float(together @ together) + math.fsum(variances)
    weight = math.fsum(part**2 / freedom for part, freedom in freedoms if freedom)
    freedom = math.fsum(part for part, _ in freedoms) ** 2 / weight if weight else 0.0
    return math.sqrt(max(0.0, variance)), freedom, effective[0]
