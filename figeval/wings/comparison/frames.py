"""Differences and ranks as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from figeval.api.frames import data_frame
from figeval.wings.comparison.comparisons import RankedRun, RunComparisons

if TYPE_CHECKING:
    import pandas

DIFFERENCES = {
    "run_a": "Int64",
    "run_b": "Int64",
    "task": "string",
    "metric": "string",
    "a": "float64",
    "b": "float64",
    "difference": "float64",
    "low": "float64",
    "high": "float64",
    "stderr": "float64",
    "p": "float64",
    "p_adjusted": "float64",
    "detectable": "float64",
    "p_equivalence": "float64",
    "n": "Int64",
    "clusters": "Int64",
    "effective_clusters": "float64",
    "interval": "string",
    "test": "string",
    "only_in_a": "Int64",
    "only_in_b": "Int64",
    "unanswered": "Int64",
    "seen": "Int64",
}


RANKS = {
    "task": "string",
    "run": "Int64",
    "label": "string",
    "value": "float64",
    "rank": "Int64",
    "best": "Int64",
    "worst": "Int64",
    "n": "Int64",
}


def differences(result: RunComparisons) -> pandas.DataFrame:
    """Return one row per pair of runs and task."""
    rows = (
        {
            "run_a": places[0],
            "run_b": places[1],
            "task": one.task,
            "metric": result.metric,
            **{name: value for name, value in one.comparison.to_dict().items() if name in DIFFERENCES},
            "a": one.comparison.value_a,
            "b": one.comparison.value_b,
            "p_adjusted": one.p_adjusted,
            "detectable": one.detectable,
            "p_equivalence": one.p_equivalence,
            "only_in_a": one.unmatched_a,
            "only_in_b": one.unmatched_b,
            "unanswered": one.unanswered,
            "seen": one.seen,
        }
        for places, pair in result.pairs.items()
        for one in pair.tasks
    )
    return data_frame(rows, DIFFERENCES)


def ranks(ranked: Iterable[RankedRun], labels: Sequence[str]) -> pandas.DataFrame:
    """Return one row per task and run."""
    rows = ({**asdict(one), "label": labels[one.run]} for one in ranked)
    return data_frame(rows, RANKS)
