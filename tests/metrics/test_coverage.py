"""How often an interval holds the truth: the committed simulation keeps what docs/statistics.md promises, and cells of
it come out again.

The simulation is `bench/coverage.py`, its results are `bench/coverage.csv`.
"""

from __future__ import annotations

import csv
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import stats

from figeval.metrics.intervals import t_interval, wilson
from figeval.metrics.paired import mcnemar

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench"
RUNS = 1000
CELLS = [
    ("10 × 25", 0.05, 0.3),
    ("20 × 12", 0.95, 0.1),
    ("50 × 10", 0.05, 0.3),
    ("250 × 4", 0.004, 0.0),
    ("250 × 10", 0.004, 0.3),
    ("lognormal 50 (c)", 0.05, 0.1),
    ("lognormal 200 (a)", 0.004, 0.3),
    ("lognormal 200 (b)", 0.5, 0.1),
    ("impli_idioms_silver_lit", 0.05, 0.3),
    ("impli_idioms_silver_lit", 0.95, 0.1),
    ("impli_idioms_gold_ent", 0.5, 0.0),
    ("epic_retrieval_unseen", 0.2, 0.1),
]


@pytest.fixture
def cluster_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The part of the simulation that draws sizes and rows; scripts in bench/ import one another by name."""
    monkeypatch.syspath_prepend(str(BENCH))
    module = importlib.import_module("clustered")
    monkeypatch.setattr(module, "REPLICATES", RUNS)
    return module


@cache
def results(study: str, rule: str = "figeval") -> list[dict[str, Any]]:
    with (BENCH / "coverage.csv").open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if (row["study"], row["rule"]) == (study, rule)]


def test_it_holds_wherever_there_are_ten_effective_clusters() -> None:
    """.93 less two standard errors of the simulation, in every cell; about as wide as before in the middle."""
    rows = results("grid")
    assert {row["p"] for row in rows} >= {"0.004", "0.05", "0.5", "0.95"}
    assert {row["correlation"] for row in rows} == {"0.0", "0.1", "0.3"}
    assert len(rows) >= 150
    least = 0.93 - 2 * np.sqrt(0.93 * 0.07 / 4000)
    assert [row for row in rows if float(row["effective"]) >= 10 and float(row["share"]) < least] == []
    wider = [
        float(row["width"]) / float(old["width"])
        for row, old in zip(rows, results("grid", "first edition"), strict=True)
        if row["p"] == "0.5"
    ]
    assert np.mean(wider) < 1.1
    assert max(wider) < 1.3


@pytest.mark.parametrize(("sizes", "p", "correlation"), CELLS)
def test_cells_come_out_again(cluster_module: ModuleType, sizes: str, p: float, correlation: float) -> None:
    counts = cluster_module.designs()[sizes]
    generator = cluster_module.seeded_generator("test", sizes, p, correlation)
    right = generator.binomial(counts, cluster_module.accuracies(generator, len(counts), p, correlation)).astype(float)
    again = dict(cluster_module.of_sums(right, counts, p))
    for rule, predictions in again.items():
        stored = next(
            row
            for row in results("grid", rule)
            if (row["sizes"], float(row["p"]), float(row["correlation"])) == (sizes, p, correlation)
        )
        share = float(stored["share"])
        noise = 4 * np.sqrt(max(share * (1 - share), 0.01) * (1 / RUNS + 1 / 4000))
        assert predictions["share"] == pytest.approx(share, abs=noise), rule
        assert predictions["width"] == pytest.approx(float(stored["width"]), rel=0.15), rule


@pytest.mark.parametrize(
    ("study", "sizes"), [("auc", "10 and 1000"), ("auc", "20 × (6 + 6)"), ("balanced_acc", "30 × (1 + 10)")]
)
def test_cells_of_two_kinds_come_out_again(
    cluster_module: ModuleType, monkeypatch: pytest.MonkeyPatch, study: str, sizes: str
) -> None:
    areas = importlib.import_module("areas")
    designs = areas.designs()
    monkeypatch.setattr(areas, "designs", lambda: {sizes: designs[sizes]})
    keys = ("sizes", "case", "p", "correlation")
    stored = {tuple(row[key] for key in keys): row for row in results(study) if row["sizes"] == sizes}
    again = [row for row in getattr(areas, STUDIES[study])() if row["rule"] == "figeval"]
    assert len(again) == len(stored) > 3
    for row in again:
        old = stored[tuple(str(row[key]) for key in keys)]
        share = float(old["share"])
        noise = 4 * np.sqrt(max(share * (1 - share), 0.01) * (1 / RUNS + 1 / 4000))
        assert row["share"] == pytest.approx(share, abs=noise)
        assert row["width"] == pytest.approx(float(old["width"]), rel=0.1)


STUDIES = {"auc": "areas", "balanced_acc": "accuracies"}


@pytest.mark.parametrize(
    ("n", "p", "wilson_holds", "t_holds"), [(50, 0.95, 0.96, 0.92), (100, 0.98, 0.95, 0.87), (1000, 0.3, 0.95, 0.95)]
)
def test_one_accuracy_without_clusters(n: int, p: float, wilson_holds: float, t_holds: float) -> None:
    """Exact coverage, summed over all binomial outcomes."""
    chance = stats.binom.pmf(np.arange(n + 1), n, p)

    def by_t(k: int) -> tuple[float, float]:
        return t_interval(k / n, float(np.sqrt(k * (n - k) / (n - 1)) / n), n - 1)

    for limits, expected in ((lambda k: wilson(k, n), wilson_holds), (by_t, t_holds)):
        held = sum(chance[k] for k in range(n + 1) if limits(k)[0] <= p <= limits(k)[1])
        assert held == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize(("n", "discord"), [(200, 0.2), (1000, 0.2), (500, 0.1)])
def test_exact_mcnemar_keeps_its_level(n: int, discord: float) -> None:
    """Independent items: the size over all outcomes, exact in the number of discordant items."""
    size = 0.0
    for k, chance in enumerate(stats.binom.pmf(np.arange(n + 1), n, discord)):
        if chance > 1e-12:
            split = stats.binom.pmf(np.arange(k + 1), k, 0.5)
            size += chance * sum(split[i] for i in range(k + 1) if mcnemar(i, k - i) <= 0.05)
    assert 0.02 < size <= 0.05
