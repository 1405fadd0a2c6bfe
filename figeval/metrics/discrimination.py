"""Discrimination: how well a model tells two kinds of examples apart, whatever its liking for one of the answers.

A task whose right answer is always the same says nothing about this: who always gives that answer has all of them
right. Over examples of both kinds there are two numbers that such a liking cannot raise:

* `auc`, the area under the ROC curve: the probability that a positive example has a higher score than a negative one,
  ties counting one half (Hanley and McNeil 1982). No threshold enters it.
* `balanced_acc`, the mean of the two accuracies, which depends on where the model draws the line.

Both are .5 by chance. Their intervals are closed forms. The area depends on every example by its *placement*, the share
of the examples of the other kind on its right side (DeLong et al. 1988); sums of placements over clusters give its
variance where examples are not independent, positive and negative ones of a cluster included (Obuchowski 1997). The
variance is corrected as that of a mean is (CR2, `intervals.py`), and the interval is Wilson's on the number of
independent 0/1 rows that would have it, with the degrees of freedom of the kind that has fewer clusters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.intervals import FEW, Interval, by_cluster, effective_wilson, spread_of, wilson
from figeval.metrics.statistic import mean_of
from figeval.types import UNRELIABLE, Score

Floats: TypeAlias = NDArray[np.float64]
Influences: TypeAlias = "Callable[[Floats, NDArray[np.bool_]], tuple[float, Floats]]"
Key = TypeVar("Key", bound=Hashable)
ALIKE = "none: no cluster differs"
UNDEFINED = "none: no examples of both kinds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a model said of one example.

    Attributes:
        positive: whether the example is of the positive kind.
        score: the higher, the more it speaks for that kind; None without one.
        right: the probability that the answer is right, below 1 where answers tie; None without an answer.
        cluster: examples that share it are not independent; None for an example of its own.
        stratum: examples are compared with those of the same stratum only, where that is asked for.
        fold: examples of different folds were judged by different models, as those held out in turn are; their scores
            are never compared. None where one model judged all.
    """

    positive: bool
    score: float | None = None
    right: float | None = None
    cluster: str | None = None
    stratum: str | None = None
    fold: str | int | None = None


def auc(judged: Iterable[Judged], *, within: bool = False) -> Score:
    """Return the area under the ROC curve, over several folds the unweighted mean of their areas.

    Positive and negative examples of different folds are not compared, because one model may give all of its scores
    higher than another; a fold counts as much as any other, however many examples it has. Examples of several folds may
    share clusters. There is no value unless every fold has both kinds.

    Args:
        judged: the examples; those without a score are left out.
        within: compare examples of the same stratum only, and take the unweighted mean over the strata that have both
            kinds. Strata are then the independent units, and `n` counts them; examples without a stratum are left out.
            A stratum that stands in several folds has the mean of its areas there.
    """
    scored = [one for one in judged if one.score is not None]
    scores = np.array([one.score for one in scored], dtype=np.float64)
    return _score("auc", scored, scores, _area, within=within)


def balanced_accuracy(judged: Iterable[Judged], *, within: bool = False) -> Score:
    """Return the mean of the accuracies on positive and on negative examples; arguments as those of `auc`."""
    answered = [one for one in judged if one.right is not None]
    right = np.array([one.right for one in answered], dtype=np.float64)
    return _score("balanced_acc", answered, right, _half_each, within=within)


def placements(scores: ArrayLike, positive: ArrayLike) -> Floats:
    """Return for each example the share of the other kind that it stands on the right side of, shape (n,).

    The mean over the positive examples is the area under the curve, and so is that over the negative ones.

    Args:
        scores: shape (n,).
        positive: shape (n,), booleans; there is an example of either kind.
    """
    values, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    found = np.empty(len(values))
    found[is_positive] = _share_below(values[is_positive], np.sort(values[~is_positive]))
    found[~is_positive] = 1 - _share_below(values[~is_positive], np.sort(values[is_positive]))
    return found


def _area(scores: Floats, positive: NDArray[np.bool_]) -> tuple[float, Floats]:
    """Return the area under the curve, and by how much each example moves it; the influences add up to 0."""
    placed = placements(scores, positive)
    area, count = float(placed[positive].mean()), int(positive.sum())
    return area, (placed - area) / np.where(positive, count, len(positive) - count)


