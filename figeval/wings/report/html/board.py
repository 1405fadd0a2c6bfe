"""The page of `figeval board`: one leaderboard per suite, contrast and task, which can be sorted and filtered."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from figeval.io.text import csv_cell, one_line
from figeval.records.schema import SEEN_NOTES
from figeval.reporting import table
from figeval.reporting.html import html_document
from figeval.types import JSON
from figeval.wings.report.board_record import BoardRecord, BoardRow, Leaderboard
from figeval.wings.report.html import bar, download

CSV_COLUMNS = (
    *(
        "benchmark",
        "leaderboard",
        "kind",
        "apart",
        "examples",
        "examples_sha256",
        "row",
        "model",
        "route",
        "conditions",
    ),
    *(
        "seeds",
        "date",
        "run",
        "metric",
        "value",
        "low",
        "high",
        "n",
        "clusters",
        "rank",
        "best",
        "worst",
        "note",
        "notes",
    ),
)


def board_page(title: str, record: BoardRecord) -> str:
    """Return the HTML page of all leaderboards."""
    used: set[str] = set()
    sections = []
    for benchmark, boards in record.benchmarks():
        shown = [_board(one, _anchor(one.name, used)) for one in boards]
        sections.append(
            {
                "name": benchmark,
                "anchor": _anchor(f"benchmark-{benchmark}", used),
                "overview": _overview(boards),
                "boards": shown,
            }
        )
    content: JSON = {
        "title": one_line(title),
        "record": record,
        "sections": sections,
        "notes": list(_notes(record)),
        "absent": [f"{one.task} of {one.model} {one.why}" for one in record.absent],
    }
    styles = ("page.css", "board.css")
    return html_document(__package__, "board.html.jinja", content, styles=styles, script="board.js")


def board_csv(boards: Sequence[Leaderboard]) -> str:
    """Return leaderboards as CSV, with one line per row and metric; ranks are on the lines of the ranked metric."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for board in boards:
        notes = "; ".join(board.notes)
        about = (board.benchmark, board.name, board.kind, board.apart, board.examples, board.examples_sha256)
        for row in board.rows:
            who = (row.kind, row.model, row.route, row.conditions, row.seeds, row.date, row.run)
            for score in row.scores:
                numbers = (score.metric, score.value, score.low, score.high, score.n, score.clusters)
                is_ranked = score.metric == board.metric
                ranks = (row.rank, row.best, row.worst, row.note) if is_ranked else (None, None, None, "")
                writer.writerow(
                    ["" if value is None else csv_cell(value) for value in (*about, *who, *numbers, *ranks, notes)]
                )
    return stream.getvalue()


def _anchor(name: str, used: set[str]) -> str:
    """Return an id that the page does not have yet."""
    stem = re.sub(r"[^\w.@:-]+", "-", one_line(name, 100)) or "leaderboard"
    found, times = stem, 1
    while found in used:
        times += 1
        found = f"{stem}-{times}"
    used.add(found)
    return found


# ---- one leaderboard -------------------------------------------------------------------------------------------------


def _board(board: Leaderboard, anchor: str) -> JSON:
    """Return what the template shows of one leaderboard."""
    others = [one for one in board.metrics if one != board.metric]
    floors = [one.score(board.metric) for one in board.rows if one.kind == "baseline"]
    lines = [None if score is None else score.value for score in floors]
    unit = {"suite": "tasks", "contrast": "examples", "task": "examples"}[board.kind]
    return {
        "name": board.name,
        "kind": board.kind,
        "anchor": anchor,
        "apart": board.apart,
        "n": board.examples if board.kind == "task" and board.apart else None,
        "notes": board.notes,
        "about": f"{board.examples:,} {unit}, sha256 {board.examples_sha256:.8}…",
        "metric": board.metric,
        "others": others,
        "untested": list(dict.fromkeys(row.note for row in board.rows if row.rank is not None and row.note)),
        "rows": [_row(row, board.metric, others, lines) for row in board.rows],
        "download": download(f"{anchor}.csv", board_csv([board])),
    }


def _row(row: BoardRow, metric: str, others: Sequence[str], floors: Sequence[float | None]) -> JSON:
    score = row.score(metric)
    return {
        "row": row,
        "value": _value(row, metric),
        "interval": "" if score is None else table.interval(score),
        "low": None if score is None else score.low,
        "bar": None if score is None else bar(score, floors if row.kind == "run" else ()),
        "others": [_value(row, one) for one in others],
        "n": "" if score is None else str(score.n),
        "set": "" if row.best is None else str(row.best) if row.best == row.worst else f"{row.best}–{row.worst}",
    }


def _value(row: BoardRow, metric: str) -> JSON:
    """Return a score as text, and as the number by which rows are sorted."""
    score = row.score(metric)
    return (
        {"text": table.NOTHING, "number": None}
        if score is None
        else {
            "text": table.marked(score),
            "number": score.value,
        }
    )


def _overview(boards: Sequence[Leaderboard]) -> JSON | None:
    """Return the table of all models and tasks of a benchmark; there is none for a single task."""
    tasks = [one for one in boards if one.kind == "task" and not one.apart and "@" not in one.name]
    if len(tasks) < 2:
        return None
    found: dict[tuple[str, str, str], dict[int, BoardRow]] = {}
    for place, board in enumerate(tasks):
        for row in board.rows:
            found.setdefault((row.kind, row.model, row.page), {}).setdefault(place, row)
    rows, times = [], Counter((kind, model) for kind, model, _ in found)
    for (kind, model, page), own in sorted(found.items(), key=lambda item: (item[0][0] == "baseline", -len(item[1]))):
        cells = [
            {**_value(own[place], board.metric), "is_top": own[place].best == 1}
            if place in own
            else {"text": "", "number": None, "is_top": False}
            for place, board in enumerate(tasks)
        ]
        run = next(iter(own.values())).run if times[kind, model] > 1 else ""
        rows.append({"kind": kind, "model": model, "page": page, "run": run, "cells": cells})
    return {"columns": [(one.name, one.metric) for one in tasks], "rows": rows}


def _notes(record: BoardRecord) -> Iterator[str]:
    """Yield explanations of the marks."""
    scores = [score for board in record.leaderboards for row in board.rows for score in row.scores]
    seen = {score.seen for score in scores}
    yield from (f"{table.MARKS[role]} {text}." for role, text in SEEN_NOTES.items() if role in seen)
    if any(score.low is not None and not score.interval.reliable for score in scores):
        yield f"{table.FEW} Fewer than 10 effective clusters: the interval is unreliable."
