"""A Markdown table for a README or an issue; `published` adds a column with the numbers of the papers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from figeval import Column, RunRecord, Table
from figeval.io.text import one_line
from figeval.records.reference import Published, published_results
from figeval.records.schema import SEEN_NOTES, ScoreRecord
from figeval.reporting.table import MARKS
from figeval.wings.exporters.score_table import (
    CellFormat,
    ScoreLine,
    any_score,
    format_deviation,
    format_interval,
    format_value,
    option_table,
    route_notes,
    score_lines,
    score_table,
    seen_roles,
    sign_notes,
    table_notes,
)

MISSING_CELL = "–"
SPECIAL = {**{letter: f"\\{letter}" for letter in "\\|`*~$"}, "<": "&lt;", ">": "&gt;"}
ENTITY = re.compile(r"&(?=#?\w+;)")
OUTER = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # an underscore that is not between letters or digits
# What GitHub links although it is no markup: addresses, users, issues.
LINKED = re.compile(r"\b(?:https?|ftp):(?=//)|\bwww(?=\.)|(?<!\w)@(?=\w)|#(?=\d)", re.IGNORECASE)
LEADING = re.compile(r"^(\d{0,9})(#{1,6}|[-+.)])(?=\s|$)")  # headings and lists


def export(runs: Sequence[RunRecord]) -> str:
    """Return the table of values with 95 % intervals and baselines, with notes below."""
    return _table(score_table(runs, score_lines(runs), CELLS), list(_notes(runs))) + _option_kinds(runs)


def _notes(runs: Sequence[RunRecord]) -> Iterator[str]:
    yield "95 % intervals in brackets, over clusters if examples are not independent."
    if any_score(runs, format_deviation):
        yield "± is the standard deviation over seeds; intervals of such means are over other seeds and other examples."
    yield from (f"{MARKS[role]} {SEEN_NOTES[role]}." for role in seen_roles(runs))
    yield from sign_notes(runs)
    yield from route_notes(runs)
    yield from table_notes(runs)


def _table(table: Table[Any], notes: Sequence[str]) -> str:
    grid = table.grid
    ruler = ["---", "---", *["---:"] * (len(grid.head) - 2)]
    lines = map(_table_row, [grid.head, ruler, *grid.rows])
    return "\n".join([*lines, "", *(f"- {_plain(note)}" for note in notes)]) + "\n"


def _option_kinds(runs: Sequence[RunRecord]) -> str:
    """Return a second table with the kinds of chosen options, or "" if no task has kinds."""
    table = option_table(runs, CELLS)
    note = "expected: share of wrong answers if each were drawn at random from the wrong options."
    return "\n" + _table(table, [note]) if table.rows else ""


def _table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _cell(score: ScoreRecord | None, n: int | None = None) -> str:
    """Return a cell: `0.183 [0.058, 0.308]`, or `0.183 ± 0.020 [0.058, 0.308]` over seeds.

    `0.183†` means that the model was selected by this score, `0.183‡` that it was trained on it, and `0.183 (n = 10)`
    that it rests on fewer examples than its line says.
    """
    spread = format_deviation(score)
    parts = (
        format_value(score),
        None if spread is None else f"± {spread}",
        format_interval(score),
    )
    text = " ".join(part for part in parts if part is not None) or MISSING_CELL
    text += MARKS[score.seen if score is not None else None]
    return text if n is None else f"{text} (n = {n})"


CELLS = CellFormat(text=str, value=lambda score: format_value(score) or MISSING_CELL, score=_cell)


def _plain(text: str) -> str:
    """Return a text on one line in which nothing ends a cell or starts markup, HTML, a link or a picture."""
    escaped = "".join(SPECIAL.get(letter, letter) for letter in ENTITY.sub("&amp;", one_line(text)))
    escaped = LINKED.sub(r"\g<0>&NoBreak;", OUTER.sub(r"\_", LEADING.sub(r"\1\\\2", escaped)))
    return escaped.replace("](", r"]\(").replace("]:", r"]\:").replace("][", r"]\[")


def export_published(runs: Sequence[RunRecord]) -> str:
    """Return the Markdown table with a column of the published numbers for each line, and a note per source."""
    lines = score_lines(runs)
    table = score_table(runs, lines, CELLS)
    numbers = [_published_numbers(line) for line in lines]
    published_column: Column[ScoreLine] = Column(value=_published_numbers, head="published", text=_published_cell)
    sources = dict.fromkeys((number.task, number.source, number.note) for number in chain(*numbers))
    source_notes = [f"{task}: {source}" + (f": {note}" if note else "") for task, source, note in sources]
    if sources and any(task.n < task.available for run in runs for task in run.tasks):
        subset = "runs with --limit or --sample only some of them"
        source_notes.append(f"published numbers cover all examples of a task, {subset}")
    table = replace(table, columns=[*table.columns, published_column])
    return _table(table, [*_notes(runs), *source_notes]) + _option_kinds(runs)


def _published_numbers(line: ScoreLine) -> list[Published]:
    """Return the published numbers of a line; if a later version of a paper prints one again, that one counts."""
    return list(
        {number.model: number for number in published_results(line.task) if number.metric == line.metric}.values()
    )


def _published_cell(numbers: Sequence[Published]) -> str:
    """Return `BERT 0.070, RoBERTa 0.068`; numbers from several versions of a paper are by version, the latest first."""
    versions = dict.fromkeys(map(_version, reversed(numbers)))
    parts = {
        version: ", ".join(f"{number.model} {number.value:.3f}" for number in numbers if _version(number) == version)
        for version in versions
    }
    if len(parts) > 1:
        return "; ".join(f"{version}: {part}" for version, part in parts.items())
    return "".join(parts.values()) or MISSING_CELL


def _version(number: Published) -> str:
    """Return the version of the paper: the second part of `ePiC, arXiv v1, Table 9`."""
    return number.source.split(", ")[1]
