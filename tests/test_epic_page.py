"""The numbers on docs/epic.md are those of the stored runs, and of the papers as we keep them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from figeval.records.folder import read_record
from figeval.records.reference import published
from figeval.records.schema import ScoreRecord

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("random", "tfidf", "glove", "minilm")
OTHER_RUN = {"_published": "-published", "_authors": "-authors"}  # what a task's name ends in → where it was run


def lines() -> list[tuple[str, str, list[str], str]]:
    """(task, metric, a cell per model, the paper's cell) of the table of results."""
    found, task = [], ""
    for line in (ROOT / "docs" / "epic.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and cells[1] not in ("metric", "---"):
            task = cells[0] or task
            found.append((task, cells[1], cells[3:7], cells[7]))
    return found


def scores(model: str, task: str) -> dict[str, ScoreRecord]:
    ending = next((folder for end, folder in OTHER_RUN.items() if task.endswith(end)), "")
    record = read_record(ROOT / "results" / "measured" / f"{model}{ending}" / "run.json")
    return {score.metric: score for one in record.tasks if one.task == task for score in one.scores}


def shown(score: ScoreRecord | None) -> str:
    if score is None or score.value is None:
        return "–"
    value, low, high = (f"{number or 0:.3f}".replace("0.", ".", 1) for number in (score.value, score.low, score.high))
    return value if score.low is None else f"{value} [{low}, {high}]"


def test_there_is_a_table() -> None:
    assert len(lines()) > 40


@pytest.mark.parametrize(("task", "metric", "cells", "paper"), lines())
def test_a_line_is_what_was_measured_and_printed(task: str, metric: str, cells: list[str], paper: str) -> None:
    assert cells == [shown(scores(model, task).get(metric)) for model in MODELS]
    known = {one.model: one.value for one in published(task) if one.metric == metric}
    for model, value in re.findall(r"(?:^|, )(.+?) (\.\d+)", paper):
        assert f"{known[model]:.3f}".lstrip("0") == value, model
