"""Discrimination scores: how well a model tells two kinds of examples apart, whatever its bias towards one answer.

A task whose right answer is always the same cannot measure this: a model that always gives that answer is always
right. Over examples of both kinds, there are two numbers that such a bias cannot raise:

* `auc`, the area under the ROC curve: the probability that a positive example has a higher score than a negative one,
  ties counting one half (Hanley and McNeil 1982). No threshold enters it.
* `balanced_acc`, the mean of the two accuracies, which depends on where the model draws the line.

Both are .5 by chance. Either is a mean of two means, one over the positive and one over the negative examples, either
of right answers or of *placements*: the share of examples of the other kind that an example stands on the right side of
(DeLong et al. 1988). Their intervals are therefore made from the intervals of two means and inherit their coverage near
0 and 1 and with few clusters; clusters with examples of both kinds correlate the two means (Obuchowski 1997).
docs/appendix/statistics.md has the formulas, bench/README.md the simulated coverage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.combination import Clustered, Combination, are_reliable, correlation
from figeval.metrics.intervals import EXACT_EXPECTATION, by_cluster, interval_of_mean, spread_of
from figeval.metrics.statistic import mean_of, quotient
from figeval.types import Interval, Role, Score

Floats: TypeAlias = NDArray[np.float64]
Booleans: TypeAlias = NDArray[np.bool_]
Key = TypeVar("Key", bound=Hashable)
Alike = TypeVar("Alike", bound="Judged")
KINDS = {True: "positive", False: "negative"}
UNIT = (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Judgement of a model on one example.

    Attributes:
        positive: whether the example is of the positive kind.
        score: evidence for the positive kind, higher means more; None without a score.
        right: probability that the answer is right, below 1 if answers tie; None without an answer.
        cluster: cluster of the example, or None if it is independent.
        stratum: group within which examples are compared, if a comparison within strata is requested.
        fold: fold of the model that judged the example, e.g. in cross-validation; scores of different folds are never
            compared. None if one model judged all examples.
    """

    positive: bool
    score: float | None = None
    right: float | None = None
    cluster: str | None = None
    stratum: str | None = None
    fold: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastAnswer(Judged):
    """A model's answer to an example of a contrast.

    Attributes:
        answered: False if the model gave no valid answer.
        seen: role in which the model has seen the example, or None.
    """

    answered: bool = True
    seen: Role | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any], label: str, within: str | None) -> ContrastAnswer | None:
        """Return the answer in a stored row, positive if its gold label is `label`; None if that is hidden.

        `within` is the meta column whose values are the strata.
        """
        gold = row["gold"]
        if not isinstance(gold, str):
            return None
        answered = row["status"] == "ok"
        first = next(iter(row.get("scores", ())), None)
        right = row["metrics"].get("acc")
        return cls(
            positive=gold == label,
            score=None if first is None or not answered else float(first),
            right=None if right is None or isinstance(right, list) or not answered else right,
            cluster=row["cluster"],
            stratum=None if within is None else row["meta"].get(within),
            answered=answered,
            seen=row.get("seen"),
        )


def auc(judged: Iterable[Judged], *, within: bool = False) -> Score:
    """Return the area under the ROC curve; with several folds, the unweighted mean of their areas.

    Positive and negative examples of different folds are not compared, because all scores of one model may be higher
    than those of another. Every fold counts the same, however many examples it has. Examples of several folds may share
    clusters. There is no value unless every fold has both kinds.

    Args:
        judged: judgements on the examples; those without a score are left out.
        within: compare examples of the same stratum only, and return the unweighted mean over the strata that have both
            kinds. Strata are then the independent units, and `n` counts them; examples without a stratum are left out.
            The area of a stratum in several folds is the mean of its areas there.
    """
    scored = [judgement for judgement in judged if judgement.score is not None]
    return _AREA.score(scored, np.array([judgement.score for judgement in scored], dtype=np.float64), within=within)


def balanced_accuracy(judged: Iterable[Judged], *, within: bool = False) -> Score:
    """Return the mean of the accuracies on positive and on negative examples; the arguments are those of `auc`."""
    answered = [judgement for judgement in judged if judgement.right is not None]
    return _BALANCED.score(
        answered, np.array([judgement.right for judgement in answered], dtype=np.float64), within=within
    )


NUMBERS = {"auc": auc, "balanced_acc": balanced_accuracy}  # by the name of the score


def compared_examples(judged: Iterable[Alike]) -> list[Alike]:
    """Return the examples that a comparison within strata uses: those whose stratum has examples of both kinds."""
    judgements = list(judged)
    strata = _indexes_by_key((judgement.stratum, judgement.fold) for judgement in judgements)
    mixed = (stratum for stratum in strata.values() if len({judgements[index].positive for index in stratum}) > 1)
    indexes = sorted(index for stratum in mixed for index in stratum)
    return [judgements[index] for index in indexes if judgements[index].stratum is not None]


