"""Scores that are no means, the detectable difference, plans and equivalence, against brute force and simulations."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from figeval.builtin.plugins.rating.rating_metrics import FEATURES, correlation
from figeval.metrics.classification import macro_f1
from figeval.metrics.differences import score_interval
from figeval.metrics.discrimination import area, area_features
from figeval.metrics.intervals import by_cluster
from figeval.metrics.paired import PairedTest, compare_paired, paired_over_seeds, sign_flip
from figeval.metrics.statistic import Statistic, as_statistic, ratio
from figeval.wings.comparison import exchange
from figeval.wings.comparison.detectable import detectable, detectable_by, equivalence, mcnemar_power, plan_comparison
from figeval.wings.comparison.exchange import statistic_over_languages
from tests.metrics.test_paired_compare import ZIPF, draw_skewed

F1: Statistic = as_statistic(macro_f1, ("x", "y"))


def paired_statistic(features_a: Any, features_b: Any, clusters: Any, combine: Any, **options: Any) -> PairedTest:
    """Compare two runs in one language."""
    return statistic_over_languages({"": features_a}, {"": features_b}, {"": clusters}, combine, **options)


PAIRS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)), min_size=2, max_size=9)


@given(PAIRS)
def test_a_mean_has_the_p_of_the_sign_flip_test(rows: list[tuple[int, int, int]]) -> None:
    """For few clusters, both try all patterns: to exchange two answers is to change the sign of their difference.

    In clusters of unequal size, both have the same t test, up to the linear approximation of the score.
    """
    a, b, names = ([row[part] for row in rows] for part in range(3))
    clusters = [f"c{name}" for name in names]
    comparison = paired_statistic([(x, 1.0) for x in a], [(x, 1.0) for x in b], clusters, ratio)
    sums = [sum(x - y for x, y, name in rows if name == cluster) for cluster in sorted(set(names))]
    if len(sums) > 1:
        flips = sign_flip(np.array(sums, dtype=float))
        assert comparison.p == pytest.approx(flips) or (
            comparison.test == "permutation and t" and (comparison.p or 0) > flips
        )
    assert comparison.difference == pytest.approx((sum(a) - sum(b)) / len(rows))


def f1_features(gold: Any, predicted: Any) -> list[list[float]]:
    """Per example: true positives of each label, then predictions, then golds."""
    true, predictions = (np.asarray(labels)[:, None] == (0, 1) for labels in (gold, predicted))
    return np.hstack([predictions & true, predictions, true]).astype(float).tolist()


def test_permutations_of_f1_are_those_of_brute_force() -> None:
    generator = np.random.default_rng(5)
    gold, a, b = (generator.integers(0, 2, size=10) for _ in range(3))
    features_a, features_b = np.array(f1_features(gold, a)), np.array(f1_features(gold, b))

    def score(features: Any) -> float:
        sums = features.sum(axis=0).reshape(3, 2).T
        return float(np.mean([2 * hits / (predicted + true) for hits, predicted, true in sums]))

    comparison = paired_statistic(features_a.tolist(), features_b.tolist(), [None] * 10, F1.combine)
    assert comparison.difference == pytest.approx(score(features_a) - score(features_b))
    every = []
    for pattern in product((False, True), repeat=10):
        exchanged = np.array(pattern)[:, None]
        first, other = np.where(exchanged, features_b, features_a), np.where(exchanged, features_a, features_b)
        every.append(abs(score(first) - score(other)))
    assert comparison.p == pytest.approx(np.mean(np.array(every) >= abs(comparison.difference or 0) - 1e-9))


def test_a_language_counts_the_same_however_many_examples_it_has() -> None:
    """Constant answers, right for one language each: F1 is 1/3 in both, and would be higher or lower in a pool."""
    gold = {"de": [0, 1] * 30, "en": [0, 1] * 50}
    a, b = ({"de": [0] * 60, "en": [1] * 100}, {"de": [1 - label for label in gold["de"]], "en": [0, 1, 1, 1] * 25})
    of_a, of_b = ({name: f1_features(gold[name], run[name]) for name in gold} for run in (a, b))
    clusters = {name: [None] * len(rows) for name, rows in gold.items()}
    comparison = statistic_over_languages(of_a, of_b, clusters, F1.combine)
    alone = [paired_statistic(of_a[name], of_b[name], clusters[name], F1.combine) for name in gold]
    assert comparison.value_a == pytest.approx(1 / 3)
    assert comparison.difference == pytest.approx(sum(comparison.difference or 0 for comparison in alone) / 2)
    assert comparison.low is not None
    assert comparison.high is not None
    assert comparison.low < (comparison.difference or 0) < comparison.high
    fewer = {"de": clusters["de"][:20], "en": clusters["en"]}
    short_a, short_b = ({**features, "de": features["de"][:20]} for features in (of_a, of_b))
    assert statistic_over_languages(short_a, short_b, fewer, F1.combine).note.endswith("effective examples in de")


def test_one_cluster_and_an_undefined_score_have_a_reason() -> None:
    rows = [(1.0, 1.0), (0.0, 1.0)]
    assert paired_statistic(rows, rows, ["c", "c"], ratio).note.startswith("no test and no interval: all examples")
    nothing = [(0.0, 0.0)] * 2
    assert paired_statistic(nothing, nothing, [None] * 2, ratio).note == "the score of one of the runs is undefined"
    assert paired_statistic([None], [rows[0]], [None], ratio).note == "no example that both runs answered"


def test_few_differing_examples_are_no_evidence_of_equivalence_over_seeds() -> None:
    """Half of such samples have less disagreement than the truth, and a standard error that is too small."""
    right, wrong = [1.0] * 100, [1.0] * 98 + [0.0] * 2
    comparison = paired_over_seeds([right] * 3, [wrong] * 3, [None] * 100)
    assert (comparison.differing, equivalence(comparison, 0.05)) == (2, None)
    assert comparison.note == "only 2 examples differ: the interval may be too narrow"


def test_few_differing_clusters_are_no_evidence_of_equal_f1() -> None:
    """The bootstrap's standard error is as poor as that of t if hardly any cluster differs."""
    right = [(1.0, 1.0)] * 100
    wrong = [(1.0, 1.0)] * 98 + [(0.0, 1.0)] * 2
    comparison = paired_statistic(right, wrong, [None] * 100, ratio)
    assert comparison.low is not None
    assert (comparison.differing, equivalence(comparison, 0.05)) == (2, None)
    assert comparison.note == "only 2 examples differ: the interval may be too narrow"


