"""Fine-tuning an encoder by `figeval train`'s own loop beside a plain one: time of a step, share of the device's rate.

The plain loop is what one writes by hand in PyTorch: batches padded to the longest, autocast, AdamW fused, clipping.
Both tokenize all pairs before the clock starts, read the loss of every step on the host, and are timed from the end of
one step to the end of the next, without waiting for the device in between.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from figeval.io.observer import NO_FIGURES, Observer

from .machine import Machine
from .shapes import ROBERTA, multiply_adds, texts, write_roberta

if TYPE_CHECKING:
    from torch import Tensor

TASK = """
name: gpu_pairs
type: pairs
labels: ["yes", "no"]
data: {train: "jsonl:pairs.jsonl", test: "jsonl:pairs.jsonl"}
fields: {id: row.id, left: row.left, right: row.right, label: row.label}
metrics: [acc]
"""
WORDS = 60  # of each of the two texts
BATCHES = {"cuda": (64, 256), "cpu": (4,)}
STEPS = {"cuda": 32, "cpu": 4}
# Forward and backward pass: three times the operations of the forward pass.
PASSES = 3


class Clock(Observer):
    """Observer of the loop that notes when a step ends."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.losses: list[float] = []

    def reach(self, done: int, figures: Mapping[str, float] = NO_FIGURES) -> None:  # noqa: ARG002
        self.ends.append(time.perf_counter())
        self.losses.append(figures["loss"])

    def warn(self, text: str) -> None: ...


def measure(machine: Machine, shape: str) -> dict[str, Any]:
    """Return the figures for a shape of `ROBERTA`, in bfloat16, on a CPU in single precision."""
    return in_batches(machine, shape, BATCHES[machine.kind], with_plain=True)


def in_batches(machine: Machine, shape: str, sizes: Sequence[int], *, with_plain: bool = False) -> dict[str, Any]:
    """Return the figures for some numbers of pairs a step, of figeval's loop and of the plain one."""
    precision = "bf16" if machine.kind == "cuda" else "float32"
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        work_folder = Path(folder)
        write_roberta(work_folder / "model", shape)
        for size in sizes:
            write_task(work_folder, size * STEPS[machine.kind], ROBERTA[shape]["vocab_size"])
            suffix = "" if size == sizes[0] else f", {size} pairs"
            figures[precision + suffix] = measure_training(machine, work_folder, precision, size)
            if with_plain:
                figures["plain" + suffix] = measure_plain_loop(machine, work_folder, precision, size)
    return figures


def measure_ddp(machine: Machine, shape: str) -> dict[str, Any]:
    """Return the figures with PyTorch's DistributedDataParallel, with this as the only process."""
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    os.environ |= {"ACCELERATE_USE_CPU": "true"} if machine.kind == "cpu" else {}
    return in_batches(machine, shape, BATCHES[machine.kind][:1])


def write_task(folder: Path, rows: int, size: int) -> None:
    """Write a task of pairs of random texts."""
    sides = (texts(rows, WORDS, size, seed) for seed in (1, 2))
    lines = [
        json.dumps({"id": str(index), "left": left, "right": right, "label": ("yes", "no")[index % 2]})
        for index, (left, right) in enumerate(zip(*sides, strict=True))
    ]
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "gpu_pairs.task.yaml").write_text(TASK, encoding="utf-8")


def measure_training(machine: Machine, folder: Path, precision: str, size: int) -> dict[str, float]:
    """Return what a training of some steps takes; the first quarter warms up."""
    from transformers import AutoModel

    from figeval.runs import Harness
    from figeval.wings.training.config import TrainConfig
    from figeval.wings.training.task_training import train_in_process

    mixed = "bf16" if precision == "bf16" else "no"
    config = TrainConfig(
        task="gpu_pairs", model=str(folder / "model"), output=folder / f"{precision}-{size}", include_path=(folder,),
        device=machine.device, select_on="none", evaluate=(), batch_size=size,
        max_steps=STEPS[machine.kind], mixed_precision=mixed,
    )  # fmt: skip
    clock = Clock()
    peak: list[Any] = []
    mib = machine.peak_memory(lambda: peak.append(train_in_process(config, Harness(include=(folder,)), clock)))
    tokens = peak[0].tokens / len(clock.ends)
    forward = 2 * multiply_adds(AutoModel.from_pretrained(folder / "model")) * tokens
    return {
        "seconds_per_step": between(clock.ends),
        "tokens_per_step": tokens,
        "passes_per_step": peak[0].passes / peak[0].step,
        **({} if peak[0].cost is None else peak[0].cost.model_dump(exclude={"device"})),
        "examples_per_second": size / between(clock.ends),
        "share_of_rate": PASSES * forward / between(clock.ends) / machine.multiplications(),
        "memory_mib": mib,
        "last_loss": clock.losses[-1],
    }


def measure_plain_loop(machine: Machine, folder: Path, precision: str, size: int) -> dict[str, float]:
    """Return what the steps of a plain loop take on the same pairs; the first quarter warms up."""
    import torch
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder / "model", num_labels=2).to(machine.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=machine.kind == "cuda")
    rows, labels, padding = tokenized(folder)
    model.train()
    ends: list[float] = []
    for start in range(0, len(rows), size):
        batch = {"input_ids": padded(rows[start : start + size], padding), "labels": labels[start : start + size]}
        batch["attention_mask"] = padded([torch.ones_like(row) for row in rows[start : start + size]], 0)
        with torch.autocast(machine.kind, torch.bfloat16, enabled=precision == "bf16"):
            loss = model(**{name: tensor.to(machine.device) for name, tensor in batch.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()  # as a progress bar shows it
        ends.append(time.perf_counter())
    tokens = sum(map(len, rows)) / len(ends)
    forward = 2 * multiply_adds(model) * tokens
    return {
        "seconds_per_step": between(ends),
        "tokens_per_step": tokens,
        "examples_per_second": size / between(ends),
        "share_of_rate": PASSES * forward / between(ends) / machine.multiplications(),
    }


def tokenized(folder: Path) -> tuple[list[Tensor], Tensor, int]:
    """Return the token ids of all pairs, their labels, and the id of padding."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    ids = tokenizer(*([row[side] for row in rows] for side in ("left", "right")))["input_ids"]
    labels = torch.tensor([row["label"] == "yes" for row in rows]).long()
    return [torch.tensor(row) for row in ids], labels, int(tokenizer.pad_token_id)


def padded(rows: list[Tensor], value: int) -> Tensor:
    """Return rows of different lengths as one tensor."""
    from torch.nn.utils.rnn import pad_sequence

    return pad_sequence(rows, batch_first=True, padding_value=value)


def between(ends: Sequence[float]) -> float:
    """Return the median time between the ends of two steps; the first quarter of the steps warms up."""
    timed = ends[len(ends) // 4 :]
    return median(later - earlier for earlier, later in pairwise(timed))
