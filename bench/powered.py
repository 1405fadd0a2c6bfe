"""Study of prediction-powered means for `bench/coverage.py`: few labels of people, and those of a judge for every item.

Labels and the judge's labels have a few values each, so a replicate consists of counts of pairs. The first replicates
of every cell are compared with figeval's own results.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from clustered import Row, cell, score_interval, seeded_generator
from scipy.special import stdtrit

from figeval.metrics.intervals import LEVEL
from figeval.wings.annotation.prediction_powered import CONFIDENCE, PRIOR_LABELS, prediction_powered_mean

REPLICATES = 2000
CHECKED = 3
LABELLED, OTHERS = (20, 30, 50, 100, 200), (200, 2000)
SHARES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
JUDGES = {  # how often a judge says yes to items with the label yes, and no to those with the label no
    "perfect": (1.0, 1.0),
    "right in .95": (0.95, 0.95),
    "right in .9": (0.9, 0.9),
    "right in .7": (0.7, 0.7),
    "useless": (0.5, 0.5),
    "always yes": (1.0, 0.0),
    "lenient": (0.99, 0.5),
    "strict": (0.6, 0.99),
    "opposite": (0.2, 0.2),
}
RATINGS = {  # shares of the ratings 1 to 5
    "ratings, middling": (0.1, 0.2, 0.4, 0.2, 0.1),
    "ratings, good": (0.02, 0.03, 0.1, 0.25, 0.6),
    "ratings, mostly 5": (0.01, 0.01, 0.02, 0.06, 0.9),
    "ratings, mostly 1": (0.7, 0.15, 0.1, 0.03, 0.02),
    "ratings, 1 or 5": (0.1, 0.0, 0.0, 0.0, 0.9),
    "ratings, rarely 1": (0.02, 0.0, 0.0, 0.0, 0.98),
}
RATERS = ("perfect", "right in .8", "right in .6", "lenient", "nearly always 5", "useless")

Floats: TypeAlias = np.ndarray


def rater(kind: str) -> Floats:
    """Return the probability of each judge's rating for each rating of people, shape (5, 5)."""
    same, higher = np.eye(5), np.eye(5)[[1, 2, 3, 4, 4]]
    results = {
        "perfect": same,
        "right in .8": 0.8 * same + 0.1 * higher + 0.1 * np.eye(5)[[0, 0, 1, 2, 3]],
        "right in .6": 0.5 * same + 0.1,
        "lenient": 0.15 * same + 0.7 * higher + 0.15 * np.eye(5)[[2, 3, 4, 4, 4]],
        "nearly always 5": 0.15 * same + 0.85 * np.eye(5)[[4] * 5],
        "useless": np.tile((0.1, 0.2, 0.3, 0.25, 0.15), (5, 1)),
    }
    return np.asarray(results[kind])


def powered() -> Iterator[Row]:
    """Yield coverage, and the mean width relative to the interval of the labels alone, which is Wilson's for shares."""
    for share in SHARES:
        for name, (sensitivity, specificity) in JUDGES.items():
            judge = np.array(((specificity, 1 - specificity), (1 - sensitivity, sensitivity)))
            yield from _cells("yes or no", name, np.array((1 - share, share)), judge)
    for case, shares in RATINGS.items():
        for name in RATERS:
            yield from _cells(case, name, np.array(shares), rater(name))


def _cells(case: str, name: str, shares: Floats, judge: Floats) -> Iterator[Row]:
    levels = np.linspace(0, 1, len(shares))
    truth = float(shares @ levels)
    for n in LABELLED:
        for unlabelled in OTHERS:
            generator = seeded_generator("powered", case, name, truth, n, unlabelled)
            pairs = generator.multinomial(n, (shares[:, None] * judge).ravel(), REPLICATES).astype(float)
            rest = generator.multinomial(unlabelled, shares @ judge, REPLICATES).astype(float)
            columns = cell("powered", name, np.ones(n, dtype=int), f"{case}, {unlabelled} others", round(truth, 4))
            by_labels = of_labels(pairs, levels)
            methods = {"labels alone": by_labels, "figeval": intervals(pairs, rest, levels)}
            check(pairs, rest, levels, methods["figeval"])
            for rule, (low, high) in methods.items():
                holds = (low <= truth + 1e-9) & (truth - 1e-9 <= high)
                width = float((high - low).mean() / (by_labels[1] - by_labels[0]).mean())
                yield {**columns, "rule": rule, "share": float(holds.mean()), "width": width}


