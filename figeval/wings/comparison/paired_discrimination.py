"""Paired comparison of how well two models tell two kinds of examples apart; `discrimination` scores one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.discrimination import Judged, area, area_features
from figeval.metrics.paired import DRAWS, PairedTest, paired
from figeval.metrics.statistic import quotient
from figeval.wings.comparison.exchange import statistic_over_languages

Floats = NDArray[np.float64]
KINDS = {"positive": 1, "negative": 3}  # places of the numbers that count the examples of a kind


@dataclass(frozen=True, slots=True)
class _Number:
    """A number to compare: the value of an answer, the features of the examples, and the function of their sums."""

    value: Callable[[Judged], float | None]
    features: Callable[[Floats, NDArray[np.bool_]], Floats]
    combine: Callable[[Floats], Floats]


def _right(values: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Return right answers and examples of either kind, shape (n, 4)."""
    return np.stack((values * positive, positive, values * ~positive, ~positive), axis=1).astype(np.float64)


def _mean_accuracy(sums: Floats) -> Floats:
    return (quotient(sums[..., 0], sums[..., 1]) + quotient(sums[..., 2], sums[..., 3])) / 2


_NUMBERS = {
    "auc": _Number(lambda one: one.score, area_features, area),
    "balanced_acc": _Number(lambda one: one.right, _right, _mean_accuracy),
}


def paired_discrimination(
    metric: str, a: Sequence[Judged], b: Sequence[Judged], *, within: bool = False, seed: int = 0, draws: int = DRAWS
) -> PairedTest:
    """Compare the judgements of two models on the same examples.

    An area is compared by the exchange of placements: the share of examples of the other kind that an example is on the
    right side of, within its own run. Scores of two models are therefore never compared with each other. Within strata,
    the units are the strata that have both kinds, and the sign of the difference of a stratum is flipped.

    Args:
        metric: "auc" or "balanced_acc".
        a: judgements of model A, all of one fold.
        b: judgements of model B, in the same order.
        within: compare examples of the same stratum only.
        seed: seed of the draws.
        draws: largest number of draws.

    Raises:
        ValueError: the sequences differ in length.
    """
    number = _NUMBERS[metric]
    both = [
        (one, number.value(one), number.value(other))
        for one, other in zip(a, b, strict=True)
        if number.value(one) is not None and number.value(other) is not None
    ]
    examples = [one for one, *_ in both]
    of_a, of_b = (np.array([row[place] for row in both], dtype=np.float64) for place in (1, 2))
    positive = np.array([one.positive for one in examples], dtype=bool)
    if within:
        places = _by_stratum(examples)

        def score(run: Floats, own: list[int]) -> float:
            return float(number.combine(number.features(run[own], positive[own]).sum(axis=0)))

        strata_a, strata_b = ([score(run, own) for own in places] for run in (of_a, of_b))
        return paired(strata_a, strata_b, seed=seed, draws=draws)
    if not 0 < positive.sum() < len(positive):
        return PairedTest(n=len(both), clusters=0, note="no examples of both kinds that both runs answered")
    clusters = [one.cluster for one in examples]
    run_a, run_b = ({"": number.features(values, positive).tolist()} for values in (of_a, of_b))
    return statistic_over_languages(run_a, run_b, {"": clusters}, number.combine, seed, draws, kinds=KINDS)


def _by_stratum(examples: Sequence[Judged]) -> list[list[int]]:
    """Return the places of the examples of each stratum that has both kinds."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(examples):
        if one.stratum is not None:
            places.setdefault(one.stratum, []).append(place)
    return [own for own in places.values() if len({examples[place].positive for place in own}) > 1]