def test_the_detectable_difference_of_a_plan_is_that_of_the_exact_test() -> None:
    """With 20 % of the examples decided by one model only, 625 examples find 5.1 points and 3,922 find 2.

    Miller's (2024) normal approximation has 5 and 2. Five clusters find nothing, because p cannot fall below 1/16.
    """
    for n, points in ((625, 5.13), (3922, 2.02)):
        assert 100 * (plan_comparison([1] * n, 0.2, 0.0).difference or 0) == pytest.approx(points, abs=0.01)
    assert plan_comparison([4] * 250, 0.2, 0.1).effect == pytest.approx(1.3)
    assert plan_comparison([1] * 20, 0.2, 0.0).difference is None
    assert plan_comparison([200] * 5, 0.2, 0.0).difference is None
    assert (plan_comparison([200] * 6, 0.2, 0.0).difference or 0) > 1.3 * (
        plan_comparison([1] * 1200, 0.2, 0.0).difference or 1
    )


def test_what_a_comparison_could_have_found() -> None:
    """One example of 1,000 differs: a difference of .79 points has eight such examples, and six of them are needed."""
    detectable = detectable_by(compare_paired([1.0] + [0.0] * 999, [0.0] * 1000))
    assert detectable == pytest.approx(0.00789, abs=1e-5)
    assert mcnemar_power(1000, 0.00789, 0.00789, 0.05) == pytest.approx(0.8, abs=1e-3)
    assert (
        detectable_by(compare_paired([1.0] * 9 + [0.0], [0.0] * 10, [f"c{number // 2}" for number in range(10)]))
        is None
    )
    assert detectable_by(compare_paired([1.0, 1.0], [0.0, 1.0])) is None


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=8, max_size=40), st.floats(0.01, 0.9))
def test_equivalence_is_two_one_sided_t_tests(rows: list[tuple[int, int]], margin: float) -> None:
    a, b = zip(*((score + 2, other) for score, other in rows), strict=True)
    p = equivalence(compare_paired(a, b, bounds=None), margin)
    difference = np.array(a) - np.array(b)
    if np.count_nonzero(difference) < 10 or np.ptp(difference) == 0:
        assert p is None
        return
    upper = stats.ttest_1samp(difference, margin, alternative="less").pvalue
    lower = stats.ttest_1samp(difference, -margin, alternative="greater").pvalue
    assert p == pytest.approx(max(upper, lower), abs=1e-9)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 40), st.floats(0.01, 0.5))
