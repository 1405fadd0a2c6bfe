"""How far an accuracy can be trusted: was there an answer, the same one in every order, and not for its place?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from figeval.metrics.answers import answered, answers, given
from figeval.metrics.classes import accuracy
from figeval.metrics.statistic import Statistic, mean_of
from figeval.types import ChoiceExample, Example, Prediction

Floats = NDArray[np.float64]
PLACES = 26  # as many options as there are letters
ONE_ORDER = "the options were shown in one order only (--orders)"


def parse_rate(_example: Example, prediction: Prediction) -> float | None:
    """Share of the answers that could be understood; refusals and empty ones could not. None without an answer."""
    found = answers(prediction)
    return fmean(answered(answer) for answer in found) if found else None


def acc_of_all(example: Example, prediction: Prediction) -> float | None:
    """Accuracy where no answer counts as a wrong one: what silence cannot raise."""
    right, rate = accuracy(example, prediction), parse_rate(example, prediction)
    hidden = getattr(example, "gold", getattr(example, "label", None)) is None
    return None if hidden or rate is None else (right or 0.0) * rate


def agreement(_example: ChoiceExample, prediction: Prediction) -> float | None:
    """Share of the pairs of orders with the same answer, whatever its place (observed agreement, Fleiss 1971); None
    with fewer than two answers. A tie agrees with the probability that two fair draws would.
    """
    valid = [frozenset(given(answer)) for answer in answers(prediction) if answered(answer)]
    if len(valid) < 2:
        return None
    return fmean(len(one & other) / (len(one) * len(other)) for one, other in combinations(valid, 2))


consistency = mean_of(agreement, absent=ONE_ORDER)


def _chosen_places(example: ChoiceExample, prediction: Prediction) -> Sequence[float] | None:
    """Per place how much more often it was chosen than the options' number would have it; then how many answers. None
    where the options were shown in one order only: a place cannot be told from the option that stands there.
    """
    excess = [0.0] * PLACES
    valid = [answer for answer in answers(prediction) if answered(answer) and answer.order]
    for answer in valid:
        tied = given(answer)
        for place, option in enumerate(answer.order):
            excess[place] += (option in tied) / len(tied) - 1 / len(example.options)
    return (*excess, float(len(valid))) if valid else None


def _distance(sums: Floats) -> Floats:
    excess, n = sums[..., :-1], sums[..., -1:]
    return np.asarray(np.abs(excess / n).sum(axis=-1) / 2)


# Total variation distance between the places that were chosen and a fair share for each, 0 to 1 − 1/options. The cause
# of what Zheng et al. (2024) measure as the spread of recalls. A distance is never below 0, so few answers raise it.
position_bias = Statistic(_chosen_places, _distance, absent=ONE_ORDER)
