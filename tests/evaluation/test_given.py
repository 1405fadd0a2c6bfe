"""`figeval score`: predictions of another system get the statistics of a run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import figeval
from tests.runs import finished

Row = dict[str, Any]
Write = Callable[[Iterable[Row]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes rows to a JSON Lines file."""

    def written(rows: Iterable[Row], name: str = "system.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        return path

    return written


def stored(run: Path, task: str) -> list[Row]:
    """Return the rows of a run."""
    lines = (run / "predictions" / f"{task}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def numbers(run: figeval.Run) -> list[Any]:
    """Return scores and baselines of each task, without the metrics that only say whether there is an answer."""
    extra = {"acc_of_all", "parse_rate", "squad_f1_of_all"}
    return [
        (task.task, [score for score in task.scores if score.metric not in extra], task.baselines, task.counts)
        for task in run.record.tasks
    ]


def option(row: Row) -> Row:
    return {"prediction": row["pred"], "scores": row["scores"]}


def label(row: Row) -> Row:
    return {"prediction": row["pred"]}


def all_scores(row: Row) -> Row:
    return {"scores": row["all_scores"]}


def with_parts(row: Row) -> Row:
    spans = [part["pred"] for part in row["parts"]]
    return {"prediction": {"candidates": row["pred"], "spans": spans}, "scores": row["all_scores"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "as_given"),
    [
        ("mini_pairs", "tfidf", label),
        ("mini_fables", "tfidf", option),
        ("mini_proverbs", "tfidf", option),
        ("mini_retrieval", "tfidf", all_scores),
        ("mini_situations", "tfidf", all_scores),
        ("mini_motif", "tfidf", all_scores),
        ("mini_narrative", "echo", label),
        ("mini_alignment", "last_sentence", label),
        ("mini_joint", "random", with_parts),
    ],
)
def test_predictions_of_a_run_get_its_scores(
    task: str, model: str, as_given: Callable[[Row], Row], write: Write, tmp_path: Path
) -> None:
    before = finished(tmp_path / "before", task, model=model, log_samples=True)
    rows = stored(before, task)
    assert all(row["tied"] == 1 or "scores" in as_given(row) for row in rows)
    random.Random(1).shuffle(rows)
    file = write({"id": row["id"], **as_given(row)} for row in rows)
    run = figeval.score(task, file, output_path=tmp_path / "after")
    assert numbers(run) == numbers(figeval.load(before))
    assert [row["id"] for row in stored(run.path, task)] == [row["id"] for row in stored(before, task)]
