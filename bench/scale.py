"""Measure how time and memory of `figeval run` grow with the number of pairs, and extrapolate to a billion.

    python -m bench.scale [--models overlap tfidf minilm] [--most 6] [--quick] [--store [--resume]]

For every decade from 10^3 to 10^MOST pairs (minilm: at most 10^4), synthetic pairs are written and scored in a process
of its own, without baselines. A run of ten pairs gives the costs that do not grow. The same command is repeated on the
finished run: what that takes (reading the pairs and the stored rows, scoring) is the part that only one process does.

Time is processor time, so other programs disturb it little. Printed per model: seconds and peak memory per decade; the
exponents of both beyond the fixed costs, with 95 % intervals (1: proportional to the pairs, 0: constant); and the cost
of 10^9 pairs on `MACHINE`, a model on paper: the part of one process takes as long as here, answers are spread over all
cores without loss, and a core is as fast as one here.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.store import store
from bench.stored import benched
from figeval.metrics.intervals import t_quantile

TASK = """
name: synthetic_pairs
type: pairs
labels: ["yes", "no"]
data: {test: "jsonl:pairs.jsonl"}
fields: {id: row.id, left: row.left, right: row.right, label: row.label}
metrics: [acc, macro_f1]
"""
WORDS = 30_000
MAX_DECADES = {"minilm": 4}  # decades that take too long on a CPU are left out
MACHINE = {"name": "one server with two AMD EPYC 9554, 128 cores, 768 GB memory", "cores": 128}
BILLION = 1_000_000_000


@dataclass(frozen=True)
class ProcessCost:
    """Processor seconds and peak memory in MiB of one process."""

    seconds: float
    memory: float


def write_pairs(folder: Path, n: int) -> None:
    """Write n synthetic pairs and their task; words follow Zipf's law, and half of the pairs share most of them."""
    draw = random.Random(0)
    words = ["".join(draw.choice("bcdfglmnprst") + draw.choice("aeiou") for _ in range(4)) for _ in range(WORDS)]
    weights = list(accumulate(1 / (rank + 2) for rank in range(WORDS)))
    with (folder / "pairs.jsonl").open("w", encoding="ascii") as file:
        for number in range(n):
            left = draw.choices(words, cum_weights=weights, k=draw.randint(8, 20))
            replacements = draw.choices(words, cum_weights=weights, k=len(left))
            is_similar = number % 2 == 0
            right = [
                word if is_similar and draw.random() < 0.7 else replacement
                for word, replacement in zip(left, replacements, strict=True)
            ]
            row = {
                "id": str(number),
                "left": " ".join(left),
                "right": " ".join(right),
                "label": "yes" if is_similar else "no",
            }
            file.write(json.dumps(row) + "\n")
    (folder / "synthetic_pairs.task.yaml").write_text(TASK, encoding="ascii")


def timed(command: Sequence[str]) -> ProcessCost:
    """Run a command and return its cost. Raises `SystemExit` if it fails."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return ProcessCost(
        usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    )


def measure(model: str, n: int) -> dict[str, Any]:
    """Return the costs of a run over n pairs and of its repetition, and the bytes on disk."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pairs(folder, n)
        command = [sys.executable, "-m", "figeval", "run", "--tasks", "synthetic_pairs", "--model", model]
        command += ["--include_path", name, "--output_path", str(folder / "run"), "--no_baselines"]
        first, repeated = timed(command), timed(command)
        return {
            "pairs": n,
            "seconds": round(first.seconds, 2),
            "again_seconds": round(repeated.seconds, 2),
            "memory_mb": round(first.memory, 1),
            "again_memory_mb": round(repeated.memory, 1),
            "data_bytes": (folder / "pairs.jsonl").stat().st_size,
            "rows_bytes": (folder / "run" / "predictions" / "synthetic_pairs.jsonl").stat().st_size,
        }


def exponent(pairs: Sequence[int], costs: Sequence[float], fixed: float) -> dict[str, float | None]:
    """Return the exponent of a power law of the costs beyond the fixed ones, and its 95 % interval, by least squares.

    Costs that do not exceed the fixed ones do not grow and are left out; with fewer than three left there is no
    interval, with fewer than two no exponent.
    """
    points = [(math.log10(n), math.log10(cost - fixed)) for n, cost in zip(pairs, costs, strict=True) if cost > fixed]
    if len(points) < 2:
        return {"value": None, "low": None, "high": None}
    mean_x, mean_y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    if len(points) < 3:
        return {"value": slope, "low": None, "high": None}
    residual = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    margin = t_quantile(len(points) - 2) * math.sqrt(residual / (len(points) - 2) / spread)
    return {"value": slope, "low": slope - margin, "high": slope + margin}


