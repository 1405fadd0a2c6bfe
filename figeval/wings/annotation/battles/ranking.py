"""Ranking of systems by their battles: strengths, win rates and ranks with what is certain of them.

The examples (or their clusters) are resampled and the model is fitted again to each draw, since the battles about one
example are not independent. A standard error is the standard deviation over the draws, but no smaller than that of the
model for independent battles: a system that wins all of its battles does so in all draws, too, and would seem certain.

Ranks have confidence sets: with a probability of 95 %, the sets of all systems contain their ranks (Mogstad, Romano,
Shaikh and Wilhelm 2024, "Inference for ranks with applications to mobility across neighbourhoods and academic
achievement across countries", section 3). A system is ranked behind another one if their difference is larger than the
95 % quantile of the largest studentised deviation among all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from figeval import Interval
from figeval.metrics.intervals import LEVEL, Floats, blocks, t_quantile
from figeval.wings.annotation.battles.davidson import TIE, Davidson

RESAMPLES = 1000
MIN_CLUSTERS = 10  # with fewer independent examples, intervals are too narrow (docs/appendix/statistics.md)
MIN_SYSTEMS = 2
ELO = 400 / math.log(10)  # points of one unit of log-odds
NORMAL_QUANTILE = 1.959963984540054
SAME_STRENGTH = 1e-6  # smaller differences are those of the last step of the fit
HALVINGS, CONVERGED = 6, 1e-4  # of a correction; the largest derivative at a maximum
METHOD = "cluster bootstrap"
SHARES = np.array([1.0, 0.5, 0.0])  # what a win, a tie and a loss are worth


@dataclass(frozen=True, slots=True)
class Shift:
    """The contribution of a judge to the results that people decided on, in each cluster.

    Attributes:
        weight: λ.
        reduction: variance of the corrected estimate as a share of that of people alone.
        labelled: sums of the judge's residuals over battles that people judged, shape (clusters, systems + 1).
        unlabelled: the same over the other battles.
        n_labelled: number of these battles in each cluster, shape (clusters,).
        n_unlabelled: number of the others.
    """

    weight: float
    reduction: float
    labelled: Floats
    unlabelled: Floats
    n_labelled: Floats
    n_unlabelled: Floats

    def statistics(self, copies: Floats, counts: Floats, model: Davidson) -> Floats:
        """Return the shift of the sufficient statistics for numbers of copies of the clusters, shape (..., clusters).

        It is scaled down where a system would win or lose more than all of its battles, or more than all would be ties.
        """
        n, n_unlabelled = (copies @ self.n_labelled)[..., None], (copies @ self.n_unlabelled)[..., None]
        means = copies @ self.unlabelled / np.maximum(n_unlabelled, 1), copies @ self.labelled / np.maximum(n, 1)
        shift = self.weight * n * (means[0] - means[1]) * (n_unlabelled > 0)
        results = model.results(counts)
        played, ties = counts.sum(axis=(-1, -2)), counts[..., TIE].sum(axis=-1)
        below = np.concatenate((results @ SHARES, ties[..., None]), axis=-1)  # what can still be lost, or not be a tie
        above = np.concatenate((results[..., ::-1] @ SHARES, (played - ties)[..., None]), axis=-1)
        room = np.where(shift > 0, above, below)
        ratio = np.divide(room, np.abs(shift), out=np.ones_like(room), where=np.abs(shift) > room)
        scaled: Floats = shift * ratio.min(axis=-1, keepdims=True)
        return scaled


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Results of battles.

    Attributes:
        systems: names of the systems.
        counts: wins, ties and losses of the first system of each pair in each cluster, shape (clusters, pairs, 3).
        has_ties: whether a battle can be a tie.
        shift: correction by a judge.
    """

    systems: tuple[str, ...]
    counts: Floats
    has_ties: bool = True
    shift: Shift | None = None

    @property
    def model(self) -> Davidson:
        """The model of these results."""
        return Davidson(len(self.systems), self.has_ties)

    def fit(self, copies: Floats, start: Floats | None = None) -> Floats:
        """Return the parameters for numbers of copies of the clusters, shape (B, clusters) → (B, systems + 1).

        A correction that leaves no finite strengths, which happens with few labels, is halved until it does.
        """
        counts = (copies @ self.counts.reshape(len(self.counts), -1)).reshape(len(copies), *self.counts.shape[1:])
        if self.shift is None:
            return self.model.fit(counts, start=start)
        shift = self.shift.statistics(copies, counts, self.model)
        parameters = self.model.fit(counts, shift, start)
        for _ in range(HALVINGS):
            gradient = self.model.gradient(parameters, counts) + shift
            rows = np.flatnonzero(~(np.abs(gradient).max(axis=-1) < CONVERGED))
            if not len(rows):
                break
            shift[rows] /= 2
            parameters[rows] = self.model.fit(counts[rows], shift[rows], start)
        return parameters