def of_labels(pairs: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """Return the interval of the labels' mean: Wilson's for yes or no, otherwise Wilson's on the effective n."""
    n, mean = pairs.sum(axis=1), pairs @ np.repeat(levels, len(levels)) / pairs.sum(axis=1)
    if len(levels) == 2:
        return score_interval(mean, n, NormalDist().inv_cdf((1 + LEVEL) / 2))
    return score_interval(mean, effective_labels(pairs, levels), stdtrit(n - 1, (1 + LEVEL) / 2))


def effective_labels(pairs: Floats, levels: Floats) -> Floats:
    """Return m (1 − m) / V with the variance of `variance_of_mean`; the number of labels if all are the same."""
    n, y = pairs.sum(axis=1), np.repeat(levels, len(levels))
    mean = pairs @ y / n
    largest, variance = mean * (1 - mean), np.maximum(0, pairs @ y**2 / n - mean**2) * n / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = np.minimum(1, variance / np.minimum(mean, 1 - mean) ** 2) / 2
        size = largest / ((n * largest * variance + prior * largest) / (n * largest + prior)) * n
    return np.where(variance > 1e-12, size, n)


def intervals(pairs: Floats, rest: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """Compute `prediction_powered_mean` for all replicates; shapes (R, K²) and (R, K) → (R,), (R,)."""
    n, m = pairs.sum(axis=1), rest.sum(axis=1)
    y, f = np.repeat(levels, len(levels)), np.tile(levels, len(levels))
    mean, of_judge, of_rest = pairs @ y / n, pairs @ f / n, rest @ levels / m
    covariance = pairs @ (y * f) / n - mean * of_judge
    of_y, of_f = (np.maximum(0, pairs @ values**2 / n - (pairs @ values / n) ** 2) for values in (y, f))
    of_other = np.maximum(0, rest @ levels**2 / m - of_rest**2)
    total, every = (pairs @ f + rest @ levels) / (n + m), (pairs @ f**2 + rest @ levels**2) / (n + m)
    spread = np.maximum(0, every - total**2) * (n + m) / (n + m - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        tuning = np.where(spread > 1e-12, np.clip(covariance / ((1 + n / m) * spread), 0, 1), 0)
        rho = np.where(of_y * of_f > 1e-20, np.clip(covariance / np.sqrt(of_y * of_f), -1, 1), 0)
    value = np.clip(mean + tuning * (of_rest - of_judge), 0, 1)
    events = 4 * n * np.minimum(mean * (1 - mean), value * (1 - value))
    step = NormalDist().inv_cdf(CONFIDENCE) / np.sqrt(np.maximum(events - 3, 1e-9))
    shrunk = np.maximum(rho, 0) * np.sqrt(n / (n + PRIOR_LABELS))
    limit = np.where(events > 3, np.maximum(0, np.tanh(np.arctanh(shrunk) - step)), 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = of_y - 2 * tuning * np.sqrt(of_y * of_f) * limit + tuning**2 * of_f
        reduction = (part + tuning**2 * np.maximum(of_f, of_other) * n / m) / of_y
    reduction = np.where((of_y > 1e-12) & (tuning > 0), reduction, 1)
    labels, quantile = effective_labels(pairs, levels), stdtrit(n - 1, (1 + LEVEL) / 2)
    low, high = score_interval(value, labels / reduction, quantile)
    by_labels = score_interval(mean, labels, quantile)
    helpless = reduction >= 1
    low_with_labels, high_with_labels = np.minimum(low, by_labels[0]), np.maximum(high, by_labels[1])
    return np.where(helpless, low_with_labels, low), np.where(helpless, high_with_labels, high)


def check(pairs: Floats, rest: Floats, levels: Floats, limits: tuple[Floats, Floats]) -> None:
    """Compare the first replicates with figeval's own intervals, which differ by terms of the order 1 / n²."""
    k, n = len(levels), int(pairs[0].sum())
    for row in range(CHECKED):
        counts = pairs[row].astype(int)
        labels = [*np.repeat(np.repeat(levels, k), counts).tolist(), *[None] * int(rest[row].sum())]
        judge_labels = [*np.repeat(np.tile(levels, k), counts), *np.repeat(levels, rest[row].astype(int))]
        score = prediction_powered_mean(labels, judge_labels, bounds=(0.0, 1.0)).score
        assert np.allclose((score.low, score.high), [ends[row] for ends in limits], atol=0.2 / n), (score, row)
