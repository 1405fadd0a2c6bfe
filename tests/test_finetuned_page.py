"""The numbers on docs/finetuned.md are those of the stored trainings and runs, and of the papers as we keep them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from figeval.records.folder import read_record
from figeval.records.schema import ScoreRecord
from figeval.records.sweep import SEEDS, SeedScore, SeedsRecord
from tests.measured import MEASURED, by_task, quoted, scores, shown, table, tasks

AS_IT_IS = "minilm"
LINES = by_task(table("finetuned.md", "task | metric | trivial"))
COSTS = list(table("finetuned.md", "training | learnt from"))


def test_there_are_tables() -> None:
    assert len(LINES) >= 20
    assert COSTS


@pytest.mark.parametrize(("task", "cells"), LINES)
def test_a_line_is_what_was_measured_and_printed(task: str, cells: list[str]) -> None:
    metric, trivial, before, run, after, paper = cells
    assert trivial == floors(task, metric, run)
    assert before == shown(scores(tasks(AS_IT_IS).get(task)).get(metric))
    assert after == shown(measured(run, task, metric))
    for model, value, known in quoted(paper, task, metric):
        assert value == known, model


def measured(run: str, task: str, metric: str) -> ScoreRecord | SeedScore:
    """Of all seeds together, or of the one run."""
    folder = MEASURED / f"minilm-{run}"
    if (folder / SEEDS).is_file():
        over = SeedsRecord.model_validate_json((folder / SEEDS).read_text(encoding="utf-8"))
        return next(one for one in over.scores if (one.task, one.metric) == (task, metric))
    return next(
        score
        for record in records(folder)
        for found in record.tasks
        if found.task == task
        for score in found.scores
        if score.metric == metric
    )


def records(folder: Path) -> list[Any]:
    return [read_record(file) for file in sorted(folder.rglob("run.json"))]


def floors(task: str, metric: str, run: str) -> str:
    """The trivial models of the task, by name and number."""
    for record in records(MEASURED / f"minilm-{run}"):
        for found in record.tasks:
            if found.task == task:
                known = [(one.baseline, one.scores) for one in found.baselines]
                values = [(name, score) for name, all_of in known for score in all_of if score.metric == metric]
                return ", ".join(f"{name} {shown(score).partition(' ')[0]}" for name, score in values) or "–"
    raise AssertionError(task)


@pytest.mark.parametrize("cells", COSTS, ids=[row[0] for row in COSTS])
def test_what_a_training_cost(cells: list[str]) -> None:
    assert cells == cost(cells[0])


def cost(name: str) -> list[str]:
    """The line of a training, `seen/seed-0`, in the table of costs."""
    record = json.loads((MEASURED / f"minilm-{name}" / "training" / "record.json").read_text(encoding="utf-8"))
    config, best = record["config"], record["best"]
    first, value = next(iter(next(one for one in record["evaluations"] if one["step"] == best)["scores"].items()))
    return [
        name,
        f"{record['train']['n']:,}",
        f"{config['epochs']:g} × {config['batch_size']}",
        f"{record['steps']:,}",
        f"{best:,}, {first} {value:.3f}".replace("0.", "."),
        f"{record['seconds'] / 60:.0f} min",
        f"{record['tokens'] / 1e6:.1f} M",
        f"{record['peak_memory_mb'] / 1000:.1f} GB",
    ]
