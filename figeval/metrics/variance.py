"""The variance of answers, split into sampling, items, clusters of items and prompts (random-effects ANOVA).

A value belongs to an item, a prompt and a sample. Items, prompts and samples are random, and every item is asked with
every prompt. Components are estimated by the method of moments: mean squares are set equal to their expectations
(Searle, Casella and McCulloch 1992, Variance Components, chapter 4). An estimate below 0 becomes 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.intervals import (
    ROUNDING_ERROR,
    Bounds,
    Spread,
    by_cluster,
    clip,
    interval_of_mean,
    spread_of,
    t_quantile,
)
from figeval.types import Interval

Floats: TypeAlias = NDArray[np.float64]
SMALL_SHARE = 0.1  # of the variance of the mean: with this share, the standard error is 5 % above that without sampling
TOO_FEW_CLUSTERS = Interval(reason="fewer than two clusters of items")


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """Components of the variance of a value, and what they make of the variance of the mean.

    Components are None where nothing tells them apart: sampling without repeated samples, prompts with a single one.

    Attributes:
        mean: mean over all items and prompts.
        sampling: variance between samples of the same item and prompt.
        interaction: variance of how well a prompt suits an item.
        items: variance between items, within clusters if there are any.
        clusters: variance between clusters of items.
        prompts: variance between prompts.
        interval: 95 % interval of the mean over other items, samples and, if there are several, prompts.
        sampling_share: share of the variance of the mean that is due to sampling.
        enough_samples: number of samples with which this share would be at most a tenth.
    """

    mean: float
    sampling: float | None
    interaction: float | None
    items: float | None
    clusters: float | None
    prompts: float | None
    interval: Interval
    sampling_share: float | None
    enough_samples: int | None


def split_variance(
    cells: Sequence[Sequence[Sequence[float]]], clusters: Sequence[str | None], bounds: Bounds = None
) -> VarianceSplit:
    """Return the components of the variance of `cells[item][prompt][sample]`; every item has every prompt.

    The interval of the mean is `interval_of_mean` of the items with a single prompt. With several, the distances of its
    ends from the mean are combined with that of prompts, whose quantile is that of Student's t with as many degrees of
    freedom as prompts less one: the method of variance estimates recovery (Zou and Donner 2008), which is that of
    modified large samples where intervals are symmetric (Burdick and Graybill 1992, Confidence Intervals on Variance
    Components).

    Args:
        cells: values of the samples; their number may differ.
        clusters: cluster of each item, None for an item of its own.
        bounds: bounds of the values, None if there are none.
    """
    means = np.array([[math.fsum(values) / len(values) for values in item] for item in cells])
    n_items, n_prompts = means.shape
    spread = spread_of(*by_cluster(means.mean(axis=1), clusters))
    of_prompt, of_cell = _mean_squares(means)
    per_sample = _sampling(cells)
    sampling = None if per_sample is None else per_sample * float(np.mean([1 / len(v) for item in cells for v in item]))
    of_clusters, of_items = _between_items(spread, sampling if of_cell is None else of_cell / n_prompts)
    prompts = None if of_prompt is None or of_cell is None else max(0.0, (of_prompt - of_cell) / n_items)
    interaction = None if of_cell is None or sampling is None else max(0.0, of_cell - sampling)
    rest = (interaction or 0.0) / means.size + (of_items or 0.0) / n_items + (prompts or 0.0) / n_prompts
    rest += (of_clusters or 0.0) * spread.squared_sizes / n_items**2
    total = rest + (sampling or 0.0) / means.size
    is_split = sampling is not None and of_items is not None and total > 0
    return VarianceSplit(
        mean=float(means.mean()),
        sampling=per_sample,
        interaction=interaction,
        items=of_items,
        clusters=of_clusters,
        prompts=prompts,
        interval=_interval(spread, n_prompts, of_prompt or 0.0, of_cell or 0.0, bounds),
        sampling_share=1 - rest / total if is_split else None,
        enough_samples=_enough((per_sample or 0.0) / means.size, rest) if is_split else None,
    )


def _sampling(cells: Sequence[Sequence[Sequence[float]]]) -> float | None:
    """Return the variance within cells, pooled; None if no cell has two samples."""
    repeated = [np.asarray(values) for item in cells for values in item if len(values) > 1]
    freedom = sum(len(values) - 1 for values in repeated)
    return sum(float(np.square(values - values.mean()).sum()) for values in repeated) / freedom if freedom else None


def _mean_squares(means: Floats) -> tuple[float | None, float | None]:
    """Return the mean squares of prompts, and of their interaction with items; None with a single one of them."""
    n_items, n_prompts = means.shape
    if min(n_items, n_prompts) < 2:
        return None, None
    rows, columns = means.mean(axis=1, keepdims=True), means.mean(axis=0, keepdims=True)
    residuals = means - rows - columns + means.mean()
    of_prompt = n_items * float(columns.var(ddof=1))
    return of_prompt, float(np.square(residuals).sum()) / ((n_items - 1) * (n_prompts - 1))


def _between_items(spread: Spread, noise: float | None) -> tuple[float | None, float | None]:
    """Return the components of clusters and of items, from item means with this variance of their own."""
    if spread.independent:
        total = spread.between / (spread.n - 1) if spread.n > 1 else None
        return None, None if total is None or noise is None else max(0.0, total - noise)
    within = spread.within / (spread.n - spread.clusters)
    of_items = None if noise is None else max(0.0, within - noise)
    if spread.clusters < 2:
        return None, of_items
    size = (spread.n - spread.squared_sizes / spread.n) / (spread.clusters - 1)
    return max(0.0, (spread.between / (spread.clusters - 1) - within) / size), of_items


def _interval(spread: Spread, n_prompts: int, of_prompt: float, of_cell: float, bounds: Bounds) -> Interval:
    """Return the interval of the mean; the mean squares are those of prompts and of the interaction."""
    over_items = TOO_FEW_CLUSTERS if spread.clusters < 2 else interval_of_mean(spread, bounds)
    if n_prompts == 1 or over_items.low is None or over_items.high is None:
        return over_items
    n = spread.n * n_prompts
    # Prompts that happen to agree make the interval no narrower than that of other items with the same prompts.
    squared = max(0.0, t_quantile(n_prompts - 1) ** 2 * of_prompt - t_quantile(spread.freedom) ** 2 * of_cell) / n
    low, high = spread.mean - over_items.low, over_items.high - spread.mean
    limits = spread.mean - math.sqrt(low**2 + squared), spread.mean + math.sqrt(high**2 + squared)
    stderr = math.sqrt(max(spread.stderr**2, spread.stderr**2 + (of_prompt - of_cell) / n))
    method = f"{over_items.method}, t over prompts"
    return Interval(method, *clip(limits, bounds), stderr or None, reliable=over_items.reliable)


def _enough(of_one: float, rest: float) -> int | None:
    """Return the number of samples whose part of the variance of the mean is small; None if nothing else varies.

    `of_one` is the part of sampling with a single sample of each answer, and `rest` the part of everything else.
    """
    if rest <= ROUNDING_ERROR * of_one:
        return None
    return max(1, math.ceil(of_one * (1 - SMALL_SHARE) / (SMALL_SHARE * rest) - ROUNDING_ERROR))
