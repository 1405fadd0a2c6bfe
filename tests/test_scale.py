"""The benchmark of size: its fit on exact power laws, and a short run of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.scale import billion, exponent

ROOT = Path(__file__).resolve().parent.parent
PAIRS = [10**3, 10**4, 10**5, 10**6]


@pytest.mark.parametrize("power", [0.5, 1.0, 1.3])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    fitted = exponent(PAIRS, [7.0 + 2e-3 * n**power for n in PAIRS], fixed=7.0)
    assert fitted["value"] == pytest.approx(power)
    assert fitted["low"] == pytest.approx(fitted["high"], abs=1e-5)


def test_noise_widens_the_interval_and_too_few_points_have_none() -> None:
    noisy = exponent(PAIRS, [n * (1.3 if index % 2 else 0.8) for index, n in enumerate(PAIRS)], fixed=0.0)
    assert noisy["low"] < noisy["value"] < noisy["high"]
    assert noisy["high"] - noisy["low"] > 0.1
    assert exponent(PAIRS, [5.0, 5.0, 5.0, 9.0], fixed=5.0) == {"value": None, "low": None, "high": None}
    assert exponent(PAIRS[:2], [1.0, 10.0], fixed=0.0) == {"value": pytest.approx(1.0), "low": None, "high": None}


def test_a_billion_pairs_cost_what_the_largest_run_says() -> None:
    base = {"pairs": 0, "seconds": 1.0, "again_seconds": 1.0, "memory_mb": 100.0}
    largest = {"pairs": 10**6, "seconds": 1001.0, "again_seconds": 361.0, "memory_mb": 150.0}
    cost = billion({**largest, "data_bytes": 10**8, "rows_bytes": 10**8}, base)
    assert cost["pairs_per_second_and_core"] == 1000
    assert cost["hours_of_one_process"] == 100  # 0.36 ms per pair
    assert cost["hours_of_all_cores"] == pytest.approx(0.64e-3 * 1e9 / 3600 / 128, abs=0.1)
    assert cost["disk_gb"] == 200
    assert cost["memory_gb"] == pytest.approx(50.1)


@pytest.mark.slow
def test_time_and_memory_are_printed_per_decade() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.scale", "--quick"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "overlap: 10^3 pairs" in done.stdout
    assert "overlap: 10^4 pairs" in done.stdout
    assert "overlap: exponent of seconds" in done.stdout
    assert "10^9 pairs on one server" in done.stdout
