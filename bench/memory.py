"""Measure whether memory is constant in the size of the data: peak memory of word overlap on IMPLI, once and ten times.

    python bench/memory.py

Pass criterion: ten times the pairs (261,240) take at most 15 % more memory. Each run is a separate process, because the
peak memory of a process never decreases.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

TIMES = (1, 10)
BAR = 1.15
TASK = """
name: impli_repeated
type: pairs
labels: [entailment, non-entailment]
data: {test: "jsonl:pairs.jsonl"}
fields: {id: row.id, left: row.premise, right: row.hypothesis, label: row.label, meta: {premise: row.premise}}
cluster: premise
metrics: [acc]
"""


def write_pairs(folder: Path, times: int) -> int:
    """Write all IMPLI pairs, repeated with new ids, and return the number of rows."""
    from figeval.runs import Harness

    harness = Harness()
    written = 0
    with (folder / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for copy in range(times):
            for task in harness.catalogue.expand(["impli"]):
                for example in harness.examples(task):
                    row = {"id": f"{copy}/{example.id}", "premise": example.left, "hypothesis": example.right}
                    file.write(json.dumps({**row, "label": example.label}) + "\n")
                    written += 1
    (folder / "impli_repeated.task.yaml").write_text(TASK, encoding="utf-8")
    return written


def measure(folder: Path) -> tuple[float, float, float]:
    """Return (peak MiB, seconds, accuracy) of `figeval run` in a separate process."""
    run = folder / "run"
    command = [sys.executable, "-m", "figeval", "run", "--tasks", "impli_repeated", "--model", "overlap"]
    options = ["--include_path", str(folder), "--output_path", str(run), "--no_baselines"]
    subprocess.run([*command, *options], check=True, capture_output=True)
    task = json.loads((run / "run.json").read_text(encoding="utf-8"))["tasks"][0]
    return task["peak_memory_mb"], task["seconds"], task["scores"][0]["value"]


def main() -> int:
    """Print the figures and return 1 if the bar is missed."""
    peaks = []
    for times in TIMES:
        with tempfile.TemporaryDirectory() as name:
            pairs = write_pairs(Path(name), times)
            peak, seconds, accuracy = measure(Path(name))
        peaks.append(peak)
        print(f"x{times:<3} {pairs:>7} pairs  peak {peak:7.1f} MiB  {seconds:6.1f} s  accuracy {accuracy:.4f}")
    ratio = peaks[-1] / peaks[0]
    print(f"peak memory grows by a factor of {ratio:.3f}; the bar is {BAR}")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
