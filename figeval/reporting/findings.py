"""Analyses of data on a terminal: measured numbers next to published ones, and the beginnings of longer tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from figeval.records.findings import AnalysedNumber, Analysis, Listing
from figeval.reporting.grid import Grid, format_cell, say

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = ("what", "measured", "95 %", "paper", "same digits")


def show(part: Analysis, console: Console) -> None:
    """Print one section of an analysis."""
    console.print()
    if part.left_out:
        say(console, f"{part.name}: left out, {part.left_out}")
        return
    if part.findings:
        numbers_of(part).print(console)
    for note in dict.fromkeys(finding.note for finding in part.findings if finding.note):
        say(console, f"  {note}")
    for listing in part.listings:
        console.print()
        beginning_of(listing).print(console)


def numbers_of(part: Analysis) -> Grid:
    """Return the numbers of a section; columns that none of them needs are left out."""
    rows = [dict(zip(COLUMNS, cells(finding), strict=True)) for finding in part.findings]
    has_published = any(finding.published for finding in part.findings)
    needed = {"95 %": any(row["95 %"] for row in rows), "paper": has_published, "same digits": has_published}
    head = tuple(name for name in COLUMNS if needed.get(name, True))
    return Grid(head, [tuple(row[name] for name in head) for row in rows], part.name, right=COLUMNS[1:4])


def cells(finding: AnalysedNumber) -> Iterator[str]:
    """Yield the cells of one number, in the order of `COLUMNS`."""
    yield finding.name
    yield "–" if finding.value is None else finding.digits(finding.value)
    yield "" if finding.interval is None else " to ".join(map(finding.digits, finding.interval))
    yield finding.published
    yield {None: "", True: "yes", False: "no, within the interval" if finding.covers else "no"}[finding.agrees]


def beginning_of(listing: Listing) -> Grid:
    """Return the first rows of a listing; its title says how many there are."""
    rows = [tuple(format_cell(cell) for cell in row) for row in listing.rows[: listing.shown]]
    rest = len(listing.rows) - len(rows)
    title = f"{listing.title} (all {len(listing.rows)}: {listing.name}.csv)" if rest else listing.title
    numbers = [
        name for index, name in enumerate(listing.head) if all(not isinstance(row[index], str) for row in listing.rows)
    ]
    return Grid(listing.head, rows, title, right=numbers)
