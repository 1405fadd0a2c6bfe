"""Agreement of people (or other raters) who judged the same items: percent agreement and coefficients beyond chance;
and the correlation of numbers about items, e.g. of an automatic metric with people's mean judgement.

    ratings = Ratings.of({"item 1": {"anna": "yes", "ben": "yes"}, "item 2": {"anna": "no", "ben": "yes"}})
    for score in agreement(ratings):
        print(score.metric, score.value, score.low, score.high, score.interval)

Every coefficient is computed from sums over items, so its interval is a bootstrap of items, or of clusters of items.
Coefficients that are corrected for chance are skewed, so their percentiles are corrected (BCa); bench/README.md has
the coverage.
Kappa and alpha are low if nearly all ratings fall into one category, however much the raters agree ("kappa paradox",
Feinstein and Cicchetti 1990). Therefore percent agreement and Gwet's coefficient belong beside them. A coefficient that
the ratings do not determine has no value, and `interval` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from figeval import Interval, MetricAggregator, Prediction, Score, Statistic, mean_of, quotient, ratio
from figeval.metrics.intervals import FEWEST_CLUSTERS, ROUNDING_ERROR, Floats, cluster_places, interval_of_statistic

Scale: TypeAlias = Literal["nominal", "ordinal", "interval"]
Weights: TypeAlias = Literal["unweighted", "linear", "quadratic"]

NO_RATING = -1
MAX_SUMS = 600  # per item of a statistic that is bootstrapped; more would need too much memory
MAX_RATERS = 10  # for the mean of Cohen's kappa over all pairs
ONE_RATER = "only one rater"
NO_COMMON_ITEM = "no item was rated by two raters"
EQUAL_RATINGS = "all ratings are the same"


@dataclass(frozen=True, slots=True)
class Ratings:
    """Ratings of items by raters.

    Attributes:
        raters: names of the raters.
        categories: all categories, in order from low to high if there is an order.
        codes: index of each rating in `categories`, shape (items, raters); `NO_RATING` where there is none.
        clusters: cluster of each item, None if it is independent of the others.
    """

    raters: tuple[str, ...]
    categories: tuple[str, ...]
    codes: NDArray[np.int64]
    clusters: tuple[str | None, ...]

    @classmethod
    def of(
        cls,
        judgements: Mapping[str, Mapping[str, str]],
        categories: Sequence[str] | None = None,
        clusters: Mapping[str, str | None] | None = None,
    ) -> Ratings:
        """Return the ratings in a mapping item → rater → category.

        Args:
            judgements: the ratings. An item need not be rated by all raters.
            categories: all categories that a rater could choose, in order. By default, those that occur, sorted, with
                numbers in numerical order. A category that nobody chose matters for weights and for Gwet's coefficient.
            clusters: cluster of each item; by default, items are independent.

        Raises:
            ValueError: a rating is none of the categories.
        """
        raters = tuple(dict.fromkeys(rater for by_rater in judgements.values() for rater in by_rater))
        used = {label for by_rater in judgements.values() for label in by_rater.values()}
        names = tuple(sorted(used, key=_sort_key)) if categories is None else tuple(categories)
        if unknown := used - set(names):
            raise ValueError(f"{min(unknown)!r} is none of the categories: {', '.join(names)}")
        category_codes = {name: index for index, name in enumerate(names)}
        columns = {rater: index for index, rater in enumerate(raters)}
        codes = np.full((len(judgements), len(raters)), NO_RATING, dtype=np.int64)
        for item, by_rater in enumerate(judgements.values()):
            for rater, label in by_rater.items():
                codes[item, columns[rater]] = category_codes[label]
        return cls(raters, names, codes, tuple((clusters or {}).get(item) for item in judgements))

    def counts(self) -> Floats:
        """Return how many raters put each item into each category, shape (items, categories)."""
        counts: Floats = (self.codes[:, :, None] == np.arange(len(self.categories))).sum(axis=1).astype(np.float64)
        return counts

    def values(self) -> Floats:
        """Return the categories as numbers. Raises `ValueError` if one is not a number."""
        return np.array([float(name) for name in self.categories])


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Agreement of two raters over the items that both rated; `kappa_quadratic` is None for nominal scales."""

    raters: tuple[str, str]
    percent: Score
    kappa: Score
    kappa_quadratic: Score | None = None


def agreement(ratings: Ratings, scale: Scale = "nominal", seed: int = 0) -> tuple[Score, ...]:
    """Return the coefficients that suit a scale: percent agreement, Cohen, Fleiss, Krippendorff and Gwet.

    Cohen's kappa is the mean over all pairs of raters (Light 1971). On ordinal and interval scales, kappa and Gwet's
    coefficient are weighted quadratically, and percent agreement and Fleiss' kappa count exact matches only.
    """
    weights: Weights = "unweighted" if scale == "nominal" else "quadratic"
    return (
        percent_agreement(ratings, seed),
        cohen_kappa(ratings, weights, seed),
        fleiss_kappa(ratings, seed),
        krippendorff_alpha(ratings, scale, seed),
        gwet(ratings, weights, seed),
    )


