"""Statistics of what a model may remember of a benchmark: the order of its examples, its least likely tokens.

They are evidence that a text was in the training data, and never proof; docs/contamination.md says what else may be
behind each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval import Interval, MetricAggregator, Score, mean_of

Floats: TypeAlias = NDArray[np.float64]
MIN_K_SHARE = 0.2  # of the tokens of a text, at which Min-K% looks
BLOCK_ORDERS = 1_000  # that are drawn at a time
RELATIVE_ROUNDING = 1e-12  # smaller variation, relative to the values, is rounding error


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive texts of a data file, as a model scores them.

    Attributes:
        first: log P(text) of each text at the beginning, shape (m,).
        after: log P(text j | text i) in row i and column j, shape (m, m); the diagonal is not used.
    """

    first: Floats
    after: Floats

    @property
    def advantage(self) -> float:
        """Log-likelihood of the texts in their order minus its mean over all m! orders, which is exact.

        A text comes first in a share 1/m of the orders, and directly follows a given other text in as many.
        """
        between = self.after.sum() - np.trace(self.after)
        return self._in_order() - float(self.first.mean() + between / len(self.first))

    def draw_orders(self, generator: np.random.Generator, draws: int) -> Floats:
        """Return the log-likelihoods of the texts in random orders minus that of their own order, shape (draws,)."""
        orders = generator.permuted(np.tile(np.arange(len(self.first)), (draws, 1)), axis=1)
        values = self.first[orders[:, 0]] + self.after[orders[:, :-1], orders[:, 1:]].sum(axis=1)
        return np.asarray(values - self._in_order(), dtype=np.float64)

    def _in_order(self) -> float:
        indices = np.arange(len(self.first))
        return float(self.first[0] + self.after[indices[:-1], indices[1:]].sum())


def order_test(shards: Sequence[Shard], permutations: int, seed: int = 0) -> tuple[Score, float]:
    """Test whether a model prefers the order of a data file to other orders (Oren et al. 2023, section 3).

    If the order of the texts carries no information, every order is equally probable under the null hypothesis that the
    model has not seen the file. p is one-sided and by permutation within the shards, (r + 1) / (permutations + 1),
    where r counts the orders with at least the likelihood of the file's; it is valid for any number of shards. The
    score is the mean over shards of `Shard.advantage` in nats, with an interval by t.

    A text is scored after the text before it alone, not after the whole shard as in the paper. The test remains valid,
    as any function of the order may be compared, and all orders cost m² scores per shard.
    """
    generator = np.random.default_rng(seed)
    n_extreme, remaining = 0, permutations
    size = math.fsum(float(np.abs(shard.first).sum()) for shard in shards)
    while remaining:
        draws = min(BLOCK_ORDERS, remaining)
        gains = np.sum([shard.draw_orders(generator, draws) for shard in shards], axis=0)
        n_extreme += int(np.sum(gains >= -RELATIVE_ROUNDING * size))
        remaining -= draws
    advantages = mean_score("order", ((shard.advantage, None) for shard in shards), bounds=None)
    return advantages, (n_extreme + 1) / (permutations + 1)


def least_likely(values: Floats) -> float | None:
    """Return the mean of the lowest fifth of a text's values, at least one; None without values.

    Of log-probabilities, this is Min-K% (Shi et al. 2023), and of `standardize` ones Min-K%++ (Zhang et al. 2024).
    """
    if not len(values):
        return None
    return float(np.sort(values)[: max(1, int(MIN_K_SHARE * len(values)))].mean())


def standardize(scores: Floats) -> Floats:
    """Return (log P(token) − mean) / deviation of tokens, without those whose deviation is 0.

    Args:
        scores: log P of the token, and mean and standard deviation of log P over the vocabulary under the model's own
            distribution, shape (tokens, 3).
    """
    varied = scores[scores[:, 2] > RELATIVE_ROUNDING]
    return np.asarray((varied[:, 0] - varied[:, 1]) / varied[:, 2], dtype=np.float64)


def mean_score(
    metric: str, values: Iterable[tuple[float | None, str | None]], bounds: tuple[float, float] | None = (0.0, 1.0)
) -> Score:
    """Return the mean of values with its interval; None is left out.

    Args:
        metric: name of the score.
        values: values with their clusters; the cluster of an independent value is None.
        bounds: limits of the values, or None if they have none.
    """
    aggregator = MetricAggregator(metric, mean_of(lambda *_: None, bounds=bounds))
    for value, cluster in values:
        if value is not None:
            aggregator.add(cluster, (value, 1.0))
    return aggregator.score()


def difference_score(metric: str, first: Score, second: Score) -> Score:
    """Return the difference of two independent means with the interval of Newcombe (1998), from their intervals.

    The distances from a mean to the ends of its interval are combined as if they were standard errors, so that the
    interval keeps its allowance for few clusters.
    """
    n, clusters = first.n + second.n, first.clusters + second.clusters
    if first.value is None or second.value is None:
        absent = Interval(reason="no examples of one kind")
        return Score(metric=metric, value=None, interval=absent, n=n, clusters=clusters)
    value = first.value - second.value
    if first.low is None or first.high is None or second.low is None or second.high is None:
        missing = next(score for score in (first, second) if score.low is None)
        return Score(metric=metric, value=value, n=n, clusters=clusters, interval=missing.interval)
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    reliable = first.interval.reliable and second.interval.reliable
    interval = Interval("newcombe", value - below, value + above, reliable=reliable)
    return Score(metric=metric, value=value, interval=interval, n=n, clusters=clusters)
