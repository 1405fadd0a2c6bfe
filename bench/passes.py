"""Count the passes of a training step on real train splits, as planned for a CPU and for accelerators.

    python bench/passes.py [--steps 200] [--max_length 512]

The examples are tokenised by the learners of `figeval train`, with MiniLM's tokenizer. For every plan, the table has
the mean number of passes of a step (with those of shared candidates) and the padding among the tokens read. A plan for
an accelerator depends on what a pass costs; here that is a number of tokens that take as long as a pass does.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from figeval.runs import Harness
from figeval.wings.training.batch_plans import (
    TOKENS_BY_DEVICE,
    TOKENS_ON_ACCELERATOR,
    BatchPlan,
    CheapestPasses,
    Epochs,
    SimilarLengths,
    divide_rows,
)
from figeval.wings.training.config import TrainConfig
from figeval.wings.training.splits import make_splits
from figeval.wings.training.task_training import plan_training

TRAININGS: dict[str, dict[str, Any]] = {
    "epic_retrieval_seen": {"batch_size": 16},
    "epic_alignment": {"batch_size": 32},
    "storal_mocpt_en": {"batch_size": 16, "head": "cross"},
    "storal_mopref_en": {"batch_size": 16, "head": "cross"},
    "nli_train": {"batch_size": 32, "head": "cross", "limit": 20_000},
}
LARGER = 64  # every training also with this batch size
PASS_IN_TOKENS = (2_000, 20_000)


@dataclass(frozen=True)
class Count:
    """Passes of each step, tokens of all steps, and tokens read with padding."""

    passes: list[int]
    tokens: int
    padded: int

    def __str__(self) -> str:
        return f"{mean(self.passes):.1f} ({1 - self.tokens / self.padded:.0%})"


def plans() -> dict[str, BatchPlan]:
    """Return the plans by the heading of their column."""
    by_heading: dict[str, BatchPlan] = {
        "CPU": SimilarLengths(TOKENS_BY_DEVICE["cpu"]),
        "similar lengths": SimilarLengths(TOKENS_ON_ACCELERATOR),
    }
    for tokens in PASS_IN_TOKENS:
        by_heading[f"a pass = {tokens:,} tokens"] = CheapestPasses(TOKENS_ON_ACCELERATOR, float(tokens), 1.0)
    return by_heading


def lengths_of(task: str, max_length: int, changes: dict[str, Any]) -> tuple[Sequence[int], Sequence[int]]:
    """Return the lengths of a train split and of the candidates that its steps share."""
    config = TrainConfig(
        task=task, model="minilm", output=Path("unused"), device="cpu", max_length=max_length, **changes
    )
    harness = Harness()
    splits = make_splits(harness.catalogue.tasks.get(config.task), config, harness)
    training = plan_training(config, splits, harness, "cpu")
    features = training.learner.features(training.model_splits.train)
    candidates = getattr(features, "candidates", None)
    return features.lengths, [] if candidates is None else candidates.lengths


def count(plan: BatchPlan, lengths: Sequence[int], candidates: Sequence[int], batch_size: int, steps: int) -> Count:
    """Count the passes of the first steps of a training."""
    epochs = Epochs(len(lengths), batch_size, 0)
    passes, tokens, padded = [], 0, 0
    for step in range(min(steps, epochs.steps)):
        rows = epochs.rows(step)
        read = [(lengths, share.rows) for share in divide_rows(rows, lengths, plan, 0, 1)]
        read += [(candidates, share.rows) for share in divide_rows(range(len(candidates)), candidates, plan, 0, 1)]
        passes.append(len(read))
        tokens += sum(of[row] for of, batch in read for row in batch)
        padded += sum(len(batch) * max(of[row] for row in batch) for of, batch in read)
    return Count(passes, tokens, padded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--max_length", type=int, default=512)
    options = parser.parse_args()
    columns = plans()
    print("| task | rows per step | tokens per row: mean, longest |", " | ".join(columns), "|")
    print("|---|---|---|" + "---|" * len(columns))
    for task, changes in TRAININGS.items():
        lengths, candidates = lengths_of(task, options.max_length, changes)
        for batch_size in (changes["batch_size"], LARGER):
            counts = [count(plan, lengths, candidates, batch_size, options.steps) for plan in columns.values()]
            beginning = f"| `{task}` | {batch_size} | {mean(lengths):.0f}, {max(lengths)} |"
            print(beginning, " | ".join(map(str, counts)), "|", flush=True)


if __name__ == "__main__":
    main()
