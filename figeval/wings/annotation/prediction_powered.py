"""Means of human labels that exist for a part of the items only, with a model's predictions for all of them.

Prediction-powered inference with power tuning (Angelopoulos, Duchi and Zrnic 2023, "PPI++: efficient prediction-powered
inference", sections 2 and 6). With n labelled items (Y, f) and N unlabelled ones (f), the estimate is

    mean(Y) + λ (mean of f over the unlabelled items − mean of f over the labelled ones).

It is unbiased however biased the predictions are, if the labelled items are a random part of all. The tuning λ is
estimated: 0 ignores useless predictions.

How much the predictions help is estimated from the labelled items, too, and a few labels can agree with them by chance.
Their help is therefore counted with a lower bound of the correlation (bench/README.md has the simulated coverage).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from figeval import Interval, Score
from figeval.metrics.differences import refuse_infinite, t_test
from figeval.metrics.intervals import (
    ROUNDING_ERROR,
    Bounds,
    Floats,
    Spread,
    by_cluster,
    cluster_places,
    spread_of,
    t_interval,
    t_quantile,
    variance_of_mean,
    wilson,
)

MIN_LABELLED_CLUSTERS = 20  # effective clusters with labels; with fewer, intervals are too narrow (bench/README.md)
TOO_FEW_LABELS = f"fewer than {MIN_LABELLED_CLUSTERS} independent human labels"
CONFIDENCE = 0.9  # of the lower bound of the correlation of labels and predictions
PRIOR_LABELS = 2  # uncorrelated labelled items that it counts in addition to the observed ones


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """Mean of the labels, estimated with predictions.

    Attributes:
        score: the estimate with its 95 % interval; `n` counts labelled and unlabelled items.
        labelled: number of items with a label and a prediction.
        tuning: λ, between 0 (predictions are ignored) and 1.
        freedom: degrees of freedom of the interval, None if there is none.
        p: p-value of the hypothesis that the mean is 0, None if there is no interval, or if 0 is not within the bounds.
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

    Its variance is that of the mean of the labels alone, which is clustered, times the factor by which predictions
    reduce it. Within bounds, the value is clipped to them, and the interval is Wilson's on the sample size at which 0/1
    values would have this variance, as for all means; without bounds, it is by t.

    Args:
        labels: label of each item, None if nobody labelled it.
        predictions: prediction of each item, in the same order and on the same scale.
        clusters: cluster of each item, None if it is independent of the others.
        bounds: lowest and highest possible label.
        name: name of the score.

    Raises:
        ValueError: the sequences differ in length, or a label or a prediction is NaN or infinite.
    """
    names = clusters if clusters is not None else [None] * len(labels)
    if not len(labels) == len(predictions) == len(names):
        raise ValueError("labels, predictions and clusters must have the same length")
    is_labelled = np.array([label is not None for label in labels], dtype=bool)
    n, index = int(is_labelled.sum()), cluster_places(names)
    groups = int(index.max(initial=-1)) + 1
    if not n:
        absent = Interval(reason="no labels")
        return PoweredMean(Score(metric=name, value=None, interval=absent, n=len(is_labelled), clusters=groups), 0)
    f = np.asarray(predictions, dtype=np.float64)
    y = np.array([label for label in labels if label is not None], dtype=np.float64)
    refuse_infinite(y, f)
    tuning = power_tuning(y, f[is_labelled], f[~is_labelled])
    value = float(y.mean()) + (tuning * float(f[~is_labelled].mean() - f[is_labelled].mean()) if n < len(f) else 0.0)
    if bounds is not None:
        value = min(max(value, bounds[0]), bounds[1])
    spread = spread_of(*by_cluster(y, index[is_labelled].astype(str).tolist()))
    if spread.effective_clusters < MIN_LABELLED_CLUSTERS:
        interval, freedom, p = Interval(reason=TOO_FEW_LABELS), None, None
    else:
        items = _Items(y, tuning * f[is_labelled], tuning * f[~is_labelled], index[is_labelled], index[~is_labelled])
        by = _by_t(items, spread, value) if bounds is None else _by_wilson(items, spread, value, bounds)
        interval, freedom, p = by
    score = Score(
        metric=name,
        value=value,
        interval=interval,
        n=len(is_labelled),
        clusters=groups,
    )
    return PoweredMean(score, n, tuning, freedom, p)


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
    if n < 2 or not rest or np.ptp(every) <= ROUNDING_ERROR * max(1.0, float(np.abs(every).max())):
        return 0.0
    covariance = float((labels - labels.mean()) @ (predictions - predictions.mean())) / n
    return min(1.0, max(0.0, covariance / ((1 + n / rest) * float(every.var(ddof=1)))))


@dataclass(frozen=True, slots=True)
class _Items:
    """Labels Y, tuned predictions λf of labelled and of other items, and the numbers of their clusters."""

    labels: Floats
    tuned: Floats
    unlabelled: Floats
    of_labels: NDArray[np.int64]
    of_unlabelled: NDArray[np.int64]

    def reduction(self, events: float) -> float:
        """Return the variance of the estimate as a share of that of the labels' mean; it is about 1 without any help.

        With u_c and v_c, the sums of the residuals of Y and of λf over the labelled items of a cluster, it is the share
        for the observed correlation ρ of u and v, plus 2 √(Σ v² / Σ u²) (ρ − ρ'). ρ' is the lower limit of ρ by
        Fisher's transformation for as many independent labels as there are events.

        Args:
            events: number of independent labels that are as informative as the observed ones.
        """
        groups = int(max(self.of_labels.max(), self.of_unlabelled.max(initial=0))) + 1
        u, v = (_residuals(values, self.of_labels, groups) for values in (self.labels, self.tuned))
        w = _residuals(self.unlabelled, self.of_unlabelled, groups)
        of_labels, of_tuned = float(u @ u), float(v @ v)
        if min(of_labels, of_tuned) <= ROUNDING_ERROR**2:
            return 1.0
        rho = float(u @ v) / math.sqrt(of_labels * of_tuned)
        excess = 2 * math.sqrt(of_labels * of_tuned) * (rho - _lower_limit(rho, len(self.labels), events))
        if len(self.unlabelled):  # rare predictions may be missing from the other items
            excess += max(0.0, float(self.tuned.var() - self.unlabelled.var())) / len(self.unlabelled)
        return (float(np.square(u - v + w).sum()) + excess) / of_labels


def _residuals(values: Floats, index: NDArray[np.int64], groups: int) -> Floats:
    """Return the sums over clusters of the deviations from the mean, divided by the number of values."""
    if not len(values):
        return np.zeros(groups)
    return np.bincount(index, (values - values.mean()) / len(values), groups).astype(np.float64)


def _lower_limit(rho: float, n: int, events: float) -> float:
    """Return a lower confidence limit of a correlation, which is 0 if there are too few events."""
    if rho <= 0 or events <= 3:
        return min(rho, 0.0)
    prior = min(rho, 1.0) * math.sqrt(n / (n + PRIOR_LABELS))
    return max(0.0, math.tanh(math.atanh(prior) - NormalDist().inv_cdf(CONFIDENCE) / math.sqrt(events - 3)))


def _by_t(items: _Items, spread: Spread, value: float) -> tuple[Interval, float | None, float | None]:
    """Return the interval by t, its degrees of freedom, and the p-value of the hypothesis that the mean is 0."""
    if spread.alike:
        return Interval(reason="all labels are the same"), None, None
    stderr, freedom = spread.stderr * math.sqrt(items.reduction(spread.effective_clusters)), spread.freedom
    interval = Interval("prediction-powered t", *t_interval(value, stderr, freedom), stderr)
    return interval, freedom, t_test(value, stderr, freedom)


def _by_wilson(
    items: _Items, spread: Spread, value: float, bounds: tuple[float, float]
) -> tuple[Interval, float | None, float | None]:
    """Return Wilson's interval on an effective sample size, its degrees of freedom, and the p-value of the same test.

    If all labels are the same, the sample size is the number of their clusters. Labels near a bound tell less about a
    correlation than their number suggests: there are 4 m (1 − m) times as many events as clusters, with m of the labels
    or of the estimate, whichever is nearer to a bound. If the predictions are not shown to help, the interval includes
    that of the labels alone.
    """
    low, high = bounds
    width, freedom = high - low, max(1.0, spread.effective_clusters - 1)
    share, of_labels = (value - low) / width, min(1.0, max(0.0, (spread.mean - low) / width))
    stderr, method = None, "Wilson on clusters, since all labels are the same"
    samples = [(share, float(spread.clusters))]
    if not spread.constant:
        events = spread.effective_clusters * 4 * min(m * (1 - m) for m in (share, of_labels))
        variance, reduction = variance_of_mean(spread, bounds), items.reduction(events)
        alone = of_labels * (1 - of_labels) * width**2 / variance
        samples = [(share, alone / reduction)] + [(of_labels, alone)] * (reduction >= 1)
        stderr, method = math.sqrt(variance * reduction), "prediction-powered Wilson"
    lows, highs = zip(*(wilson(m * n, n, quantile=t_quantile(freedom)) for m, n in samples), strict=True)
    interval = Interval(method, low + width * min(lows), low + width * max(highs), stderr)
    if not low < 0 < high:
        return interval, freedom, None
    null = -low / width
    p = max(t_test(m - null, math.sqrt(null * (1 - null) / n), freedom) for m, n in samples)
    return interval, freedom, p
