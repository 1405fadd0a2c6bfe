"""Scores of filled-in sheets: the share of each author's texts with each type of error, and the annotators' agreement.

An empty cell does not count as a judgement, neither as yes nor as no; the number of empty cells is reported. If several
people judged a text, its value is the share of them who found the error, so a text is one observation however many
annotators it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from figeval.errors import DataError, near
from figeval.io.text import csv_cell
from figeval.metrics.aggregation import MetricAggregator
from figeval.metrics.statistic import mean_of
from figeval.spec.criteria import YES, YES_NO
from figeval.types import Score
from figeval.wings.annotation.agreement import Ratings, krippendorff_alpha
from figeval.wings.annotation.judgements import csv_rows
from figeval.wings.annotation.sheets import ITEM, Key

Cells = Mapping[tuple[str, str], bool]  # (item, error type) → judgement; empty cells are left out


@dataclass(frozen=True, slots=True)
class ErrorShare:
    """The share of an author's texts with an error; `texts` counts all of them, `score.n` those with a judgement."""

    error_type: str
    author: str
    texts: int
    score: Score


@dataclass(frozen=True, slots=True)
class Agreement:
    """Krippendorff's alpha (nominal) of an error type over the texts that several people judged.

    `alpha` is None, and `why` gives the reason, if no text was judged by two people or all judgements are the same.
    """

    error_type: str
    texts: int
    alpha: float | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The result of a set of sheets; `empty` counts the empty or missing cells of each sheet, out of `cells`."""

    key: Key
    shares: tuple[ErrorShare, ...]
    agreement: tuple[Agreement, ...]
    empty: Mapping[str, int]
    cells: int


def score_sheets(key: Key, files: Sequence[Path]) -> Annotation:
    """Score filled-in sheets, one file per annotator.

    Raises:
        DataError: a file is given twice or is not a sheet of this key, or a cell is neither yes nor no; the message
            names the file, row and column.
    """
    named: dict[Path, Path] = {}
    for file in files:
        if (other := named.setdefault(file.resolve(), file)) is not file:
            raise DataError(f"{file} is given twice (as {other}); give the sheet of each annotator once")
    sheets = {str(file): read_sheet(file, key) for file in files}
    cells = len(key.items) * len(key.error_types)
    return Annotation(
        key=key,
        shares=tuple(
            _share(key, error_type, author, list(sheets.values()))
            for error_type in key.error_types
            for author in key.authors
        ),
        agreement=tuple(_agreement(key, error_type, sheets) for error_type in key.error_types),
        empty={name: cells - len(found) for name, found in sheets.items()},
        cells=cells,
    )


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_sheet(file: Path, key: Key) -> Cells:
    """Read the judgements of a sheet.

    Rows may be reordered or left out, and other columns and comments may be changed or added.

    Raises:
        DataError: the file cannot be read or lacks a column, an item is unknown or appears twice, or a cell is neither
            yes nor no.
    """
    rows = csv_rows(file)
    header = [cell.strip() for cell in rows[0]] if rows else []
    columns = {error_type: csv_cell(error_type) for error_type in key.error_types}
    for name in (ITEM, *columns.values()):
        if header.count(name) != 1:
            raise DataError(
                f"{file}: there must be exactly one column {name!r}{near(name, header)}; keep the first row unchanged"
            )
    found: dict[tuple[str, str], bool] = {}
    seen: set[str] = set()
    for number, row in enumerate(rows[1:], 2):
        cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
        if not any(cells.values()):
            continue
        where, item = f"{file}, row {number}", cells.get(ITEM, "")
        if any(cell.strip() for cell in row[len(header) :]):
            raise DataError(f"{where}: it has {len(row)} cells, but the first row has {len(header)}; check the quotes")
        if item not in key.items or item in seen:
            what = "appears twice" if item in seen else "does not belong to this set of sheets"
            raise DataError(f"{where}, column {ITEM!r}: item {item!r:.40} {what}")
        seen.add(item)
        for error_type, column in columns.items():
            if cell := cells.get(column, ""):
                if cell.lower() not in YES:
                    raise DataError(
                        f"{where}, column {error_type!r}: {cell!r:.40} is neither yes nor no; leave the cell empty "
                        "if there is no judgement"
                    )
                found[item, error_type] = YES[cell.lower()]
    return found


# ---- scores ----------------------------------------------------------------------------------------------------------


def _share(key: Key, error_type: str, author: str, sheets: Sequence[Cells]) -> ErrorShare:
    statistic = mean_of(lambda _example, _prediction: None, absent="no judgements")
    aggregator = MetricAggregator(error_type, statistic, higher_is_better=False)
    own = {number: item for number, item in key.items.items() if item.author == author}
    for number, item in own.items():
        judgements = [cells[number, error_type] for cells in sheets if (number, error_type) in cells]
        if judgements:
            aggregator.add(item.cluster or item.example, (sum(judgements) / len(judgements), 1.0))
    return ErrorShare(error_type, author, len(own), aggregator.score())


def _agreement(key: Key, error_type: str, sheets: Mapping[str, Cells]) -> Agreement:
    judged = {
        number: {
            name: YES_NO[cells[number, error_type]] for name, cells in sheets.items() if (number, error_type) in cells
        }
        for number in key.items
    }
    several = {number: own for number, own in judged.items() if len(own) > 1}
    if not several:
        return Agreement(error_type, 0, None, "no text was judged by more than one annotator")
    alpha = krippendorff_alpha(Ratings.of(several, YES_NO)).value
    return Agreement(error_type, len(several), alpha, "all judgements are the same" if alpha is None else "")
