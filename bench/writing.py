"""Compare a language model's generation in batches with generation one prompt at a time.

    python bench/writing.py [--model smollm2] [--prompts 24] [--tokens 48] [--threads T] [--store]

The prompts are about mini's fables, in the model's chat template, and differ in length. Both ways run in one process:
half of the prompts one at a time before the batch and half after it, so that other load affects both. The time covers
everything from prompts to texts; memory is what the process uses in addition to the loaded model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from peak import Memory
from store import store

QUESTIONS = (
    "What does this story teach? Answer in one sentence. {}",
    "Which proverb fits this story? {}",
    "Tell the story again in three sentences. {}",
)


def prompts(n: int, tokens: int) -> list[Any]:
    """Return n prompts about mini's fables, each for at most so many tokens."""
    from figeval.evaluation import Harness
    from figeval.types import Message, Prompt

    harness = Harness()
    (task,) = harness.catalogue.expand(["mini_fables"])
    pairs = zip(cycle(QUESTIONS), cycle(list(harness.examples(task))), strict=False)
    texts = (question.format(example.query) for question, example in islice(pairs, n))
    return [Prompt((Message("user", text),), max_new_tokens=tokens) for text in texts]


def timed(model: Any, calls: Sequence[Sequence[Any]]) -> tuple[float, float, list[Any]]:
    """Return the seconds, MiB and answers of some calls of the model."""
    with Memory() as memory:
        began = time.perf_counter()
        answers = [answer for call in calls for answer in model.generate(call).values]
        seconds = time.perf_counter() - began
    return seconds, memory.grown, answers


def main() -> int:
    """Print the figures and return 1 if the answers differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--store", action="store_true", help="write results/measured/bench/writing.json")
    chosen = parser.parse_args()
    import torch

    from figeval.evaluation import Harness
    from figeval.models.model import open_model

    torch.set_num_threads(chosen.threads)
    model = open_model(Harness().backends, chosen.model, {}).backend
    asked = prompts(chosen.prompts, chosen.tokens)
    model.generate(asked[:1]).gathered()  # loads the weights
    half = len(asked) // 2
    before = timed(model, [[one] for one in asked[:half]])
    together = timed(model, [asked])
    after = timed(model, [[one] for one in asked[half:]])
    alone, answers = before[0] + after[0], [*before[2], *after[2]]
    same = sum(a == b for a, b in zip(answers, together[2], strict=True))
    ended = sum(answer.finish == "stop" for answer in answers)
    figures = {
        "model": chosen.model,
        "prompts": len(asked),
        "max_new_tokens": chosen.tokens,
        "threads": chosen.threads,
        "alone": {"seconds": alone, "memory_mib": max(before[1], after[1])},
        "batched": {"seconds": together[0], "memory_mib": together[1]},
        "ratio": alone / together[0],
        "same": same,
        "ended": ended,
    }
    for name in ("alone", "batched"):
        print(f"{name:8s} {figures[name]['seconds']:7.1f} s {figures[name]['memory_mib']:6.0f} MiB more")
    print(f"{figures['ratio']:.1f} times as fast; {same} of {len(asked)} answers are the same; {ended} have ended")
    if chosen.store:
        store("writing", figures)
    return 0 if same == len(asked) else 1


if __name__ == "__main__":
    sys.exit(main())
