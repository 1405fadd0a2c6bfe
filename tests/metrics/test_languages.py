"""Means over languages: the interval against enumeration and simulation, with and without shared clusters."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from figeval import MetricAggregator, Score
from figeval.metrics.combination import Clustered, LanguageScore, correlation, mean_over_languages
from figeval.metrics.paired import compare_paired, paired_over_languages
from figeval.metrics.statistic import Statistic, mean_of, ratio

Rows = Sequence[tuple[str | None, float]]
MEAN = mean_of(lambda _example, _prediction: None)
SHARE = Statistic(lambda _example, _prediction: None, ratio)
BENCH = Path(__file__).parents[2] / "bench"
RUNS = 1000


def part(language: str, rows: Rows, statistic: Statistic = MEAN) -> LanguageScore:
    sums = MetricAggregator("acc", statistic)
    for cluster, value in rows:
        sums.add(cluster, (value, 1.0))
    return LanguageScore(language, sums.score(), sums)


def mean(*languages: Rows, statistic: Statistic = MEAN) -> Score:
    return mean_over_languages([part(str(number), rows, statistic) for number, rows in enumerate(languages)])


def draw_rows(seed: int, clusters: int, size: int, prefix: str = "", effect: np.ndarray | None = None) -> Rows:
    """0/1 rows whose clusters differ."""
    generator = np.random.default_rng(seed)
    chances = generator.beta(2, 2, clusters) if effect is None else effect
    return [(f"{prefix}{c}", float(generator.random() < chances[c])) for c in range(clusters) for _ in range(size)]


def test_every_language_counts_the_same() -> None:
    score = mean([(None, 1.0)] * 30, [(None, 1.0)] * 100 + [(None, 0.0)] * 100)
    assert (score.value, score.n, score.clusters) == (0.75, 230, 230)
    assert score.low is not None and score.high is not None
    assert score.low < 0.75 < score.high <= 1


def test_without_shared_clusters_squared_margins_add_up() -> None:
    first, other = part("en", draw_rows(1, 30, 5, "en")), part("zh", draw_rows(2, 20, 8, "zh"))
    score = mean_over_languages([first, other])
    for limit in ("low", "high"):
        margins = [getattr(each.score, limit) - (each.score.value or 0) for each in (first, other)]
        assert abs(getattr(score, limit) - score.value) == pytest.approx(np.hypot(*margins) / 2)
    assert score.stderr == pytest.approx(np.hypot(first.score.stderr or 0, other.score.stderr or 0) / 2)
    assert (score.interval.method, score.clusters) == ("over languages", 50)


def test_a_language_twice_is_no_new_evidence() -> None:
    """The same rows under two names: the mean has the interval of one of them."""
    rows = draw_rows(3, 25, 6)
    score, both = part("en", rows).score, mean(rows, rows)
    assert (both.low, both.high, both.stderr) == pytest.approx((score.low, score.high, score.stderr))
    assert (both.n, both.clusters) == (2 * score.n, score.clusters)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), languages=st.integers(1, 4), shared=st.booleans())
def test_it_lies_between_independence_and_identity(seed: int, languages: int, shared: bool) -> None:
    effect = np.random.default_rng(seed).beta(1, 1, 12) if shared else None
    parts = [
        part(str(number), draw_rows(seed + number, 12, 4, "" if shared else f"{number} ", effect))
        for number in range(languages)
    ]
    score = mean_over_languages(parts)
    below = [(each.score.value or 0) - (each.score.low or 0) for each in parts]
    margin = (score.value or 0) - (score.low or 0)
    assert np.sqrt(np.square(below).sum()) / languages - 1e-9 <= margin <= sum(below) / languages + 1e-9
    assert 0 <= (score.low or 0) <= (score.value or 0) <= (score.high or 0) <= 1


def test_the_correlation_is_that_of_the_clusters_residuals() -> None:
    effect = np.random.default_rng(5).beta(1, 1, 400)
    rows = [draw_rows(seed, 400, 6, effect=effect) for seed in (6, 7)]
    sums = [part("x", each).sums for each in rows]
    means = [[np.mean([v for c, v in each if c == str(cluster)]) for cluster in range(400)] for each in rows]
    estimate = correlation(
        *(Clustered(language_sums.clusters_by_name(), language_sums.spread()) for language_sums in sums)
    )
    assert estimate == pytest.approx(np.corrcoef(means)[0, 1])
    unrelated_sums = part("x", draw_rows(8, 400, 6, "other ")).sums
    assert (
        correlation(
            Clustered(sums[0].clusters_by_name(), sums[0].spread()),
            Clustered(unrelated_sums.clusters_by_name(), unrelated_sums.spread()),
        )
        == 0
    )


def test_a_language_without_differences_counts_as_wholly_correlated() -> None:
    right = [(str(c), 1.0) for c in range(12) for _ in range(3)]
    mixed = draw_rows(9, 12, 3)
    together, unrelated = mean(right, mixed), mean([(f"other {c}", v) for c, v in right], mixed)
    assert (together.high or 0) - (together.low or 0) > (unrelated.high or 0) - (unrelated.low or 0)


def test_the_bootstrap_draws_clusters_with_all_their_languages() -> None:
    """A ratio of sums is a mean: the interval of the bootstrap is about that of the linearisation, shared or not."""
    effect = np.random.default_rng(10).beta(1, 1, 150)
    first, other = (draw_rows(seed, 150, 6, effect=effect) for seed in (11, 12))
    for second in (other, [(f"other {c}", value) for c, value in other]):
        by_draws, exact = mean(first, second, statistic=SHARE), mean(first, second)
        assert by_draws.interval.method == "cluster bootstrap over languages"
        assert by_draws.value == exact.value
        assert (by_draws.low, by_draws.high) == pytest.approx((exact.low, exact.high), abs=0.008)
        assert by_draws.stderr == pytest.approx(exact.stderr, rel=0.08)
    alone = [[(None, value) for _, value in rows] for rows in (first, other)]
    assert mean(*alone, statistic=SHARE).interval.method == "bootstrap over languages"
    assert mean(*alone, statistic=SHARE).stderr == pytest.approx(mean(*alone).stderr, rel=0.08)


def test_reasons() -> None:
    few_rows, many = [(None, 1.0)] * 10 + [(None, 0.0)] * 10, [(None, 1.0)] * 30 + [(None, 0.0)] * 30
    assert mean(few_rows, few_rows, statistic=SHARE).interval.reason == "fewer than 40 rows"
    assert mean(many, few_rows, statistic=SHARE).interval.reason == "in 1, fewer than 40 rows"
    empty = mean(many, [])
    assert (empty.value, empty.interval.reason) == (None, "in 1, no examples")
    assert mean(few_rows, [], statistic=SHARE).interval.reason == "in 1, no examples"  # why there is no value either
    assert not mean(draw_rows(1, 5, 9), draw_rows(2, 30, 9, "x")).interval.reliable


def test_a_correlation_from_few_clusters_is_unreliable() -> None:
    rows = [[(str(c), float(c % 2)) for c in range(5)], [(str(c), float(c % 3 == 0)) for c in range(5)]]
    assert not mean(*rows).interval.reliable
    unrelated = [[(f"{number} {c}", value) for c, value in language_rows] for number, language_rows in enumerate(rows)]
    assert mean(*unrelated).interval.reliable


def test_two_runs_over_languages() -> None:
    """Languages of very different sizes weigh the same; a cluster flips with all of its rows."""
    generator = np.random.default_rng(13)
    a = {
        "en": list(generator.binomial(1, 0.8, 200).astype(float)),
        "zh": list(generator.binomial(1, 0.5, 40).astype(float)),
    }
    b = {name: list(generator.binomial(1, 0.5, len(values)).astype(float)) for name, values in a.items()}
    none = {name: [None] * len(values) for name, values in a.items()}
    comparison = paired_over_languages(a, b, none)
    each = [compare_paired(a[name], b[name]) for name in a]
    assert comparison.difference == pytest.approx(np.mean([of_language.difference for of_language in each]))
    margins = [(of_language.high or 0) - (of_language.difference or 0) for of_language in each]
    assert (comparison.high or 0) - (comparison.difference or 0) == pytest.approx(np.hypot(*margins) / 2)
    assert (comparison.n, comparison.clusters, comparison.test) == (240, 240, "sign flip")
    shared = {name: [f"c{row % 20}" for row in range(len(values))] for name, values in a.items()}
    assert paired_over_languages(a, b, shared).clusters == 20
    missing = paired_over_languages({**a, "zh": [None] * 40}, b, none)
    assert (missing.p, missing.note) == (None, "no example in zh that both runs answered")


# ---- coverage -------------------------------------------------------------------------------------------------------


@pytest.fixture
def simulation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The study of `bench/coverage.py`; scripts in bench/ import one another by name."""
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setattr(importlib.import_module("clustered"), "REPLICATES", RUNS)
    return importlib.import_module("languages")


