"""The numbers on docs/finetuned.md are those of the stored trainings and runs, and of the papers as we keep them."""

from __future__ import annotations

import pytest

import figeval
from figeval import TaskRecord, Training
from tests.measured import MEASURED_FOLDER, by_task, quoted, scores, shown, table, tasks

AS_IT_IS = "minilm"
LINES = by_task(table("finetuned.md", "task | metric | trivial"))
COSTS = list(table("finetuned.md", "training | learnt from"))


def test_there_are_tables() -> None:
    assert len(LINES) > 40
    assert len(COSTS) > 8


@pytest.mark.parametrize(("task", "cells"), LINES)
def test_a_line_is_what_was_measured_and_printed(task: str, cells: list[str]) -> None:
    metric, trivial, before, run, after, paper = cells
    measured_task = trained_tasks(run)[task]
    assert trivial == floors(measured_task, metric)
    assert before == shown(scores(tasks(AS_IT_IS).get(task)).get(metric))
    assert after == shown(scores(measured_task)[metric])
    for model, value, reference in quoted(paper, task, metric):
        assert value == reference, model


def trained_tasks(run: str) -> dict[str, TaskRecord]:
    """The tasks that a trained model was run on: the means of its seeds, or its runs together."""
    folder = MEASURED_FOLDER / f"minilm-{run}"
    folders = [folder] if (folder / "seeds.json").is_file() else sorted(folder.rglob("run.json"))
    return {task.task: task for folder in folders for task in figeval.load(folder).record.tasks}


def floors(task: TaskRecord, metric: str) -> str:
    """The trivial models of the task, by name and number."""
    baseline_scores = [
        (baseline.baseline, score) for baseline in task.baselines for score in baseline.scores if score.metric == metric
    ]
    return ", ".join(f"{name} {shown(score).partition(' ')[0]}" for name, score in baseline_scores) or "–"


@pytest.mark.wing("training")
@pytest.mark.parametrize("cells", COSTS, ids=[row[0] for row in COSTS])
def test_what_a_training_cost(cells: list[str]) -> None:
    assert cells == cost(cells[0])


def cost(name: str) -> list[str]:
    """The line of a training, `seen/seed-0`, in the table of costs."""
    record = Training(MEASURED_FOLDER / f"minilm-{name}").record
    config, best = record.config.model_dump(), record.best
    first, value = next(
        iter(next(evaluation for evaluation in record.evaluations if evaluation.step == best).scores.items())
    )
    assert value is not None
    return [
        name,
        f"{record.train.n:,}",
        f"{config['epochs']:g} × {config['batch_size']}",
        f"{record.steps:,}",
        f"{best:,}, {first} {value:.3f}".replace("0.", "."),
        f"{record.seconds / 60:.0f} min",
        f"{record.tokens / 1e6:.1f} M",
        f"{record.peak_memory_mb / 1000:.1f} GB",
    ]
