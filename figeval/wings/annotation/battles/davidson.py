"""Bradley-Terry model with ties: the strengths of systems that explain who wins their battles.

System i with strength θ_i beats j with a probability proportional to exp((θ_i − θ_j) / 2), loses with one that is
proportional to exp((θ_j − θ_i) / 2), and ties with one proportional to ν = exp(δ) (Davidson 1970, "On extending the
Bradley-Terry model to accommodate ties in paired comparison experiments"). Without ties, this is the model of Bradley
and Terry (1952), and θ_i − θ_j is the log-odds of a win.

A system that won or lost all of its battles has no finite maximum-likelihood estimate. Each system therefore also plays
`PRIOR_BATTLES` against an average one, in which all results are equally frequent. That makes the log-likelihood
strictly concave, and moves strengths a little towards each other if systems have played more than a few battles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from figeval.metrics.intervals import Floats

PRIOR_BATTLES = 0.5  # per system
WIN, TIE, LOSS = 0, 1, 2  # results of the first system of a pair, the last axis of counts
RIDGE, MAX_STRENGTH = 1e-10, 30.0  # where a shift leaves no maximum
MAX_STEPS, MAX_STEP, TOLERANCE = 60, 2.0, 1e-8  # of Newton's method, in log-odds


@dataclass(frozen=True)
class Davidson:
    """The model of `systems` systems, whose pairs are those of `itertools.combinations`.

    Parameters are strengths and δ, shape (..., systems + 1). Counts are wins, ties and losses of the first system of
    each pair, shape (..., pairs, 3), and may be fractions.

    Attributes:
        systems: number of systems.
        has_ties: whether a battle can be a tie.
        prior: battles of each system against an average one. With 0, a system without a win or without a loss has no
            finite estimate, and the strengths of systems that are not connected by battles cannot be compared.
    """

    systems: int
    has_ties: bool = True
    prior: float = PRIOR_BATTLES

    @cached_property
    def pairs(self) -> Sequence[tuple[int, int]]:
        return list(combinations(range(self.systems), 2))

    @cached_property
    def _contrasts(self) -> Floats:
        """Half of the difference of strengths in each pair, and then in battles with an average system."""
        contrasts = np.zeros((len(self.pairs), self.systems))
        for row, (a, b) in enumerate(self.pairs):
            contrasts[row, a], contrasts[row, b] = 0.5, -0.5
        return np.concatenate((contrasts, 0.5 * np.eye(self.systems)))

    @cached_property
    def _prior_counts(self) -> Floats:
        shares = (1 / 3, 1 / 3, 1 / 3) if self.has_ties else (0.5, 0.0, 0.5)
        return np.tile(self.prior * np.array(shares), (self.systems, 1))

    def probabilities(self, parameters: Floats) -> Floats:
        """Return the probabilities of a win, a tie and a loss in each pair, shape (..., pairs, 3)."""
        return self._all_probabilities(parameters)[..., : len(self.pairs), :]

    def _all_probabilities(self, parameters: Floats) -> Floats:
        half = parameters[..., :-1] @ self._contrasts.T
        tie = parameters[..., -1:] if self.has_ties else np.full((*half.shape[:-1], 1), -np.inf)
        logits = np.stack((half, np.broadcast_to(tie, half.shape), -half), axis=-1)
        shares: Floats = np.exp(logits - logits.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return shares

    def fit(self, counts: Floats, shift: Floats | None = None, start: Floats | None = None) -> Floats:
        """Return the parameters with the highest penalised likelihood, by Newton's method.

        Args:
            counts: results, shape (..., pairs, 3).
            shift: what is added to the sufficient statistics, i.e. to half of wins minus losses of each system, and to
                the number of ties, shape (..., systems + 1); nothing by default.
            start: parameters to start from, shape (systems + 1,).
        """
        parameters = np.zeros((*counts.shape[:-2], self.systems + 1))
        if start is not None:
            parameters += start
        for _ in range(MAX_STEPS):
            gradient = self.gradient(parameters, counts)
            if shift is not None:
                gradient = gradient + shift
            information = self.information(parameters, counts)
            if not self.prior:  # strengths are determined up to a constant
                information[..., :-1, :-1] += 1 / self.systems
            information += RIDGE * np.eye(self.systems + 1)
            step = np.linalg.solve(information, gradient[..., None])[..., 0]
            size = np.abs(step).max(axis=-1, keepdims=True, initial=0.0)
            parameters = parameters + step * np.minimum(1.0, MAX_STEP / np.maximum(size, TOLERANCE))
            parameters = np.clip(parameters, -MAX_STRENGTH, MAX_STRENGTH)
            if size.max(initial=0.0) < TOLERANCE:
                break
        return parameters

    def gradient(self, parameters: Floats, counts: Floats) -> Floats:
        """Return the derivative of the penalised log-likelihood, shape (..., systems + 1)."""
        counts = self._with_prior(counts)
        residuals = counts - counts.sum(axis=-1, keepdims=True) * self._all_probabilities(parameters)
        of_strengths = (residuals[..., WIN] - residuals[..., LOSS]) @ self._contrasts
        of_ties = residuals[..., TIE].sum(axis=-1, keepdims=True) if self.has_ties else 0 * of_strengths[..., :1]
        return np.concatenate((of_strengths, of_ties), axis=-1)

    def information(self, parameters: Floats, counts: Floats) -> Floats:
        """Return the negative second derivative of it, shape (..., systems + 1, systems + 1)."""
        played = self._with_prior(counts).sum(axis=-1)
        shares = self._all_probabilities(parameters)
        tie, lead = shares[..., TIE], shares[..., WIN] - shares[..., LOSS]
        products = np.einsum("pi,pj->pij", self._contrasts, self._contrasts).reshape(len(self._contrasts), -1)
        k = self.systems
        information = np.zeros((*played.shape[:-1], k + 1, k + 1))
        information[..., :k, :k] = ((played * (1 - tie - lead**2)) @ products).reshape(*played.shape[:-1], k, k)
        information[..., :k, k] = information[..., k, :k] = -(played * tie * lead) @ self._contrasts
        information[..., k, k] = (played * tie * (1 - tie)).sum(axis=-1) if self.has_ties else 1.0
        return information

    def _with_prior(self, counts: Floats) -> Floats:
        prior = np.broadcast_to(self._prior_counts, (*counts.shape[:-2], *self._prior_counts.shape))
        return np.concatenate((counts, prior), axis=-2)

    def results(self, counts: Floats) -> Floats:
        """Return wins, ties and losses of each system, shape (..., systems, 3)."""
        results = np.zeros((*counts.shape[:-2], self.systems, 3))
        for row, (a, b) in enumerate(self.pairs):
            results[..., a, :] += counts[..., row, :]
            results[..., b, :] += counts[..., row, ::-1]
        return results

    def win_rates(self, parameters: Floats) -> Floats:
        """Return the expected share of wins of each system against the others, ties counted half; shape (..., systems).

        All other systems have the same weight, however often a system has met them.
        """
        rates: Floats = self.expected_scores(parameters).sum(axis=-1) / (self.systems - 1)
        return rates

    def expected_scores(self, parameters: Floats) -> Floats:
        """Return the expected result of each system against each other, a win being 1, a tie .5 and a loss 0.

        Shape (..., systems, systems); 0 on the diagonal.
        """
        shares = self.probabilities(parameters)
        first, second = np.triu_indices(self.systems, 1)
        scores = np.zeros((*parameters.shape[:-1], self.systems, self.systems))
        scores[..., first, second] = shares[..., WIN] + shares[..., TIE] / 2
        scores[..., second, first] = shares[..., LOSS] + shares[..., TIE] / 2
        return scores

    def rate_gradient(self, parameters: Floats) -> Floats:
        """Return the derivatives of the win rates at one set of parameters, shape (systems, systems + 1)."""
        shares, k = self.probabilities(parameters), self.systems
        tie, score = shares[:, TIE], shares[:, WIN] + shares[:, TIE] / 2
        variance = shares[:, WIN] + tie / 4 - score**2
        gradient = np.zeros((k, k + 1))
        for row, (a, b) in enumerate(self.pairs):
            for system, other, result in ((a, b, score[row]), (b, a, 1 - score[row])):
                gradient[system, system] += variance[row]
                gradient[system, other] -= variance[row]
                gradient[system, k] += tie[row] * (0.5 - result)
        return gradient / (k - 1)
