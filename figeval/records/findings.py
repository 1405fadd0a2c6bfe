"""Numbers of an analysis of data, beside those of a paper, and the files that a command writes them to.

`analysis.json` has everything but long columns, `tables.csv` all numbers, `<name>.csv` each listing, and
`measured.json` the numbers that are in a table of the paper, for `figeval export --measured`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from figeval.io.files import cure
from figeval.io.text import csv_cell
from figeval.records.provenance import installed_version
from figeval.records.reference import MeasuredNumber, MeasuredNumbers, write_measured
from figeval.types import JSON

HEAD = ("part", "name", "value", "low", "high", "published", "agrees", "definition", "note")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedNumber:
    """One number of an analysis.

    Attributes:
        value: the number; None if it is unknown, which `note` explains.
        published: the paper's value as printed, or empty.
        cell: metric and row of the number in the paper's table, if it is there.
        scale: factor between the number here and the cell of the table, e.g. 0.01 for a percentage.
    """

    name: str
    value: float | None
    definition: str
    published: str = ""
    interval: tuple[float, float] | None = None
    note: str = ""
    cell: tuple[str, str] | None = None
    scale: float = 1

    @property
    def agrees(self) -> bool | None:
        """True if the value equals the published one at its number of digits; None if either is missing."""
        if not self.published or self.value is None:
            return None
        return self.digits(self.value) == self.published

    @property
    def covers(self) -> bool:
        """True if the interval, rounded to as many digits, contains the published value."""
        if not self.published or self.interval is None:
            return False
        low, high = (float(self.digits(bound)) for bound in self.interval)
        return low <= float(self.published) <= high

    def digits(self, value: float) -> str:
        """Format a number with the paper's decimals, or with four significant digits if nothing is published."""
        if self.published:
            return f"{value:.{len(self.published.partition('.')[2])}f}"
        return str(value) if isinstance(value, int) else f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Listing:
    """A longer table, such as the most frequent words; the first `shown` rows are printed, and all are written."""

    name: str  # of the CSV file
    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str | int | float | None, ...]]
    shown: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One section of an analysis; if it could not be computed, `left_out` says what is missing and how to get it.

    `table` is the part of the published numbers that findings with a `cell` belong to.
    """

    name: str
    table: str = ""
    findings: Sequence[AnalysedNumber] = ()
    listings: Sequence[Listing] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    left_out: str = ""


def write_analysis(
    folder: Path,
    parts: Sequence[Analysis],
    *,
    command: str,
    data: Mapping[str, str],
    libraries: Sequence[str],
    columns: Mapping[str, Iterable[Sequence[Any]]],
) -> list[Path]:
    """Write all files of an analysis and return their paths.

    Args:
        folder: the folder of `--output`.
        parts: the sections.
        command: the command line that computes them, for the note below a table with these numbers.
        data: the SHA-256 of each file of data.
        libraries: distributions whose versions are recorded, besides figeval.
        columns: further CSV files, by name, with a row per text and their header first.

    Raises:
        RecordError: they cannot be written.
    """
    listings = {f"{listing.name}.csv": [listing.head, *listing.rows] for part in parts for listing in part.listings}
    tables: dict[str, Iterable[Sequence[Any]]] = {"tables.csv": list(_numbers(parts)), **listings, **columns}
    record = {
        "data": dict(data),
        "libraries": {name: installed_version(name) for name in ("figeval", *libraries)},
        "parts": {part.name: _part_record(part) for part in parts},
    }
    with cure(folder, "--output"):
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=1, ensure_ascii=False)
        (folder / "analysis.json").write_text(text + "\n", encoding="utf-8")
        for name, rows in tables.items():
            save_csv(folder / name, rows)
    files = ", ".join(f"{name} {sha256[:12]}" for name, sha256 in data.items())
    source = f"{command} (figeval {installed_version('figeval')}){files and ', '}{files}"
    measured = MeasuredNumbers(source=source[:500], numbers=tuple(_cells(parts)))
    return [*(folder / name for name in ("analysis.json", *tables)), write_measured(folder, measured, "--output")]


def save_csv(path: Path, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows as CSV; None becomes an empty cell."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)


def _part_record(part: Analysis) -> JSON:
    findings = [_finding_record(finding) for finding in part.findings]
    return {"left_out": part.left_out or None, "findings": findings, "details": dict(part.details)}


def _finding_record(finding: AnalysedNumber) -> JSON:
    """Return a finding as a mapping that includes `agrees`."""
    fields = {name: value for name, value in asdict(finding).items() if name not in ("cell", "scale")}
    return {**fields, "published": finding.published or None, "agrees": finding.agrees}


def _numbers(parts: Iterable[Analysis]) -> Iterator[Sequence[Any]]:
    """Yield the header and one row per finding."""
    yield HEAD
    for part in parts:
        for finding in part.findings:
            low, high = finding.interval or (None, None)
            fields = (finding.published, finding.agrees, finding.definition, finding.note)
            yield (part.name, finding.name, finding.value, low, high, *fields)


def _cells(parts: Iterable[Analysis]) -> Iterator[MeasuredNumber]:
    for part in parts:
        for finding in part.findings:
            if finding.cell is not None and finding.value is not None:
                metric, row = finding.cell
                yield MeasuredNumber(part=part.table, metric=metric, model=row, value=finding.value * finding.scale)
