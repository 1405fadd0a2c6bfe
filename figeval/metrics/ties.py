"""Answers of predictions, and their expected score if several answers share the best score.

A tie is scored by expectation, as if it were broken by a fair draw: a model that gives 250 candidates the same score
gets 1/250, not the luck of the first place. Trivial models tie everywhere, so a metric without this rule reports a
wrong value for chance. `tied_answers` is for metrics of one answer, `expected_over_ties` for those of a whole ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby, permutations, product
from random import Random

from figeval.types import WITHOUT_REPLY, Prediction, Value

ENUMERATED = 10_000  # with at most this many orders of tied candidates, all of them are tried
TIE_DRAWS = 10_000  # random orders if there are more: the standard error is at most .005 for values between 0 and 1


# ---- answers --------------------------------------------------------------------------------------------------------


def answered(prediction: Prediction) -> bool:
    """Return whether the prediction can be right or wrong, unlike one that is unparseable, cut off or NaN."""
    return prediction.status == "ok"


def answers(prediction: Prediction) -> Sequence[Prediction]:
    """Return one answer for each order of the options in which the question was asked.

    There is none if no reply arrived or the route could not ask, which says nothing about the model.
    """
    return () if prediction.status in WITHOUT_REPLY else prediction.answers or (prediction,)


def best(scores: Sequence[float]) -> list[int]:
    """Return the indexes that share the highest score, compared exactly.

    Raises:
        ValueError: a score is NaN; such a prediction has the status `nan` and should not be passed.
    """
    _refuse_nan(scores)
    top = max(scores)
    return [index for index, score in enumerate(scores) if score == top]


def tied_answers(prediction: Prediction) -> Sequence[Value]:
    """Return the model's answers: one, or several with the same best score, for a fair draw.

    A label occurs once for each of its tied classes. Answers are labels if the prediction names them (pairs), and
    option indexes otherwise.

    Raises:
        ValueError: the prediction claims a tie without the scores that show it.
    """
    if prediction.tied <= 1 and prediction.value is not None:
        return (prediction.value,)
    if prediction.tied_labels:
        return prediction.tied_labels
    if not prediction.scores:
        raise ValueError(f"prediction {prediction.example_id!r} has neither one answer nor scores that tie")
    names: Sequence[Value] = prediction.labels or range(len(prediction.scores))
    return tuple(names[index] for index in best(prediction.scores))


def _refuse_nan(scores: Sequence[float]) -> None:
    if any(map(math.isnan, scores)):
        raise ValueError("a prediction that claims an answer has NaN among its scores")


# ---- rankings -------------------------------------------------------------------------------------------------------


def expected_over_ties(
    scores: Sequence[float],
    function: Callable[[Sequence[int]], float],
    *,
    top: int | None = None,
    seed: int | str = 0,
    draws: int = TIE_DRAWS,
) -> float:
    """Return the expectation of a function of a ranking, over a uniformly random order within each block of ties.

    The value is exact if the ties allow at most `ENUMERATED` orders, since all of them are tried. Otherwise it is the
    mean over `draws` independent random orders. This mean is unbiased, and its standard error is at most
    (b − a) / (2 √draws) for a function with values between a and b: with the default, .005 for values between 0 and 1.
    The mean of such values over n examples with separate seeds has a standard error of at most .005 / √n.

    A closed form, if there is one, is exact for any number of ties, and faster: `figeval.metrics.ranking` has those of
    the usual measures (McSherry and Najork 2008).

    Args:
        scores: scores of the candidates, the highest is the best, shape (n,).
        function: maps the indexes of the candidates, best first, to a number.
        top: number of places that the function considers, all by default. It gets the first `top` indexes only, and
            ties behind them are not reordered, so that more cases are exact.
        seed: seed of the random orders; the same seed gives the same value. Pass the example's id, so that the errors
            of different examples are independent.
        draws: number of random orders.

    Returns:
        The expected value.

    Raises:
        ValueError: a score is NaN.
    """
    _refuse_nan(scores)
    blocks = list(_blocks(scores, len(scores) if top is None else min(top, len(scores))))
    if math.prod(math.perm(len(block), count) for block, count in blocks) <= ENUMERATED:
        orders = product(*(permutations(block, count) for block, count in blocks))
        values = [function([*chain.from_iterable(parts)]) for parts in orders]
    else:
        random = Random(seed)
        values = [
            function([index for block, count in blocks for index in random.sample(block, count)]) for _ in range(draws)
        ]
    return math.fsum(values) / len(values)


def _blocks(scores: Sequence[float], top: int) -> Iterator[tuple[list[int], int]]:
    """Yield the indexes that share a score, best first, and the number of the first `top` places that they take."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    for _, members in groupby(order, key=lambda index: scores[index]):
        block = list(members)
        if top <= 0:
            return
        yield block, min(len(block), top)
        top -= len(block)
