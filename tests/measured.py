"""Compare tables in the documentation with the stored runs that they quote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from bench.stored import short, shown
from figeval import TaskRecord
from figeval.records.reference import published_results
from figeval.records.run_folder import read_record
from figeval.records.schema import ScoreRecord

__all__ = ["MEASURED_FOLDER", "by_task", "quoted", "scores", "short", "shown", "table", "tasks"]

ROOT = Path(__file__).resolve().parent.parent
MEASURED_FOLDER = ROOT / "results" / "measured"


def table(page: str, heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of a table in docs/ whose header begins with `heading`, e.g. `task | metric`."""
    inside = False
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        begins = line.startswith(f"| {heading} |")
        inside = begins or (inside and line.startswith("|"))
        if inside and not begins and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def by_task(rows: Iterator[list[str]]) -> list[tuple[str, list[str]]]:
    """Return (task, other cells) for each row; an empty first cell stands for the task above it."""
    cells_by_task, task = [], ""
    for first, *cells in rows:
        task = first or task
        cells_by_task.append((task, cells))
    return cells_by_task


def tasks(name: str) -> dict[str, TaskRecord]:
    """Return the tasks of a stored run by name."""
    return {task.task: task for task in read_record(MEASURED_FOLDER / name / "run.json").tasks}


def scores(task: TaskRecord | None) -> dict[str, ScoreRecord]:
    return {} if task is None else {score.metric: score for score in task.scores}


def quoted(cell: str, task: str, metric: str) -> Iterator[tuple[str, str, str]]:
    """Yield (model, number in a cell of the paper's column, the stored reference number).

    A part of a cell that begins with a version (`arXiv v1: BERT .260`) quotes that version of the paper. Otherwise the
    cell quotes the latest number of each model, and all of these must be from the same version.
    """
    references = [reference for reference in published_results(task) if reference.metric == metric]
    for part in cell.split("; "):
        version, marked, numbers = part.rpartition(": ")
        candidates = [reference for reference in references if not marked or version in reference.source]
        latest = {reference.model: reference for reference in candidates}
        figures = re.findall(r"(?:^|, )(.+?) (\.\d+)", numbers)
        versions = {latest[model].source.split(", ")[1] for model, _ in figures}
        assert len(versions) <= 1, f"{task}, {metric}: the cell {cell!r} mixes {' and '.join(sorted(versions))}"
        for model, value in figures:
            yield model, value, short(latest[model].value)
