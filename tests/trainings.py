"""Complete trainings of a tiny encoder on the narratives of `mini`, each in a few seconds."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import figeval
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


def settings(model: Path, folder: Path, output: Path, **changes: Any) -> dict[str, Any]:
    """Return the settings of a training of two steps with eight examples each, whose task files are in a folder."""
    two_steps = {"batch_size": 8, "max_steps": 2, "lr": 0.01, "head_args": {"pooling": "mean"}}
    tiny = {"task": "tiny_retrieval", "model": str(model), "output": output, "include_path": (write_tasks(folder),)}
    return {**tiny, **two_steps, "device": "cpu", **changes}


def config(model: Path, folder: Path, output: Path, **changes: Any) -> TrainConfig:
    """Return such settings as the configuration of a training."""
    return TrainConfig.model_validate(settings(model, folder, output, **changes))


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Return settings as `figeval train` takes them."""
    return [flag(name, argument) for name, argument in settings.items()]


def flag(name: str, argument: Any) -> str:
    if isinstance(argument, bool):
        return f"--{name}" if argument else f"--no_{name}"
    if isinstance(argument, Mapping):
        argument = [f"{key}={option}" for key, option in argument.items()]
    text = ",".join(map(str, argument)) if isinstance(argument, list | tuple) else argument
    return f"--{name}={'none' if text is None else text}"


def train(task: str, model: str | Path, output: Path, **options: Any) -> figeval.Training:
    """Train on the CPU without warnings, since a test has few examples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", figeval.FigevalWarning)
        return figeval.train(task, model, output, **{"device": "cpu", **options})


@contextmanager
def optimizer_steps(limit: float = float("inf")) -> Iterator[list[int]]:
    """List the steps of AdamW while they are made; after `limit` of them, stop as a power cut would."""
    step = torch.optim.AdamW.step
    steps: list[int] = []

    def count(optimizer: Any, *arguments: Any, **options: Any) -> Any:
        if len(steps) == limit:
            raise KeyboardInterrupt
        steps.append(len(steps) + 1)
        return step(optimizer, *arguments, **options)

    with patch.object(torch.optim.AdamW, "step", count):
        yield steps


def read_losses(output: Path) -> list[float]:
    """Return the losses of all steps of a training."""
    lines = (output / "training" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    return [line["loss"] for line in map(json.loads, lines) if "loss" in line]
