"""Output files of the diagnosis: `diagnosis.json` and CSV tables, with ids instead of texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from figeval.io.storage import cure
from figeval.records.result_json import to_json
from figeval.types import JSON

from ..analysis.store import save_csv
from .accuracy import Tolerant, by_proverb, spread
from .answers import Answers
from .confusion import confusions
from .versus import READING, Versus

TIES = "Ties count by expectation: a row whose best score n candidates share is right with probability 1/n."


def write(
    folder: Path, runs: Sequence[Answers], aware: Sequence[dict[str, Tolerant]], found: Versus | None
) -> list[Path]:
    """Write all files and return their paths. Raises `RecordError` if they cannot be written."""
    tables = {"per_proverb.csv": proverb_table(runs), "confusion.csv": confusion_table(runs)}
    if found is not None:
        tables["heat_map.csv"] = heat_map_table(found)
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        record = json.dumps(described(runs, aware, found), indent=1, ensure_ascii=False)
        (folder / "diagnosis.json").write_text(record + "\n", encoding="utf-8")
        for name, rows in tables.items():
            save_csv(folder / name, rows)
    return [folder / name for name in ("diagnosis.json", *tables)]


def proverb_table(runs: Sequence[Answers]) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per run and proverb: narratives, right ones and accuracy, best proverb first."""
    yield ("run", "model", "proverb", "n", "right", "acc")
    for place, answers in zip("AB", runs, strict=False):
        for proverb, values in ranked(answers):
            yield (place, answers.model, proverb, len(values), sum(values), sum(values) / len(values))


def ranked(answers: Answers) -> list[tuple[str, list[float]]]:
    """Return the proverbs with their accuracies, best first; equally good ones are ordered by proverb number."""
    return sorted(by_proverb(answers).items(), key=lambda pair: (-sum(pair[1]) / len(pair[1]), int(pair[0][1:])))


def confusion_table(runs: Sequence[Answers]) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per run and confused pair of proverbs."""
    yield ("run", "model", "gold", "predicted", "count", "n", "paraphrase", "defensible")
    for place, answers in zip("AB", runs, strict=False):
        for one in confusions(answers):
            yield (place, answers.model, *asdict(one).values())


def heat_map_table(found: Versus) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per cell of the heat map."""
    yield ("right_by_a", "right_by_b", "proverbs")
    for i, row in enumerate(found.cells):
        for j, n in enumerate(row):
            yield (i, j, round(float(n), 6))


def described(runs: Sequence[Answers], aware: Sequence[dict[str, Tolerant]], found: Versus | None) -> JSON:
    """Return the content of `diagnosis.json`."""
    content: JSON = {"ties": TIES, "runs": {}}
    for place, answers, accuracies in zip("AB", runs, aware, strict=False):
        content["runs"][place] = {
            "model": answers.model,
            "answered": len(answers.given),
            "unanswered": answers.unanswered,
            "accuracy": to_json(accuracies),
            "proverbs_by_narratives_right": [round(float(n), 6) for n in spread(by_proverb(answers))],
        }
    if found is not None:
        fields = asdict(found)
        del fields["cells"]
        content["versus"] = {"reading": READING, **fields, "cells": [list(map(float, row)) for row in found.cells]}
    return content
