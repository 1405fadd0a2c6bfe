"""Parts of pages that reports and leaderboards share: scores as texts and as bars, and files to download."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from figeval import JSON
from figeval.records.schema import BaselineRecord, ScoreRecord, baseline_scores
from figeval.reporting import table
from figeval.reporting.grid import AND, format_interval, format_number

MAX_FEW = 100  # examples of which one changes a mean by .01 or more, so that a third decimal says nothing


def format_value(score: ScoreRecord) -> str:
    """Return the value with as many decimals as its examples support, and a mark if the model has seen some of them."""
    return format_number(score.value, _form(score)) + table.MARKS[score.seen]


def format_limits(score: ScoreRecord) -> str:
    """Return the 95 % interval with as many decimals as the value, or an en dash if there is none."""
    return format_interval(score.low, score.high, _form(score), reliable=score.interval.reliable)


def format_floors(baselines: Sequence[BaselineRecord], score: ScoreRecord) -> list[str]:
    """Return the baselines of a score, e.g. `chance 0.20`."""
    scores = baseline_scores(baselines, score.metric).items()
    return [f"{name} {format_number(floor.value, _form(score))}" for name, floor in scores if floor.value is not None]


def join_floors(floors: Sequence[str]) -> str:
    """Return baselines as one text."""
    return AND.join(floors)


def _form(score: ScoreRecord) -> str:
    return ".2f" if score.n <= MAX_FEW else ".3f"


def download(name: str, text: str) -> JSON:
    """Return a file within the document: its name, and its content as an address."""
    content = base64.b64encode(text.encode()).decode("ascii")
    return {"name": name, "address": f"data:text/plain;charset=utf-8;base64,{content}"}


def bar(score: ScoreRecord, floors: Sequence[float | None] = ()) -> JSON | None:
    """Return the places on a bar from 0 to 100, or None for a score that is not between 0 and 1."""
    if score.value is None or not 0 <= score.value <= 1:
        return None
    value, low, high = (
        None if number is None else round(100 * min(max(number, 0), 1), 2)
        for number in (score.value, score.low, score.high)
    )
    return {
        "value": value,
        "low": low,
        "high": high,
        "floors": [round(100 * floor, 2) for floor in floors if floor is not None and 0 <= floor <= 1],
    }