def pair_agreement(ratings: Ratings, scale: Scale = "nominal", seed: int = 0) -> tuple[PairAgreement, ...]:
    """Return percent agreement and Cohen's kappa of every pair of raters."""
    agreements = []
    for a, b in combinations(range(len(ratings.raters)), 2):
        pair = replace(ratings, raters=(ratings.raters[a], ratings.raters[b]), codes=ratings.codes[:, [a, b]])
        weighted = None if scale == "nominal" else cohen_kappa(pair, "quadratic", seed)
        names = (pair.raters[0], pair.raters[1])
        agreements.append(PairAgreement(names, percent_agreement(pair, seed), cohen_kappa(pair, seed=seed), weighted))
    return tuple(agreements)


# ---- coefficients ----------------------------------------------------------------------------------------------------


def percent_agreement(ratings: Ratings, seed: int = 0) -> Score:
    """Return the share of pairs of ratings of an item that are equal, averaged over items with two or more ratings."""
    counts = ratings.counts()
    sizes = counts.sum(axis=1)
    features = np.column_stack((_share_agreeing(counts, np.eye(counts.shape[1])), np.ones(len(counts))))
    coefficient = _Coefficient("percent_agreement", mean_of(_none), lambda: _reason(ratings))
    return coefficient.score(ratings, features, sizes > 1, seed)


def cohen_kappa(ratings: Ratings, weights: Weights = "unweighted", seed: int = 0) -> Score:
    """Return Cohen's kappa (1960; weighted: 1968), averaged over all pairs of raters (Light 1971) if there are more.

    Every pair is compared over the items that both rated. There is no value if it is undefined for one of the pairs.
    """
    name = "cohen_kappa" if weights == "unweighted" else f"cohen_kappa_{weights}"
    k, codes = len(ratings.categories), ratings.codes
    pairs = list(combinations(range(len(ratings.raters)), 2))
    if len(ratings.raters) > MAX_RATERS:
        reason = f"more than {MAX_RATERS} raters; Cohen's kappa is for a few raters who rate all items"
        return Score(metric=name, value=None, interval=Interval(reason=reason))
    disagreement = 1 - _weights(k, weights)
    tables = np.zeros((len(codes), len(pairs), k, k))
    for index, (a, b) in enumerate(pairs):
        items = np.flatnonzero((codes[:, a] != NO_RATING) & (codes[:, b] != NO_RATING))
        tables[items, index, codes[items, a], codes[items, b]] = 1

    def combine(sums: Floats) -> Floats:
        table = sums.reshape(*sums.shape[:-1], len(pairs), k, k)
        n = table.sum(axis=(-2, -1))
        observed = (table * disagreement).sum(axis=(-2, -1)) * n
        expected = np.einsum("...i,ij,...j->...", table.sum(axis=-1), disagreement, table.sum(axis=-2))
        kappas: Floats = 1 - quotient(observed, expected)
        return np.asarray(kappas.mean(axis=-1))

    def explain() -> str:
        for index, (a, b) in enumerate(pairs):
            table = tables[:, index].sum(axis=0)
            names = f"{ratings.raters[a]} and {ratings.raters[b]}"
            if not table.any():
                return f"{names} rated no item in common"
            if np.count_nonzero(table.sum(axis=0) + table.sum(axis=1)) == 1:
                return f"all ratings of {names} are the same"
        return _reason(ratings)

    too_many = "too many pairs and categories for a bootstrap" if len(pairs) * k * k > MAX_SUMS else ""
    coefficient = _Coefficient(name, Statistic(_none, combine, no_interval=too_many, is_skewed=True), explain)
    return coefficient.score(ratings, tables, np.asarray(tables.any(axis=(1, 2, 3))), seed)


def fleiss_kappa(ratings: Ratings, seed: int = 0) -> Score:
    """Return Fleiss' kappa (1971), for items that all have the same number of ratings, by whichever raters.

    Items with a single rating say nothing about agreement and are left out: `n` counts the others.
    """
    counts = ratings.counts()
    sizes = counts.sum(axis=1)
    if len(set(sizes[sizes > 1].tolist())) > 1:
        unequal = "items have different numbers of ratings; see Krippendorff's alpha"
        return Score(metric="fleiss_kappa", value=None, n=int((sizes > 1).sum()), interval=Interval(reason=unequal))
    features = np.column_stack((counts, _share_agreeing(counts, np.eye(counts.shape[1])), np.ones(len(counts))))

    def combine(sums: Floats) -> Floats:
        totals = sums[..., :-2]
        n = totals.sum(axis=-1)
        disagreeing = quotient(n**2 - np.square(totals).sum(axis=-1), n**2)
        kappa: Floats = 1 - quotient(1 - ratio(sums[..., -2:]), disagreeing)
        return kappa

    coefficient = _Coefficient("fleiss_kappa", Statistic(_none, combine, is_skewed=True), lambda: _reason(ratings))
    return coefficient.score(ratings, features, sizes > 1, seed)


