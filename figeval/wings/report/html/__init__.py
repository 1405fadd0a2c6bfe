"""Parts of pages that reports and leaderboards share: bars of scores, and files to download."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from figeval import JSON
from figeval.records.schema import ScoreRecord


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