def test_equivalence_of_0_1_values_is_tangos_score_test(a_only: int, b_only: int, same: int, margin: float) -> None:
    n = a_only + b_only + same
    result = compare_paired([1.0] * a_only + [0.0] * (b_only + same), [0.0] * a_only + [1.0] * b_only + [0.0] * same)
    p = equivalence(result, margin)
    for z in (1.2, 1.645, 2.0):
        low, high = score_interval(a_only, b_only, n, z)
        if min(abs(low + margin), abs(high - margin)) > 1e-6:
            assert ((p or 0) < stats.norm.sf(z)) == (-margin < low and high < margin)


@pytest.mark.slow
def test_permutation_of_f1_keeps_its_level_with_unequal_clusters() -> None:
    """Two models of equal quality whose preferences vary by cluster; a test of examples would reject far too often."""
    generator = np.random.default_rng(11)
    sizes = np.maximum(1, generator.lognormal(1, 1, size=40).astype(int))
    names = [f"c{number}" for number, size in enumerate(sizes) for _ in range(size)]
    rejected = 0
    for repeat in range(400):
        easy = np.repeat(generator.beta(2, 1, size=(2, 40)), sizes, axis=1)
        gold = generator.integers(0, 2, size=len(names))
        answers = [np.where(generator.random(len(names)) < easy[model], gold, 1 - gold) for model in (0, 1)]
        features = [f1_features(gold, answer) for answer in answers]
        rejected += (paired_statistic(*features, names, F1.combine, seed=repeat).p or 1) < 0.05
    assert 6 <= rejected <= 32  # 20 expected; .015 and .08 are three standard errors away


@pytest.mark.slow
def test_the_detectable_difference_is_found_with_probability_80() -> None:
    generator, n = np.random.default_rng(13), 400
    effect = plan_comparison([1] * n, 0.2, 0.0).difference or 0
    rejections, guesses = 0, []
    for _ in range(500):
        decided = generator.random(n)
        difference = np.where(decided < 0.1 + effect / 2, 1.0, np.where(decided < 0.2, -1.0, 0.0))
        result = compare_paired(np.maximum(difference, 0).tolist(), np.maximum(-difference, 0).tolist())
        rejections += (result.low or 0) > 0 or (result.high or 0) < 0
        guesses.append(detectable_by(result) or 0)
    assert 0.75 < rejections / 500 < 0.88  # the standard error is .018
    assert np.mean(guesses) == pytest.approx(effect, rel=0.03)
    assert detectable(1.0) == pytest.approx(2.802, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "size", "share"), [(6, 20, 0.3), (8, 20, 0.3), (12, 10, 0.3), (40, 5, 0.1)])