def billion(largest: dict[str, Any], base: dict[str, Any]) -> dict[str, float]:
    """Return the modelled cost of 10^9 pairs on `MACHINE`, from the largest measured run."""
    extra = largest["pairs"] - base["pairs"]
    serial_seconds = (largest["again_seconds"] - base["again_seconds"]) / extra
    answers = max(0.0, (largest["seconds"] - base["seconds"]) / extra - serial_seconds)
    memory = max(0.0, (largest["memory_mb"] - base["memory_mb"]) / extra)
    return {
        "pairs_per_second_and_core": round(1 / (serial_seconds + answers), 1),
        "bytes_of_memory_per_pair": round(memory * 2**20, 1),
        "bytes_on_disk_per_pair": round((largest["data_bytes"] + largest["rows_bytes"]) / largest["pairs"], 1),
        "hours_of_one_process": round(serial_seconds * BILLION / 3600, 1),
        "hours_of_all_cores": round(answers * BILLION / 3600 / MACHINE["cores"], 1),
        "memory_gb": round((base["memory_mb"] + memory * BILLION) / 1000, 1),
        "disk_gb": round((largest["data_bytes"] + largest["rows_bytes"]) / largest["pairs"] * BILLION / 1e9, 1),
    }


def measure_model(model: str, max_decade: int) -> dict[str, Any]:
    """Measure one model and return its figures, printing them."""
    base = measure(model, 10)
    print(f"{model}: 10 pairs take {base['seconds']:.1f} s and {base['memory_mb']:.0f} MiB", flush=True)
    runs = {}
    for decade in range(3, min(max_decade, MAX_DECADES.get(model, max_decade)) + 1):
        runs[f"10^{decade}"] = run = measure(model, 10**decade)
        print(
            f"{model}: 10^{decade} pairs  {run['seconds']:9.1f} s  {run['memory_mb']:7.1f} MiB, "
            f"again {run['again_seconds']:8.1f} s  {run['again_memory_mb']:7.1f} MiB",
            flush=True,
        )
    pairs = [run["pairs"] for run in runs.values()]
    figures: dict[str, Any] = {"ten": base, "runs": runs}
    for quantity in ("seconds", "memory_mb"):
        figures[f"exponent_{quantity}"] = power = exponent(
            pairs, [run[quantity] for run in runs.values()], base[quantity]
        )
        if power["value"] is not None:
            interval = "" if power["low"] is None else f" [{power['low']:.2f}, {power['high']:.2f}]"
            print(f"{model}: exponent of {quantity} {power['value']:.2f}{interval}")
    figures["billion"] = cost = billion(runs[f"10^{decade}"], base)
    print(
        f"{model}: 10^9 pairs on {MACHINE['name']}: {cost['hours_of_all_cores']:,} h for the answers and "
        f"{cost['hours_of_one_process']:,} h in one process, {cost['memory_gb']:,} GB memory, "
        f"{cost['disk_gb']:,} GB disk",
        flush=True,
    )
    return figures


def main() -> int:
    """Print the figures, and store them with --store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["overlap", "tfidf", "minilm"], metavar="NAME")
    parser.add_argument("--most", type=int, default=6, help="largest decade (default: 6)")
    parser.add_argument("--quick", action="store_true", help="overlap only, up to 10^4 pairs")
    parser.add_argument("--store", action="store_true", help="write results/measured/bench/scale.json")
    parser.add_argument("--resume", action="store_true", help="keep what is stored of other models")
    options = parser.parse_args()
    if options.most < 3:
        parser.error("--most must be at least 3")
    models, max_decade = (["overlap"], 4) if options.quick else (options.models, options.most)
    stored = (benched("scale") or {}).get("figures", {}) if options.resume else {}
    figures: dict[str, Any] = {**stored, "machine": MACHINE}
    for model in models:
        figures[model] = measure_model(model, max_decade)
        if options.store:  # a larger model may take hours
            print(store("scale", figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