@dataclass(frozen=True, slots=True)
class RankedSystem:
    """A system among those that it was compared with.

    Attributes:
        system: its name.
        wins, ties, losses: its battles; a battle that several people judged counts as one, in fractions.
        strength: log-odds of a win against an average system, None if systems cannot be compared.
        strength_interval: its 95 % interval.
        win_rate: expected share of wins against the other systems, with ties counted half.
        win_rate_interval: its 95 % interval.
        rank: 1 is the strongest system.
        ranks: first and last rank of the confidence set, None if there is none.
    """

    system: str
    wins: float
    ties: float
    losses: float
    strength: float | None
    strength_interval: Interval
    win_rate: float | None
    win_rate_interval: Interval
    rank: int | None
    ranks: tuple[int, int] | None

    @property
    def elo(self) -> float | None:
        """The strength in points of Elo's scale, 0 being an average system."""
        return None if self.strength is None else self.strength * ELO


def rank_systems(outcomes: Outcomes, seed: int = 0) -> tuple[RankedSystem, ...]:
    """Return the systems from the strongest to the weakest.

    Without a strength, `strength_interval` says why: a system has no battle, or the systems fall into groups between
    which there is none.
    """
    totals = outcomes.counts.sum(axis=0)
    model = outcomes.model
    if reason := cannot_be_compared(outcomes.systems, totals, model):
        absent = Interval(reason=reason)
        return tuple(
            RankedSystem(name, win, tie, loss, None, absent, None, absent, None, None)
            for name, (win, tie, loss) in zip(outcomes.systems, model.results(totals).tolist(), strict=True)
        )
    parameters = outcomes.fit(np.ones((1, len(outcomes.counts))))[0]
    clusters = int((outcomes.counts.sum(axis=(1, 2)) > 0).sum())
    estimates = _Estimates(outcomes, model, parameters)
    return estimates.with_intervals(totals, clusters, seed)


def cannot_be_compared(systems: Sequence[str], counts: Floats, model: Davidson) -> str:
    """Return why systems have no common scale of strength; empty if they have one."""
    if len(systems) < MIN_SYSTEMS:
        return "only one system"
    group = list(range(len(systems)))
    for row, (a, b) in enumerate(model.pairs):
        if counts[row].sum() > 0 and group[a] != group[b]:
            group = [group[a] if number == group[b] else number for number in group]
    if len(set(group)) == 1:
        return ""
    isolated = [name for name, number in zip(systems, group, strict=True) if number != group[0]]
    return f"no battle connects {', '.join(isolated):.200} with {systems[0]:.60}; have battles between them judged"