def test_the_detectable_difference_is_found_in_few_clusters(clusters: int, size: int, share: float) -> None:
    """.75 with 6 clusters, whose sums are sometimes 0, and .79 with 12."""
    effect = plan_comparison([size] * clusters, share, 0.0).difference or 0.0
    generator, names = np.random.default_rng(3), [f"c{number // size}" for number in range(clusters * size)]
    rejections = 0
    for _ in range(500):
        decided = generator.random(clusters * size)
        a, b = decided < (share + effect) / 2, (decided >= (share + effect) / 2) & (decided < share)
        rejections += (compare_paired(a.astype(float).tolist(), b.astype(float).tolist(), names).p or 1) < 0.05
    print(f"{clusters} x {size}: {rejections / 500}")
    assert 0.7 < rejections / 500 < 0.9  # the standard error is .018


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [6, 12, 20])
def test_the_detectable_difference_that_is_printed_is_found_in_few_clusters(clusters: int) -> None:
    """Values are shares, whose sums are hardly ever equal; what is printed is an estimate and varies."""
    generator, names = np.random.default_rng(8), [f"c{number // 5}" for number in range(clusters * 5)]

    def compared(difference: float) -> Any:
        differences = np.repeat(generator.normal(0, 0.1, clusters), 5) + generator.normal(0, 0.2, clusters * 5)
        return compare_paired((difference + differences).tolist(), [0.0] * len(differences), names, None)

    printed = float(np.mean([detectable_by(compared(0.1)) or 0 for _ in range(200)]))
    power = np.mean([(compared(printed).p or 1) < 0.05 for _ in range(500)])
    print(f"{clusters} clusters: {printed:.3f}, {power:.3f}")
    assert 0.72 < power < 0.88


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clusters", "size", "margin"), [(100, 1, 0.05), (200, 1, 0.02), (100, 5, 0.05), (50, 4, 0.05)]
)
def test_equivalence_keeps_its_level_if_hardly_any_example_differs(clusters: int, size: int, margin: float) -> None:
    """A is worse by exactly the margin, and never better; t tests would call it equivalent in up to 15 %."""
    generator, names, wrong = np.random.default_rng(4), [f"c{number // size}" for number in range(clusters * size)], 0
    for _ in range(500):
        differences = np.repeat(generator.beta(margin * 3, (1 - margin) * 3, clusters), size)
        worse = generator.random(clusters * size) < differences
        result = compare_paired((~worse).astype(float).tolist(), [1.0] * len(worse), None if size == 1 else names)
        wrong += (equivalence(result, margin) or 1) < 0.05
    print(f"{clusters} x {size}: {wrong / 500}")
    assert wrong / 500 < 0.07  # two standard errors above .05


@pytest.mark.slow
@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize(("clusters", "size"), [(40, 5), (100, 5), (150, 0)])
def test_bootstrap_intervals_cover_a_difference_in_f1(clusters: int, size: int) -> None:
    """A is right in .8 and B in .7 of the examples of both labels, which is their macro-F1, too."""
    generator, covered, intervals = np.random.default_rng(6), 0, 0
    for repeat in range(300):
        sizes = [size] * clusters if size else np.maximum(1, generator.lognormal(1, 1, size=clusters).astype(int))
        index = np.repeat(np.arange(clusters), sizes)
        gold = generator.integers(0, 2, size=len(index))
        skill = (generator.beta(share * 4, (1 - share) * 4, clusters)[index] for share in (0.8, 0.7))
        answers = [np.where(generator.random(len(index)) < ability, gold, 1 - gold) for ability in skill]
        features = (f1_features(gold, answer) for answer in answers)
        comparison = paired_statistic(
            *features, [f"c{cluster}" for cluster in index], F1.combine, seed=repeat, draws=100
        )
        if comparison.low is not None and comparison.high is not None:
            intervals += 1
            covered += comparison.low <= 0.1 <= comparison.high
    print(f"{clusters} x {size}: {covered / intervals:.3f} of {intervals}")
    assert covered / intervals > 0.9