def placements(scores: ArrayLike, positive: ArrayLike) -> Floats:
    """Return each example's placement, the share of the other kind that it stands on the right side of, shape (n,).

    The mean over the positive examples is the area under the curve, and so is the mean over the negative ones.

    Args:
        scores: shape (n,).
        positive: shape (n,), booleans; both kinds must occur.
    """
    values, is_positive = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    shares = np.empty(len(values))
    shares[is_positive] = _share_below(values[is_positive], np.sort(values[~is_positive]))
    shares[~is_positive] = 1 - _share_below(values[~is_positive], np.sort(values[is_positive]))
    return shares


def area_features(scores: ArrayLike, positive: ArrayLike) -> Floats:
    """Return numbers of each example whose sums give the area under the curve by `area`, shape (n, 6).

    They are three means as sums and counts: of the placements of the positive examples (A), of those of the negative
    ones (B), and of the area of all examples (C). As A = B = C, the area is A + B − C, and sums over other draws of
    examples give it the variance of DeLong et al. (1988).

    Args:
        scores: shape (n,).
        positive: shape (n,), booleans; both kinds must occur.
    """
    placed, is_positive = placements(scores, positive), np.asarray(positive, dtype=bool)
    overall = np.full(len(placed), placed[is_positive].mean())
    columns = (placed * is_positive, is_positive, placed * ~is_positive, ~is_positive, overall, np.ones(len(placed)))
    return np.stack(columns, axis=1).astype(np.float64)


def area(sums: Floats) -> Floats:
    """Return the area from sums of `area_features`, (…, 6) → (…); NaN if there is only one kind."""
    positive, negative, overall = (quotient(sums[..., column], sums[..., column + 1]) for column in (0, 2, 4))
    return np.asarray(positive + negative - overall)


def _share_below(values: Floats, among: Floats) -> Floats:
    """Return the share of the sorted numbers that are lower than each value, counting equal ones as one half."""
    lower, not_higher = np.searchsorted(among, values, "left"), np.searchsorted(among, values, "right")
    return np.asarray((lower + not_higher) / (2 * len(among)))


@dataclass(frozen=True, slots=True)
class _MeanOfKinds:
    """Score that is the mean of two means, one over each kind of examples.

    Attributes:
        metric: name of the score.
        shares: maps the examples' values and kinds to what each adds to the mean of its kind, between 0 and 1.
        reach: ratio of the score's error to the mean of both kinds' errors. It is 1 for balanced accuracy, a mean. The
            mean placement of either kind is the area itself, and the error of the area is the sum of both kinds'
            contributions, so the ratio is 2.
        kinds_agree: whether, if all examples of a kind are alike, clusters with both kinds are assumed to fail on both.
            This is not assumed for an area: a pair in the wrong order lowers the placements of both kinds anyway.
    """

    metric: str
    shares: Callable[[Floats, Booleans], Floats]
    reach: float
    kinds_agree: bool

    def score(self, judged: Sequence[Judged], values: Floats, *, within: bool) -> Score:
        """Return the score with its interval; `values` has the value of each example, shape (n,)."""
        positive = np.array([judgement.positive for judgement in judged], dtype=bool)
        if within:
            return self._over_strata(judged, values, positive)
        names = [
            f" {index}" if judgement.cluster is None else judgement.cluster for index, judgement in enumerate(judged)
        ]
        sizes = Counter(names)  # no cluster's name begins with a blank and such a number
        effective = len(names) ** 2 / sum(size**2 for size in sizes.values()) if names else 0.0
        value, interval = self._over_folds(judged, values, positive)
        return Score(
            metric=self.metric,
            value=value,
            interval=interval,
            n=len(judged),
            clusters=len(sizes),
            effective_clusters=None if np.isclose(effective, len(sizes)) else effective,
        )

    def _over_folds(
        self, judged: Sequence[Judged], values: Floats, positive: Booleans
    ) -> tuple[float | None, Interval]:
        folds = _indexes_by_key(judgement.fold for judgement in judged)
        poor = [fold for fold, indexes in folds.items() if not _has_both_kinds(positive[indexes])]
        if poor or not folds:
            location = f" in fold {poor[0]}" if len(folds) > 1 else ""
            return None, Interval(reason=f"{_lacking(positive[folds[poor[0]] if poor else []])}{location}")
        shares = np.empty(len(judged))
        for indexes in folds.values():
            shares[indexes] = self.shares(values[indexes], positive[indexes])
        value = float(np.mean([_mean_of_means(shares[indexes], positive[indexes]) for indexes in folds.values()]))
        if np.ptp(shares) == 0 and 0 < value < 1:  # every example ties, as for the chance baseline
            return value, Interval(reason=EXACT_EXPECTATION)
        indexes_of = {kind: [[i for i in fold if positive[i] == kind] for fold in folds.values()] for kind in KINDS}
        kinds = {name: _Kind.of(shares, indexes_of[kind], judged) for kind, name in KINDS.items()}
        return value, self._interval(value, kinds)

    def _interval(self, value: float, kinds: Mapping[str, _Kind]) -> Interval:
        lacking = {name: kind.interval.reason for name, kind in kinds.items() if kind.interval.low is None}
        if lacking:
            name, reason = next(iter(lacking.items()))
            return Interval(reason=reason if len(lacking) == len(kinds) else f"{reason} of {name} examples")
        positive, negative = (kind.rows for kind in kinds.values())
        alike = positive.spread.alike or negative.spread.alike
        rho = 0.0 if alike and not self.kinds_agree else correlation(positive, negative, negative=True)
        together = Combination(np.array([[1.0, rho], [rho, 1.0]]))
        ends = zip(*(kind.margins for kind in kinds.values()), strict=True)
        below, above = (self.reach * together.margin(margins) for margins in ends)
        errors = [kind.interval.stderr for kind in kinds.values() if kind.interval.stderr is not None]
        stderr = self.reach * together.margin(errors) if len(errors) == len(kinds) else None
        reliable = are_reliable(
            [positive.cluster_sums, negative.cluster_sums], [kind.interval for kind in kinds.values()]
        )
        limits = max(0.0, value - below), min(1.0, value + above)
        return Interval("over both kinds", *limits, stderr, reliable=reliable)

    def _over_strata(self, judged: Sequence[Judged], values: Floats, positive: Booleans) -> Score:
        """Return the unweighted mean over the strata that have both kinds within a fold."""
        stratum_means: dict[str, list[float]] = {}
        all_tie = True
        strata = _indexes_by_key((judgement.stratum, judgement.fold) for judgement in judged)
        for (stratum, _fold), indexes in strata.items():
            if stratum is not None and _has_both_kinds(positive[indexes]):
                shares = self.shares(values[indexes], positive[indexes])
                all_tie = all_tie and np.ptp(shares) == 0 and 0 < shares[0] < 1
                stratum_means.setdefault(stratum, []).append(_mean_of_means(shares, positive[indexes]))
        reason = "no stratum has examples of both kinds" if _has_both_kinds(positive) else _lacking(positive)
        aggregator = MetricAggregator(self.metric, mean_of(lambda *_: None, absent=reason))
        for means in stratum_means.values():
            aggregator.add(None, (float(np.mean(means)), 1.0))
        score = aggregator.score()
        return replace(score, interval=Interval(reason=EXACT_EXPECTATION)) if stratum_means and all_tie else score


