"""Complete trainings of a tiny encoder on the narratives of `mini`, each in a few seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from figeval.wings.training.config import TrainConfig

TASK = """
name: tiny_retrieval
type: ranking
data: {train: "mini:retrieval", test: "mini:retrieval"}
fields:
  id: row.id
  query: row.narrative
  candidates: row.candidates
  relevant: row.relevant
  meta: {proverb: row.proverb_id}
cluster: proverb
metrics: [acc, mrr]
"""
# Another task about the same examples.
SAME_TASK = TASK.replace("tiny_retrieval", "tiny_again").replace("[acc, mrr]", "[mrr]")


def write_tasks(folder: Path) -> Path:
    """Write the task files into a folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"retrieval": TASK, "again": SAME_TASK}.items():
        (folder / f"{name}.task.yaml").write_text(text, encoding="utf-8")
    return folder


def config(model: Path, folder: Path, output: Path, **changes: Any) -> TrainConfig:
    """Return the configuration of a training of two steps with eight examples each."""
    values = {
        "task": "tiny_retrieval",
        "model": str(model),
        "output": output,
        "include_path": (write_tasks(folder),),
        "head_args": {"pooling": "mean"},
        "batch_size": 8,
        "max_steps": 2,
        "device": "cpu",
        "lr": 0.01,
    }
    return TrainConfig.model_validate({**values, **changes})


def read_evaluations(output: Path) -> list[dict[str, float]]:
    """Return the scores on dev that a finished training has recorded, in the order of its steps."""
    record = json.loads((output / "training" / "record.json").read_text(encoding="utf-8"))
    return [evaluation["scores"] for evaluation in record["evaluations"]]
