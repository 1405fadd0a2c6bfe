"""The page of `figeval board`: one leaderboard per suite, contrast and task, which can be sorted and filtered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from figeval import JSON, Column, Table, html_document
from figeval.io.text import one_line
from figeval.records.schema import SEEN_NOTES
from figeval.reporting import table
from figeval.reporting.grid import EMPTY_CELL, UNRELIABLE_MARK
from figeval.wings.report.html import bar, download
from figeval.wings.report.record import BoardRecord, BoardRow, Leaderboard

CSV_COLUMNS = (
    *("benchmark", "leaderboard", "kind", "apart", "examples", "examples_sha256", "row", "model", "route"),
    *("conditions", "seeds", "date", "run", "metric", "value", "low", "high", "n", "clusters", "rank", "best"),
    *("worst", "note", "notes"),
)
RANK_COLUMNS = ("rank", "best", "worst", "note")


def board_page(title: str, record: BoardRecord) -> str:
    """Return the HTML page of all leaderboards."""
    used: set[str] = set()
    sections = []
    for benchmark, boards in record.benchmarks():
        contents = [_board(board, _anchor(board.name, used)) for board in boards]
        sections.append(
            {
                "name": benchmark,
                "anchor": _anchor(f"benchmark-{benchmark}", used),
                "overview": _overview(boards),
                "boards": contents,
            }
        )
    content: JSON = {
        "title": one_line(title),
        "record": record,
        "sections": sections,
        "notes": list(_notes(record)),
        "absent": [f"{absence.task} of {absence.model} {absence.why}" for absence in record.absent],
    }
    styles = ("page.css", "board.css")
    return html_document(__package__, "board.html.jinja", content, styles=styles, script="board.js")


def board_csv(boards: Sequence[Leaderboard]) -> str:
    """Return leaderboards as CSV, with one line per row and metric; ranks are on the lines of the ranked metric."""
    rows = [
        {
            **row.model_dump(exclude={"scores"}),
            **({} if score.metric == board.metric else dict.fromkeys(RANK_COLUMNS)),
            **score.model_dump(),
            **board.model_dump(exclude={"rows", "metric"}),
            "leaderboard": board.name,
            "row": row.kind,
            "notes": "; ".join(board.notes),
        }
        for board in boards
        for row in board.rows
        for score in row.scores
    ]
    columns: list[Column[JSON]] = list(map(Column, CSV_COLUMNS))
    return Table(columns, rows).to_csv()


def _anchor(name: str, used: set[str]) -> str:
    """Return an id that the page does not have yet."""
    stem = re.sub(r"[^\w.@:-]+", "-", one_line(name, 100)) or "leaderboard"
    anchor, number = stem, 1
    while anchor in used:
        number += 1
        anchor = f"{stem}-{number}"
    used.add(anchor)
    return anchor


# ---- one leaderboard -------------------------------------------------------------------------------------------------


def _board(board: Leaderboard, anchor: str) -> JSON:
    """Return what the template shows of one leaderboard."""
    further = [metric for metric in board.metrics if metric != board.metric]
    baselines = [row.score(board.metric) for row in board.rows if row.kind == "baseline"]
    floors = [None if score is None else score.value for score in baselines]
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
        "others": further,
        "untested": list(dict.fromkeys(row.note for row in board.rows if row.rank is not None and row.note)),
        "rows": [_row(row, board.metric, further, floors) for row in board.rows],
        "download": download(f"{anchor}.csv", board_csv([board])),
    }


def _row(row: BoardRow, metric: str, further: Sequence[str], floors: Sequence[float | None]) -> JSON:
    score = row.score(metric)
    return {
        "row": row,
        "value": _value(row, metric),
        "interval": "" if score is None else table.interval(score),
        "low": None if score is None else score.low,
        "bar": None if score is None else bar(score, floors if row.kind == "run" else ()),
        "others": [_value(row, name) for name in further],
        "n": "" if score is None else str(score.n),
        "set": "" if row.best is None else str(row.best) if row.best == row.worst else f"{row.best}–{row.worst}",
    }


def _value(row: BoardRow, metric: str) -> JSON:
    """Return a score as text, and as the number by which rows are sorted."""
    score = row.score(metric)
    if score is None:
        return {"text": EMPTY_CELL, "number": None}
    return {"text": table.format_marked(score), "number": score.value}


def _overview(boards: Sequence[Leaderboard]) -> JSON | None:
    """Return the table of all models and tasks of a benchmark; there is none for a single task."""
    tasks = [board for board in boards if board.kind == "task" and not board.apart and "@" not in board.name]
    if len(tasks) < 2:
        return None
    models: dict[tuple[str, str, str], dict[int, BoardRow]] = {}  # their rows by the index of the task
    for index, board in enumerate(tasks):
        for row in board.rows:
            models.setdefault((row.kind, row.model, row.page), {}).setdefault(index, row)
    rows, counts = [], Counter((kind, model) for kind, model, _ in models)
    ordered = sorted(models.items(), key=lambda item: (item[0][0] == "baseline", -len(item[1])))
    for (kind, model, page), results in ordered:
        cells = [
            {**_value(results[index], board.metric), "is_top": results[index].best == 1}
            if index in results
            else {"text": "", "number": None, "is_top": False}
            for index, board in enumerate(tasks)
        ]
        run = next(iter(results.values())).run if counts[kind, model] > 1 else ""
        rows.append({"kind": kind, "model": model, "page": page, "run": run, "cells": cells})
    return {"columns": [(board.name, board.metric) for board in tasks], "rows": rows}


def _notes(record: BoardRecord) -> Iterator[str]:
    """Yield explanations of the marks."""
    scores = [score for board in record.leaderboards for row in board.rows for score in row.scores]
    seen = {score.seen for score in scores}
    yield from (f"{table.MARKS[role]} {text}." for role, text in SEEN_NOTES.items() if role in seen)
    if any(score.low is not None and not score.interval.reliable for score in scores):
        yield f"{UNRELIABLE_MARK} Fewer than 10 effective clusters: the interval is unreliable."