def test_an_interval_has_no_impossible_differences() -> None:
    comparison = compare_paired([4.0, 0.0, 4.0, 4.0, 4.0], [0.0, 1.0, 0.0, 0.0, 1.0], bounds=None)
    assert comparison.high is not None
    assert comparison.high > 4
    assert comparison.within((0.0, 4.0)).high == 4.0
    assert comparison.within((0.0, math.inf)) == comparison.within(None) == comparison


@pytest.mark.slow
def test_skewed_differences_raise_few_false_alarms() -> None:
    generator, repeats = np.random.default_rng(6), 1000
    alarms = {"flip": 0, "means": 0, "statistic": 0}
    for repeat in range(repeats):
        a, b, names = draw_skewed(generator, ZIPF, 0.04)
        sums, *_ = by_cluster(np.subtract(a, b), names)
        alarms["flip"] += sign_flip(sums) <= 0.05
        alarms["means"] += (compare_paired(a, b, names).p or 1) <= 0.05
        if repeat < 400:
            features = [[(value, 1.0) for value in run] for run in (a, b)]
            alarms["statistic"] += (paired_statistic(*features, names, ratio, draws=999).p or 1) <= 0.05
    assert alarms["flip"] / repeats > 0.09
    assert alarms["means"] / repeats < 0.06
    assert alarms["statistic"] / 400 < 0.07


@pytest.mark.slow
def test_the_planned_difference_is_found_in_clusters_of_unequal_size() -> None:
    effect = plan_comparison(ZIPF.tolist(), 0.2, 0.0).difference or 0.0
    generator, rejections = np.random.default_rng(1), 0
    names = [f"c{number}" for number in np.repeat(np.arange(50), ZIPF)]
    for _ in range(600):
        decided = generator.random(len(names))
        a, b = decided < (0.2 + effect) / 2, (decided >= (0.2 + effect) / 2) & (decided < 0.2)
        rejections += (compare_paired(a.astype(float).tolist(), b.astype(float).tolist(), names).p or 1) < 0.05
    assert 0.73 < rejections / 600 < 0.87


# ---- false alarms and coverage of scores that are no means, for runs that are alike in the score alone --------------

REPEATS = 400
RESAMPLES = 500  # intervals of as few cover .002 less often
CLUSTER_VARIANCE = 0.36  # share of the variance that a cluster has in common
STRENGTH = 0.5  # correlation of run A's continuous ratings with the grades
# That of run B's latent ratings, whose three points correlate with the grades as A's ratings do (from 2 · 10⁵ rows).
IN_THREE_POINTS = {"pearson": 0.568, "spearman": 0.555, "kendall": 0.482}


@pytest.fixture
def fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RESAMPLES", RESAMPLES)


def noise(generator: np.random.Generator, clusters: Any) -> Any:
    """Normal numbers that are correlated within clusters."""
    common = generator.normal(size=clusters.max() + 1)[clusters]
    return np.sqrt(CLUSTER_VARIANCE) * common + np.sqrt(1 - CLUSTER_VARIANCE) * generator.normal(size=len(clusters))


def draw_correlated(generator: np.random.Generator, clusters: Any, name: str) -> tuple[Any, Any, Any]:
    grades = noise(generator, clusters)

    def ratings(strength: float) -> Any:
        return strength * grades + np.sqrt(1 - strength**2) * noise(generator, clusters)

    in_points = np.digitize(ratings(IN_THREE_POINTS[name]), (-0.3, 1.2)).astype(float)
    if np.ptp(in_points) == 0:
        return draw_correlated(generator, clusters, name)
    return FEATURES[name](ratings(STRENGTH), grades), FEATURES[name](in_points, grades), correlation


