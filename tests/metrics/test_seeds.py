"""Mean, spread and interval over seeds, against numbers worked out by hand and against a simulation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtrit

from figeval.metrics.discrimination import Judged, auc
from figeval.metrics.intervals import by_cluster, interval_of_mean, spread_of
from figeval.metrics.seeds import (
    SeededValues,
    discrimination_over_seeds,
    interval_over_languages,
    interval_over_seeds,
    over_seeds,
)


def test_mean_and_standard_deviation() -> None:
    summary = over_seeds([0.2, 0.4, 0.6])
    assert (summary.mean, summary.sd) == (pytest.approx(0.4), pytest.approx(0.2))
    assert over_seeds([0.2]).sd is None


def test_by_hand() -> None:
    """Three seeds, four examples: means over seeds 1, 2/3, 1/3, 0; scores .75, .5 and .25. The examples' variance is
    drawn towards .25 by a prior of h = s²/.25/2 beside E = 4 · .25 events; Wilson's ends are the roots of
    n (x − m)² = t² x (1 − x) with n = m (1 − m) / V.
    """
    values = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]]
    square = np.var([1, 2 / 3, 1 / 3, 0], ddof=1)
    prior = square / 0.25 / 2
    examples = (square + prior * 0.25) / (1 + prior) / 4
    seeds = np.var([0.75, 0.5, 0.25], ddof=1) / 3
    variance = examples + seeds
    freedom = variance**2 / (examples**2 / 3 + seeds**2 / 2)
    quantile = stdtrit(freedom, 0.975)
    interval = interval_over_seeds(values, [None] * 4, (0.0, 1.0))
    n = 0.25 / variance
    low, high = np.sort(np.roots([n + quantile**2, -n - quantile**2, n / 4]).real)
    assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high))
    assert (interval.method, interval.stderr) == ("wilson over seeds and examples", pytest.approx(math.sqrt(variance)))
    free = interval_over_seeds(values, [None] * 4, None)
    variance = square / 4 + seeds
    freedom = variance**2 / ((square / 4) ** 2 / 3 + seeds**2 / 2)
    margin = stdtrit(freedom, 0.975) * math.sqrt(variance)
    assert (free.low, free.high) == (pytest.approx(0.5 - margin), pytest.approx(0.5 + margin))


@pytest.mark.parametrize(
    ("values", "clusters", "reason"),
    [
        ([[1, 0]], [None, None], "fewer than three seeds"),
        ([[1, 0], [0, 1]], [None, None], "fewer than three seeds"),
        ([[1, 0], [0, 1], [1, 1]], ["a", "a"], "one cluster"),
    ],
)
def test_where_there_is_none(values: list[list[float]], clusters: list[str | None], reason: str) -> None:
    interval = interval_over_seeds(values, clusters, (0.0, 1.0))
    assert (interval.reason, interval.low, interval.high) == (reason, None, None)


def test_trainings_that_agree_everywhere_are_no_more_certain_than_one() -> None:
    clusters = [f"c{row // 5}" for row in range(100)]
    single = interval_of_mean(spread_of(*by_cluster(np.ones(100), clusters)), (0.0, 1.0))
    assert interval_over_seeds(np.ones((3, 100)), clusters, (0.0, 1.0)) == single
    assert 0.8 < single.low < single.high == 1
    assert interval_over_seeds(np.ones((3, 100)), clusters, None).reason == "nothing differs"


def simulate_scores(
    generator: np.random.Generator, seeds: int, clusters: int, rows: int
) -> tuple[np.ndarray, list[str | None]]:
    """Scores around 0 with parts of the seed, the cluster, the example and of nothing."""
    seed = generator.normal(0, 0.1, (seeds, 1))
    cluster = np.repeat(generator.normal(0, 0.3, clusters), rows)
    example = generator.normal(0, 0.3, clusters * rows)
    noise = generator.normal(0, 0.3, (seeds, clusters * rows))
    return seed + cluster + example + noise, [f"c{number // rows}" for number in range(clusters * rows)]


def test_numbers_of_words_over_seeds_are_not_negative() -> None:
    values = [[4.0, 12.0, 1.0], [2.0, 30.0, 0.0], [5.0, 9.0, 2.0]]
    interval = interval_over_seeds(values, [None] * 3, (0.0, math.inf))
    by_t = interval_over_seeds(values, [None] * 3, None)
    assert by_t.low is not None and by_t.low < 0
    assert interval.low is not None and interval.high is not None
    assert 0 < interval.low < np.mean(values) < interval.high
    assert interval.low * interval.high == pytest.approx(np.mean(values) ** 2)
    assert (interval.stderr, interval.method) == (by_t.stderr, "score over seeds and examples")


def test_it_covers_where_others_do_not() -> None:
    """Three seeds, thirty clusters of four: the interval of the examples alone leaves out the seeds."""
    generator = np.random.default_rng(11)
    held, held_by_examples = 0, 0
    times = 1000
    for _ in range(times):
        values, clusters = simulate_scores(generator, 3, 30, 4)
        interval = interval_over_seeds(values, clusters, None)
        assert interval.low is not None and interval.high is not None
        held += interval.low <= 0 <= interval.high
        means = values.mean(axis=0).reshape(30, 4).mean(axis=1)
        held_by_examples += abs(means.mean()) <= stdtrit(29, 0.975) * means.std(ddof=1) / math.sqrt(30)
    assert 0.93 < held / times < 0.99
    assert held_by_examples / times < 0.88


def table(generator: np.random.Generator, seeds: np.ndarray, clusters: list[str | None]) -> SeededValues:
    """Scores of three trainings that are as good as `seeds` says, with parts of the cluster and of the example."""
    effects = {name: generator.normal(0, 0.3) for name in dict.fromkeys(clusters)}
    parts = np.array([effects[name] for name in clusters]) + generator.normal(0, 0.3, (len(seeds), len(clusters)))
    return SeededValues(seeds[:, None] + parts, clusters, None)


def test_languages_by_hand() -> None:
    """Half of the clusters are shared. Residuals, variances and covariances are worked out cluster by cluster."""
    generator = np.random.default_rng(3)
    names = {"en": range(20), "zh": range(10, 30)}
    parts = {
        language: table(generator, seeds, [f"c{c}" for c in cluster_numbers for _ in range(4)])
        for (language, cluster_numbers), seeds in zip(
            names.items(), np.array([[0.1, 0.2, 0.4], [0.5, 0.3, 0.9]]), strict=True
        )
    }
    interval = interval_over_languages(parts)
    means, errors, residuals, margins = [], [], [], []
    for language_table in parts.values():
        each = language_table.values.mean(axis=0)
        means.append(each.mean())
        sums = {
            str(name): (each - each.mean())[4 * number : 4 * number + 4].sum()
            for number, name in enumerate(dict.fromkeys(language_table.clusters))
        }
        residuals.append(sums)
        errors.append(20 / 19 * sum(total**2 for total in sums.values()) / 80**2)
        alone = interval_over_seeds(language_table.values, language_table.clusters, None)
        assert alone.low is not None
        margins.append(means[-1] - alone.low)
    shared = sum(total * residuals[1].get(name, 0.0) for name, total in residuals[0].items())
    rho = max(
        0.0,
        shared / math.prod(math.sqrt(sum(total**2 for total in residual_sums.values())) for residual_sums in residuals),
    )
    scores = [language_table.values.mean(axis=1) for language_table in parts.values()]
    of_seeds = [np.var(seed_scores, ddof=1) / 3 for seed_scores in scores]
    together = sum((a - means[0]) * (b - means[1]) for a, b in zip(*scores, strict=True)) / 2 / 3
    assert rho > 0 and together > 0, "both parts matter in this case"
    covariance = rho * math.sqrt(errors[0] * errors[1]) + together
    variances = [error + other for error, other in zip(errors, of_seeds, strict=True)]
    correlation = covariance / math.sqrt(variances[0] * variances[1])
    margin = math.sqrt(margins[0] ** 2 + margins[1] ** 2 + 2 * correlation * margins[0] * margins[1]) / 2
    centre = sum(means) / 2
    assert (interval.low, interval.high) == (pytest.approx(centre - margin), pytest.approx(centre + margin))
    assert interval.stderr == pytest.approx(math.sqrt(sum(variances) + 2 * covariance) / 2)
    assert interval.method == "over languages, seeds and examples"


def test_a_language_twice_is_no_new_evidence_over_seeds_either() -> None:
    seeded = table(np.random.default_rng(4), np.array([0.1, 0.2, 0.4]), [f"c{row // 3}" for row in range(60)])
    alone, twice = (
        interval_over_seeds(seeded.values, seeded.clusters, None),
        interval_over_languages({"en": seeded, "zh": seeded}),
    )
    assert (twice.low, twice.high, twice.stderr) == pytest.approx((alone.low, alone.high, alone.stderr))


def test_a_language_without_an_interval_over_seeds() -> None:
    seeded = table(np.random.default_rng(5), np.array([0.1, 0.2, 0.4]), [f"c{row // 3}" for row in range(60)])
    bounded = replace(seeded, values=seeded.values.clip(0, 1), bounds=(0.0, 1.0))
    flat = SeededValues(np.ones((3, 8)), [None] * 8, (0.0, 1.0))
    half = interval_over_languages({"en": bounded, "zh": flat})
    assert half.low < half.high and half.stderr is None
    unbounded = replace(flat, bounds=None)
    assert interval_over_languages({"en": seeded, "zh": unbounded}).reason == "in zh, nothing differs"
    two = SeededValues(seeded.values[:2], seeded.clusters, None)
    assert interval_over_languages({"en": two, "zh": two}).reason == "fewer than three seeds"


@pytest.mark.slow
def test_it_covers_the_mean_over_languages() -> None:
    """Seeds and clusters in common: the squared margins of the languages, added up, would be too narrow."""
    generator = np.random.default_rng(12)
    held, held_apart, times = 0, 0, 400
    for _ in range(times):
        seeds = generator.normal(0, 0.1, 5)
        effects = np.repeat(generator.normal(0, 0.3, 30), 4)
        clusters: list[str | None] = [f"c{row // 4}" for row in range(120)]
        parts = {
            name: SeededValues(seeds[:, None] + effects + generator.normal(0, 0.4, (5, 120)), clusters, None)
            for name in ("en", "de", "zh")
        }
        interval = interval_over_languages(parts)
        assert interval.low is not None and interval.high is not None
        held += interval.low <= 0 <= interval.high
        alone = [
            interval_over_seeds(language_table.values, language_table.clusters, None)
            for language_table in parts.values()
        ]
        margin = math.sqrt(sum(((interval.high or 0) - (interval.low or 0)) ** 2 / 4 for interval in alone)) / 3
        held_apart += abs((interval.low + interval.high) / 2) <= margin
    assert held / times >= 0.93
    assert held_apart / times < 0.85


def simulate_judgements(generator: np.random.Generator, seeds: int, clusters: int, rows: int) -> list[list[Judged]]:
    """Scores with parts of the cluster, the example and nothing; the seed's part is how well kinds are told apart."""
    cluster = np.repeat(generator.normal(0, 0.5, clusters), rows)
    example = generator.normal(0, 0.5, clusters * rows)
    judgements = []
    for _ in range(seeds):
        noise = generator.normal(0, 0.7, clusters * rows)
        spread = 1 + generator.normal(0, 0.25)
        scores = cluster + example + noise + spread * (np.arange(clusters * rows) % 2)
        about = enumerate(scores)
        judgements.append([Judged(positive=n % 2 == 1, score=float(s), cluster=f"c{n // rows}") for n, s in about])
    return judgements