def krippendorff_alpha(ratings: Ratings, scale: Scale = "nominal", seed: int = 0) -> Score:
    """Return Krippendorff's alpha (2011) for a nominal, ordinal or interval scale; ratings may be missing.

    Raises:
        ValueError: the scale is `interval`, and a category is not a number.
    """
    counts = ratings.counts()
    k, sizes = counts.shape[1], counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(k)
    features = pairs / np.maximum(sizes - 1, 1)[:, None, None]
    values = ratings.values() if scale == "interval" else np.arange(k, dtype=np.float64)

    def combine(sums: Floats) -> Floats:
        coincidences = sums.reshape(*sums.shape[:-1], k, k)
        totals = coincidences.sum(axis=-1)
        if scale == "nominal":
            delta = 1 - np.eye(k)
        else:  # ordinal: half the ratings of the two categories and all ratings between them
            positions = np.cumsum(totals, axis=-1) - totals / 2 if scale == "ordinal" else values
            delta = np.square(positions[..., :, None] - positions[..., None, :])
        observed = (coincidences * delta).sum(axis=(-2, -1)) * (totals.sum(axis=-1) - 1)
        expected = (totals[..., :, None] * totals[..., None, :] * delta).sum(axis=(-2, -1))
        alpha: Floats = 1 - quotient(observed, expected)
        return alpha

    too_many = "too many categories for a bootstrap" if k * k > MAX_SUMS else ""
    statistic = Statistic(_none, combine, no_interval=too_many, is_skewed=True)
    coefficient = _Coefficient("krippendorff_alpha", statistic, lambda: _reason(ratings))
    return coefficient.score(ratings, features, sizes > 1, seed)


def gwet(ratings: Ratings, weights: Weights = "unweighted", seed: int = 0) -> Score:
    """Return Gwet's AC1 (2008), or AC2 with weights (2014); ratings may be missing.

    It depends on how many categories raters could choose from, so `ratings.categories` should be the whole scale. With
    two or more of them, it is defined (and 1) even if all ratings are the same.
    """
    name = "gwet_ac1" if weights == "unweighted" else f"gwet_ac2_{weights}"
    counts = ratings.counts()
    k, sizes = counts.shape[1], counts.sum(axis=1)
    agreeing = _weights(k, weights)
    shares = counts / np.maximum(sizes, 1)[:, None]
    features = np.column_stack((shares, _share_agreeing(counts, agreeing), sizes > 1, sizes > 0))

    def combine(sums: Floats) -> Floats:
        if k < 2:
            return np.full(sums.shape[:-1], np.nan)
        share = quotient(sums[..., :k], np.broadcast_to(sums[..., -1:], sums[..., :k].shape))
        chance = agreeing.sum() * (share * (1 - share)).sum(axis=-1) / (k * (k - 1))
        observed = ratio(sums[..., k : k + 2])
        coefficient: Floats = quotient(observed - chance, 1 - chance)
        return coefficient

    def explain() -> str:
        missing = _reason(ratings)
        return "only one category is known; name the whole scale" if missing == EQUAL_RATINGS else missing

    return _Coefficient(name, Statistic(_none, combine, is_skewed=True), explain).score(
        ratings, features, sizes > 0, seed
    )


# ---- what they share -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Coefficient:
    """A coefficient of ratings: its name, its statistic, and the reason if it is undefined."""

    name: str
    statistic: Statistic
    explain: Callable[[], str]

    def score(self, ratings: Ratings, features: Floats, rated: NDArray[np.bool_], seed: int) -> Score:
        """Return the score of features, shape (items, …), of which the items that are `rated` count."""
        aggregator = MetricAggregator(self.name, self.statistic)
        for item in np.flatnonzero(rated):
            aggregator.add(ratings.clusters[item], features[item].ravel().tolist())
        score = aggregator.score(seed)
        return score if score.value is not None else replace(score, interval=Interval(reason=self.explain()))


def _none(_example: object, _prediction: Prediction) -> None:
    """Return None, because features are computed here and not from an example."""


def _reason(ratings: Ratings) -> str:
    if len(ratings.raters) < 2:
        return ONE_RATER
    return EQUAL_RATINGS if bool(((ratings.codes != NO_RATING).sum(axis=1) > 1).any()) else NO_COMMON_ITEM


