"""The packed engine beside lm-eval's `hf`, with random weights in the shape of a Llama, on tokens drawn at random.

Numbers and lengths of the requests are those of ePiC: narratives of about ninety tokens, proverbs of about ten.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import Any

import numpy as np
import torch

from .machine import Machine
from .shapes import LLAMA, SPECIAL, llama, tokenizer

# name → (documents, options, tokens of solved examples that all share)
WORKLOADS = {
    "5-way": (256, 5, 0),
    "250-way": (8, 250, 0),
    "5-way, 4-shot": (64, 5, 400),
    "250-way, 4-shot": (2, 250, 400),
}
CONTEXT, OPTION = (60, 120), (6, 14)
BATCHES = (16, 64, 128)
TRIAL_REQUESTS = 128  # requests on which lm-eval's batch sizes are tried
TURNS = 2  # of which the shorter time counts
DIVISORS = {"cuda": 1, "cpu": 16}  # on a CPU, one part in so many of the documents and options
HALVED = ("8b",)  # shapes for which lm-eval would take minutes with all documents

Request = tuple[None, list[int], list[int]]


def requests(documents: int, options: int, shared: int, size: int) -> list[Request]:
    """Return (no texts, context, continuation) of every option of every document."""
    random = np.random.default_rng(0)

    def words(number: int) -> list[int]:
        return [int(word) for word in random.integers(len(SPECIAL), size, number)]

    beginning = words(shared)
    proverbs = [words(int(random.integers(*OPTION))) for _ in range(options)]
    contexts = [[*beginning, *words(int(random.integers(*CONTEXT)))] for _ in range(documents)]
    return [(None, context, proverb) for context in contexts for proverb in proverbs]


def measure(machine: Machine, shape: str) -> dict[str, Any]:
    """Return the figures of all workloads for a shape of `LLAMA`."""
    from lm_eval.models.huggingface import HFLM

    from figeval.builtin.plugins.causal.figeval_hf import FigevalHF

    size, divisor = LLAMA[shape]["vocab_size"], DIVISORS[machine.kind]
    model, words = llama(shape, machine.device, machine.dtype), tokenizer(size)
    ours, theirs = (kind(pretrained=model, tokenizer=words, batch_size=16) for kind in (FigevalHF, HFLM))
    seconds = seconds_of_self_test(machine, ours)
    figures: dict[str, Any] = {"engine": ours.engine.describe(), "seconds_of_self_test": seconds}
    for name, (documents, options, shared) in WORKLOADS.items():
        documents //= 1 + (shape in HALVED)
        workload = requests(max(1, documents // divisor), max(2, options // divisor), shared, size)
        figures[name] = compare(machine, ours, theirs, workload)
    return figures


def seconds_of_self_test(machine: Machine, ours: Any) -> float:
    """Return the time of an engine's self-test, without a verdict of an earlier one."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("FIGEVAL_HOME")
        os.environ["FIGEVAL_HOME"] = folder
        try:
            return machine.seconds(lambda: ours.engine)
        finally:
            del os.environ["FIGEVAL_HOME"]
            if before is not None:
                os.environ["FIGEVAL_HOME"] = before


def compare(machine: Machine, ours: Any, theirs: Any, requests: list[Request]) -> dict[str, Any]:
    """Return the times of both, the largest difference in nats per token, and the engine's count of tokens.

    Both have seen requests like these before, and take turns.
    """
    theirs.batch_size_per_gpu = fastest(machine, theirs, requests[:TRIAL_REQUESTS])
    ours._loglikelihood_tokens(requests, disable_tqdm=True)
    answers: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {"figeval": [], "lm_eval": []}

    def ask(name: str, lm: Any) -> None:
        answers[name] = lm._loglikelihood_tokens(requests, disable_tqdm=True)

    for _ in range(TURNS):
        ours.engine.forget()  # keys and values of the solved examples, too
        for name, lm in (("figeval", ours), ("lm_eval", theirs)):
            seconds[name].append(machine.seconds(partial(ask, name, lm)))
    best = {name: min(times) for name, times in seconds.items()}
    pairs = zip(answers["figeval"], answers["lm_eval"], requests, strict=True)
    return {
        "requests": len(requests),
        "batch_size": theirs.batch_size_per_gpu,
        "tokens": ours.engine.tokens.describe(),
        "seconds": best,
        "ratio": best["lm_eval"] / best["figeval"],
        "apart_per_token": max(abs(a - b) / len(after) for (a, _), (b, _), (_, _, after) in pairs),
    }


def fastest(machine: Machine, theirs: Any, requests: list[Request]) -> int:
    """Return the batch size with which lm-eval is fastest, of those that fit into memory; all were warmed up."""
    times = {}
    for size in BATCHES:
        theirs.batch_size_per_gpu = size
        try:
            theirs._loglikelihood_tokens(requests, disable_tqdm=True)
            times[size] = machine.seconds(lambda: theirs._loglikelihood_tokens(requests, disable_tqdm=True))
        except torch.OutOfMemoryError:
            break
    torch.cuda.empty_cache()
    return min(times, key=times.__getitem__)