@pytest.mark.slow
def test_areas_over_seeds_cover_where_those_of_examples_do_not() -> None:
    """Five seeds that differ much, fifty clusters of four: the folds' interval alone leaves out the seeds."""
    generator = np.random.default_rng(3)
    truth = np.mean([auc(simulate_judgements(generator, 1, 200, 4)[0]).value for _ in range(200)])
    held, held_by_examples, times = 0, 0, 200
    for _ in range(times):
        seeds = simulate_judgements(generator, 5, 50, 4)
        interval = discrimination_over_seeds(auc, seeds)
        folds = auc([replace(judgement, fold=seed) for seed, judged in enumerate(seeds) for judgement in judged])
        assert None not in (interval.low, interval.high, folds.low, folds.high)
        held += interval.low <= truth <= interval.high  # type: ignore[operator]
        held_by_examples += folds.low <= truth <= folds.high  # type: ignore[operator]
    assert held / times > 0.93
    assert held_by_examples / times < held / times - 0.02


def test_areas_over_seeds_that_agree_are_those_of_one() -> None:
    """But for half an event, which counts for less beside three times the rows."""
    judged = simulate_judgements(np.random.default_rng(4), 1, 30, 4)[0]
    for clusters in (True, False):
        judgements = [judgement if clusters else replace(judgement, cluster=None) for judgement in judged]
        alone, of_seeds = auc(judgements), discrimination_over_seeds(auc, [judgements] * 3)
        assert (of_seeds.low, of_seeds.high) == (
            pytest.approx(alone.low, abs=0.01),
            pytest.approx(alone.high, abs=0.01),
        )
    assert discrimination_over_seeds(auc, [judged] * 2).reason == "fewer than three seeds"