def committed_rows() -> list[dict[str, str]]:
    with (BENCH / "coverage.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["study"] == "languages"]


def test_it_holds_in_every_cell() -> None:
    rows = [row for row in committed_rows() if row["rule"] == "figeval"]
    assert len(rows) >= 120
    assert min(float(row["share"]) for row in rows) >= 0.93
    ignoring = [row for row in committed_rows() if row["rule"] == "independent languages"]
    assert min(float(row["share"]) for row in ignoring) < 0.8  # why the covariance is needed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "case", "alike", "pair", "icc"),
    [
        ("20 × 12, twice", "no cluster shared", None, (0.95, 0.05), 0.1),
        ("20 × 12, four times", "shared, alike", 1.0, (0.5, 0.5), 0.3),
        ("50 × 10 and 12 × 10", "no cluster shared", None, (0.8, 0.3), 0.3),
        ("lognormal 50 (c), twice", "shared, half alike", 0.5, (0.98, 0.7), 0.1),
    ],
)
def test_cells_come_out_again(
    simulation: ModuleType, sizes: str, case: str, alike: float | None, pair: tuple[float, float], icc: float
) -> None:
    for cell in simulation.one_cell(sizes, simulation.designs()[sizes], case, alike, pair, icc):
        about = {key: str(cell[key]) for key in ("sizes", "case", "p", "correlation", "rule")}
        (stored,) = (row for row in committed_rows() if about.items() <= row.items())
        share = float(stored["share"])
        noise = 4 * np.sqrt(max(share * (1 - share), 0.01) * (1 / RUNS + 1 / 4000))
        assert cell["share"] == pytest.approx(share, abs=noise)
        assert cell["width"] == pytest.approx(float(stored["width"]), rel=0.1)


@pytest.mark.slow
def test_the_paired_mean_over_languages_keeps_its_level() -> None:
    """Two equal runs in two languages of unequal sizes that share half of their clusters."""
    generator, wrong, outside, repeats = np.random.default_rng(6), 0, 0, 1000
    clusters = {"de": [f"c{number // 4}" for number in range(120)], "en": [f"c{number // 2}" for number in range(30)]}
    for _ in range(repeats):
        better = {f"c{number}": generator.normal(0, 0.7) for number in range(30)}
        sides: list[dict[str, list[float]]] = []
        for sign in (1, -1):
            better_of_language = {
                language: np.array([sign * better[name] for name in names]) for language, names in clusters.items()
            }
            sides.append(
                {
                    language: (generator.normal(size=len(x)) + x > 0).astype(float).tolist()
                    for language, x in better_of_language.items()
                }
            )
        comparison = paired_over_languages(sides[0], sides[1], clusters)
        wrong += (comparison.p or 1) < 0.05
        outside += not (comparison.low or 0) <= 0 <= (comparison.high or 0)
        assert comparison.stderr
        assert comparison.freedom
    assert wrong / repeats < 0.065
    assert outside / repeats < 0.08
