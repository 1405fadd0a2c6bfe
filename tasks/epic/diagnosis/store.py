"""Output files of the diagnosis: `diagnosis.json` and CSV tables, with ids instead of texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from figeval.io.files import cure
from figeval.records.findings import save_csv
from figeval.records.schema import to_json
from figeval.types import JSON

from .accuracy import TolerantAccuracy, by_proverb, spread
from .answers import AnsweredRun
from .confusion import confusions
from .versus import READING, Versus

TIES = "Ties count by expectation: a row whose best score n candidates share is right with probability 1/n."


def write(
    folder: Path,
    runs: Sequence[AnsweredRun],
    accuracies: Sequence[dict[str, TolerantAccuracy]],
    comparison: Versus | None,
) -> list[Path]:
    """Write all files and return their paths. Raises `RecordError` if they cannot be written."""
    tables = {"per_proverb.csv": proverb_table(runs), "confusion.csv": confusion_table(runs)}
    if comparison is not None:
        tables["heat_map.csv"] = heat_map_table(comparison)
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        record = json.dumps(describe_diagnosis(runs, accuracies, comparison), indent=1, ensure_ascii=False)
        (folder / "diagnosis.json").write_text(record + "\n", encoding="utf-8")
        for name, rows in tables.items():
            save_csv(folder / name, rows)
    return [folder / name for name in ("diagnosis.json", *tables)]


def proverb_table(runs: Sequence[AnsweredRun]) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per run and proverb: narratives, right ones and accuracy, best proverb first."""
    yield ("run", "model", "proverb", "n", "right", "acc")
    for letter, run in zip("AB", runs, strict=False):
        for proverb, values in rank_proverbs(run):
            yield (letter, run.model, proverb, len(values), sum(values), sum(values) / len(values))


def rank_proverbs(run: AnsweredRun) -> list[tuple[str, list[float]]]:
    """Return the proverbs with their accuracies, best first; equally good ones are ordered by proverb number."""
    return sorted(by_proverb(run).items(), key=lambda pair: (-sum(pair[1]) / len(pair[1]), int(pair[0][1:])))


def confusion_table(runs: Sequence[AnsweredRun]) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per run and confused pair of proverbs."""
    yield ("run", "model", "gold", "predicted", "count", "n", "paraphrase", "defensible")
    for letter, run in zip("AB", runs, strict=False):
        for confusion in confusions(run):
            yield (letter, run.model, *asdict(confusion).values())


def heat_map_table(comparison: Versus) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per cell of the heat map."""
    yield ("right_by_a", "right_by_b", "proverbs")
    for i, row in enumerate(comparison.cells):
        for j, n in enumerate(row):
            yield (i, j, round(float(n), 6))


def describe_diagnosis(
    runs: Sequence[AnsweredRun], accuracies: Sequence[dict[str, TolerantAccuracy]], comparison: Versus | None
) -> JSON:
    """Return the content of `diagnosis.json`."""
    content: JSON = {"ties": TIES, "runs": {}}
    for letter, run, by_relation in zip("AB", runs, accuracies, strict=False):
        content["runs"][letter] = {
            "model": run.model,
            "answered": len(run.answers),
            "unanswered": run.unanswered,
            "accuracy": to_json(by_relation),
            "proverbs_by_narratives_right": [round(float(n), 6) for n in spread(by_proverb(run))],
        }
    if comparison is not None:
        fields = asdict(comparison)
        del fields["cells"]
        content["versus"] = {"reading": READING, **fields, "cells": [list(map(float, row)) for row in comparison.cells]}
    return content
