"""Strengths of people's battles with a judge's answers to all of them: prediction-powered inference.

People decided n of the battles, and a judge decided these and N others. Let h be the residuals of the judge's answers
in its own model: what they add to the score of the likelihood beyond the strengths that the judge sees. Their mean is
about 0 whatever the judge prefers, so

    score of people + λ n (mean of h over the others − mean of h over the judged)

has the expectation of people's score alone, and less variance if the judge errs in a battle where people surprise, too
(Angelopoulos, Duchi and Zrnic 2023, "PPI++", sections 3 and 6). λ minimises the variance of the strengths; 0 ignores a
useless judge. The battles that people decided must be a random part of all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from figeval.metrics.intervals import Floats
from figeval.wings.annotation.battles.davidson import LOSS, TIE, WIN, Davidson
from figeval.wings.annotation.battles.outcomes import Field, Meeting, Results
from figeval.wings.annotation.battles.ranking import Outcomes, Shift


def correct_by_judge(
    field: Field, people: Results, judge: Results, seen: Collection[Meeting], *, has_ties: bool
) -> Outcomes | None:
    """Return the results of people with the correction by a judge; None if it cannot help.

    It has to have seen battles that people decided, and others.

    Args:
        field: systems and clusters.
        people: results that people decided.
        judge: results of the judge in battles that it answered in both orders.
        seen: battles that it was asked about; one without an answer has the judge's mean result, as if the systems
            were equally good.
        has_ties: whether a battle can be a tie.
    """
    labelled = [meeting for meeting in people if meeting in seen]
    unlabelled = [meeting for meeting in seen if meeting not in people]
    if not (labelled and unlabelled and judge):
        return None
    decided = {meeting: people[meeting] for meeting in labelled}
    model = Davidson(len(field.systems), has_ties)
    tied = float(np.mean([shares[TIE] for shares in judge.values()]))
    neutral = np.array([(1 - tied) / 2, tied, (1 - tied) / 2])
    answers = {meeting: judge.get(meeting, neutral) for meeting in seen}
    counts = field.count(decided, has_ties=has_ties)
    fitted = model.fit(counts.sum(axis=0))
    of_judge = model.fit(field.count(answers, has_ties=has_ties).sum(axis=0))
    scores = _scores(field, model, fitted, decided)
    residuals = _scores(field, model, of_judge, answers)
    y, h = (np.array([by_meeting[meeting] for meeting in labelled]) for by_meeting in (scores, residuals))
    rest = np.array([residuals[meeting] for meeting in unlabelled]).reshape(len(unlabelled), len(field.systems) + 1)
    variance = np.linalg.inv(model.information(fitted, counts.sum(axis=0)))[:-1]
    spread = variance - variance.mean(axis=0)  # of the centred strengths
    weight, reduction = _tune(y @ spread.T, h @ spread.T, rest @ spread.T)
    sums = [np.zeros((len(counts), len(field.systems) + 1)) for _ in range(2)]
    sizes = [np.zeros(len(counts)) for _ in range(2)]
    for meeting, residual in residuals.items():
        part = 0 if meeting in people else 1
        sums[part][field.groups[meeting.example]] += residual
        sizes[part][field.groups[meeting.example]] += 1
    outcomes = Outcomes(field.systems, counts, has_ties)
    return replace(outcomes, shift=Shift(weight, reduction, *sums, *sizes))


def _scores(field: Field, model: Davidson, parameters: Floats, results: Results) -> dict[Meeting, Floats]:
    """Return what each battle adds to the derivative of the log-likelihood."""
    rows = {(field.systems[a], field.systems[b]): row for row, (a, b) in enumerate(model.pairs)}
    expected, scores = model.probabilities(parameters), {}
    for meeting, shares in results.items():
        row = rows[meeting.a, meeting.b]
        residual = shares - expected[row]
        score = np.zeros(len(field.systems) + 1)
        a, b = model.pairs[row]
        score[a] = (residual[WIN] - residual[LOSS]) / 2
        score[b] = -score[a]
        score[-1] = residual[TIE] if model.has_ties else 0.0
        scores[meeting] = score
    return scores


def _tune(y: Floats, h: Floats, rest: Floats) -> tuple[float, float]:
    """Return the λ in [0, 1] with the least variance of the strengths, and the share of variance that it leaves.

    Args:
        y: influence of people's results on the strengths, shape (n, systems).
        h: that of the judge's residuals in the same battles, shape (n, systems).
        rest: the same for the other battles, shape (N, systems).
    """
    n, n_rest = len(y), len(rest)
    if n < 2 or not n_rest:
        return 0.0, 1.0
    y, h = y - y.mean(axis=0), h - h.mean(axis=0)
    of_all = np.concatenate((h, rest - rest.mean(axis=0)))
    of_judge = float((of_all**2).sum()) / len(of_all)
    of_people = float((y**2).sum()) / n
    if of_judge <= 0 or of_people <= 0:
        return 0.0, 1.0
    weight = min(1.0, max(0.0, float((y * h).sum()) / n / ((1 + n / n_rest) * of_judge)))
    left = float(((y - weight * h) ** 2).sum()) / n + weight**2 * of_judge * n / n_rest
    return weight, min(1.0, left / of_people)
