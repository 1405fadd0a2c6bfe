"""Compare figeval's generation with `generate` of transformers, one prompt at a time and in batches.

    python bench/generation.py [--only NAME …] [--prompts 24] [--threads T] [--store]

Both write greedy answers with the same weights in one process: SmolLM2-135M-Instruct, the questions of `epic_mcq` as
`figeval run` asks them, in the model's chat template. Of transformers, the best of the batch sizes 8 and 24 counts; its
prompts are sorted by length, so that there is little padding. The time covers everything from token ids to the ids of
the answers. An answer must be the one that its prompt gets alone. Processor time is printed as well, because other load
affects it less.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from peak import Memory
from store import store

MODEL = "smollm2"
BATCH_SIZES = (8, 24)
Answers = dict[int, list[int]]  # index of a prompt → ids of its answer


@dataclass(frozen=True)
class PromptWorkload:
    """Prompts, and how many times faster than the best batch figeval has to be (`bar`)."""

    name: str
    bar: float
    shots: int = 0
    room: int = 32  # most tokens of an answer


WORKLOADS = (
    PromptWorkload("short answers", 1),
    PromptWorkload("four shots", 1.5, shots=4),
    PromptWorkload("lengths that differ widely", 1.5, room=192),
)


@dataclass(frozen=True)
class PromptIds:
    """A prompt as token ids, and the most tokens of its answer."""

    ids: list[int]
    room: int


def read_prompts(workload: PromptWorkload, lm: Any, n: int) -> list[PromptIds]:
    """Return the first n questions."""
    from figeval.config import RunConfig
    from figeval.runs import Harness
    from figeval.runs.plan import prepare

    config = RunConfig(
        tasks=("epic_mcq",),
        model=MODEL,
        limit=n,
        num_fewshot=workload.shots,
        shots="shared",
        routes={"choice": "by_letter"},
    )
    model, (plan, *_), _ = prepare(config, Harness())
    prompts = []
    for example in islice(plan.examples(), n):
        (request,) = next(plan.route.begin(example, plan.context))
        prompts.append(PromptIds(lm.tok_encode(model.chat(request.messages)), workload.room))
    return prompts


# ---- the ways --------------------------------------------------------------------------------------------------------


def in_batches(lm: Any, size: int) -> Callable[[Sequence[PromptIds]], Answers]:
    """Return a function that writes with `generate` of transformers, in batches of this size."""
    import torch

    def write(prompts: Sequence[PromptIds]) -> Answers:
        order = sorted(range(len(prompts)), key=lambda index: len(prompts[index].ids), reverse=True)
        answers: Answers = {}
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            batch = [prompts[row] for row in rows]
            longest = max(len(prompt.ids) for prompt in batch)
            ids = torch.tensor(
                [[lm.tokenizer.pad_token_id] * (longest - len(prompt.ids)) + prompt.ids for prompt in batch]
            )
            mask = torch.tensor([[0] * (longest - len(prompt.ids)) + [1] * len(prompt.ids) for prompt in batch])
            with torch.inference_mode():
                sequences = lm.model.generate(
                    input_ids=ids,
                    attention_mask=mask,
                    max_new_tokens=max(prompt.room for prompt in batch),
                    do_sample=False,
                    pad_token_id=lm.tokenizer.pad_token_id,
                )
            for row, prompt, answer in zip(rows, batch, sequences[:, longest:].tolist(), strict=True):
                answers[row] = truncate_at_end(answer[: prompt.room], lm)
        return answers

    return write


def truncate_at_end(ids: list[int], lm: Any) -> list[int]:
    """Return an answer up to and including its final token."""
    return ids[: next((index + 1 for index, token in enumerate(ids) if token in lm.final), len(ids))]


def ours(lm: Any) -> Callable[[Sequence[PromptIds]], Answers]:
    """Return a function that writes with figeval."""
    from figeval.builtin.plugins.causal.generation.row import End, Row

    def write(prompts: Sequence[PromptIds]) -> Answers:
        rows = [Row(prompt.ids, prompt.room, End(lm.tokenizer, lm.final)) for prompt in prompts]
        for _ in lm.write(rows):
            pass
        return {index: row.written for index, row in enumerate(rows)}

    return write


@dataclass(frozen=True)
class WayFigures:
    """One way, with its seconds, those of the processor, peak memory in MiB, and answers."""

    seconds: float
    cpu_seconds: float
    memory: float
    answers: list[list[int]]

    @classmethod
    def of(cls, write: Callable[[Sequence[PromptIds]], Answers], prompts: Sequence[PromptIds]) -> WayFigures:
        """Measure one way."""
        with Memory() as memory:
            began, computed = time.perf_counter(), time.process_time()
            answers = write(prompts)
            seconds, cpu = time.perf_counter() - began, time.process_time() - computed
        return cls(seconds, cpu, memory.grown, [answers[index] for index in range(len(prompts))])


def compare(workload: PromptWorkload, lm: Any, n: int) -> tuple[bool, dict[str, Any]]:
    """Print the figures of one workload, and return whether it reaches its bar, with the figures."""
    prompts = read_prompts(workload, lm, n)
    lengths = [len(prompt.ids) for prompt in prompts]
    print(f"\n{workload.name}: {n} prompts of {min(lengths)} to {max(lengths)} tokens")
    ways = {"alone": in_batches(lm, 1)} | {f"batches of {size}": in_batches(lm, size) for size in BATCH_SIZES}
    sides: dict[str, WayFigures] = {}
    for name, write in (ways | {"figeval": ours(lm)}).items():
        side = sides[name] = WayFigures.of(write, prompts)
        same = sum(a == b for a, b in zip(side.answers, sides["alone"].answers, strict=True))
        times = f"{side.seconds:7.1f} s ({side.cpu_seconds:.1f} s of the processor)"
        print(f"  {name:14s} {times} {side.memory:6.0f} MiB more; {same} of {n} answers as alone", flush=True)
    one_by_one, figeval = sides["alone"], sides["figeval"]
    best = min(side.seconds for name, side in sides.items() if name.startswith("batches"))
    same = sum(a == b for a, b in zip(figeval.answers, one_by_one.answers, strict=True))
    ratio, answer_lengths = best / figeval.seconds, list(map(len, one_by_one.answers))
    print(f"  {min(answer_lengths)} to {max(answer_lengths)} tokens written, {sum(answer_lengths) / n:.0f} on average")
    print(f"  {ratio:.1f} times as fast as the best batch; the bar is {workload.bar:g}", flush=True)
    figures = {
        "prompts": n,
        "tokens_read": sum(lengths),
        "tokens_written": sum(answer_lengths),
        **{
            name: {"seconds": side.seconds, "cpu_seconds": side.cpu_seconds, "memory_mib": side.memory}
            for name, side in sides.items()
        },
        "ratio": ratio,
        "same": same,
    }
    return ratio >= workload.bar and same == n, figures


def main() -> int:
    """Print the figures and return 1 if a bar is missed or an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="run only the workload of this name; may be repeated")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--store", action="store_true", help="write results/measured/bench/generation.json")
    options = parser.parse_args()
    import torch

    from figeval.models.model import open_model
    from figeval.runs import Harness

    torch.set_num_threads(options.threads)
    lm = open_model(Harness().backends, MODEL, {}).backend.network
    ours(lm)([PromptIds(lm.tok_encode("Yes?"), 2)])  # tests itself on first use
    workloads = [workload for workload in WORKLOADS if not options.only or workload.name in options.only]
    results = {workload.name: compare(workload, lm, options.prompts) for workload in workloads}
    if options.store:
        figures = {name: figures for name, (_, figures) in results.items()}
        store("generation", {"model": MODEL, "threads": options.threads, **figures})
    return 0 if all(reached for reached, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