def _share_below(values: Floats, among: Floats) -> Floats:
    """Return for each value the share of the sorted numbers that are lower, equal ones counting one half."""
    lower, not_higher = np.searchsorted(among, values, "left"), np.searchsorted(among, values, "right")
    return np.asarray((lower + not_higher) / (2 * len(among)))


def _half_each(right: Floats, positive: NDArray[np.bool_]) -> tuple[float, Floats]:
    """Return the mean of both accuracies, and by how much each example moves it."""
    ours, theirs = float(right[positive].mean()), float(right[~positive].mean())
    count = int(positive.sum())
    influence = np.where(positive, (right - ours) / count, (right - theirs) / (len(right) - count)) / 2
    return (ours + theirs) / 2, influence


def _score(metric: str, judged: Sequence[Judged], values: Floats, influences: Influences, *, within: bool) -> Score:
    positive = np.array([one.positive for one in judged], dtype=bool)
    if within:
        return _over_strata(metric, judged, values, positive, influences)
    clusters = [one.cluster for one in judged]
    names = [f" {place}" if name is None else name for place, name in enumerate(clusters)]  # no name begins so
    number = len(set(names))
    folds = _places(one.fold for one in judged)
    if not folds or not all(0 < positive[places].sum() < len(places) for places in folds.values()):
        return Score(metric=metric, value=None, n=len(judged), clusters=number, interval=_undefined(folds, positive))
    found = [(places, *influences(values[places], positive[places])) for places in folds.values()]
    value, influence = float(np.mean([own for _, own, _ in found])), np.empty(len(judged))
    for places, _, own in found:
        influence[places] = own / len(found)
    kinds = [Counter(name for name, one in zip(names, positive, strict=True) if one == kind) for kind in (True, False)]
    # A mean of these rows has the value and the clustered variance of the statistic.
    spread = spread_of(*by_cluster(value + len(judged) * influence, clusters))
    if not spread.alike:
        # No more is known than the rarer kind tells: with ten clusters of it the interval would be too narrow.
        fewest = min(sum(sizes.values()) ** 2 / sum(size**2 for size in sizes.values()) for sizes in kinds)
        limits = effective_wilson(value, spread.stderr**2, max(1.0, min(spread.freedom, fewest - 1)))
        interval = Interval(f"clustered placements{UNRELIABLE if fewest < FEW else ''}", *limits, spread.stderr)
    elif value in (0.0, 1.0):  # then 0/1 rows vary most, of which there are as many as clusters of the rarer kind
        least = min(map(len, kinds))
        interval = Interval("wilson on clusters", *wilson(value * least, least))
    else:
        interval = Interval("none: one cluster" if number == 1 else ALIKE)
    return Score(
        metric=metric,
        value=value,
        low=interval.low,
        high=interval.high,
        stderr=interval.stderr,
        n=len(judged),
        clusters=number,
        effective_clusters=None if np.isclose(spread.effective_clusters, number) else spread.effective_clusters,
        interval=interval.method,
    )


def _over_strata(
    metric: str, judged: Sequence[Judged], values: Floats, positive: NDArray[np.bool_], influences: Influences
) -> Score:
    """Return the unweighted mean over the strata that have both kinds, in whatever folds they have them."""
    found: dict[str, list[float]] = {}
    for key, places in _places((one.stratum, one.fold) for one in judged).items():
        if key[0] is not None and 0 < positive[places].sum() < len(places):
            found.setdefault(key[0], []).append(influences(values[places], positive[places])[0])
    aggregator = MetricAggregator(metric, mean_of(lambda *_: None, absent=UNDEFINED.removeprefix("none: ")))
    for own in found.values():
        aggregator.add(None, (float(np.mean(own)), 1.0))
    return aggregator.score()


def _undefined(folds: Mapping[str | int | None, Sequence[int]], positive: NDArray[np.bool_]) -> str:
    """Return why there is no value, with the fold that is to blame where there are several."""
    lacking = (fold for fold, places in folds.items() if not 0 < positive[places].sum() < len(places))
    return f"{UNDEFINED} in fold {next(lacking)}" if len(folds) > 1 else UNDEFINED


def _places(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return at which places each key stands."""
    found: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return found