@dataclass(frozen=True, slots=True)
class _Estimates:
    """Parameters of the model, and how far they vary over other examples."""

    outcomes: Outcomes
    model: Davidson
    parameters: Floats

    def with_intervals(self, totals: Floats, clusters: int, seed: int) -> tuple[RankedSystem, ...]:
        k = self.model.systems
        strengths = _centre(self.parameters)
        rates = self.model.win_rates(self.parameters)
        absent = Interval(reason=f"fewer than {MIN_CLUSTERS} independent examples")
        of_strengths = of_rates = [absent] * k
        behind = None
        if clusters >= MIN_CLUSTERS:
            draws = self._draws(seed)
            quantile = t_quantile(clusters - 1)
            inflation = math.sqrt(clusters / (clusters - 1))
            covariance = self._model_covariance(totals)
            errors = np.maximum(_centre(draws).std(axis=0) * inflation, _errors(_centring(k), covariance))
            of_strengths = [_interval(value, error, quantile) for value, error in zip(strengths, errors, strict=True)]
            logits, logit_draws = _logit(rates), _logit(self.model.win_rates(draws))
            slopes = self.model.rate_gradient(self.parameters) / (rates * (1 - rates))[:, None]
            rate_errors = np.maximum(logit_draws.std(axis=0) * inflation, _errors(slopes, covariance))
            of_rates = [
                _interval(value, error, quantile, as_share=True)
                for value, error in zip(logits, rate_errors, strict=True)
            ]
            behind = self._behind(draws, covariance, inflation, quantile / NORMAL_QUANTILE)
        results = self.model.results(totals).tolist()
        systems = [
            RankedSystem(
                system=name,
                wins=win,
                ties=tie,
                losses=loss,
                strength=float(strengths[index]),
                strength_interval=of_strengths[index],
                win_rate=float(rates[index]),
                win_rate_interval=of_rates[index],
                rank=1 + int((strengths > strengths[index] + SAME_STRENGTH).sum()),
                ranks=None if behind is None else (1 + int(behind[index].sum()), k - int(behind[:, index].sum())),
            )
            for index, (name, (win, tie, loss)) in enumerate(zip(self.outcomes.systems, results, strict=True))
        ]
        return tuple(sorted(systems, key=lambda system: (system.rank or 0, self.outcomes.systems.index(system.system))))

    def _draws(self, seed: int) -> Floats:
        """Return the parameters fitted to resampled clusters, shape (RESAMPLES, systems + 1)."""
        outcomes, generator = self.outcomes, np.random.default_rng(seed)
        clusters = len(outcomes.counts)
        draws, share = [], np.full(clusters, 1 / clusters)
        for size in blocks(RESAMPLES, outcomes.counts[0].size + clusters + (self.model.systems + 1) ** 2):
            copies = generator.multinomial(clusters, share, size=size).astype(np.float64)
            draws.append(outcomes.fit(copies, self.parameters))
        return np.concatenate(draws)

    def _model_covariance(self, totals: Floats) -> Floats:
        covariance = np.linalg.inv(self.model.information(self.parameters, totals)).astype(np.float64)
        shift = self.outcomes.shift
        scaled: Floats = covariance * (1.0 if shift is None else shift.reduction)
        return scaled

    def _behind(self, draws: Floats, covariance: Floats, inflation: float, wider: float) -> Floats:
        """Return 1 where the system of a row is behind that of a column with simultaneous confidence, else 0."""
        first, second = np.triu_indices(self.model.systems, 1)
        contrasts = np.zeros((len(first), self.model.systems + 1))
        contrasts[np.arange(len(first)), first], contrasts[np.arange(len(first)), second] = 1.0, -1.0
        differences, values = draws @ contrasts.T, contrasts @ self.parameters
        errors = np.maximum(differences.std(axis=0) * inflation, _errors(contrasts, covariance))
        largest = (np.abs(differences - values) * inflation / errors).max(axis=1)
        critical = max(float(np.quantile(largest, LEVEL)), NORMAL_QUANTILE) * wider
        behind = np.zeros((self.model.systems, self.model.systems))
        behind[second, first] = values > critical * errors
        behind[first, second] = values < -critical * errors
        return behind


def _centre(parameters: Floats) -> Floats:
    strengths = parameters[..., :-1]
    centred: Floats = strengths - strengths.mean(axis=-1, keepdims=True)
    return centred


def _centring(systems: int) -> Floats:
    return np.column_stack((np.eye(systems) - 1 / systems, np.zeros(systems)))


def _errors(contrasts: Floats, covariance: Floats) -> Floats:
    errors: Floats = np.sqrt(np.einsum("ri,ij,rj->r", contrasts, covariance, contrasts))
    return errors


def _logit(shares: Floats) -> Floats:
    logits: Floats = np.log(shares) - np.log1p(-shares)
    return logits


def _interval(value: float, error: float, quantile: float, *, as_share: bool = False) -> Interval:
    ends = [float(value + sign * quantile * error) for sign in (-1, 1)]
    low, high = [1 / (1 + math.exp(-end)) for end in ends] if as_share else ends
    return Interval(METHOD, low, high, None if as_share else float(error))