def crossing(generator: np.random.Generator, clusters: Any, share: float = 0.35, of: float = 0.75) -> Any:
    """Two models with the same area, whose curves cross: the positive scores of B have three times the spread."""
    positive = noise(generator, clusters) > NormalDist().inv_cdf(1 - share)
    if not 1 < positive.sum() < len(positive) - 1:
        return crossing(generator, clusters, share, of)
    lead, rest = NormalDist().inv_cdf(of), noise(generator, clusters)
    of_a = noise(generator, clusters) + positive * lead * np.sqrt(2)
    of_b = np.where(positive, lead * np.sqrt(10) + 3 * rest, rest)
    return area_features(of_a, positive), area_features(of_b, positive), area


SCORES: dict[str, Callable[[np.random.Generator, Any], Any]] = {
    **{name: lambda generator, clusters, name=name: draw_correlated(generator, clusters, name) for name in FEATURES},
    "auc": crossing,
}


def draw_sizes(generator: np.random.Generator, clusters: int, size: int) -> Any:
    """Clusters of this many examples, or with size 0 of lognormal sizes, as numbers of the examples' clusters."""
    sizes = [size] * clusters if size else np.maximum(1, generator.lognormal(1, 1, size=clusters).astype(int))
    return np.repeat(np.arange(clusters), sizes)


@pytest.mark.slow
@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize(
    ("score", "clusters", "size"),
    [
        *[("pearson", 12, 1), ("pearson", 20, 5), ("pearson", 50, 0), ("pearson", 100, 1)],
        *[("spearman", 20, 1), ("spearman", 20, 0), ("spearman", 100, 0)],
        *[("kendall", 12, 1), ("kendall", 20, 5), ("kendall", 100, 0)],
        *[("auc", 20, 1), ("auc", 20, 0), ("auc", 50, 0), ("auc", 100, 1)],
    ],
)
def test_runs_with_the_same_score_are_seldom_told_apart(score: str, clusters: int, size: int) -> None:
    """Their answers are not exchangeable: B has three points and A a continuum, or the curves cross."""
    generator, alarms, covered, intervals = np.random.default_rng(clusters + size), 0, 0, 0
    for repeat in range(REPEATS):
        index = draw_sizes(generator, clusters, size)
        names = [f"c{cluster}" for cluster in index]
        of_a, of_b, combine = SCORES[score](generator, index)
        features = {"": of_a.tolist()}, {"": of_b.tolist()}
        comparison = statistic_over_languages(*features, {"": names}, combine, repeat, draws=199)
        alarms += (comparison.p or 1) < 0.05
        if comparison.low is not None and comparison.high is not None:
            intervals += 1
            covered += comparison.low <= 0 <= comparison.high
    print(f"{score} {clusters} x {size}: {alarms / REPEATS:.3f}, {covered / max(1, intervals):.3f} of {intervals}")
    assert 0.01 < alarms / REPEATS < 0.095  # .032 to .075 with 2,000 repeats
    if intervals > REPEATS / 10:
        assert covered / intervals > 0.915


@pytest.mark.slow
@pytest.mark.usefixtures("fewer_resamples")
@pytest.mark.parametrize(("share", "n", "of"), [(0.2, 250, 0.95), (0.08, 600, 0.9)])
def test_intervals_of_areas_hold_their_level_if_one_kind_is_rare(share: float, n: int, of: float) -> None:
    generator, covered, intervals = np.random.default_rng(7), 0, 0
    for repeat in range(300):
        of_a, of_b, combine = crossing(generator, np.arange(n), share, of)
        kinds = {"positive": 1, "negative": 3}
        runs = ({"": features.tolist()} for features in (of_a, of_b))
        comparison = statistic_over_languages(*runs, {"": [None] * n}, combine, repeat, 100, kinds=kinds)
        if comparison.low is not None and comparison.high is not None:
            intervals += 1
            covered += comparison.low <= 0 <= comparison.high
    print(f"{share} of {n}, {of}: {covered / intervals:.3f} of {intervals}")
    assert covered / intervals > 0.9  # .91 and .92; the standard error is .016
