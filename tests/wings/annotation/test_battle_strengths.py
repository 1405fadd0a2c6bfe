"""Strengths against choix and a general optimiser, and the coverage of intervals and rank sets in simulations."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import choix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from figeval.wings.annotation.battles.davidson import Davidson
from figeval.wings.annotation.battles.outcomes import Field, Meeting
from figeval.wings.annotation.battles.powered import correct_by_judge
from figeval.wings.annotation.battles.ranking import Outcomes, RankedSystem, rank_systems

THETA = np.array([0.6, 0.2, -0.2, -0.6])
TIES = np.log(0.5)
PAIRS = list(combinations(range(len(THETA)), 2))


def draw(generator: Any, examples: int, shared: float = 0.0, position: float = 0.0) -> Any:
    """Return wins, ties and losses of each pair on each example, shape (examples, pairs, 3).

    `shared` is the standard deviation of a system's strength over examples, `position` what the first text gains; each
    text is first in half of the examples.
    """
    strengths = THETA + shared * generator.normal(size=(examples, len(THETA)))
    counts = np.zeros((examples, len(PAIRS), 3))
    for example in range(examples):
        for row, (a, b) in enumerate(PAIRS):
            gain = position if (example + row) % 2 else -position
            half = (strengths[example, a] - strengths[example, b] + gain) / 2
            weights = np.exp([half, TIES, -half])
            counts[example, row, generator.choice(3, p=weights / weights.sum())] = 1
    return counts


def ranked(counts: Any, seed: int = 0) -> list[RankedSystem]:
    """Return the systems in the order of their numbers."""
    systems = rank_systems(Outcomes(tuple(map(str, range(len(THETA)))), counts), seed)
    return sorted(systems, key=lambda system: int(system.system))


def contains(system: RankedSystem, strength: float) -> bool:
    interval = system.strength_interval
    assert interval.low is not None and interval.high is not None
    return bool(interval.low <= strength <= interval.high)


# ---- independent code ------------------------------------------------------------------------------------------------


def test_strengths_without_ties_are_those_of_choix() -> None:
    generator = np.random.default_rng(1)
    counts = generator.integers(1, 20, size=(10, 3)).astype(float) * [1, 0, 1]
    wins = [
        game
        for row, (a, b) in enumerate(combinations(range(5), 2))
        for game in [(a, b)] * int(counts[row, 0]) + [(b, a)] * int(counts[row, 2])
    ]
    expected = choix.opt_pairwise(5, wins)
    strengths = Davidson(5, has_ties=False, prior=0).fit(counts)[:-1]
    assert strengths - strengths.mean() == pytest.approx(expected - expected.mean(), abs=1e-4)


@pytest.mark.parametrize("prior", [0.0, 0.5])
def test_strengths_with_ties_maximise_the_likelihood(prior: float) -> None:
    generator = np.random.default_rng(2)
    counts = generator.integers(1, 9, size=(len(PAIRS), 3))

    def loss(parameters: Any) -> float:
        *strengths, tie = parameters
        games = [(strengths[a] - strengths[b], row) for (a, b), row in zip(PAIRS, counts, strict=True)]
        games += [(strength, np.full(3, prior / 3)) for strength in strengths]
        total = 0.0
        for difference, row in games:
            logits = np.array([difference / 2, tie, -difference / 2])
            total -= row @ (logits - np.log(np.exp(logits).sum()))
        return total + (0 if prior else sum(strengths) ** 2)

    expected = minimize(loss, np.zeros(5), tol=1e-12).x
    assert Davidson(4, prior=prior).fit(counts.astype(float)) == pytest.approx(expected, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(arrays(np.int64, (len(PAIRS), 3), elements=st.integers(0, 3)))
def test_any_results_have_finite_strengths(counts: Any) -> None:
    """And exchanging all texts turns the order round, since no system is a favourite of the model."""
    model = Davidson(len(THETA))
    strengths, mirrored = (model.fit(each.astype(float)) for each in (counts, counts[:, ::-1]))
    assert np.isfinite(strengths).all() and np.abs(model.gradient(strengths, counts.astype(float))).max() < 1e-6
    assert mirrored[:-1] == pytest.approx(-strengths[:-1], abs=1e-6)
    assert model.win_rates(strengths).mean() == pytest.approx(0.5)


def test_a_fit_to_many_resamples_is_that_to_each() -> None:
    counts = draw(np.random.default_rng(3), 20)
    model = Davidson(len(THETA))
    together = model.fit(np.stack([counts[:9].sum(axis=0), counts[9:].sum(axis=0)]))
    assert together[0] == pytest.approx(model.fit(counts[:9].sum(axis=0)), abs=1e-7)


# ---- simulations -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_preference_for_the_first_text_favours_nobody() -> None:
    """Orders are balanced, so it makes the strengths smaller, but not those of some systems rather than others."""
    generator = np.random.default_rng(4)
    fair, biased = (
        np.mean(
            [[system.strength or 0.0 for system in ranked(draw(generator, 40, position=gain))] for _ in range(30)],
            axis=0,
        )
        for gain in (0.0, 1.5)
    )
    assert fair == pytest.approx(THETA, abs=0.12)
    shrunk = biased / fair
    assert (shrunk < 1.05).all() and np.ptp(shrunk) < 0.35


@pytest.mark.slow
@pytest.mark.parametrize(("examples", "shared"), [(10, 0.0), (60, 0.7)])
def test_intervals_and_rank_sets_cover(examples: int, shared: float) -> None:
    """With `shared`, the truth is what infinitely many examples would give, which the same fit finds in 4,000."""
    generator = np.random.default_rng(5)
    truth = Davidson(len(THETA)).fit(draw(generator, 4000, shared).sum(axis=0))[:-1]
    truth -= truth.mean()
    covered = ranks = 0
    for seed in range(150):
        systems = ranked(draw(generator, examples, shared), seed)
        covered += sum(contains(system, strength) for system, strength in zip(systems, truth, strict=True))
        sets = [system.ranks for system in systems]
        ranks += all(ends is not None and ends[0] <= rank <= ends[1] for rank, ends in enumerate(sets, 1))
    assert covered / 600 > 0.93
    assert ranks / 150 > 0.93


@pytest.mark.slow
def test_equal_systems_are_told_apart_in_few_draws() -> None:
    generator, wrong = np.random.default_rng(6), 0
    for seed in range(150):
        counts = generator.multinomial(1, [0.4, 0.2, 0.4], size=(30, len(PAIRS))).astype(float)
        wrong += any(system.ranks != (1, len(THETA)) for system in ranked(counts, seed))
    assert wrong / 150 < 0.09


@pytest.mark.slow
@pytest.mark.parametrize(("right", "narrowest", "widest"), [(0.9, 0.5, 0.8), (0.0, 0.9, 1.05)])
def test_a_biased_judge_makes_intervals_narrower_and_no_less_right(
    right: float, narrowest: float, widest: float
) -> None:
    """It decides all of 600 battles and likes system 0 too much; people decide 60, like it in a share of `right`."""
    generator = np.random.default_rng(7)
    names = tuple(map(str, range(len(THETA))))
    groups = {str(example): example for example in range(100)}
    battles = [Meeting(names[a], names[b], str(example)) for example in groups.values() for a, b in PAIRS]
    field = Field(names, groups, frozenset(battles), ())
    covered = 0
    widths: list[float] = []
    alone: list[float] = []
    for seed in range(60):
        outcomes = draw(generator, len(groups)).reshape(-1, 3)
        liked = np.array([0.0 if battle.a == "0" else 0.5 for battle in battles])
        guesses = np.eye(3)[(generator.random(len(battles)) < liked) * 2]
        judged = np.where(generator.random((len(battles), 1)) < right, outcomes, guesses)
        drawn = generator.choice(len(battles), 60, replace=False)
        people = {battles[index]: outcomes[index] for index in drawn}
        judge = dict(zip(battles, judged, strict=True))
        corrected = correct_by_judge(field, people, judge, frozenset(battles), has_ties=True)
        assert corrected is not None
        by_people = Outcomes(names, field.count(people, has_ties=True))
        for result, ends in ((corrected, widths), (by_people, alone)):
            for system in rank_systems(result, seed):
                interval = system.strength_interval
                assert interval.low is not None and interval.high is not None
                ends.append(interval.high - interval.low)
                covered += result is corrected and contains(system, THETA[int(system.system)])
    assert covered / 240 > 0.92
    assert narrowest < np.mean(widths) / np.mean(alone) < widest
