"""Compare fine-tuning for proverbs with the authors' loop: its speed and its losses.

    python bench/train.py [--steps 20] [--passes 3] [--batch_size 8]

MiniLM is trained on epic_retrieval_seen: every step reads `batch_size` narratives and all 250 proverbs, with gradient.
`figeval train`'s loop is compared with a straightforward reimplementation of the released one (Ghosh and Srivastava
2022): proverbs padded to the longest of all (32 tokens) and narratives to the longest of their batch, tokenised in
advance, one forward pass each, cross-entropy, AdamW. Both use the same examples in the same order, without dropout, in
float32. Their passes alternate in one process; the time of a step is the median over all passes except the first, in
wall-clock and in CPU seconds. Pass criterion: twice the examples per second, and every loss within 1e-3 over 20 steps.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from store import store

from figeval.io.observer import NO_FIGURES, Observer

BAR, CLOSE = 2.0, 1e-3


@dataclass
class Watch(Observer):
    """Observer of `figeval train`'s loop that records losses and the seconds between them."""

    losses: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    _last: tuple[float, float] = (0.0, 0.0)

    def start(self, *_: object, **__: object) -> None:
        self._last = (time.perf_counter(), time.process_time())

    def note(self, loss: float) -> None:
        times = (time.perf_counter(), time.process_time())
        self.losses.append(loss)
        self.wall.append(times[0] - self._last[0])
        self.cpu.append(times[1] - self._last[1])
        self._last = times

    def reach(self, done: int, figures: Mapping[str, float] = NO_FIGURES) -> None:  # noqa: ARG002
        self.note(figures["loss"])

    def warn(self, text: str) -> None:
        """Do nothing."""


def config(options: argparse.Namespace, folder: str) -> Any:
    from figeval.wings.training.config import TrainConfig

    return TrainConfig(
        task="epic_retrieval_seen", model="minilm", output=Path(folder), device="cpu", dropout=0.0, select_on="none",
        lr=1e-5, schedule="constant", warmup=0, clip=None, weight_decay=0.01, eps=1e-6, batch_size=options.batch_size,
        max_steps=options.steps, head_args={"temperature": 1.0}, evaluate=(),
    )  # fmt: skip


def ours(options: argparse.Namespace) -> Watch:
    from figeval.runs import Harness
    from figeval.wings.training.task_training import train_in_process

    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        train_in_process(config(options, folder), Harness(), watch)
    return watch


def theirs(options: argparse.Namespace) -> Watch:
    """Train with a restatement of the released loop."""
    from torch.nn import functional
    from transformers import AutoModel, AutoTokenizer

    from figeval.builtin.plugins.encoders.encoder import minilm_model
    from figeval.wings.training.batch_plans import Epochs

    examples = list(narratives())
    tokenizer = AutoTokenizer.from_pretrained(minilm_model(), model_max_length=512)
    model = AutoModel.from_pretrained(minilm_model(), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
    proverbs = tokenizer(list(examples[0].candidates), padding=True, return_tensors="pt")
    texts = [tokenizer(example.query) for example in examples]
    golds = torch.tensor([min(example.relevant) for example in examples])
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": 0.01},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-5, eps=1e-6)

    def vectors(batch: Any) -> torch.Tensor:
        states, mask = model(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(-1)
        return functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

    epochs, watch = Epochs(len(examples), options.batch_size, 0), Watch()
    watch.start()
    for step in range(options.steps):
        rows = epochs.rows(step)
        batch = tokenizer.pad([texts[row] for row in rows], return_tensors="pt")
        loss = functional.cross_entropy(vectors(batch) @ vectors(proverbs).T, golds[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        watch.note(loss.item())
    return watch


def narratives() -> Iterator[Any]:
    from figeval.runs import Harness

    harness = Harness()
    return harness.examples(harness.catalogue.tasks.get("epic_retrieval_seen"), "train")


def per_second(options: argparse.Namespace, watches: list[Watch], clock: str) -> float:
    return options.batch_size / median(seconds for watch in watches for seconds in getattr(watch, clock)[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--store", action="store_true", help="write results/measured/bench/train.json")
    options = parser.parse_args()
    runs: dict[str, list[Watch]] = {"figeval": [], "released loop": []}
    for _ in range(options.passes):
        runs["figeval"].append(ours(options))
        runs["released loop"].append(theirs(options))
    for name, watches in runs.items():
        speeds = ", ".join(
            f"{per_second(options, watches, clock):6.2f} per {clock} second" for clock in ("wall", "cpu")
        )
        print(f"{name:<14} examples: {speeds}")
    ratios = [per_second(options, runs["figeval"], clock) / per_second(options, runs["released loop"], clock)
              for clock in ("wall", "cpu")]  # fmt: skip
    difference = max(
        abs(a - b) for a, b in zip(runs["figeval"][0].losses, runs["released loop"][0].losses, strict=True)
    )
    good = min(ratios) >= BAR and difference <= CLOSE
    print(
        f"ratio {ratios[0]:.2f} (wall), {ratios[1]:.2f} (CPU); "
        f"losses apart by at most {difference:.1e} over {options.steps}"
    )
    if options.store:
        names = {"figeval": "ours", "released loop": "theirs"}
        figures: dict[str, float] = {"ratio_wall": ratios[0], "ratio_cpu": ratios[1], "apart": difference}
        for name, watches in runs.items():
            for clock in ("wall", "cpu"):
                figures[f"{names[name]}_per_{clock}_second"] = per_second(options, watches, clock)
        store("train", {"steps": options.steps, "passes": options.passes, "batch_size": options.batch_size, **figures})
    print("good" if good else f"BELOW THE BAR of {BAR} times, losses within {CLOSE}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
