"""Tokens written per second by figeval's `hf` in each of its ways, beside the ways of transformers, and vLLM if it is
installed: greedily, with the same weights.

figeval tries its ways one after another, as in a long run, and goes on in the fastest. Times before the first text, of
compiling or of setting up pages, are listed apart.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .machine import Machine
from .shapes import LLAMA, llama, texts, tokenizer

NUMBER = {"cuda": 128, "cpu": 4}  # prompts
ANSWER_TOKENS = {"cuda": 128, "cpu": 8}  # tokens of an answer
WORDS = 100
BATCHES = (1, 2)  # of transformers: all prompts in one batch, or in two
PAGES = {"cpu": {"num_blocks": 64, "max_batch_tokens": 256}}  # or transformers would take nearly all of the memory
MAX_FAILURE_CHARS = 200  # characters of a failure


def measure(machine: Machine, shape: str) -> dict[str, Any]:
    """Return the figures for a shape of `LLAMA`."""
    prompts = texts(NUMBER[machine.kind], WORDS, LLAMA[shape]["vocab_size"])
    with tempfile.TemporaryDirectory() as folder:
        model = llama(shape, machine.device, machine.dtype)
        words = tokenizer(LLAMA[shape]["vocab_size"])
        figures: dict[str, Any] = {"prompts": len(prompts), "tokens_each": ANSWER_TOKENS[machine.kind]}
        inputs = padded(machine, words, prompts)
        figures["transformers"] = by_transformers(machine, model, inputs)
        figures["figeval"] = try_way(partial(by_figeval, machine, model, words, prompts))
        if find_spec("vllm") is None:
            return figures | {"vllm": "not installed"}
        model.save_pretrained(folder)
        words.save_pretrained(folder)
        del model
        return figures | {"vllm": try_way(partial(by_vllm, machine, Path(folder), prompts))}


def by_transformers(machine: Machine, model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the rate of the fastest way, and the figures of each."""
    ways = {name: try_way(partial(way, machine, model, inputs)) for name, way in BY_TRANSFORMERS.items()}
    return {"tokens_per_second": max(figures.get("tokens_per_second", 0.0) for figures in ways.values()), "ways": ways}


def try_way(way: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of a way, or why it failed: the others do not suffer for it."""
    try:
        return way()
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"[:MAX_FAILURE_CHARS]}


def by_figeval(machine: Machine, model: Any, words: Any, prompts: list[str]) -> dict[str, Any]:
    """Return the rate in the way that figeval chooses, and what its record says about all of them."""
    from figeval.builtin.plugins.causal.figeval_hf import FigevalHF
    from figeval.builtin.plugins.causal.generation.fastest import FastestWriter
    from figeval.builtin.plugins.causal.generation.ways import WritingWay, disagreement, way_of
    from figeval.builtin.plugins.lm_eval_bridge.releases import instances
    from plugins.causal.strategies import OTHER_WAYS

    lm = FigevalHF(pretrained=model, tokenizer=words, batch_size=len(prompts))
    lm.way = "own"
    own_writer: Any = lm.writer
    ways = [way_of(name, own_writer, words.pad_token_id) for name in OTHER_WAYS]
    for way in ways:
        way.patience = 0.0  # as if the run were long
    options = {"until": [], "max_gen_toks": ANSWER_TOKENS[machine.kind], "do_sample": False}
    requests = instances("generate_until", [(prompt, dict(options)) for prompt in prompts])
    lm.generate_until(requests[:2], disable_tqdm=True)
    vars(lm)["writer"] = FastestWriter(WritingWay("own", own_writer), ways, partial(disagreement, own_writer))

    def write() -> None:
        lm.generate_until(requests, disable_tqdm=True)

    for _ in range(1 + sum(1 + way.prepares for way in ways)):
        write()
    return rate(machine, len(prompts), machine.seconds(write)) | {"writing": lm.writer.describe()}


def padded(machine: Machine, words: Any, prompts: list[str]) -> dict[str, Any]:
    """Return the ids of prompts, sorted by length so that there is little padding, on the left."""
    words.padding_side = "left"
    inputs = words(sorted(prompts, key=len), return_tensors="pt", padding=True).to(machine.device)
    return {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}


def generate_in_batches(machine: Machine, model: Any, inputs: dict[str, Any], size: int, **options: Any) -> None:
    """Write with `generate` in batches of a size, each without the columns that are padding in all of its rows."""
    for start in range(0, len(inputs["input_ids"]), size):
        batch = {name: values[start : start + size] for name, values in inputs.items()}
        first = int(batch["attention_mask"].any(0).int().argmax())
        model.generate(
            **{name: values[:, first:] for name, values in batch.items()}, max_new_tokens=ANSWER_TOKENS[machine.kind],
            do_sample=False, pad_token_id=model.config.pad_token_id, **options,
        )  # fmt: skip


def by_generate(machine: Machine, model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the rate of `generate` in the best of some batch sizes."""
    number = len(inputs["input_ids"])
    writes = [partial(generate_in_batches, machine, model, inputs, number // batches) for batches in BATCHES]
    writes[-1]()
    return rate(machine, number, min(machine.seconds(write) for write in writes))


def by_static_cache(machine: Machine, model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the rate of `generate` with a static cache and, on a GPU, the pass that it compiles then."""
    number = len(inputs["input_ids"])
    write = partial(generate_in_batches, machine, model, inputs, number, cache_implementation="static")
    first, seconds = machine.seconds(write), machine.seconds(write)
    return rate(machine, number, seconds) | {"seconds_to_prepare": first - seconds}


def by_continuous_batching(machine: Machine, model: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the rate of continuous batching, in which each call sets up its pages."""
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    pairs = zip(inputs["input_ids"], inputs["attention_mask"].bool(), strict=True)
    prompts = [ids[real].tolist() for ids, real in pairs]
    config = deepcopy(model.generation_config)
    config.max_new_tokens, config.do_sample = ANSWER_TOKENS[machine.kind], False
    pages = ContinuousBatchingConfig(**PAGES.get(machine.kind, {}))

    def write() -> None:
        outputs = model.generate_batch(prompts, generation_config=config, continuous_batching_config=deepcopy(pages))
        if len(outputs) < len(prompts) or any(output.error for output in outputs.values()):
            raise RuntimeError(next((output.error for output in outputs.values() if output.error), "texts are missing"))

    write()
    return rate(machine, len(prompts), machine.seconds(write))


BY_TRANSFORMERS: dict[str, Callable[[Machine, Any, dict[str, Any]], dict[str, Any]]] = {
    "generate": by_generate,
    "generate with a static cache": by_static_cache,
    "continuous batching": by_continuous_batching,
}


def by_vllm(machine: Machine, folder: Path, prompts: list[str]) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    model = LLM(model=str(folder), dtype=str(machine.dtype).removeprefix("torch."), gpu_memory_utilization=0.5)
    options = SamplingParams(temperature=0, max_tokens=ANSWER_TOKENS[machine.kind], ignore_eos=True)
    model.generate(prompts[:2], options, use_tqdm=False)
    return rate(machine, len(prompts), machine.seconds(lambda: model.generate(prompts, options, use_tqdm=False)))


def rate(machine: Machine, prompts: int, seconds: float) -> dict[str, Any]:
    return {"seconds": seconds, "tokens_per_second": prompts * ANSWER_TOKENS[machine.kind] / seconds}
