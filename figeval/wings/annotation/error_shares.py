"""Filled-in sheets of errors: the share of each author's texts with each type of error, and the annotators' agreement.

An empty cell does not count as a judgement, neither as yes nor as no; the number of empty cells is reported. If several
people judged a text, its value is the share of them who found the error, so a text is one observation however many
annotators it had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from figeval import JSON, Column, DataError, MetricAggregator, Result, Score, Table, mean_of
from figeval.data.sheets import read_cells
from figeval.io.text import csv_cell, near, pluralize
from figeval.records.schema import to_json
from figeval.reporting.grid import format_number
from figeval.spec.criteria import YES, YES_NO
from figeval.wings.annotation.agreement import Ratings, krippendorff_alpha
from figeval.wings.annotation.columns import score_columns
from figeval.wings.annotation.items import ITEM, SHEET_CURE, Key

Cells: TypeAlias = Mapping[tuple[str, str], bool]  # (item, error type) → judgement; empty cells are left out


@dataclass(frozen=True, slots=True)
class ErrorShare:
    """The share of an author's texts with an error; `texts` counts all of them, `score.n` those with a judgement.

    `by_majority` is the share of texts in which more people found the error than not, of those without a tie.
    """

    error_type: str
    author: str
    texts: int
    score: Score
    by_majority: Score


@dataclass(frozen=True, slots=True)
class ErrorAgreement:
    """Krippendorff's alpha (nominal) of an error type over the texts that several people judged.

    `alpha` is None, and `reason` says why, if no text was judged by two people or all judgements are the same.
    """

    error_type: str
    texts: int
    alpha: float | None
    reason: str = ""


FORMAT_SHARE = partial(format_number, form=".4f")
SHARES: tuple[Column[ErrorShare], ...] = (
    Column("error_type", head="error"),
    Column("author", head="texts by"),
    *score_columns(lambda share: share.score, "share", "judged", ".4f"),
    Column("by_majority", "float64", lambda share: share.by_majority.value, "by majority", FORMAT_SHARE),
    Column("texts", "Int64", head="of"),
)
AGREEMENT: tuple[Column[ErrorAgreement], ...] = (
    Column("error_type", head="error"),
    Column("alpha", "float64", head="Krippendorff's alpha", text=partial(format_number, form=".3f")),
    Column("texts", "Int64", head="texts judged by several"),
)


@dataclass(frozen=True)
class ErrorShares(Result):
    """The result of a set of sheets; `empty` counts the empty or missing cells of each sheet, out of `cells`."""

    key: Key
    shares: tuple[ErrorShare, ...]
    agreement: tuple[ErrorAgreement, ...]
    empty: Mapping[str, int]
    cells: int

    @property
    def is_empty(self) -> bool:
        """True if nobody has filled in a cell."""
        return self.cells > 0 and all(count == self.cells for count in self.empty.values())

    @property
    def tables(self) -> list[Table[Any]]:
        """Shares of texts with an error, and agreement of the annotators."""
        return [
            Table(SHARES, self.shares, f"{self.key.task}: share of texts with an error"),
            Table(AGREEMENT, self.agreement, "Agreement of annotators"),
        ]

    def notes(self) -> Iterator[str]:
        """Yield what is missing."""
        for name, count in self.empty.items():
            if count:
                yield f"{name}: {count} of {self.cells} cells are empty and do not count as judgements"
        for row in self.agreement:
            if row.reason:
                yield f"no alpha of {row.error_type!r}: {row.reason}"
        for author, count in self.key.not_written.items():
            yield f"{author}: {pluralize(count, 'text')} in the sample not written, so not judged"

    def to_dict(self) -> JSON:
        """Return all numbers as `figeval annotate score --json` prints them."""
        agreement = [
            {"why" if name == "reason" else name: value for name, value in asdict(row).items()}
            for row in self.agreement
        ]
        return {
            "key": self.key.model_dump(mode="json", exclude={"items"}),
            "shares": [to_json(share) for share in self.shares],
            "agreement": agreement,
            "empty": dict(self.empty),
            "cells": self.cells,
        }


def score_sheets(key: Key, files: Sequence[Path]) -> ErrorShares:
    """Score filled-in sheets, one file per annotator.

    Raises:
        DataError: a file is given twice or is not a sheet of this key, or a cell is neither yes nor no; the message
            names the file, row and column.
    """
    by_path: dict[Path, Path] = {}
    for file in files:
        if (other := by_path.setdefault(file.resolve(), file)) is not file:
            raise DataError(f"{file} is given twice (as {other}); give the sheet of each annotator once")
    sheets = {str(file): read_sheet(file, key) for file in files}
    cells = len(key.items) * len(key.error_types)
    return ErrorShares(
        key=key,
        shares=tuple(
            _share(key, error_type, author, list(sheets.values()))
            for error_type in key.error_types
            for author in key.authors
        ),
        agreement=tuple(_agreement(key, error_type, sheets) for error_type in key.error_types),
        empty={name: cells - len(filled) for name, filled in sheets.items()},
        cells=cells,
    )


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_sheet(file: Path, key: Key) -> Cells:
    """Read the judgements of a sheet.

    Rows may be reordered or left out, columns without judgements be removed or added, and comments be changed.

    Raises:
        DataError: the file cannot be read or lacks a column, an item is unknown or appears twice or has other texts
            than those that were exported, or a cell is neither yes nor no.
    """
    rows = read_cells(file, SHEET_CURE)
    header = [cell.strip() for cell in rows[0]] if rows else []
    columns = {error_type: csv_cell(error_type) for error_type in key.error_types}
    for name in (ITEM, *columns.values()):
        if header.count(name) != 1:
            raise DataError(
                f"{file}: there must be exactly one column {name!r}{near(name, header)}; keep the first row unchanged"
            )
    judgements: dict[tuple[str, str], bool] = {}
    items: set[str] = set()
    for number, row in enumerate(rows[1:], 2):
        cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
        if not any(cells.values()):
            continue
        source, item = f"{file}, row {number}", cells.get(ITEM, "")
        if any(cell.strip() for cell in row[len(header) :]):
            raise DataError(f"{source}: it has {len(row)} cells, but the first row has {len(header)}; check the quotes")
        if item not in key.items or item in items:
            problem = "appears twice" if item in items else "does not belong to this set of sheets"
            raise DataError(f"{source}, column {ITEM!r}: item {item!r:.40} {problem}")
        items.add(item)
        key.check_texts(item, cells, source)
        for error_type, column in columns.items():
            if cell := cells.get(column, ""):
                if cell.lower() not in YES:
                    raise DataError(
                        f"{source}, column {error_type!r}: {cell!r:.40} is neither yes nor no; leave the cell empty "
                        "if there is no judgement"
                    )
                judgements[item, error_type] = YES[cell.lower()]
    return judgements


# ---- scores ----------------------------------------------------------------------------------------------------------


def _share(key: Key, error_type: str, author: str, sheets: Sequence[Cells]) -> ErrorShare:
    statistic = mean_of(lambda _example, _prediction: None, absent="no judgements")
    shares, majorities = (MetricAggregator(error_type, statistic, higher_is_better=False) for _ in range(2))
    items = {number: item for number, item in key.items.items() if item.author == author}
    for number, item in items.items():
        judgements = [cells[number, error_type] for cells in sheets if (number, error_type) in cells]
        if judgements:
            share = sum(judgements) / len(judgements)
            shares.add(item.group, (share, 1.0))
            if share != 0.5:
                majorities.add(item.group, (float(share > 0.5), 1.0))
    return ErrorShare(error_type, author, len(items), shares.score(), majorities.score())


def _agreement(key: Key, error_type: str, sheets: Mapping[str, Cells]) -> ErrorAgreement:
    labels = {
        number: {
            name: YES_NO[cells[number, error_type]] for name, cells in sheets.items() if (number, error_type) in cells
        }
        for number in key.items
    }
    compared = {number: by_annotator for number, by_annotator in labels.items() if len(by_annotator) > 1}
    if not compared:
        return ErrorAgreement(error_type, 0, None, "no text was judged by more than one annotator")
    alpha = krippendorff_alpha(Ratings.of(compared, YES_NO)).value
    return ErrorAgreement(error_type, len(compared), alpha, "all judgements are the same" if alpha is None else "")