def _share_agreeing(counts: Floats, weights: Floats) -> Floats:
    """Return the (weighted) share of pairs of ratings of each item that agree, 0 for items with fewer than two."""
    sizes = counts.sum(axis=1)
    pairs = (counts * (counts @ weights - 1)).sum(axis=1)
    shares: Floats = np.where(sizes > 1, pairs / np.maximum(sizes * (sizes - 1), 1), 0.0)
    return shares


def _weights(k: int, kind: Weights) -> Floats:
    """Return the weights of agreement of k ordered categories, shape (k, k): 1 on the diagonal, 0 at the far ends."""
    if kind == "unweighted" or k < 2:
        return np.eye(k)
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k))) / (k - 1)
    weights: Floats = 1 - (distance if kind == "linear" else distance**2)
    return weights


def _sort_key(label: str) -> tuple[bool, float, str]:
    """Return a sort key that puts numbers first, in numerical order."""
    try:
        return (False, float(label), label)
    except ValueError:
        return (True, 0.0, label)


# ---- correlation -----------------------------------------------------------------------------------------------------
# Kendall's tau-b, Spearman's rho and Pearson's r, with ties as SciPy treats them. With w_i copies of item i in a
# resample, all three are functions of quadratic forms in w, so a resample needs no sorting.

RESAMPLES = 2000
MIN_ITEMS = 3


def correlations(
    x: Sequence[float], y: Sequence[float], clusters: Sequence[str | None] | None = None, seed: int = 0
) -> tuple[Score, ...]:
    """Return `kendall`, `spearman` and `pearson` of values that belong together, with 95 % intervals.

    Args:
        x: values.
        y: values of the same items.
        clusters: cluster of each item, None if it is independent of the others.
        seed: random seed of the bootstrap.
    """
    a, b = (np.asarray(values, dtype=np.float64) for values in (x, y))
    index = cluster_places(clusters if clusters is not None else [None] * len(a))
    names, n, groups = ("kendall", "spearman", "pearson"), len(a), len(set(index.tolist()))
    reason = ""
    if n < MIN_ITEMS:
        reason = f"fewer than {MIN_ITEMS} items with both values"
    elif min(np.ptp(a), np.ptp(b)) <= ROUNDING_ERROR:
        reason = (
            "all values of the metric are the same" if np.ptp(a) <= ROUNDING_ERROR else "all judgements are the same"
        )
    if reason:
        absent = Interval(reason=reason)
        return tuple(Score(metric=name, value=None, interval=absent, n=n, clusters=groups) for name in names)
    values = _correlations(a, b, np.ones((1, n)))[:, 0]
    sizes = np.bincount(index)
    effective = n**2 / float(sizes @ sizes)
    unit = "rows" if groups == n else "clusters"
    intervals = [Interval(reason=f"fewer than {FEWEST_CLUSTERS} {unit}")] * 3
    if effective >= FEWEST_CLUSTERS:
        generator = np.random.default_rng(seed)
        drawn = generator.multinomial(groups, np.full(groups, 1 / groups), size=RESAMPLES)
        method = "bootstrap" if groups == n else "cluster bootstrap"
        intervals = [interval_of_statistic(row, method) for row in _correlations(a, b, drawn[:, index].astype(float))]
    return tuple(
        Score(
            metric=name,
            value=float(value),
            interval=interval,
            n=n,
            clusters=groups,
        )
        for name, value, interval in zip(names, values, intervals, strict=True)
    )


def _correlations(x: Floats, y: Floats, copies: Floats) -> Floats:
    """Return the three correlations for each row of numbers of copies, shape (B, n); the result is (3, B)."""
    signs_x, signs_y = (np.sign(np.subtract.outer(values, values)) for values in (x, y))
    kendall = [((copies @ (p * q)) * copies).sum(axis=1) for p, q in _products(signs_x, signs_y)]
    ranks_x, ranks_y = copies @ signs_x, copies @ signs_y  # twice the centred ranks, negative
    spearman = [(p * q * copies).sum(axis=1) for p, q in _products(ranks_x, ranks_y)]
    total = copies.sum(axis=1, keepdims=True)
    centred = [values - (copies @ values)[:, None] / total for values in (x - x.mean(), y - y.mean())]
    pearson = [(p * q * copies).sum(axis=1) for p, q in _products(*centred)]
    coefficients = []
    for xy, xx, yy in (kendall, spearman, pearson):
        square = np.where((xx > 0) & (yy > 0), xx * yy, np.nan)
        coefficients.append(np.clip(xy / np.sqrt(square), -1.0, 1.0))
    return np.stack(coefficients)


def _products(x: Floats, y: Floats) -> tuple[tuple[Floats, Floats], ...]:
    return (x, y), (x, x), (y, y)
