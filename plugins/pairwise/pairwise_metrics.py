"""Metrics of pairwise preferences: agreement with people, distances from their votes, and the effect of the order.

Outcomes are the texts by index and, after them, a tie. Answers with the same best score are scored by expectation.
Probabilities are known on routes that give a distribution (`outcome_probabilities`). Closeness and log-likelihoods give
an order of the texts only, so that distances from the votes do not apply to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from figeval.metrics import Statistic, answered, mean_of, ratio, tied_answers
from figeval.metrics.classification import agreement as agreement_of_orders
from figeval.metrics.ties import best
from figeval.types import Prediction

from ..soft_labels.distances import cross_entropy, jensen_shannon, manhattan, normalized
from .pairwise import majority

if TYPE_CHECKING:
    from .pairwise import PairwiseExample

NO_PROBABILITIES = "the answers have no probabilities of the outcomes"
ONE_ORDER = "the texts were not shown together under letters"


def outcome_probabilities(example: PairwiseExample, prediction: Prediction) -> tuple[float, ...] | None:
    """Return the probability of each outcome, or None if the prediction has an order of the texts only."""
    is_distribution = answered(prediction) and len(prediction.scores) == len(example.options) + 1
    return normalized(prediction.scores) if is_distribution else None


def counts_replies(prediction: Prediction) -> bool:
    """Return whether the scores are shares of a few replies, as many as orders, in words."""
    return bool(prediction.answers) and not any(answer.scores for answer in prediction.answers)


# ---- agreement -------------------------------------------------------------------------------------------------------


def _agreement(example: PairwiseExample, answers: Sequence[int]) -> float | None:
    if example.votes is None:
        return None
    n, winners = len(example.options), majority(example.votes)
    if len(winners) > 1 or winners[0] == n:
        return None
    return fmean(1 / n if answer == n else float(answer == winners[0]) for answer in answers)


def agreement(example: PairwiseExample, prediction: Prediction) -> float | None:
    """Return whether the answer is the text that most people prefer; 1/texts for the answer that they are equal.

    The result is None if most people call the texts equal, or if no text has a majority: models that rank texts cannot
    be right there (Zheng et al. 2023, MT-bench, section 4.2, setup S2, leave out ties, too).
    """
    return _agreement(example, tied_answers(prediction)) if answered(prediction) else None


def agreement_norm(example: PairwiseExample, prediction: Prediction) -> float | None:
    """Return the agreement by log-likelihood per character of the text, as `acc_norm` of a choice."""
    if not answered(prediction) or len(prediction.scores) != len(example.options):
        return None
    scores = [score / len(text) for score, text in zip(prediction.scores, example.options, strict=True)]
    return _agreement(example, best(scores))


def vote_agreement(example: PairwiseExample, prediction: Prediction) -> float | None:
    """Return the probability that a random voter gives the same answer, ties included (Zheng et al. 2023, setup S1)."""
    shares = None if example.votes is None else normalized(example.votes)
    if shares is None or not answered(prediction):
        return None
    return fmean(shares[answer] for answer in tied_answers(prediction))


# ---- distances from the votes ----------------------------------------------------------------------------------------


def _from_votes(
    function: Callable[[Sequence[float], Sequence[float]], float],
) -> Callable[[PairwiseExample, Prediction], float | None]:
    """Return a metric that compares the shares of the votes with the probabilities of the outcomes."""

    def distance(example: PairwiseExample, prediction: Prediction) -> float | None:
        probabilities = outcome_probabilities(example, prediction)
        shares = None if example.votes is None else normalized(example.votes)
        return None if shares is None or probabilities is None else function(shares, probabilities)

    return distance


def log_loss(example: PairwiseExample, prediction: Prediction) -> float | None:
    """Return the mean of −ln P(outcome) over the votes; None for shares of a few replies, which are no probabilities.

    Where a tie has no probability at all, votes for one count for each text in equal parts, as half a win each.
    """
    n = len(example.options)
    shares = None if example.votes is None else normalized(example.votes)
    probabilities = outcome_probabilities(example, prediction)
    if shares is None or probabilities is None or counts_replies(prediction):
        return None
    if probabilities[n] == 0:
        shares = (*(share + shares[n] / n for share in shares[:n]), 0.0)
    return cross_entropy(shares, probabilities)


MANHATTAN = mean_of(_from_votes(manhattan), absent=NO_PROBABILITIES, bounds=(0.0, 2.0))
JSD = mean_of(_from_votes(jensen_shannon), absent=NO_PROBABILITIES)
LOG_LOSS = mean_of(log_loss, absent=f"{NO_PROBABILITIES} (shares of replies are none)", bounds=(0.0, math.inf))


def kendall(example: PairwiseExample, prediction: Prediction) -> float | None:
    """Return Kendall's τ-b of the scores of three or more texts with their votes; None if either do not vary."""
    from scipy.stats import kendalltau

    n = len(example.options)
    scores = prediction.scores[:n]
    if n < 3 or example.votes is None or not answered(prediction) or len(scores) < n:
        return None
    tau = float(kendalltau(scores, example.votes[:n]).statistic)
    return None if math.isnan(tau) else tau


KENDALL = mean_of(
    kendall, absent="no example has scores and votes that vary over three or more texts", bounds=(-1.0, 1.0)
)


# ---- the effect of the order -----------------------------------------------------------------------------------------

CONSISTENCY = mean_of(agreement_of_orders, absent=ONE_ORDER)


def first_choices(example: PairwiseExample, prediction: Prediction) -> Sequence[float] | None:
    """Return how often the text that was shown first was chosen, and how often any text was; None with one order."""
    n = len(example.options)
    firsts = chosen = 0.0
    for answer in filter(answered, prediction.answers):
        tied = tied_answers(answer)
        firsts += (answer.order[0] in tied) / len(tied)
        chosen += sum(outcome < n for outcome in tied) / len(tied)
    return (firsts, chosen) if chosen else None


# Share of first choices. Each text is shown first equally often, so it is 1/texts for a model without a position bias.
FIRST_RATE = Statistic(first_choices, ratio, absent=ONE_ORDER)
