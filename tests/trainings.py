"""Complete trainings of a tiny encoder on the narratives of `mini`, each in a few seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import figeval
from figeval.io.observer import NO_FIGURES, Observer
from figeval.wings.training.api import resolve_config, train_and_evaluate
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


@dataclass
class Heard(Observer):
    """What trainings report: where they begin, the losses of their steps, lines; may stop as a power cut would."""

    cut: int | None = None  # after so many steps
    began_at: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    total: int = 0

    def start(self, stage: str, total: int, done: int = 0, *, unit: str = "example", note: str = "") -> None:
        self.total = total
        self.began_at.append(done)

    def reach(self, done: int, figures: Mapping[str, float] = NO_FIGURES) -> None:
        self.steps.append(done)
        self.losses.append(figures["loss"])
        if len(self.steps) == self.cut:
            raise KeyboardInterrupt

    def say(self, text: str) -> None:
        self.lines.append(text)

    def warn(self, text: str) -> None: ...


def train(task: str, model: Path, *, observer: Observer | None = None, **options: Any) -> figeval.Training:
    """Train as `figeval.train` and the command `train` do, with an observer."""
    config = resolve_config(None, {"task": task, "model": str(model), **options})
    return train_and_evaluate(config, observer or Heard())


def read_evaluations(output: Path) -> list[dict[str, float]]:
    """Return the scores on dev that a finished training has recorded, in the order of its steps."""
    record = json.loads((output / "training" / "record.json").read_text(encoding="utf-8"))
    return [evaluation["scores"] for evaluation in record["evaluations"]]
