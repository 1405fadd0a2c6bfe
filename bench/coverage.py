"""Measure how often figeval's 95 % intervals contain the true value, and how often its test finds a false difference.

    python bench/coverage.py                 # all studies; a few minutes on one core
    python bench/coverage.py --study grid --study paired
    python bench/coverage.py --sizes         # rereads the cluster sizes of the IMPLI columns and of ePiC

Scores of clustered examples are simulated, given the sizes of the clusters: accuracies of the clusters follow a Beta
distribution with mean p and a given intraclass correlation, rows within a cluster are independent given its accuracy.
`clustered.py` computes the intervals for all replicates at once; the first replicates of every cell are compared with
figeval's own results. "First edition" denotes the rules of figeval's first version.
Results are in `bench/coverage.csv`, the numbers of clusters by size in `bench/cluster_sizes.json`.

Studies:
    grid      0/1 rows: sizes × p × correlation.
    few       the same below ten effective clusters.
    harder    two-point clusters, correlations of .5 and .8, and random sizes that correlate with the accuracy.
    unit      rows in [0, 1]: reciprocal ranks among 250 candidates, at chance and better, and strongly skewed values.
    unbounded normal rows, by t.
    counts    rows that are not negative, by the score interval.
    auc       the area under the ROC curve: few and many of either kind, clusters of one kind or of both, ties.
    balanced_acc  the mean of two accuracies in the same designs.
    macro_f1  the percentile bootstrap of clusters, and expanded percentiles.
    seeds     means over trainings.
    languages means over languages, with separate and with shared clusters.
    paired    tests of two equally good models (`share` is the rate of false positives), and of a difference of .05.
    skewed    the same with the whole difference in a tenth of the clusters.
    unequal_seeds  tests of several trainings against one (`share` is the rate of false positives).
    powered   prediction-powered means; `width` is relative to the interval of the labels alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import areas
import comparisons
import languages
import means
import powered
import trainings
from clustered import SIZES, Row

RESULTS = Path(__file__).resolve().parent / "coverage.csv"
COLUMNS = ("study", "sizes", "clusters", "effective", "rows", "case", "p", "correlation", "rule", "share", "width")

STUDIES: dict[str, Callable[[], Iterator[Row]]] = {
    "grid": means.grid,
    "few": means.few,
    "harder": means.harder,
    "unit": means.unit,
    "unbounded": means.unbounded,
    "counts": means.counts,
    "auc": areas.areas,
    "balanced_acc": areas.accuracies,
    "macro_f1": trainings.bootstrapped,
    "seeds": trainings.seeds,
    "languages": languages.languages,
    "paired": trainings.paired,
    "skewed": comparisons.skewed,
    "unequal_seeds": comparisons.unequal_seeds,
    "powered": powered.powered,
}


def read_sizes() -> None:
    """Count the cluster sizes of the tasks' test splits and store the counts."""
    from figeval import plugins
    from figeval.runs import Harness

    harness = Harness(plugins.plugin_manager())
    counts_by_task = {}
    for task in harness.catalogue.expand(["impli", "epic_retrieval_seen", "epic_retrieval_unseen"]):
        clusters = Counter(
            example.id if example.cluster is None else example.cluster for example in harness.examples(task, "test")
        )
        counts_by_task[task.name] = dict(sorted(Counter(clusters.values()).items()))
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(counts)}" for name, counts in counts_by_task.items())
    SIZES.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", action="append", choices=STUDIES, help="Run this study only; may be repeated.")
    parser.add_argument("--sizes", action="store_true", help="Reread the cluster sizes of the benchmarks.")
    options = parser.parse_args()
    if options.sizes:
        read_sizes()
    run(options.study or list(STUDIES))


def run(studies: list[str]) -> None:
    """Run these studies and replace their results in the file."""
    dependents = {"page"} if "grid" in studies else set()
    previous_rows = read_results() if RESULTS.is_file() else []
    rows = [row for row in previous_rows if row["study"] not in {*studies, *dependents}]
    for study in studies:
        begun = time.process_time()
        results = [
            {**row, "share": f"{row['share']:.4f}", "width": short(row.get("width"))} for row in STUDIES[study]()
        ]
        rows += results
        print(f"{study}: {len(results)} results, {time.process_time() - begun:.0f} CPU seconds", flush=True)
        worst(results)
        with RESULTS.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def read_results() -> list[Row]:
    with RESULTS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def short(width: float | None) -> str:
    return "" if width is None else f"{width:.4g}"


def worst(rows: list[Row]) -> None:
    """Print the lowest and the highest share of each rule."""
    for rule in dict.fromkeys(row["rule"] for row in rows):
        ranked = sorted((row for row in rows if row["rule"] == rule), key=lambda row: row["share"])
        low, high = ranked[0], ranked[-1]
        setting = f"{low['sizes']}, p {low['p']}, correlation {low['correlation']} {low['case']}"
        print(f"  {rule}: {low['share']} ({setting}) to {high['share']}")


if __name__ == "__main__":
    main()
