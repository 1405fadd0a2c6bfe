"""Win rates of a moral and its versions with a synonym and an antonym, each against each.

Options are compared in pairs: the value is 1 if the first has the better score, 1/2 if both have the same score, and 0
otherwise. An answer without a score for every option, e.g. a letter, has no value, since it only names the best option.
If options are shown in several orders, the value is the mean over the orders with scores.
"""

from __future__ import annotations

from functools import partial
from statistics import fmean

from figeval import ChoiceExample, Prediction, answered, mean_of
from figeval.metrics.ties import answers

from .options import ANTONYM, MORAL, SYNONYM

KEY = "version"  # of option_meta
NO_SCORES = "no answer with scores of the moral and of its versions"


def _win(winner: str, loser: str, example: ChoiceExample, prediction: Prediction) -> float | None:
    """Return how often the option of one kind beats that of another, or None if their scores are unknown."""
    kinds = [columns.get(KEY) for columns in example.option_meta]
    if kinds.count(winner) != 1 or kinds.count(loser) != 1:
        return None
    first, second = kinds.index(winner), kinds.index(loser)
    score_lists = [
        answer.scores for answer in answers(prediction) if answered(answer) and len(answer.scores) == len(kinds)
    ]
    wins = [(scores[first] > scores[second]) + (scores[first] == scores[second]) / 2 for scores in score_lists]
    return fmean(wins) if wins else None


def _difference(example: ChoiceExample, prediction: Prediction) -> float | None:
    """Return the win over the antonym minus the win over the synonym, for the same question."""
    over_antonym, over_synonym = (_win(MORAL, version, example, prediction) for version in (ANTONYM, SYNONYM))
    return None if over_antonym is None or over_synonym is None else over_antonym - over_synonym


win_antonym = mean_of(partial(_win, MORAL, ANTONYM), absent=NO_SCORES)
win_synonym = mean_of(partial(_win, MORAL, SYNONYM), absent=NO_SCORES)
win_synonym_antonym = mean_of(partial(_win, SYNONYM, ANTONYM), absent=NO_SCORES)
win_difference = mean_of(_difference, absent=NO_SCORES, bounds=(-1.0, 1.0))
