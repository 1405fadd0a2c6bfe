"""The page of `figeval board`: one leaderboard per suite, contrast and task, which can be sorted and filtered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from figeval import JSON, Column, Table, html_document
from figeval.io.text import one_line
from figeval.records.schema import SEEN_NOTES
from figeval.reporting import table
from figeval.reporting.grid import EMPTY_CELL, UNRELIABLE_MARK
from figeval.wings.report.html import bar, download, format_limits, format_value
from figeval.wings.report.record import BoardRecord, BoardRow, Leaderboard

CSV_COLUMNS = (
    *("benchmark", "leaderboard", "kind", "apart", "examples", "examples_sha256", "row", "model", "route"),
    *("conditions", "seeds", "date", "run", "metric", "value", "low", "high", "n", "clusters", "rank", "best"),
    *("worst", "note", "notes"),
)
UNITS = {"suite": "tasks", "contrast": "examples", "task": "examples"}
RANK_COLUMNS = ("rank", "best", "worst", "note")


def board_page(title: str, record: BoardRecord) -> str:
    """Return the HTML page of all leaderboards."""
    used: set[str] = {"overview"}
    anchored = [(board, _anchor(board.name, used)) for board in record.leaderboards]
    sections = [
        {
            "name": benchmark,
            "anchor": _anchor(f"benchmark-{benchmark}", used),
            "overviews": list(_overviews([column for column in members if column[0].kind == "task"])),
            "boards": [_board(*column) for column in members],
        }
        for benchmark, members in _by_benchmark(anchored).items()
    ]
    headlines = [column for members in _by_benchmark(anchored).values() for column in _headlines(members)]
    is_summary = len(sections) > 1 or any(board.kind != "task" for board, _ in headlines)
    content: JSON = {
        "title": one_line(title),
        "record": record,
        "overviews": list(_overviews(headlines)) if is_summary else [],
        "sections": sections,
        "notes": list(_notes(record)),
        "absent": [f"{absence.task} of {absence.model} {absence.why}" for absence in record.absent],
    }
    styles, scripts = ("page.css", "sorting.css", "board.css"), ("sorting.js", "board.js")
    return html_document(__package__, "board.html.jinja", content, styles=styles, script=scripts)


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
    return {
        "name": board.name,
        "kind": board.kind,
        "anchor": anchor,
        "apart": board.apart,
        "n": board.examples if board.kind == "task" and board.apart else None,
        "notes": board.notes,
        "about": f"{board.examples:,} {UNITS[board.kind]}, sha256 {board.examples_sha256:.8}…",
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
        "interval": "" if score is None else format_limits(score),
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
    return {"text": format_value(score), "number": score.value}


# ---- tables of several leaderboards ----------------------------------------------------------------------------------

AnchoredBoard: TypeAlias = tuple[Leaderboard, str]  # with the id of its heading


def _by_benchmark(boards: Iterable[AnchoredBoard]) -> dict[str, list[AnchoredBoard]]:
    by_benchmark: dict[str, list[AnchoredBoard]] = {}
    for board, anchor in boards:
        by_benchmark.setdefault(board.benchmark, []).append((board, anchor))
    return by_benchmark


def _headlines(boards: Sequence[AnchoredBoard]) -> Iterator[AnchoredBoard]:
    """Yield the leaderboards that stand for a benchmark: the means over its suites, else its contrasts and tasks.

    Where one label is always right, the contrasts are about the task and its accuracy is not, if there are any.
    """
    kinds = {board.kind for board, _ in boards}
    for board, anchor in boards:
        is_contrasted = board.only_label and "contrast" in kinds
        if board.kind == "suite" or ("suite" not in kinds and not is_contrasted):
            yield board, anchor


def _overviews(boards: Sequence[AnchoredBoard]) -> Iterator[JSON]:
    """Yield a table of all models and leaderboards for each part of the examples; a single leaderboard needs none."""
    columns: dict[str, dict[str, AnchoredBoard]] = {}
    for board, anchor in boards:
        if "@" not in board.name:
            # The first of several that differ in data or prompt is the most important one.
            columns.setdefault(board.portion, {}).setdefault(board.name, (board, anchor))
    for portion, members in columns.items():
        if len(members) > 1:
            yield {"portion": portion, **_overview(list(members.values()))}


def _overview(columns: Sequence[AnchoredBoard]) -> JSON:
    """Return the table of all models and some leaderboards, without the models' own floors."""
    models: dict[tuple[str, str, str], dict[int, BoardRow]] = {}  # their rows by the index of the leaderboard
    for index, (board, _) in enumerate(columns):
        for row in board.rows:
            if row.floor_of:
                continue
            models.setdefault((row.kind, row.model, row.page), {}).setdefault(index, row)
    rows, counts = [], Counter((kind, model) for kind, model, _ in models)
    ordered = sorted(models.items(), key=lambda item: (item[0][0] == "baseline", -len(item[1])))
    for (kind, model, page), results in ordered:
        cells = [
            {**_value(results[index], board.metric), "is_top": results[index].best == 1}
            if index in results
            else {"text": "", "number": None, "is_top": False}
            for index, (board, _) in enumerate(columns)
        ]
        run = next(iter(results.values())).run if counts[kind, model] > 1 else ""
        rows.append({"kind": kind, "model": model, "page": page, "run": run, "cells": cells})
    heads = [
        {
            "name": board.name,
            "anchor": anchor,
            "metric": board.metric,
            "size": f"{board.examples:,} {UNITS[board.kind]}",
            "only_label": board.only_label,
        }
        for board, anchor in columns
    ]
    groups = [
        (benchmark, len(list(members))) for benchmark, members in groupby(board.benchmark for board, _ in columns)
    ]
    return {"columns": heads, "groups": groups, "rows": rows}


# ---- notes -----------------------------------------------------------------------------------------------------------


def _notes(record: BoardRecord) -> Iterator[str]:
    """Yield explanations of the marks."""
    scores = [score for board in record.leaderboards for row in board.rows for score in row.scores]
    seen = {score.seen for score in scores}
    yield from (f"{table.MARKS[role]} {text}." for role, text in SEEN_NOTES.items() if role in seen)
    if any(score.low is not None and not score.interval.reliable for score in scores):
        yield f"{UNRELIABLE_MARK} Fewer than 10 effective clusters: the interval is unreliable."
