"""Output files of the analysis: `analysis.json` with the findings, CSV tables, and `measured.json` for `export`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from figeval.io.files import cure
from figeval.io.text import csv_cell
from figeval.records.provenance import installed_version
from figeval.records.reference import MeasuredNumber, MeasuredNumbers, write_measured
from figeval.types import JSON

from .corpus import AnalysedTexts
from .part import AnalysedNumber, Analysis, Column

LIBRARIES = ("figeval", "nltk", "numpy", "scipy", "pyphen", "altair", "vl-convert-python")
HEAD = ("part", "name", "value", "low", "high", "published", "agrees", "definition", "note")


def write(folder: Path, corpus: AnalysedTexts, parts: Sequence[Analysis], sha256: str) -> list[Path]:
    """Write all files and return their paths. Raises `RecordError` if they cannot be written."""
    tables = {
        "tables.csv": findings_table(parts),
        "per_proverb.csv": columns_table("proverb", corpus.proverbs, [part.proverbs for part in parts]),
        "per_narrative.csv": columns_table("narrative", corpus.narratives, [part.narratives for part in parts]),
    }
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        record = json.dumps(describe_analysis(parts, sha256), indent=1, ensure_ascii=False)
        (folder / "analysis.json").write_text(record + "\n", encoding="utf-8")
        for name, rows in tables.items():
            save_csv(folder / name, rows)
    measured_path = write_measured(folder, cells(parts, sha256), "--output")
    return [*(folder / name for name in ("analysis.json", *tables)), measured_path]


def cells(parts: Sequence[Analysis], sha256: str) -> MeasuredNumbers:
    """Return the numbers that are in a table of the paper, for `figeval export --measured`."""
    return MeasuredNumbers(
        source=f"figeval analyze epic (figeval {installed_version('figeval')}), epic/full_dataset.json {sha256[:12]}",
        numbers=tuple(
            MeasuredNumber(part=part.table, metric=finding.cell[0], model=finding.cell[1], value=finding.value)
            for part in parts
            for finding in part.findings
            if finding.cell is not None and finding.value is not None
        ),
    )


def save_csv(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as CSV; None becomes an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)


def describe_analysis(parts: Sequence[Analysis], sha256: str) -> JSON:
    """Return the content of `analysis.json`; the columns per narrative and proverb are in the CSV files."""
    return {
        "data": {"file": "epic/full_dataset.json", "sha256": sha256},
        "libraries": {name: installed_version(name) for name in LIBRARIES},
        "parts": {
            part.name: {
                "left_out": part.left_out or None,
                "findings": [finding_record(finding) for finding in part.findings],
                "details": dict(part.details),
            }
            for part in parts
        },
    }


def finding_record(finding: AnalysedNumber) -> JSON:
    """Return a finding as a mapping that includes `agrees`."""
    fields = {name: value for name, value in asdict(finding).items() if name != "cell"}
    return {**fields, "published": finding.published or None, "agrees": finding.agrees}


def findings_table(parts: Iterable[Analysis]) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per finding."""
    yield HEAD
    for part in parts:
        for finding in part.findings:
            low, high = finding.interval or (None, None)
            fields = (finding.published, finding.agrees, finding.definition, finding.note)
            yield (part.name, finding.name, finding.value, low, high, *fields)


def columns_table(kind: str, ids: Iterable[str], groups: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per id, with the columns of all parts."""
    columns: dict[str, Column] = dict(chain.from_iterable(group.items() for group in groups))
    yield (kind, *columns)
    for key in ids:
        yield (key, *(column.get(key) for column in columns.values()))
