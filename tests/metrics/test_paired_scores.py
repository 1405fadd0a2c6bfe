"""Comparisons of scores that are no means and of several trainings, corrections, power and equivalence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from figeval.metrics.differences import score_interval
from figeval.metrics.paired import benjamini_hochberg, compare_paired, paired_over_seeds


def test_one_training_each_is_the_t_test_of_examples() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.random((2, 30))
    comparison = paired_over_seeds([a.tolist()], [b.tolist()], [None] * 30)
    expected = stats.ttest_rel(a, b)
    assert (comparison.p, comparison.freedom) == (pytest.approx(expected.pvalue), pytest.approx(29))
    assert (comparison.low, comparison.high) == pytest.approx(tuple(expected.confidence_interval()))


def test_seeds_that_differ_make_the_interval_wider() -> None:
    """V = SE² + s_A² / S_A, with Satterthwaite's degrees of freedom; TF-IDF has no seeds."""
    examples = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    trainings = np.array([np.roll(examples, shift) * factor for shift, factor in ((1, 1.0), (2, 0.5), (3, 0.8))])
    comparison = paired_over_seeds(trainings.tolist(), [examples.tolist()], [None] * 10)
    item = stats.sem(trainings.mean(axis=0) - examples) ** 2
    seed = trainings.mean(axis=1).var(ddof=1) / 3
    assert comparison.stderr == pytest.approx(math.sqrt(item + seed))
    assert comparison.freedom == pytest.approx((item + seed) ** 2 / (item**2 / 9 + seed**2 / 2))
    assert comparison.test == "t over 3 and 1 seeds"


def test_a_single_training_has_the_variance_of_the_other_runs_seeds() -> None:
    """V = SE² + s² (1 + 1 / S): the single training is one more draw; TF-IDF would be none."""
    generator = np.random.default_rng(3)
    seeds, single = generator.random((4, 30)), generator.random((1, 30))
    comparison = paired_over_seeds(seeds.tolist(), single.tolist(), [None] * 30, varies=(False, True))
    item = stats.sem(seeds.mean(axis=0) - single[0]) ** 2
    assert comparison.stderr == pytest.approx(math.sqrt(item + seeds.mean(axis=1).var(ddof=1) * 1.25))
    assert comparison.note == "B is a single training, and its variance over seeds is taken to be that of A"
    swapped = paired_over_seeds(single.tolist(), seeds.tolist(), [None] * 30, varies=(True, True))
    assert (swapped.p, swapped.note[:1]) == (pytest.approx(comparison.p), "A")


