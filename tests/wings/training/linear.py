"""Minimal learner, a linear layer with dropout on artificial vectors, for tests of the training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from figeval import JSON, Observer
from figeval.io.observer import NO_FIGURES
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.distributed import Distributed, connect
from figeval.wings.training.loop import TrainingJob
from figeval.wings.training.selection import LOSS, SelectionCriterion
from figeval.wings.training.train_folder import Progress, TrainFolder

WIDTH = 6


class LinearNetwork(torch.nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layer = torch.nn.Linear(WIDTH, 1)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, batches: Sequence[dict[str, Any]], shared_inputs: Sequence[dict[str, Any]]) -> Any:
        losses = [(self.layer(self.dropout(batch["x"]))[:, 0] - batch["y"]) ** 2 for batch in batches]
        return torch.cat(losses)


class Vectors:
    """Vectors of various "lengths"; `spoilt` rows make the loss NaN."""

    def __init__(self, n: int, seed: int, spoilt: Sequence[int] = ()) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, WIDTH, generator=generator)
        self.y = self.x @ torch.arange(WIDTH, dtype=torch.float32) + 0.1 * torch.randn(n, generator=generator)
        self.y[list(spoilt)] = float("nan")
        self.lengths = [3 + row % 5 for row in range(n)]
        self.weights = [1.0] * n
        self.truncated = 0

    def batch(self, rows: Sequence[int], draw: int) -> dict[str, Any]:
        return {"x": self.x[list(rows)], "y": self.y[list(rows)]}

    def beside(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        return []


@dataclass(frozen=True)
class Linear:
    dropout: float = 0.0
    select_by: str | None = LOSS

    def network(self) -> Any:
        return LinearNetwork(self.dropout)

    def features(self, examples: Any) -> Vectors:
        return Vectors(len(examples), 0)

    def backend(self, network: Any) -> Any:
        return network

    def save(self, network: Any, weights: Mapping[str, Any], folder: Path) -> JSON:
        from safetensors.torch import save_file

        save_file(dict(weights), folder / "model.safetensors")
        return {"kind": "encoder"}

    def describe(self) -> JSON:
        return {}


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


def config(output: Path, **changes: Any) -> TrainConfig:
    values = {"task": "linear", "model": "none", "output": output, "device": "cpu", "lr": 0.05, "epochs": 4}
    return TrainConfig.model_validate({**values, "batch_size": 8, "tokens_per_batch": 16, **changes})


def job(
    train_config: TrainConfig, heard: Heard, learner: Linear | None = None, train: Vectors | None = None
) -> TrainingJob:
    return TrainingJob(
        config=train_config,
        learner=learner or Linear(),
        train=train or Vectors(42, 1),
        ids=[f"row {row}" for row in range(42)],
        criterion=SelectionCriterion(metrics=((LOSS, False),)),
        folder=TrainFolder(train_config.output),
        observer=heard,
        about=about,
        dev=Vectors(20, 2),
    )


def about(progress: Progress) -> JSON:
    return {"step": progress.step}


def processes(train_config: TrainConfig) -> Distributed:
    return connect(train_config)