_AREA = _MeanOfKinds("auc", placements, reach=2.0, kinds_agree=False)
_BALANCED = _MeanOfKinds("balanced_acc", lambda right, _positive: right, reach=1.0, kinds_agree=True)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Mean over the examples of one kind, with its interval."""

    rows: Clustered
    interval: Interval

    @classmethod
    def of(cls, shares: Floats, folds: Sequence[Sequence[int]], judged: Sequence[Judged]) -> _Kind:
        """Return the mean over folds of the means of each fold's examples; `folds` has their indexes.

        It is written as a mean of all rows: each row deviates from it by its deviation from the mean of its fold, times
        (rows of all folds) / (folds · rows of its fold).
        """
        n = sum(map(len, folds))
        fold_shares = [shares[indexes] for indexes in folds]
        mean = float(np.mean([part.mean() for part in fold_shares]))
        values = np.concatenate(
            [mean + (part - part.mean()) * (n / (len(fold_shares) * len(part))) for part in fold_shares]
        )
        if len(fold_shares) == 1:
            (values,) = fold_shares  # exact to the last digit
        clusters = [judged[index].cluster for indexes in folds for index in indexes]
        sums, sizes, within = by_cluster(values, clusters)
        names = dict.fromkeys(index if name is None else name for index, name in enumerate(clusters))
        together = zip(names, np.column_stack((sums, sizes)), strict=True)
        binary = bool(np.isin(values, UNIT).all())
        spread = spread_of(sums, sizes, within, binary=binary)
        cluster_sums = {name: sums for name, sums in together if isinstance(name, str)}
        return cls(Clustered(cluster_sums, spread), interval_of_mean(spread, UNIT))

    @property
    def margins(self) -> tuple[float, float]:
        """Distances by which the interval reaches below and above the mean; NaN without an interval."""
        low, high = self.interval.low, self.interval.high
        mean = self.rows.spread.mean
        return (mean - low, high - mean) if low is not None and high is not None else (np.nan, np.nan)


def _has_both_kinds(positive: Booleans) -> bool:
    return bool(0 < positive.sum() < len(positive))


def _mean_of_means(shares: Floats, positive: Booleans) -> float:
    return float(shares[positive].mean() + shares[~positive].mean()) / 2


def _lacking(positive: Booleans) -> str:
    """Return a description of the missing kind of examples."""
    return "no examples" if not len(positive) else f"no {KINDS[not positive[0]]} examples"


def _indexes_by_key(keys: Iterable[Key]) -> dict[Key, list[int]]:
    indexes: dict[Key, list[int]] = {}
    for index, key in enumerate(keys):
        indexes.setdefault(key, []).append(index)
    return indexes