def test_two_seeds_have_no_test() -> None:
    rows = [[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
    comparison = paired_over_seeds(rows, rows[:1], [None] * 3)
    assert (comparison.p, comparison.low) == (None, None)
    assert comparison.note == "no test and no interval: fewer than three seeds"


def test_seeds_that_always_differ_have_a_p_value() -> None:
    """Nothing varies, neither over seeds nor over examples, so only the signs of the examples are left."""
    comparison = paired_over_seeds([[1.0] * 12] * 3, [[0.0] * 12] * 3, [None] * 12)
    assert (comparison.test, comparison.p) == ("sign flip", 2 / 2**12)
    assert comparison.note == "no interval: every row differs by the same amount"
    assert paired_over_seeds([[1.0] * 12] * 3, [[1.0] * 12] * 3, [None] * 12).p == 1


@given(st.lists(st.floats(0, 1), max_size=12))
def test_benjamini_hochberg_is_the_step_up_procedure(pvalues: list[float]) -> None:
    adjusted = benjamini_hochberg(pvalues)
    order = sorted(range(len(pvalues)), key=pvalues.__getitem__)
    smallest = 1.0
    for step in range(len(order) - 1, -1, -1):
        smallest = min(smallest, pvalues[order[step]] * len(pvalues) / (step + 1))
        assert adjusted[order[step]] == pytest.approx(smallest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "of_a", "of_b"),
    [(50, 0.02, 0.02), (100, 0.03, 0.0), (100, 0.01, 0.01), (200, 0.01, 0.005), (500, 0.004, 0.002), (50, 0.2, 0.1)],
)
def test_score_intervals_cover_the_difference_if_hardly_any_example_differs(n: int, of_a: float, of_b: float) -> None:
    """Summed over all outcomes; an interval by t covers .80 to .87 of these, except for the last."""
    covered = by_t = 0.0
    for differing in range(n + 1):
        probabilities = stats.binom.pmf(differing, n, of_a + of_b)
        for a in range(differing + 1) if probabilities > 1e-9 else ():
            chance = probabilities * stats.binom.pmf(a, differing, of_a / (of_a + of_b))
            low, high = score_interval(a, differing - a, n)
            covered += chance * (low - 1e-9 <= of_a - of_b <= high + 1e-9)
            estimate = (2 * a - differing) / n
            margin = stats.t.ppf(0.975, n - 1) * math.sqrt((differing / n - estimate**2) / (n - 1))
            by_t += chance * (0 < margin >= abs(of_a - of_b - estimate))  # none if no example differs
    assert covered > 0.93
    assert by_t < 0.87 or of_a > 0.1


def test_runs_that_always_agree_have_a_score_interval() -> None:
    """Without a discordant pair, Tango's interval is ± z² / (n + z²)."""
    low, high = score_interval(0, 0, 44)
    assert high == -low == pytest.approx(1.95996**2 / (44 + 1.95996**2), abs=1e-5)


# ---- simulations -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_over_seeds_cover_the_difference_of_the_procedures() -> None:
    generator, covered = np.random.default_rng(12), 0
    sizes = np.maximum(1, generator.lognormal(1, 0.8, size=60).astype(int))
    names = [f"c{number}" for number, size in enumerate(sizes) for _ in range(size)]
    for _ in range(400):
        cluster = np.repeat(generator.normal(0, 0.1, size=(2, 60)), sizes, axis=1)
        seeds = generator.normal(0, 0.03, size=(2, 4, 1))
        share = np.clip(0.6 + cluster[:, None, :] + seeds, 0, 1)
        values = (generator.random((2, 4, len(names))) < share).astype(float)
        comparison = paired_over_seeds(values[0].tolist(), values[1].tolist(), names)
        covered += (comparison.low or 1) <= 0 <= (comparison.high or -1)
    assert covered >= 370  # 380 expected, and the interval errs on the wide side


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_a", "of_b", "spread"),
    [(5, 1, 0.2), (5, 1, 0.3), (10, 1, 0.3), (3, 10, 0.2), (5, 3, 0.3), (3, 1, 0.3), (3, 1, 0.5)],
)
def test_comparisons_of_unequal_numbers_of_seeds_keep_their_level(of_a: int, of_b: int, spread: float) -> None:
    """Two equal procedures: up to 6 % false alarms; with one training that adds no variance, 15 % and more."""
    generator, rejected, repeats = np.random.default_rng(2), {True: 0, False: 0}, 2000
    clusters = [f"c{number // 4}" for number in range(200)]
    for _ in range(repeats):
        hard = generator.normal(0, 0.8, 200) + np.repeat(generator.normal(0, 0.5, 50), 4)

        def trainings(count: int, hard: Any = hard) -> Any:
            skill = hard + np.repeat(generator.normal(0, 0.3, 50), 4) + generator.normal(0, 0.5, 200)
            runs = generator.normal(0, spread, (count, 1)) + generator.normal(0, 0.5, (count, 200))
            return (skill + runs > 0).astype(float).tolist()

        a, b = trainings(of_a), trainings(of_b)
        for varies in rejected:
            rejected[varies] += (paired_over_seeds(a, b, clusters, varies=(varies, varies)).p or 1) < 0.05
    assert rejected[True] / repeats < 0.07
    assert of_b > 1 or rejected[False] / repeats > (0.12 if of_a == 3 else 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clusters", "size", "of_a", "of_b"),
    [
        (50, 5, 0.02, 0.0),
        (100, 5, 0.02, 0.0),
        (60, 0, 0.02, 0.0),
        (100, 5, 0.02, 0.01),
        (60, 0, 0.05, 0.02),
        (100, 0, 0.1, 0.1),
    ],
)
def test_intervals_are_too_narrow_only_where_they_say_so(clusters: int, size: int, of_a: float, of_b: float) -> None:
    """In clusters, few of which differ: an interval by t covers .77 of these differences where it is worst."""
    generator, covered, alone = np.random.default_rng(5), 0, 0
    for _ in range(1000):
        sizes = [size] * clusters if size else np.maximum(1, generator.lognormal(1, 1, size=clusters).astype(int))
        index = np.repeat(np.arange(clusters), sizes)
        a_only, b_only = (generator.beta(share * 7 / 3 + 1e-9, (1 - share) * 7 / 3, clusters) for share in (of_a, of_b))
        drawn = generator.random(len(index))
        a, b = drawn < a_only[index], drawn > 1 - b_only[index]
        result = compare_paired(
            a.astype(float).tolist(), b.astype(float).tolist(), [f"c{cluster}" for cluster in index]
        )
        if result.low is not None and result.high is not None and not result.note:
            alone += 1
            covered += result.low <= of_a - of_b <= result.high
    print(f"{clusters} x {size}, {of_a} and {of_b}: {covered / max(1, alone):.3f} of {alone}")
    assert alone < 50 or covered / alone > 0.9


def test_a_few_clusters_that_contradict_a_difference_are_noted() -> None:
    """A sample with fewer of them than others would find a difference where there is none."""
    values = [total + noise for total in [-0.1] * 47 + [0.4] * 3 for noise in (0.01, -0.01) * 5]
    clusters = [str(number) for number in range(50) for _ in range(10)]
    against = compare_paired(values, [0.0] * 500, clusters, bounds=None)
    assert against.p is not None
    assert against.p <= 0.05
    assert "the other way" in against.note
    assert compare_paired([-value for value in values], [0.0] * 500, clusters, bounds=None).note == against.note
    agreeing = compare_paired([abs(value) for value in values], [0.0] * 500, clusters, bounds=None)
    assert agreeing.test == "sign flip"
    assert not agreeing.note


@pytest.mark.parametrize("size", [1, 5])
def test_clusters_without_a_difference_contradict_none(size: int) -> None:
    """A is right nearly everywhere and B nearly nowhere: the sums are skewed, but no test could mistake that."""
    right = [1.0] * 45 + [0.25, 0.2, 0.125, 0.5, 0.1]
    values = [value for value in right for _ in range(size)]
    clusters = [str(number) for number in range(50) for _ in range(size)]
    easy = compare_paired(values, [0.05] * len(values), clusters)
    assert (easy.test, easy.note) == ("sign flip", "")
